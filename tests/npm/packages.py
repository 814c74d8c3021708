"""npm packages that tests check with: installed once in a build folder, by the lock file beside this."""
import contextlib
import fcntl
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Missing(Exception):
    """npm is not there, or cannot get the packages: a test says so and skips."""


def installed(build):
    """The folder that holds node_modules."""
    if not shutil.which("npm") or not shutil.which("node"):
        raise Missing("npm is not installed (Debian: npm)")
    work = os.path.join(build, "tests", "npm")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(HERE, "package-lock.json")) as f:
        wanted = f.read()
    done = os.path.join(work, "installed-lock.json")
    # Tests that run at once must not install at once.
    with open(os.path.join(work, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError), open(done) as f:
            if f.read() == wanted:
                return work
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, name), work)
        got = subprocess.run(["npm", "ci", "--prefix", work, "--no-audit", "--no-fund", "--loglevel=error"],
                             capture_output=True, text=True, timeout=240)
        if got.returncode != 0:
            raise Missing("npm cannot install its packages: " + " ".join(got.stderr.split())[:300])
        with open(done, "w") as f:
            f.write(wanted)
    return work


def run(build, script, text):
    """Runs a script of this folder on a text, with the packages at hand. Returns its exit code and output."""
    done = subprocess.run(["node", os.path.join(HERE, script), installed(build)], input=text, capture_output=True,
                          text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr
