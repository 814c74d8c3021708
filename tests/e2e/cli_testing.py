"""What the black-box tests of the command line share: unittest with the built gordian at hand."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "checks"))
import schemas  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1][0] != "-" else "build/release"
GORDIAN = os.path.join(BUILD, "bin", "gordian")
JOB = os.path.join(BUILD, "tests", "gordian_e2e_job")
RPATH_JOB = os.path.join(BUILD, "tests", "cli_job")
EMULATOR = os.path.join(BUILD, "lib", "emulator")


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))}
    env.update(more)
    return env


def wait_until(condition, seconds=60, every=0.02):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def stat_fields(pid):
    """Fields of /proc/PID/stat from the state on; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def alive(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def is_pending(pid, number):
    """Whether a process has been sent a signal that it has not taken yet."""
    with open(f"/proc/{pid}/status") as f:
        masks = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def voluntary_switches(pid):
    """How often a process went to sleep of its own accord: grows with every look of one that polls."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))


def has_looked_again(pid, times=3):
    """Waits until a process that polls has slept and woken several times; False: it did not, or ended."""
    before = voluntary_switches(pid)
    try:
        return wait_until(lambda: voluntary_switches(pid) >= before + times)
    except OSError:
        return False


def children_of(pid):
    out = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        other = int(path.split("/")[2])
        fields = stat_fields(other)
        if fields and int(fields[1]) == pid and fields[0] != "Z":
            out.append(other)
    return out


def tree_below(pid):
    out = []
    for child in children_of(pid):
        out += [child, *tree_below(child)]
    return out


def is_guardian(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip() == "gordian-guard"
    except FileNotFoundError:
        return False


def job_below(pid):
    """All but gordian's own helper, which cleans up behind the others, and ends."""
    return [p for p in tree_below(pid) if not is_guardian(p)]


def end_with_job(process):
    """Kills a `gordian run` that has not ended, with the job, which holds our pipes."""
    if process.poll() is None:
        for pid in [*job_below(process.pid), process.pid]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
    process.communicate()


class CliTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="gordian-cli-")
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def verdict(self, session="s"):
        with open(os.path.join(self.path(session), "verdict.json")) as f:
            text = f.read()
        schemas.check(text)
        return json.loads(text)

    def gordian(self, *arguments, **options):
        options.setdefault("env", clean_environment())
        options.setdefault("cwd", self.work)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("timeout", 60)
        done = subprocess.run([GORDIAN, *arguments], capture_output=True, text=True, **options)
        if "--json" in arguments:
            schemas.check(done.stdout)
        return done

    def start(self, *arguments, **options):
        options.setdefault("env", clean_environment())
        options.setdefault("cwd", self.work)
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([GORDIAN, *arguments], text=True, **options)
        self.addCleanup(end_with_job, process)
        return process

    def end_job(self, run):
        """Kills the job of a `gordian run`, and returns what that ended with."""
        for pid in job_below(run.pid):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        run.communicate(timeout=60)  # a full pipe would hold it up
        return run.returncode

    def signal_until_gone(self, process, number, seconds=60):
        """The first signal may be taken for what was sent just before, and a second one kills."""
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(number)
            try:
                process.wait(0.5)  # sooner it would count as the same one
            except subprocess.TimeoutExpired:
                pass
        self.assertIsNotNone(process.poll(), "it did not end")
        return process.returncode

    def assert_one_line(self, text, *words):
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.startswith("gordian: "), text)
        for word in words:
            self.assertIn(word, text)

    def need(self, path):
        if not os.path.exists(path):
            self.skipTest(f"{path} is not built")


def main():
    if not os.path.exists(GORDIAN):
        print(f"{GORDIAN} is not built", file=sys.stderr)
        sys.exit(1)
    unittest.main(verbosity=2)
