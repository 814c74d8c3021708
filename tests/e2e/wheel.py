"""The Python wheel: what it needs of a system, and its life in a virtual environment, without a network.

  wheel.py BUILD

GORDIAN_TEST_WHEEL: a wheel of that build, where it cannot be made (on the machine of tests/arm64/machine.sh).
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
import zipfile

import other_root
from cli_testing import BUILD, CliTest, clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "packaging"))
import older_glibc  # noqa: E402

GLIBC = re.compile(r"(ld-linux-(x86-64|aarch64)|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.\d+")
# Debian 11, whose glibc is 2.31 (./dev test makes it): before 2.33 and 2.34, which moved most.
OLDER = os.path.join(os.path.dirname(BUILD), "older-root")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
            if "__pycache__" not in at}


def made():
    """The wheel of the build."""
    if "GORDIAN_TEST_WHEEL" in os.environ:
        return os.environ["GORDIAN_TEST_WHEEL"]
    done = run(os.path.join(ROOT, "packaging", "wheel.py"), BUILD)
    if done.returncode != 0:
        raise RuntimeError(f"packaging/wheel.py {BUILD}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Wheel(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.wheel = made()

    def test_it_needs_glibc_alone_of_the_version_in_its_name(self):
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.work)
        named = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)\.whl", self.wheel).groups()[:2]))
        with open(os.path.join(BUILD, "CMakeCache.txt")) as f:
            objdump = re.search(r"(?m)^CMAKE_OBJDUMP:FILEPATH=(.*)$", f.read()).group(1)
        floors, missing = {}, []
        inside = {os.path.basename(path) for path in files_below(self.work)}
        for path in sorted(files_below(self.work)):
            with open(self.path(path), "rb") as f:
                if f.read(4) != b"\x7fELF":
                    continue
            symbols = run(objdump, "-T", self.path(path), check=True).stdout
            floors[path] = max((tuple(map(int, found)) for found in re.findall(r"\(GLIBC_(\d+)\.(\d+)", symbols)), default=(2, 0))
            dynamic = run("readelf", "-d", self.path(path), check=True).stdout
            missing += [(path, name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
                        if name not in inside and not GLIBC.fullmatch(name)]
        # The demonstration's job and the program that `gordian bench` starts take NCCL and CUDA from where all jobs do.
        self.assertEqual(missing, [])
        self.assertEqual(named, (2, 28))
        self.assertLessEqual(max(floors.values()), named)
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


class OlderGlibc(CliTest):
    def setUp(self):
        super().setUp()
        if not os.path.isdir(OLDER):
            self.skipTest(f"needs {OLDER}: tests/debian/root.sh {OLDER} amd64 bullseye libc6 busybox-static")
        if os.geteuid() != 0 or not other_root.can_run():
            self.skipTest("needs root and mounts of its own")
        self.root = self.path("root")
        shutil.copytree(OLDER, self.root, symlinks=True)
        for name in ("proc", "dev", "tmp", "root"):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)

    def inside(self, *command):
        return other_root.run(self.root, *command, env=("/bin/busybox", "env"))

    def test_the_wheel_runs_there(self):
        with zipfile.ZipFile(made()) as archive:
            for info in archive.infolist():  # as pip does
                found = re.fullmatch(r"gordian-[^/]*\.data/(data|scripts)/(.*)", info.filename)
                if not found:
                    continue
                path = os.path.join(self.root, "usr/local", "bin" if found[1] == "scripts" else "", found[2])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(archive.read(info))
                os.chmod(path, info.external_attr >> 16)
        gordian = "/usr/local/bin/gordian"
        print(self.inside("/lib/x86_64-linux-gnu/libc.so.6").stdout.splitlines()[0])
        said = self.inside(gordian, "version")
        self.assertEqual(said.returncode, 0, said.stderr)
        demo = self.inside(gordian, "demo", "--json", "--folder", "/tmp/demo")
        self.assertEqual(demo.returncode, 0, demo.stderr)
        self.assertEqual([step["verdict"]["verdict"] for step in json.loads(demo.stdout)["steps"]],
                         ["deadlock", "deadlock", "finished"])
        self.assertIn("at train.cc:", demo.stderr)
        checks = json.loads(self.inside(gordian, "doctor", "--json").stdout)["checks"]
        states = {check["name"]: check["state"] for check in checks}
        self.assertEqual([states[name] for name in ("shim", "emulator", "runtime")], ["ok"] * 3, checks)

    PROGRAM = r"""
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
int constructed = 0;
struct Once { Once() { ++constructed; } ~Once() { std::puts("destroyed"); } } once;
__attribute__((constructor)) void Constructor(int argc, char** argv, char**) { constructed += argv[argc] == nullptr ? 10 : 0; }
int main(int argc, char** argv) {
  std::printf("constructed %d\n", constructed);
  try { throw std::runtime_error("thrown"); } catch (const std::exception& error) { std::puts(error.what()); }
  std::mutex mutex; std::condition_variable condition; bool woken = false;
  std::unique_lock lock(mutex);
  const auto began = std::chrono::steady_clock::now();
  const bool timed_out = !condition.wait_for(lock, std::chrono::milliseconds(50), [&] { return woken; });
  const bool late = std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(50);
  std::thread other([&] { std::lock_guard inner(mutex); woken = true; condition.notify_one(); });
  const bool came = condition.wait_for(lock, std::chrono::seconds(60), [&] { return woken; });
  lock.unlock(); other.join();
  std::printf("waits %d %d %d\n", timed_out, late, came);
  struct stat file, link, open;
  const int fd = 0;
  std::printf("files %d %d %d\n", stat("/bin/busybox", &file) == 0 && S_ISREG(file.st_mode), stat("/none", &link) == -1 && errno == ENOENT,
              fstat(fd, &open) == 0);
  std::random_device random("default"); random();
  auto shared = std::make_shared<int>(7); auto copy = shared;
  std::printf("counted %ld, thread %d, %s\n", shared.use_count(), gettid() == getpid(), dlsym(RTLD_DEFAULT, "puts") ? "found" : "");
}
"""

    def test_what_older_glibc_lacks_is_in_its_library(self):
        source = self.write("program.cc", self.PROGRAM)
        tmp = os.path.join(self.root, "tmp")
        program = os.path.join(tmp, "program")
        run("g++", "-std=c++20", "-O2", "-static-libstdc++", "-static-libgcc", source, "-o", program, check=True)
        library = "/lib/x86_64-linux-gnu/"
        glibc = older_glibc.versions_of_glibc([library + name for name in ("libc.so.6", "libm.so.6")])
        older_glibc.lower(older_glibc.build_compat(["g++"], tmp), glibc)
        self.assertNotEqual(self.inside("/tmp/program").returncode, 0)  # as it was linked
        run("patchelf", "--add-needed", older_glibc.COMPAT, program, check=True)
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", program, check=True)
        taken = older_glibc.lower(program, glibc)
        self.assertLessEqual({"__libc_start_main", "_dl_find_object", "arc4random", "gettid", "pthread_cond_clockwait", "stat"}, set(taken))
        self.assertFalse(older_glibc.needs_newer(program))
        for done in (self.inside("/tmp/program"), run(program)):  # there, and here
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.split("\n"), ["constructed 11", "thrown", "waits 1 1 1", "files 1 1 1",
                                                       "counted 2, thread 1, found", "destroyed", ""])

    def test_a_symbol_that_nothing_provides_is_refused(self):
        program = self.path("program")
        run("g++", self.write("program.cc", "#include <unistd.h>\nint main() { return close_range(100, 200, 0); }\n"), "-o", program, check=True)
        with self.assertRaisesRegex(ValueError, "takes close_range of GLIBC_2.34"):
            older_glibc.lower(program, older_glibc.versions_of_glibc(["/lib/x86_64-linux-gnu/libc.so.6"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
