"""The Python wheel: what it needs of a system, and its life in a virtual environment, without a network.

  wheel.py BUILD
"""
import json
import os
import re
import subprocess
import sys
import time
import unittest
import zipfile

from cli_testing import BUILD, CliTest, clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GLIBC = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.\d+")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
            if "__pycache__" not in at}


class Wheel(CliTest):
    @classmethod
    def setUpClass(cls):
        done = run(os.path.join(ROOT, "packaging", "wheel.py"), BUILD)
        if done.returncode != 0:
            raise RuntimeError(f"packaging/wheel.py {BUILD}: {done.stdout}{done.stderr}")
        cls.wheel = done.stdout.strip()

    def test_it_needs_glibc_alone_of_the_version_in_its_name(self):
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.work)
        named = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_x86_64", self.wheel).groups()))
        floors, missing = {}, []
        inside = {os.path.basename(path) for path in files_below(self.work)}
        for path in sorted(files_below(self.work)):
            with open(self.path(path), "rb") as f:
                if f.read(4) != b"\x7fELF":
                    continue
            symbols = run("objdump", "-T", self.path(path), check=True).stdout
            floors[path] = max((tuple(map(int, found)) for found in re.findall(r"\(GLIBC_(\d+)\.(\d+)", symbols)), default=(2, 0))
            dynamic = run("readelf", "-d", self.path(path), check=True).stdout
            missing += [(path, name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
                        if name not in inside and not GLIBC.fullmatch(name)]
        # The demonstration's job and the program that `gordian bench` starts take NCCL and CUDA from where all jobs do.
        self.assertEqual(missing, [])
        self.assertEqual(max(floors.values()), named)
        (shim,) = [floor for path, floor in floors.items() if path.endswith("libgordian_interpose.so")]
        self.assertLessEqual(shim, (2, 17))  # it enters jobs with a C library of their own
        print("glibc:", {os.path.basename(path): ".".join(map(str, floor)) for path, floor in floors.items()})

    def test_pip_installs_it_and_removes_it(self):
        python = self.path("venv/bin/python3")
        done = run(sys.executable, "-m", "venv", self.path("venv"))
        if done.returncode != 0:
            self.skipTest(f"needs python3-venv: {done.stdout}{done.stderr}")
        before = files_below(self.path("venv"))
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        began = time.monotonic()
        done = run(*pip, "install", "--no-index", self.wheel, env=clean_environment(PIP_NO_CACHE_DIR="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"pip install: {time.monotonic() - began:.1f} s")
        gordian = self.path("venv/bin/gordian")
        outside = clean_environment(PATH=self.path("venv/bin") + ":/usr/bin:/bin")
        began = time.monotonic()
        demo = run(gordian, "demo", "--json", "--folder", self.path("demo"), env=outside, cwd="/")
        self.assertEqual(demo.returncode, 0, demo.stderr)
        print(f"gordian demo: {time.monotonic() - began:.1f} s")
        self.assertIn("at train.cc:", demo.stderr)
        mapped = run("ldd", gordian, check=True).stdout
        for line in mapped.splitlines():
            name, _, path = line.strip().partition(" => ")
            if path and not GLIBC.fullmatch(name):
                self.assertTrue(os.path.realpath(path.split(" ")[0]).startswith(os.path.realpath(self.path("venv"))), line)
        checks = json.loads(run(gordian, "doctor", "--json", env=outside).stdout)["checks"]
        states = {check["name"]: check["state"] for check in checks}
        self.assertEqual([states[name] for name in ("shim", "emulator", "runtime", "front end")], ["ok"] * 4, checks)
        # In a process of a job, as gordian starts it, the front end is at hand.
        front_end = run(gordian, "run", "--session", self.path("session"), "--", python, "-c",
                        "import gordian_torch; print(gordian_torch.__file__)", env=outside, cwd=self.work)
        self.assertEqual(front_end.returncode, 0, front_end.stderr)
        self.assertIn(os.path.realpath(self.path("venv")), os.path.realpath(front_end.stdout.strip()))
        alone = run(python, "-c", "import gordian_torch", env=outside, cwd=self.work)
        self.assertNotEqual(alone.returncode, 0)  # and elsewhere it is in nobody's way
        # What jobs import themselves is there for all.
        modules = run(python, "-c", "import gordian.torch.plan_file as found; print(found.__file__)", env=outside, cwd=self.work)
        self.assertEqual(modules.returncode, 0, modules.stderr)
        self.assertIn(os.path.realpath(self.path("venv/lib")), os.path.realpath(modules.stdout.strip()))
        self.assertIn("site-packages", modules.stdout)
        # It reads sessions with the program of the same wheel, in PATH or not.
        (live,) = [step for step in json.loads(demo.stdout)["steps"] if step["name"] == "live"]
        read = run(python, "-c", "import gordian, sys; session = gordian.open_session(sys.argv[1])\n"
                   "print(session.program, session.verdict['verdict'])", live["session"],
                   env=clean_environment(PATH="/usr/bin:/bin"), cwd=self.work)
        self.assertEqual(read.stdout.split(), [gordian, live["verdict"]["verdict"]], read.stderr)
        done = run(*pip, "uninstall", "--yes", "gordian", env=outside)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(files_below(self.path("venv")), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
