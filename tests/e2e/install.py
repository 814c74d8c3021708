"""`cmake --install`: what a user gets works from any folder, and is nothing but the files that are listed here.

  install.py BUILD
"""
import json
import os
import re
import shutil
import subprocess
import sys

from cli_testing import BUILD, JOB, CliTest, clean_environment, main

PYTHON = ["sitecustomize.py"] + ["gordian_torch/" + name for name in (
    "__init__.py", "ctypes_lines.py", "front_end.py", "groups.py", "names.py", "operations.py", "shim.py", "sites.py")]
MODULES = ["gordian/__init__.py", "gordian/session.py"] + ["gordian/torch/" + name for name in (
    "__init__.py", "buckets.py", "measure.py", "plan.py", "plan_file.py")]
EMULATED = ["libcuda.so", "libcuda.so.1", "libcudart.so", "libcudart.so.13", "libnccl.so", "libnccl.so.2"]
# What gordian itself writes, beside a man page of each verb.
REFERENCE = {"share/bash-completion/completions/gordian", "share/zsh/vendor-completions/_gordian",
             "share/fish/vendor_completions.d/gordian.fish", "share/doc/gordian/examples/gordian.toml"}
FILES = ({"bin/gordian", "include/gordian/runtime.h", "LIB/pkgconfig/gordian-runtime.pc",
          "LIB/cmake/gordian-runtime/gordian-runtime-config.cmake",
          "LIB/cmake/gordian-runtime/gordian-runtime-config-version.cmake",
          "LIB/gordian/libgordian_interpose.so", "LIB/gordian/demo/hybrid_training", "LIB/gordian/libgordian_runtime.so", "share/doc/gordian/README.md",
          "share/doc/gordian/LICENSE"}
         | {"LIB/gordian/python/" + name for name in PYTHON + MODULES}
         | {"share/gordian/python/" + name for name in MODULES} | {"LIB/gordian/emulator/" + name for name in EMULATED} | REFERENCE)
# Where the build has what they need.
OPTIONAL = {"LIB/gordian/gordian-measure-collectives", "LIB/gordian/libgordian_runtime_cuda.so"}
OPTIONAL |= {f"share/doc/gordian/copyright.{name}" for name in ("absl", "c-ares", "grpc", "jemalloc", "protobuf", "re2")}

USER = """
#include <gordian/runtime.h>
#include <stdio.h>
int main() {
  int version = 0;
  if (grtGetVersion(&version) != grtSuccess) return 1;
  printf("%d\\n", version);
  return 0;
}
"""


class Install(CliTest):
    def installed(self):
        """The folder that holds a new installation, moved from where it was made."""
        made, prefix = self.path("made"), self.path("somewhere/else")
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", made, "--strip"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.makedirs(os.path.dirname(prefix))
        os.rename(made, prefix)
        return prefix

    def run_installed(self, prefix, *arguments, **variables):
        return subprocess.run([os.path.join(prefix, "bin", "gordian"), *arguments], env=clean_environment(**variables), cwd=self.work,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def library_folder(self, prefix):
        """LIB of FILES: lib, lib64 or lib/x86_64-linux-gnu."""
        found = [os.path.relpath(folder, prefix) for folder, _, files in os.walk(prefix) if "gordian-runtime.pc" in files]
        self.assertEqual(len(found), 1, found)
        return os.path.dirname(found[0])

    def programs(self, prefix):
        """Path and name of each program and library."""
        for folder, _, files in os.walk(prefix):
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF":
                        yield path, name

    def test_it_is_the_files_that_are_listed(self):
        prefix = self.installed()
        library = self.library_folder(prefix)
        found = {os.path.relpath(os.path.join(folder, name), prefix) for folder, _, files in os.walk(prefix) for name in files}
        wanted = {name.replace("LIB", library) for name in FILES}
        pages = {name for name in found if name.startswith("share/man/man1/gordian")}
        self.assertIn("share/man/man1/gordian-run.1.gz", pages)
        found -= pages
        optional = {name.replace("LIB", library) for name in OPTIONAL}
        self.assertEqual(found - optional, wanted)

    def test_nothing_in_it_points_to_where_it_was_built(self):
        prefix = self.installed()
        for path, _ in self.programs(prefix):
            dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
            for run_path in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in run_path.split(":")), f"{path}: {run_path}")

    def test_its_allocator_is_in_the_program_alone(self):
        prefix = self.installed()
        for path, name in self.programs(prefix):
            symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
            defined = {line.split()[2].split("@")[0] for line in symbols.splitlines()} & {"malloc", "free", "mallocx", "_Znwm"}
            if name == "gordian":
                self.assertLessEqual({"malloc", "free", "_Znwm"}, defined)
            else:
                self.assertEqual(defined, set(), path)

    def test_the_jobs_settings_of_its_allocator_are_not_gordians(self):
        prefix = self.installed()
        done = self.run_installed(prefix, "version", MALLOC_CONF="stats_print:true,narenas:1,prof:true,nonsense:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("jemalloc statistics", done.stderr)

    def test_a_hang_is_found_from_there(self):
        self.need(JOB)
        prefix = self.installed()
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                session = self.path("session" + "".join(twin))
                done = self.run_installed(prefix, "run", "--emulator", "--on-verdict", "kill", "--session", session, "--", JOB,
                                          "inversion_one_stream", *twin)
                verdict = self.verdict(session)
                if twin:
                    self.assertEqual((done.returncode, verdict["verdict"]), (0, "finished"), done.stderr)
                else:
                    self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), done.stderr)
                # The Python package reads it with the program that lies beside it, for users and for jobs.
                for modules in (os.path.join(prefix, "share"), os.path.join(prefix, self.library_folder(prefix))):
                    read = subprocess.run(
                        [sys.executable, "-c", "import gordian, sys; session = gordian.open_session(sys.argv[1])\n"
                         "print(session.program, session.verdict['verdict'])", session],
                        env=clean_environment(PYTHONPATH=os.path.join(modules, "gordian", "python"), PATH="/usr/bin:/bin",
                                              PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True)
                    self.assertEqual(read.stdout.split(), [os.path.join(prefix, "bin", "gordian"), verdict["verdict"]],
                                     read.stderr)
        shim = json.loads(self.run_installed(prefix, "env", "--json").stdout)["LD_PRELOAD"]
        self.assertTrue(shim.startswith(prefix + "/"), shim)
        checks = {check["name"]: check for check in json.loads(self.run_installed(prefix, "doctor", "--json").stdout)["checks"]}
        self.assertEqual((checks["shim"]["state"], checks["emulator"]["state"]), ("ok", "ok"), checks)

    def test_the_demonstration_runs_from_there(self):
        prefix = self.installed()
        for folder, _, files in os.walk(prefix):  # nothing in it may need to be written
            for path in [folder] + [os.path.join(folder, name) for name in files]:
                if not os.path.islink(path):
                    os.chmod(path, os.stat(path).st_mode & ~0o222)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", prefix])
        done = self.run_installed(prefix, "demo", "--folder", self.path("demo"), PATH="/nonexistent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"at train\.cc:\d+ ")  # its debug information was not stripped
        self.assertIn(os.path.join(prefix, "bin/gordian") + " explain ", done.stdout)  # not on PATH

    def test_doctor_names_what_is_wrong_with_the_installation(self):
        prefix = self.installed()
        library = os.path.join(prefix, self.library_folder(prefix), "gordian")

        def states():
            checks = json.loads(self.run_installed(prefix, "doctor", "--json").stdout)["checks"]
            return {check["name"]: (check["state"], check["detail"]) for check in checks}

        def rewrite(name, change):
            path = os.path.join(library, name)
            with open(path, "rb") as f:
                old = f.read()
            new = change(old)
            self.assertNotEqual(new, old)
            with open(path, "wb") as f:
                f.write(new)
            said = states()
            with open(path, "wb") as f:
                f.write(old)
            return said

        parts = ("shim", "emulator", "runtime", "front end")
        self.assertEqual([states()[part][0] for part in parts], ["ok"] * 4)
        version = self.run_installed(prefix, "version").stdout.split()[1].encode()
        other = version[:-1] + (b"8" if version[-1:] != b"8" else b"9")
        note = b"gordian\0" + version
        for name, part, state in (("libgordian_interpose.so", "shim", "failed"), ("emulator/libcuda.so.1", "emulator", "note"),
                                  ("libgordian_runtime.so", "runtime", "note")):
            with self.subTest(part=part):
                said = rewrite(name, lambda old: old.replace(note, b"gordian\0" + other))
                self.assertEqual(said[part][0], state, said)
                self.assertIn(f"is of gordian {other.decode()}", said[part][1])
                self.assertEqual([said[p][0] for p in parts if p != part], ["ok"] * 3, said)
                said = rewrite(name, lambda old: b"not a library")
                self.assertEqual(said[part][0], state, said)
                os.rename(os.path.join(library, name), self.path("away"))
                self.assertEqual(states()[part][0], state)
                os.rename(self.path("away"), os.path.join(library, name))

    def test_a_program_uses_the_runtime_by_pkg_config(self):
        if shutil.which("pkg-config") is None or shutil.which("cc") is None:
            self.skipTest("needs pkg-config and cc")
        prefix = self.installed()
        folder = os.path.join(prefix, self.library_folder(prefix), "pkgconfig")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "gordian-runtime"], capture_output=True, text=True,
                               env=dict(os.environ, PKG_CONFIG_PATH=folder), check=True).stdout.split()
        source = self.write("user.c", USER)
        subprocess.run(["cc", source, "-o", self.path("user"), *flags], check=True)
        done = subprocess.run([self.path("user")], capture_output=True, text=True, check=True)
        self.assertGreater(int(done.stdout), 0)

    def test_a_program_uses_the_runtime_by_cmake(self):
        prefix = self.installed()
        os.mkdir(self.path("user"))
        self.write("user/user.c", USER)
        self.write("user/CMakeLists.txt", "cmake_minimum_required(VERSION 3.20)\nproject(user C)\n"
                   "find_package(gordian-runtime 0.1 REQUIRED)\nadd_executable(user user.c)\n"
                   "target_link_libraries(user PRIVATE gordian::runtime)\n")
        build = self.path("user/build")
        for command in (["-S", self.path("user"), "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"], ["--build", build]):
            done = subprocess.run(["cmake", *command], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([os.path.join(build, "user")], capture_output=True, text=True, check=True)
        self.assertGreater(int(done.stdout), 0)


if __name__ == "__main__":
    main()
