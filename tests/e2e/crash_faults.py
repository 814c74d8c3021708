"""Machines that refuse what gordian asks for: a full disk, a file size limit, a session that cannot be
written, little shared memory, little address space, few processes. The job runs as it would alone, and what hangs is
still found wherever that is possible; each with the same job on a machine that refuses nothing."""
import glob
import json
import os
import resource
import shutil
import subprocess

from cli_testing import EMULATOR, GORDIAN, JOB, CliTest, clean_environment, main

HANG = [JOB, "inversion_one_stream", "--ranks", "2"]
TWIN = HANG + ["--twin"]


class Faults(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)
        self.before = set(glob.glob(f"/dev/shm/gordian-{os.getuid()}-*"))

    def hang_is_found(self, session, **options):
        done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", *HANG, **options)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn("DEADLOCK", done.stderr)
        return done

    def twin_ends_well(self, session, **options):
        done = self.gordian("run", "--emulator", "--session", session, "--error-exitcode", "9", "--", *TWIN, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("DEADLOCK", done.stderr)
        return done

    def ring_dir(self, session):
        with open(os.path.join(session, "manifest.json")) as f:
            return json.load(f)["ring_dir"]

    def test_nothing_refused(self):
        self.hang_is_found(self.path("s"))
        self.twin_ends_well(self.path("t"))
        for session in ("s", "t"):
            self.assertFalse(os.path.exists(self.ring_dir(self.path(session))))

    def test_full_disk_beneath_the_session(self):
        where = self.path("mnt")
        os.mkdir(where)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", where], capture_output=True)
        if mounted.returncode == 0:
            self.addCleanup(subprocess.run, ["umount", "-l", where])
            options = {}
        else:  # the same errors, from a limit
            options = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))}
        # Room for the first files, not for the copies of the rings.
        self.hang_is_found(where + "/s", **options)
        shutil.rmtree(where + "/s", ignore_errors=True)
        self.twin_ends_well(where + "/t", **options)
        done = self.gordian("analyze", where + "/t")
        self.assertIn(done.returncode, (0, 2, 3), done.stdout + done.stderr)

    def test_session_in_a_read_only_folder(self):
        where = self.path("ro")
        os.mkdir(where)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", where], capture_output=True)
        if mounted.returncode == 0:
            self.addCleanup(subprocess.run, ["umount", "-l", where])
        elif os.getuid() == 0:
            self.skipTest("no mount allowed here, and root writes into any folder")
        else:
            os.chmod(where, 0o500)
        self.assertIn("cannot write session", self.hang_is_found(where + "/s").stderr)
        self.assertIn("cannot write session", self.twin_ends_well(where + "/t").stderr)
        self.assertEqual(os.listdir(where), [])

    def test_one_mebibyte_of_shared_memory(self):
        # Too little for the rings, and for the emulator's own memory: the emulator keeps that elsewhere
        # only where it is told to, so this job makes no NCCL call.
        script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
        tried = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest(f"no mount namespace allowed here: {tried.stderr.strip()}")
        for small in (False, True):
            command = ["unshare", "-m", "sh", "-c", script if small else 'exec "$@"', "sh", GORDIAN, "run", "--emulator",
                       "--session", self.path(f"s{small}"), "--", "sh", "-c", "ls /dev/shm; head -c 10 /dev/zero | wc -c"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(), cwd=self.work)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.endswith("10\n"), done.stdout)
            self.assertFalse(os.path.exists(self.ring_dir(self.path(f"s{small}"))))

    def test_little_address_space(self):
        # Without gordian the job runs in it: that is what makes it a limit for gordian.
        alone = clean_environment(LD_LIBRARY_PATH=EMULATOR)

        def limit(mebibytes):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
        tried = 0
        for mebibytes in (192, 224, 256, 320, 384, 448, 512, 768, 1024, 2048, 4096):
            try:
                if subprocess.run(TWIN, env=alone, capture_output=True, timeout=20,
                                  preexec_fn=limit(mebibytes)).returncode != 0:
                    continue
            except subprocess.TimeoutExpired:
                continue
            tried += 1
            done = self.twin_ends_well(self.path(f"t{mebibytes}"), preexec_fn=limit(mebibytes))
            if "unobserved" in done.stderr:
                self.assertLess(mebibytes, 512, done.stderr)
                self.assertIn("ulimit -v", done.stderr)
            else:
                self.hang_is_found(self.path(f"h{mebibytes}"), preexec_fn=limit(mebibytes))
        if tried == 0:
            self.skipTest("the job does not run in 4 GiB of address space")

    def test_few_processes(self):
        if os.getuid() != 0:
            self.skipTest("a user of its own, whose processes can be counted, takes root")
        nobody = {"user": 65533, "group": 65533}
        try:
            subprocess.run([GORDIAN, "version"], check=True, capture_output=True, **nobody)
        except (PermissionError, subprocess.CalledProcessError) as error:
            self.skipTest(f"another user cannot start gordian from here: {error}")
        where = self.path("few")
        os.mkdir(where)
        os.chown(where, nobody["user"], nobody["group"])
        os.chmod(self.work, 0o755)
        for most, said in ((20, "unobserved"), (200, "ended with 5")):
            done = self.gordian("run", "--session", f"{where}/s{most}", "--", "sh", "-c", "exit 5", cwd=where,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most)), **nobody)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assert_one_line(done.stderr, said)


if __name__ == "__main__":
    main()
