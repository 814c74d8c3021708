#!/usr/bin/env python3
"""What PyTorch 2.11 and NCCL 2.28.9 left of jobs on an H200, through `gordian analyze`.

  real_traces.py GORDIAN

real/*.tar.xz holds JOB/{profiler,execution,dumps,ras}/ of tests/gpu/pytorch/profiled.py with four ranks, of which rank
2 makes the mistake; `graph` has two. `killed` are those of `kind` whose processes were ended while they hung.
"""

import gzip
import json
import os
import pickle
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

GORDIAN = ""
HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVE = os.path.join(HERE, "real", "torch_2.11_nccl_2.28.9.tar.xz")
NOTHING = (3, "inconclusive", "evidence-missing", [])


class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="gordian-real-")
        cls.addClassCleanup(cls.holder.cleanup)
        with tarfile.open(ARCHIVE) as tar:
            tar.extractall(cls.holder.name)

    def folder(self, name):
        return os.path.join(self.holder.name, name)

    def verdict(self, *paths):
        done = subprocess.run([GORDIAN, "analyze", "--json", *paths], capture_output=True, text=True, timeout=120, check=False)
        self.assertTrue(done.stdout, done.stderr)
        return done.returncode, json.loads(done.stdout), done.stderr

    def says(self, name, expected):
        code, verdict, err = self.verdict(self.folder(name))
        said = (code, verdict["verdict"], verdict["check"], verdict["culprit_ranks"])
        self.assertEqual(said, expected, name + ": " + verdict["summary"])
        self.assertNotEqual(verdict["confidence"], "confirmed")
        return verdict, err

    def test_execution_traces(self):
        for job, expected in (("healthy", NOTHING), ("shift", NOTHING),
                              ("kind", (1, "mismatch", "mismatch-kind", [2])),
                              ("skip", (1, "mismatch", "mismatch-kind", [2])),
                              ("count", (1, "mismatch", "mismatch-count", [2])),
                              ("type", (1, "mismatch", "mismatch-type", [2])),
                              # Each rank made the calls that the others made, or fewer.
                              ("stall", NOTHING), ("order", NOTHING)):
            with self.subTest(job):
                verdict, err = self.says(job + "/execution", expected)
                self.assertIn("4 traces of PyTorch's ExecutionTraceObserver", err)
                self.assertEqual((verdict["evidence"]["ranks_seen"], verdict["evidence"]["ranks_expected"]), (4, 4))
        verdict, _ = self.says("stall/execution", NOTHING)
        self.assertIn("2 recorded nothing on", verdict["summary"])

    def test_an_execution_trace_of_a_process_that_was_ended(self):
        verdict, _ = self.says("killed/execution", (1, "mismatch", "mismatch-kind", [2]))
        self.assertTrue(any("what ranks 0, 1 and 3 called last: the list has no end" in line
                            for line in verdict["evidence"]["not_visible"]), verdict["evidence"])
        # A file that was cut elsewhere is not read.
        path = os.path.join(self.folder("killed/execution"), "pytorch_et_rank0.json")
        with open(path, "rb") as f:
            data = f.read()
        with tempfile.TemporaryDirectory() as folder:
            for name, text, refused in (("rank0.json", data[:-40], True), ("rank0.json", data + b"}", True),
                                        ("rank0.json", data + b",\n", False), ("rank0.json.gz", gzip.compress(data), False)):
                with self.subTest(name=name, size=len(text)):
                    path = os.path.join(folder, name)
                    with open(path, "wb") as f:
                        f.write(text)
                    done = subprocess.run([GORDIAN, "analyze", path], capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, 2 if refused else 3, done.stdout + done.stderr)
                    self.assertEqual("the file was cut there" in done.stderr, refused, done.stderr)
                    os.remove(path)

    def test_the_calls_say_whose_trace_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(4):
                with open(os.path.join(self.folder("kind/execution"), f"pytorch_et_rank{rank}.json"), "rb") as f:
                    data = f.read()
                with open(os.path.join(folder, "worker" + "abcd"[3 - rank] + ".json"), "wb") as f:
                    f.write(data)
            self.assertEqual(self.verdict(folder)[1]["culprit_ranks"], [2])

    # PyTorch 2.11 writes no `Seq` into the profiler's traces.
    def test_profiler(self):
        for job in ("healthy", "graph"):
            with self.subTest(job):
                verdict, err = self.says(job + "/profiler", NOTHING)
                self.assertIn("The ranks agree on the", verdict["summary"])
                self.assertRegex(err, "traces of PyTorch's profiler, [0-9]+ collectives")
        verdict, _ = self.says("kind/profiler", NOTHING)
        self.assertIn("the orders on means part at operation", verdict["summary"])
        self.assertIn("ranks 0, 1 and 3 have all_reduce; rank 2 has broadcast", verdict["summary"])
        self.assertTrue(any("ExecutionTraceObserver" in line for line in verdict["evidence"]["not_visible"]))

    def test_dumps(self):
        for job, expected in (("healthy", NOTHING),
                              ("kind", (1, "mismatch", "mismatch-kind", [2])),
                              ("stall", (1, "rank_not_joined", "rank-not-joined", [2])),
                              ("order", (1, "deadlock", "communicator-order-cycle", [2])),
                              ("timed", (1, "deadlock", "communicator-order-cycle", [2])),
                              # Rank 2 is still inside of its call: NCCL connects there, and waits for the others.
                              ("cold", (1, "deadlock", "communicator-order-cycle", [2])),
                              ("timeout", NOTHING)):
            with self.subTest(job):
                verdict, _ = self.says(job + "/dumps", expected)
                operations = [(one["comm_name"], one["seq"]) for one in verdict["operations"]]
                self.assertEqual(len(set(operations)), len(operations), operations)
                if verdict["cycle"]:
                    self.assertEqual([edge["waits_for_rank"] for edge in verdict["cycle"]], [2, 0])
                    self.assertEqual(verdict["victim_ranks"], [0, 1, 3])

    # Of what `cold` has open only the call that NCCL has not come back from tells that rank 2 waits.
    def test_a_dump_that_counts_the_call_as_enqueued_says_that_it_is_done(self):
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(4):
                with open(os.path.join(self.folder("cold/dumps"), f"nccl_trace_rank_{rank}"), "rb") as f:
                    dump = pickle.load(f)
                for status in dump["pg_status"].values():
                    if rank == 2 and status["last_enqueued_collective"] == 1:
                        status["last_enqueued_collective"] = 2
                with open(os.path.join(folder, f"nccl_trace_rank_{rank}"), "wb") as f:
                    pickle.dump(dump, f, protocol=2)
            self.assertNotEqual(self.verdict(folder)[1]["verdict"], "deadlock")

    def test_ras(self):
        for job, expected in (("kind", (1, "mismatch", "mismatch-kind", [2])),
                              ("stall", (1, "rank_not_joined", "rank-not-joined", [2])),
                              ("order", (1, "deadlock", "communicator-order-cycle", [0, 1, 2, 3])),
                              # NCCL counts an operation when it launches it, and rank 2 still connects.
                              ("cold", (1, "rank_not_joined", "rank-not-joined", [2])),
                              ("killed", (3, "inconclusive", "evidence-missing", []))):
            with self.subTest(job):
                _, err = self.says(job + "/ras", expected)
                self.assertIn("2 reports of NCCL RAS, NCCL 2.28.9", err)
                # Rank 2 had ended: NCCL leaves out a comma there.
                self.assertEqual(re.search("put in ([0-9]+) commas", err) is not None, job == "killed", err)

    def test_a_benchmark_of_execution_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([GORDIAN, "replay", self.folder("healthy/execution"), "--all-steps", "-o",
                                   os.path.join(folder, "out")], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.listdir(os.path.join(folder, "out")))


if __name__ == "__main__":
    GORDIAN = sys.argv.pop(1)
    unittest.main(verbosity=2)
