"""The container image: made by buildah from the last stage of the Containerfile, of the release build in place of the stage
before it; and run by it, without a network of its own and in a chroot, which needs no more than root.

  image.py BUILD
"""
import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cli_testing import BUILD, clean_environment, stat_fields, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTAINER = os.path.join(ROOT, "deploy", "container")
MOST_BYTES = 60_000_000
USER = 65532
OF_JOBS = re.compile(r"lib(cuda|cudart|nccl)\.so")


def run(*command, **options):
    options = {"env": clean_environment(), "capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options}
    return subprocess.run(command, **options)


def child_named(pid, name):
    """The descendant of a process that runs the program `name`."""
    parents = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        fields = stat_fields(number)
        if fields:
            parents[int(number)] = int(fields[1])
    for number in parents:
        above = number
        while above in parents and above != pid:
            above = parents[above]
        with contextlib.suppress(OSError), open(f"/proc/{number}/comm") as f:
            if above == pid and f.read().strip() == name:
                return number
    return None


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what gordian pushes."""
    paths = []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="gordian-image-")
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        os.chmod(cls.work, 0o755)
        cls.engine = ["buildah", "--root", cls.path("storage"), "--runroot", cls.path("state"), "--storage-driver", "vfs"]
        for name in ("stage", "nothing"):
            os.mkdir(cls.path(name))
        cls.make("cmake", "--install", BUILD, "--prefix", cls.path("installed"), "--strip")
        cls.make(sys.executable, os.path.join(CONTAINER, "root.py"), cls.path("installed"), cls.path("stage/image"))
        cls.make(*cls.engine, "build", "--isolation", "chroot", "-f", os.path.join(CONTAINER, "Containerfile"),
                 "--build-context", "build=" + cls.path("stage"), "-t", "gordian", cls.path("nothing"))
        cls.container, unused = (cls.make(*cls.engine, "from", "gordian").strip() for _ in range(2))
        cls.mounted = cls.make(*cls.engine, "mount", unused).strip()
        cls.addClassCleanup(run, *cls.engine, "rm", "--all")
        image = json.loads(cls.make(*cls.engine, "inspect", "--type", "image", "gordian"))
        cls.config, cls.layers = image["OCIv1"]["config"], json.loads(image["Manifest"])["layers"]

    @classmethod
    def path(cls, name):
        return os.path.join(cls.work, name)

    @classmethod
    def make(cls, *command):
        done = run(*command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, *words, options=()):
        """A command in a container of the image, as the image's user."""
        return [*self.engine, "run", "--isolation", "chroot", *options, self.container, "--", *words]

    def inside(self, *words, options=()):
        return run(*self.command(*words, options=options), timeout=120)

    def test_it_is_small(self):
        archive = self.path("image.tar")
        self.make(*self.engine, "push", "gordian", "oci-archive:" + archive)
        size = sum(layer["size"] for layer in self.layers)
        print(f"layers: {size / 1e6:.1f} MB, compressed as an archive {os.path.getsize(archive) / 1e6:.1f} MB")
        self.assertTrue(all(layer["mediaType"].endswith(".tar") for layer in self.layers), self.layers)  # not compressed
        self.assertLessEqual(size, MOST_BYTES)
        self.assertGreater(size, os.path.getsize(os.path.join(self.path("installed"), "bin/gordian")))

    def test_its_user_may_write_its_own_folders_alone(self):
        self.assertEqual(self.config["User"], f"{USER}:{USER}")
        writable = []
        for folder, folders, files in os.walk(self.mounted):
            for path in [folder] + [os.path.join(folder, name) for name in files + folders]:
                info = os.lstat(path)
                self.assertIn(info.st_uid, (0, USER), path)
                self.assertFalse(info.st_mode & 0o6000, path)  # no program changes its user
                if not os.path.islink(path) and (info.st_uid == USER or info.st_mode & 0o022):
                    writable.append((os.path.relpath(path, self.mounted), oct(info.st_mode & 0o7777)))
        self.assertEqual(sorted(set(writable)), [("data", "0o700"), ("tmp", "0o1777")])
        who = self.inside("sh", "-c", "id -u; id -un; echo $HOME; pwd")
        self.assertEqual(who.stdout.split(), [str(USER), "gordian", "/data", "/"], who.stderr)

    def test_what_gordian_loads_into_jobs_finds_its_libraries(self):
        loader = os.path.join("/opt/gordian/deps", next(name for name in os.listdir(os.path.join(
            self.mounted, "opt/gordian/deps")) if name.startswith("ld-linux")))
        seen = 0
        for folder, _, files in os.walk(os.path.join(self.mounted, "opt/gordian/lib")):
            for path in (os.path.join(folder, name) for name in files):
                with open(path, "rb") as f:
                    if os.path.islink(path) or f.read(4) != b"\x7fELF":
                        continue
                seen += 1
                listed = self.inside(loader, "--list", "/" + os.path.relpath(path, self.mounted))
                said = listed.stdout + listed.stderr
                missing = [line for line in said.splitlines()
                           if ("not found" in line or "cannot open" in line) and not OF_JOBS.search(line)]
                self.assertEqual(missing, [], path)
        self.assertGreaterEqual(seen, 5)

    def test_the_demonstration_runs(self):
        self.assertRegex(self.inside("gordian", "version").stdout, r"^gordian \d+\.\d+\.\d+")
        checks = {check["name"]: check["state"] for check in json.loads(self.inside("gordian", "doctor", "--json").stdout)["checks"]}
        self.assertEqual([checks[name] for name in ("shim", "emulator", "runtime", "front end")], ["ok"] * 4, checks)
        began = time.monotonic()
        done = self.inside("gordian", "demo", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"gordian demo: {time.monotonic() - began:.1f} s")
        (live,) = [step for step in json.loads(done.stdout)["steps"] if step["name"] == "live"]
        self.assertEqual((live["verdict"]["verdict"], live["verdict"]["confidence"]), ("deadlock", "confirmed"))
        self.assertIn("at train.cc:", done.stderr)

    def test_it_serves_as_it_starts_by_itself(self):
        server = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh",
                                   *self.command(*self.config["Entrypoint"], *self.config["Cmd"])],
                                  env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            ask = ["nsenter", "--net", "--target", str(server.pid), sys.executable, "-c",
                   "import urllib.request\n"
                   "print(urllib.request.urlopen('http://127.0.0.1:7412/healthz', timeout=5).status)"]
            self.assertTrue(wait_until(lambda: run(*ask).stdout == "200\n" or server.poll() is not None, every=0.2))
            self.assertIsNone(server.poll(), server.poll() is not None and server.stdout.read())
            gordian = child_named(server.pid, "gordian")
            self.assertIsNotNone(gordian)
            with open(f"/proc/{gordian}/status") as f:
                self.assertIn(f"\nUid:\t{USER}\t{USER}\t{USER}\t{USER}\n", f.read())
            token = self.inside("gordian", "token", "/data/sessions")  # as kubectl exec asks for it
            self.assertEqual(token.returncode, 0, token.stderr)
            os.kill(gordian, {"SIGTERM": 15}[self.config["StopSignal"]])
            said, _ = server.communicate(timeout=30)
            self.assertEqual(server.returncode, 0, said)
        finally:
            gordian = child_named(server.pid, "gordian")
            if gordian is not None:
                os.kill(gordian, 9)
            server.kill()
            server.communicate()

    def test_it_sends_by_http_with_its_own_libcurl(self):
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        server = subprocess.Popen(self.command("gordian", "serve", "--listen", "127.0.0.1:0", "--sessions", "/data/pushed",
                                               "--otlp", f"http://127.0.0.1:{collector.server_address[1]}",
                                               options=["--env", "OTEL_METRIC_EXPORT_INTERVAL=200"]),
                                  env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            wait_until(lambda: Collector.paths or server.poll() is not None, seconds=30)
        finally:
            gordian = child_named(server.pid, "gordian")
            if gordian is not None:
                os.kill(gordian, 15)
            said, _ = server.communicate(timeout=30)
            collector.shutdown()
            collector.server_close()
        self.assertTrue(Collector.paths, said)
        self.assertTrue(os.path.getsize(os.path.join(self.mounted, "etc/ssl/certs/ca-certificates.crt")) > 100_000)

    def test_its_init_container_copies_gordian(self):
        with open(os.path.join(ROOT, "deploy/kubernetes/job.yaml")) as f:
            (words,) = re.findall(r"(?m)^ +command: \[(/bin/cp, .*)\]$", f.read())
        copy = self.path("copy")
        os.mkdir(copy)
        os.chown(copy, 1000, 1000)  # the user of job.yaml
        done = self.inside(*words.split(", "), options=["--user", "1000:1000", "--volume", copy + ":/copy"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        same = run("diff", "-r", "--no-dereference", os.path.join(self.mounted, "opt/gordian"), copy)
        self.assertEqual((same.returncode, same.stdout), (0, ""), same.stderr)
        # The job mounts the copy at the place of the original.
        there = self.inside("gordian", "version", options=["--user", "1000:1000", "--volume", copy + ":/opt/gordian:ro"])
        self.assertRegex(there.stdout, r"^gordian \d", there.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which, ("buildah", "busybox", "patchelf", "ip", "nsenter"))):
        print("needs root, buildah, busybox-static, patchelf, iproute2")
        sys.exit(77)
    unittest.main(verbosity=2)
