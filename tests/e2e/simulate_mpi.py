#!/usr/bin/env python3
"""S6: a sweep gives the same bytes for any number of processes and threads, and survives a killed one.

  simulate_mpi.py BUILD
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cli_testing import BUILD as BUILD_OF_TESTS, tree_below

BUILD = ""
SKIP = 77
SWEEP = {
    "disorder_prob": {"log": [0.01, 0.1, 3]}, "sync_prob": {"values": [0.05, 0.1]}, "model": "StreamWithSync",
    "grouping_policy": "Arbitrary", "gpu_num": 4, "group_num": 3, "gpu_per_group": [[0, 3], [0, 2], [0, 1, 2]],
    "coll_cnt_per_group": [4, 4, 4],
}


def mpirun(ranks, *arguments):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), f"{BUILD}/bin/gordian", "simulate",
            "--mpi", *arguments]


class Sweeps(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="gordian-sweep-")
        self.addCleanup(shutil.rmtree, self.work)
        self.sweep = os.path.join(self.work, "sweep.json")
        with open(self.sweep, "w") as f:
            json.dump(SWEEP, f)

    def run_ok(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_same_bytes_for_any_number_of_processes_and_threads(self):
        flags = [self.sweep, "--rounds", "8192", "--json"]
        alone = self.run_ok([f"{BUILD}/bin/gordian", "simulate", *flags, "--threads", "1"])
        points = json.loads(alone)["points"]
        self.assertEqual(len(points), 6)
        self.assertGreater(sum(p["exact"]["hits"] for p in points), 100)
        for ranks, threads in ((1, 1), (2, 1), (2, 2), (4, 1)):
            self.assertEqual(self.run_ok(mpirun(ranks, *flags, "--threads", str(threads))), alone, (ranks, threads))
        two = self.run_ok([f"{BUILD}/bin/gordian", "simulate", *flags, "--threads", "2"])
        self.assertEqual(two, alone)
        other = self.run_ok([f"{BUILD}/bin/gordian", "simulate", *flags, "--threads", "1", "--seed", "1"])
        self.assertNotEqual(other, alone)

    def test_a_killed_process_leaves_what_was_counted(self):
        checkpoint, csv = os.path.join(self.work, "checkpoint"), os.path.join(self.work, "table.csv")
        # So long that it cannot be done before the kill; the first of the eight stages is waited for.
        flags = [self.sweep, "--rounds", "3000000", "--threads", "1", "--checkpoint", checkpoint, "--csv", csv]
        running = subprocess.Popen(mpirun(2, *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 100
            while not (os.path.exists(checkpoint) and os.path.exists(csv)):
                self.assertIsNone(running.poll(), "it ended before its first stage was written")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            ranks = [p for p in tree_below(running.pid) if "gordian" in self.name_of(p)]
            self.assertEqual(len(ranks), 2)
            os.kill(max(ranks), signal.SIGKILL)
            self.assertNotEqual(running.wait(timeout=60), 0)
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
        with open(checkpoint) as f:
            left = json.load(f)
        self.assertTrue(left["incomplete"])
        self.assertIn(left["stage"], range(1, 8))
        with open(csv) as f:
            lines = f.read().splitlines()
        self.assertEqual(len(lines), 7)
        self.assertTrue(all(line.endswith(",0") for line in lines[1:]), "not flagged as incomplete")

    def test_resumed_as_if_never_stopped(self):
        checkpoint = os.path.join(self.work, "checkpoint")
        flags = [self.sweep, "--rounds", "16384", "--json", "--threads", "1"]
        whole = self.run_ok([f"{BUILD}/bin/gordian", "simulate", *flags, "--checkpoint", checkpoint])
        with open(checkpoint) as f:
            last = json.load(f)
        self.assertFalse(last["incomplete"])
        # Stopped by time: nobody knows after which stage, so until one has stopped between the first and last.
        command = [f"{BUILD}/bin/gordian", "simulate", *flags, "--checkpoint", checkpoint]
        limit = 0.02
        for _ in range(40):
            os.unlink(checkpoint) if os.path.exists(checkpoint) else None
            stopped = subprocess.run(command + ["--time-limit", str(limit)], capture_output=True, text=True, timeout=60)
            stage = 0
            if os.path.exists(checkpoint):
                with open(checkpoint) as f:
                    stage = json.load(f)["stage"]
            if 0 < stage < 8:
                self.assertEqual(stopped.returncode, 3, stopped.stderr)
                break
            limit *= 1.5 if stage == 0 else 0.7
        self.assertIn(stage, range(1, 8))
        self.assertEqual(self.run_ok(mpirun(2, *flags, "--checkpoint", checkpoint, "--resume")), whole)

    def test_a_checkpoint_of_another_sweep_is_refused(self):
        checkpoint = os.path.join(self.work, "checkpoint")
        command = [f"{BUILD}/bin/gordian", "simulate", self.sweep, "--checkpoint", checkpoint, "--rounds", "8192"]
        self.run_ok(command)
        refused = subprocess.run(command + ["--resume", "--seed", "5"], capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is of another sweep", refused.stderr)

    @staticmethod
    def name_of(pid):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                return f.read().split("\0")[0]
        except OSError:
            return ""


if __name__ == "__main__":
    BUILD = os.path.abspath(BUILD_OF_TESTS)
    if shutil.which("mpirun") is None or not os.path.exists(f"{BUILD}/bin/gordian-simulate-mpi"):
        print("no Open MPI here")
        sys.exit(SKIP)
    unittest.main()
