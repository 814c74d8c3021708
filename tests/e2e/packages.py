"""The packages that `./dev package` makes: lintian, what they hold and need, and their life on a Debian 12 that has nothing
of gordian: a root of this machine's own files, of the packages alone that Debian calls essential and that ours depend on.

  packages.py BUILD
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import other_root
from cli_testing import BUILD, clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ["gordian", "gordian-emulator", "libgordian-runtime", "gordian-dev"]
MOST_INSTALLED_KIB = 40 * 1024
# What dpkg itself and the loader write when any package comes or goes.
DPKGS_OWN = re.compile(r"(?:var/lib/dpkg|var/cache/(?:debconf|ldconfig)|var/log|etc/ld\.so\.cache|proc|dev|tmp|run)(?:/|$)")

def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def fields(path):
    """The control fields of a package file."""
    text = run("dpkg-deb", "--field", path, check=True).stdout
    return {key: value for key, value in re.findall(r"(?m)^(\S+): (.*)$", text)}


def stanzas():
    """dpkg's record of each package that this machine has, by name."""
    with open("/var/lib/dpkg/status") as f:
        found = {}
        for text in f.read().split("\n\n"):
            if re.search(r"(?m)^Status: install ok installed$", text):
                found[re.search(r"(?m)^Package: (.*)$", text).group(1)] = text.strip()
        return found


def needed(status, dependencies):
    """The names of all packages of this machine that are essential or that something in `dependencies` leads to."""
    provided = {}
    for name, text in status.items():
        for line in re.findall(r"(?m)^Provides: (.*)$", text):
            for word in re.findall(r"([a-z0-9][a-z0-9+.-]+)(?: \([^)]*\))?", line):
                provided.setdefault(word, name)
    todo = [name for name, text in status.items() if "\nEssential: yes" in text]
    todo += [word.split()[0] for word in dependencies]
    found = set()
    while todo:
        name = todo.pop().split(":")[0]
        name = name if name in status else provided.get(name)
        if name is None or name in found:
            continue
        found.add(name)
        for line in re.findall(r"(?m)^(?:Pre-)?Depends: (.*)$", status[name]):
            for alternatives in line.split(","):
                words = [word.split()[0].split(":")[0] for word in alternatives.split("|")]
                todo.append(next((word for word in words if word in status), words[0]))
    return found


class Debian:
    """A Debian 12 in a folder, with `names` installed."""

    def __init__(self, names, status):
        self.root = tempfile.mkdtemp(prefix="gordian-root-")
        os.chmod(self.root, 0o755)
        for name in ("proc", "dev", "tmp", "run", "root", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers",
                     "var/log"):
            os.makedirs(os.path.join(self.root, name))
        for name in ("bin", "sbin", "lib", "lib64"):
            os.makedirs(os.path.join(self.root, "usr", name))
            os.symlink("usr/" + name, os.path.join(self.root, name))
        info = "/var/lib/dpkg/info"
        every = os.listdir(info)
        wanted = []
        for name in names:
            for file in every:
                if re.fullmatch(re.escape(name) + r"(:[a-z0-9]+)?\.(list|md5sums|shlibs|symbols|triggers)", file):
                    shutil.copy2(os.path.join(info, file), os.path.join(self.root, "var/lib/dpkg/info"))
                    if file.endswith(".list"):
                        with open(os.path.join(info, file)) as f:
                            wanted += f.read().splitlines()
        # As dpkg laid them out, whatever links /bin and /lib are by now.
        listed = [path.lstrip("/") for path in wanted
                  if not re.match(r"/usr/share/(doc|man|locale|i18n)/", path) and (os.path.islink(path) or os.path.isfile(path))]
        listed += [os.path.realpath("/sbin/ldconfig").lstrip("/"), "etc/passwd", "etc/group"]
        names_of_files = "\n".join(sorted({self.merged(path) for path in listed}))
        subprocess.run(["cpio", "-pdm", "--quiet", self.root], cwd="/", input=names_of_files, text=True, check=True,
                       stderr=subprocess.DEVNULL)
        if not os.path.exists(os.path.join(self.root, "usr/bin/sh")):
            os.symlink("bash", os.path.join(self.root, "usr/bin/sh"))
        with open(os.path.join(self.root, "var/lib/dpkg/status"), "w") as f:
            f.write("\n\n".join(re.sub(r"(?m)^Conffiles:\n( .*\n?)*", "", status[name] + "\n").strip() for name in sorted(names)) + "\n\n")
        for name in ("available", "diversions", "statoverride"):
            open(os.path.join(self.root, "var/lib/dpkg", name), "w").close()
        shutil.copy("/var/lib/dpkg/arch", os.path.join(self.root, "var/lib/dpkg")) if os.path.exists("/var/lib/dpkg/arch") else None

    @staticmethod
    def merged(path):
        top = path.split("/")[0]
        return "usr/" + path if top in ("bin", "sbin", "lib", "lib64") else path

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *command, **options):
        return other_root.run(self.root, *command, **options)

    def snapshot(self):
        """All that is in it, but for what is dpkg's own: path, and what tells whether it was touched."""
        found = {}
        for folder, folders, files in os.walk(self.root):
            for name in files + folders:
                path = os.path.join(folder, name)
                shown = os.path.relpath(path, self.root)
                if DPKGS_OWN.match(shown):
                    continue
                info = os.lstat(path)
                if os.path.islink(path):
                    what = os.readlink(path)
                elif os.path.isdir(path):
                    what = ""
                elif info.st_size < 1 << 16:
                    with open(path, "rb") as f:
                        what = hashlib.sha256(f.read()).hexdigest()
                else:
                    what = (info.st_size, info.st_mtime_ns)
                found[shown] = (info.st_mode, info.st_uid, info.st_gid, what)
        return found


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(BUILD, "packages")
        done = run(os.path.join(ROOT, "packaging", "debian.sh"), BUILD)
        if done.returncode != 0:
            raise RuntimeError(f"packaging/debian.sh {BUILD}: {done.stdout}{done.stderr}")
        cls.files = {}
        for name in os.listdir(cls.folder):
            if name.endswith(".deb"):
                cls.files[name.split("_")[0]] = os.path.join(cls.folder, name)

    def test_they_are_four_and_small(self):
        self.assertEqual(sorted(self.files), sorted(NAMES))
        sizes = {name: int(fields(path)["Installed-Size"]) for name, path in self.files.items()}
        print("installed KiB:", sizes)
        self.assertLessEqual(sum(sizes.values()), MOST_INSTALLED_KIB)

    def test_each_file_is_in_one_of_them(self):
        seen = {}
        for name, path in self.files.items():
            for line in run("dpkg-deb", "--contents", path, check=True).stdout.splitlines():
                file = line.split(None, 5)[5].split(" -> ")[0]
                if not file.endswith("/"):
                    self.assertNotIn(file, seen, name)
                    seen[file] = name
        for file, name in (("./usr/bin/gordian", "gordian"), ("./usr/share/man/man1/gordian-run.1.gz", "gordian"),
                           ("./usr/lib/gordian/demo/hybrid_training", "gordian-emulator"),
                           ("./usr/include/gordian/runtime.h", "gordian-dev")):
            self.assertEqual(seen.get(file), name, file)

    def test_they_depend_on_what_their_programs_load(self):
        depends = {name: fields(path).get("Depends", "") for name, path in self.files.items()}
        for library in ("libc6", "libdw1", "libsqlite3-0", "libssl3", "libstdc++6"):
            self.assertIn(library, depends["gordian"])
        self.assertIn("gordian (= ", depends["gordian-emulator"])
        self.assertIn("libgordian-runtime (= ", depends["gordian-dev"])
        self.assertEqual(fields(self.files["libgordian-runtime"])["Suggests"], "libucx0")

    def test_lintian_finds_nothing(self):
        if shutil.which("lintian") is None:
            self.skipTest("needs lintian")
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *self.files.values())
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


    def test_the_tarball_runs_from_any_folder(self):
        with tempfile.TemporaryDirectory(prefix="gordian-tarball-") as work:
            (tarball,) = [name for name in os.listdir(self.folder) if name.endswith(".tar.gz")]
            os.mkdir(os.path.join(work, "unpacked"))
            run("tar", "xf", os.path.join(self.folder, tarball), "-C", os.path.join(work, "unpacked"), check=True)
            (top,) = os.listdir(os.path.join(work, "unpacked"))
            prefix = os.path.join(work, "moved")
            os.rename(os.path.join(work, "unpacked", top), prefix)
            gordian = os.path.join(prefix, "bin/gordian")
            doctor = json.loads(run(gordian, "doctor", "--json", env=clean_environment(), cwd="/").stdout)
            for check in doctor["checks"][:4]:
                self.assertEqual(check["state"], "ok", check)
                self.assertTrue(check["path"].startswith(os.path.realpath(prefix) + "/"), check)
            demo = run(gordian, "demo", "--folder", os.path.join(work, "demo"), env=clean_environment(), cwd="/")
            self.assertEqual(demo.returncode, 0, demo.stderr)
            self.assertIn("gordian: DEADLOCK (confirmed", demo.stderr)


class Life(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Packages.setUpClass()
        cls.files = Packages.files
        if os.geteuid() != 0 or not other_root.can_run():
            raise unittest.SkipTest("needs root and mounts of its own")
        if shutil.which("cpio") is None:
            raise unittest.SkipTest("needs cpio")
        depends = []
        for path in cls.files.values():
            for alternatives in fields(path).get("Depends", "").split(","):
                word = alternatives.split("|")[0].strip()
                if word and word.split()[0] not in NAMES:
                    depends.append(word)
        status = stanzas()
        cls.debian = Debian(needed(status, depends), status)
        cls.addClassCleanup(cls.debian.remove)
        for path in cls.files.values():
            shutil.copy(path, os.path.join(cls.debian.root, "tmp"))

    def dpkg(self, *arguments):
        done = self.timed("dpkg " + " ".join(map(os.path.basename, arguments)), "dpkg", "--force-unsafe-io", *arguments)
        self.assertEqual(done.returncode, 0, f"dpkg {' '.join(arguments)}: {done.stdout}{done.stderr}")

    def install(self, *names):
        self.dpkg("--install", *("/tmp/" + os.path.basename(self.files[name]) for name in names))

    def timed(self, what, *arguments):
        began = time.monotonic()
        done = self.debian.run(*arguments)
        print(f"{what}: {time.monotonic() - began:.1f} s")
        return done

    def test_they_come_work_and_go(self):
        for names in (["gordian"], ["libgordian-runtime"], ["libgordian-runtime", "gordian-dev"], ["gordian", "gordian-emulator"], NAMES):
            with self.subTest(names=names):
                before = self.debian.snapshot()
                self.install(*names)
                after = self.debian.snapshot()
                touched = [path for path in before if after.get(path) != before[path]]
                self.assertEqual(touched, [])
                if "gordian" in names:
                    said = self.debian.run("gordian", "version")
                    self.assertEqual(said.returncode, 0, said.stderr)
                    doctor = json.loads(self.debian.run("gordian", "doctor", "--json").stdout)
                    states = {check["name"]: check["state"] for check in doctor["checks"]}
                    here = "ok" if "gordian-emulator" in names else "note"
                    self.assertEqual((states["shim"], states["emulator"]), ("ok", here), doctor)
                    demo = self.timed("gordian demo", "gordian", "demo", "--json", "--folder", "/tmp/demo")
                    if "gordian-emulator" in names:
                        self.assertEqual(demo.returncode, 0, demo.stderr)
                        document = json.loads(demo.stdout)
                        self.assertEqual([step["verdict"]["verdict"] for step in document["steps"]], ["deadlock", "deadlock", "finished"])
                        self.assertIn("at train.cc:", demo.stderr)
                    else:
                        self.assertEqual(demo.returncode, 125, demo.stderr)
                        self.assertIn("install gordian-emulator", demo.stderr)
                    shutil.rmtree(os.path.join(self.debian.root, "tmp/demo"), ignore_errors=True)
                self.dpkg("--purge", *reversed(names))
                left = self.debian.snapshot()
                self.assertEqual(set(left) ^ set(before), set())
                self.assertEqual(left, before)

    def test_a_package_that_leaves_or_touches_something_is_seen(self):
        tree = os.path.join(self.debian.root, "tmp/untidy")
        os.makedirs(os.path.join(tree, "DEBIAN"))
        with open(os.path.join(tree, "DEBIAN/control"), "w") as f:
            f.write("Package: untidy\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: untidy\n")
        with open(os.path.join(tree, "DEBIAN/postinst"), "w") as f:
            f.write("#!/bin/sh\necho >> /etc/group\ntouch /usr/lib/left\n")
        os.chmod(os.path.join(tree, "DEBIAN/postinst"), 0o755)
        run("dpkg-deb", "--build", "--root-owner-group", tree, tree + ".deb", check=True)
        before = self.debian.snapshot()
        self.dpkg("--install", "/tmp/untidy.deb")
        self.dpkg("--purge", "untidy")
        after = self.debian.snapshot()
        self.assertEqual(sorted(path for path in set(before) | set(after) if before.get(path) != after.get(path)),
                         ["etc/group", "usr/lib/left"])

    def test_without_write_access(self):
        self.install("gordian", "gordian-emulator")
        self.addCleanup(self.dpkg, "--purge", "gordian-emulator", "gordian")
        self.assertEqual(self.debian.run("gordian", "version").returncode, 0)
        os.makedirs(os.path.join(self.debian.root, "tmp/user"))
        os.chown(os.path.join(self.debian.root, "tmp/user"), 65534, 65534)
        demo = self.debian.run("sh", "-c", "chmod 1777 /dev/shm; chmod 666 /dev/null /dev/urandom; cd / && exec setpriv --reuid=65534 "
                               "--regid=65534 --clear-groups env TMPDIR=/tmp/user HOME=/nonexistent gordian demo --json")
        self.assertEqual(demo.returncode, 0, demo.stderr)


if __name__ == "__main__":
    if shutil.which("dpkg-deb") is None:
        print("needs dpkg")
        sys.exit(77)
    unittest.main(verbosity=2)
