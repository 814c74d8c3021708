#!/usr/bin/env python3
"""What other processes of the user, files where gordian looks, and limits may do to a job and its verdict:

  neighbours.py BUILD_FOLDER [Class.test...]
"""
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from cli_testing import EMULATOR, GORDIAN, JOB, CliTest, alive, clean_environment, main, stat_fields, wait_until

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


if __name__ == "__main__":
    main()
