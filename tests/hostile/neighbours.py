#!/usr/bin/env python3
"""What other processes of the user, files where gordian looks, and limits may do to a job and its verdict:

  neighbours.py BUILD_FOLDER [Class.test...]
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cli_testing import EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, is_guardian, main, stat_fields, tree_below, wait_until

HANG = [JOB, "inversion_one_stream", "--ranks", "2"]
TWIN = [*HANG, "--twin"]


class Neighbours(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def ring_dir(self, session="s"):
        with open(os.path.join(self.path(session), "manifest.json")) as f:
            return json.load(f)["ring_dir"]

    def bystander(self):
        process = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Verdicts(Neighbours):
    def test_a_forged_ring_file_ends_no_other_process(self):
        other = self.bystander()
        forged = f"{other.pid}.{stat_fields(other.pid)[19]}.ring"
        script = f'cp /bin/true "$GORDIAN_RING_DIR/{forged}"; exec "$@"'
        done = self.gordian("run", "--emulator", "--session", "s", "--on-verdict", "kill", "--", "sh", "-c", script,
                            "sh", *HANG)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertTrue(alive(other.pid), "gordian ended a process that is not the job's")
        self.assertEqual(self.verdict()["verdict"], "deadlock")


class Closing(Neighbours):
    """A verdict is the last word only if it says that it is."""

    def start_steady(self, **more):
        """A job that goes on until the file `until` is there, and then hangs."""
        env = clean_environment(JOB_UNTIL=self.path("until"), JOB_PROGRESS=self.path("progress"), **more)
        process = self.start("run", "--emulator", "--session", "s", "--", JOB, "steady_then_inversion", "--ranks", "2",
                             env=env)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("s/verdict.json"))))
        self.assertEqual((self.verdict()["verdict"], self.verdict()["closed"]), ("healthy", False))
        return process

    def check_left_open(self):
        for verb in ("explain", "analyze"):
            done = self.gordian(verb, "s")
            self.assertIn(done.returncode, (1, 3), done.stdout + done.stderr)
            self.assertNotIn("gordian: healthy", done.stdout)
            self.assertNotIn("confirmed", done.stdout.splitlines()[0])
        explained = self.gordian("explain", "s")
        self.assertIn("is not the last word", explained.stderr)
        self.assertIn(self.verdict()["written"], explained.stderr)

    def test_kill_of_run_and_its_guardian(self):
        for guardian_too in (True, False):
            process = self.start_steady()
            below = tree_below(process.pid)
            for pid in below if guardian_too else []:
                if is_guardian(pid):
                    os.kill(pid, 9)
            process.kill()
            process.wait()
            for pid in below:
                self.addCleanup(lambda pid=pid: alive(pid) and os.kill(pid, 9))
            self.write("until", "")
            self.check_left_open()
            # As an earlier version left it.
            verdict = self.verdict()
            for key in ("written", "closed"):
                del verdict[key]
            self.write("s/verdict.json", json.dumps(verdict))
            self.assertEqual(self.gordian("explain", "s").returncode, 3)
            for pid in below:
                if alive(pid):
                    os.kill(pid, 9)
            shutil.rmtree(self.path("s"))
            os.unlink(self.path("until"))

    def test_while_the_job_runs_the_verdict_stands(self):
        self.start_steady()
        done = self.gordian("explain", "s")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_disk_that_fills_up_before_the_last_verdict(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        verdict = self.verdict()
        verdict.update(verdict="healthy", check="job-healthy", summary="Nothing is stuck.", closed=False)
        self.write("s/verdict.json", json.dumps(verdict))
        with open(self.path("s/trace.gtrace"), "r+b") as f:
            f.truncate(os.fstat(f.fileno()).st_size // 2)
        self.check_left_open()

    def test_an_end_in_order_closes_it(self):
        self.gordian("run", "--emulator", "--session", "s", "--", *TWIN)
        self.assertIs(self.verdict()["closed"], True)
        done = self.gordian("explain", "s")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
