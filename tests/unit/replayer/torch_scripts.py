#!/usr/bin/env python3
"""Runs the golden replays for torchrun, each rank by itself, with a torch that notes what is called.

  torch_scripts.py GOLDEN_FOLDER
"""

import glob
import json
import os
import py_compile
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = sys.argv.pop(1)
FOR_EVER = {"missing_rank": 1, "missing_send": 1}  # which rank does not come to its end, whatever torch does


def ranks_of(script):
    with open(script) as f:
        return f.read().count("\ndef rank_")


class Run:
    """What one rank did."""

    def __init__(self, script, rank, stuck=None, arguments=()):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "fake_torch"), "PYTHONDONTWRITEBYTECODE": "1",
                           "FAKE_TORCH_LOG": log, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks_of(script))}
            environment.pop("FAKE_TORCH_STUCK", None)
            if stuck:
                environment["FAKE_TORCH_STUCK"] = stuck
            done = subprocess.run([sys.executable, script, *arguments], env=environment, capture_output=True, text=True, timeout=60)
            self.code, self.err = done.returncode, done.stderr
            with open(log) as f:
                self.calls = [json.loads(line) for line in f]

    def after_groups(self):
        """Calls of the rank's function, as "name arguments"."""
        last = max((i for i, call in enumerate(self.calls) if call[2] == "new_group"), default=-1)
        return [" ".join(call[2:]) for call in self.calls[last + 1:]]


class TorchScripts(unittest.TestCase):
    def script(self, name):
        return os.path.join(GOLDEN, name + ".py")

    def test_all_compile_and_come_to_their_ends(self):
        scripts = sorted(glob.glob(os.path.join(GOLDEN, "*.py")))
        self.assertGreaterEqual(len(scripts), 12)
        for script in scripts:
            name = os.path.basename(script)[:-3]
            with self.subTest(script=name), tempfile.TemporaryDirectory() as folder:
                py_compile.compile(script, cfile=os.path.join(folder, "c"), doraise=True)
                for rank in range(ranks_of(script)):
                    ends = FOR_EVER.get(name) != rank
                    run = Run(script, rank, arguments=[] if ends else ["--patience", "0.3"])
                    self.assertEqual(run.code, 0 if ends else 42, run.err)

    def test_an_inversion_calls_in_opposite_orders_on_one_stream(self):
        reduce = "all_reduce {0 1} 2 float32 sum"
        for rank in range(2):
            run = Run(self.script("inversion_one_stream"), rank)
            # Both groups are connected before; both reductions are on one stream; the rank waits at its end.
            self.assertEqual(run.after_groups()[-3:], [reduce, reduce, "synchronize"])
            self.assertEqual({call[1] for call in run.calls[-3:-1]}, {"stream1"})

        def groups(rank):
            with open(self.script("inversion_one_stream")) as f:
                body = f.read().split(f"def rank_{rank}():")[1].split("\n\n")[0]
            return [line.split("group=")[1].rstrip(")") for line in body.splitlines() if "group=" in line]
        self.assertEqual(groups(0), ["dp", "tp"])
        self.assertEqual(groups(1), ["tp", "dp"])

    def test_events_join_streams_the_opposite_way(self):
        for rank, first, second in ((0, "stream1", "stream2"), (1, "stream2", "stream1")):
            run = Run(self.script("event_cycle"), rank)
            calls = run.calls[-5:-1]
            self.assertEqual([call[2] for call in calls], ["all_reduce", "record", "wait_event", "all_reduce"])
            self.assertEqual([calls[0][1], calls[1][3], calls[2][3], calls[3][1]], [first, first, second, second])

    def test_a_transfer_stays_on_its_group(self):
        run = Run(self.script("receive_first"), 0)
        self.assertEqual(run.after_groups()[-3:-1], ["batch {0 1} irecv 2 float32 1", "batch {0 1} isend 2 float32 1"])

    def test_gates_hold_a_thread_back(self):
        for rank, order in ((1, [2, 1]),):
            run = Run(self.script("two_threads"), rank)
            reductions = [call[0] for call in run.calls if call[2] == "all_reduce"][-2:]
            self.assertNotEqual(reductions[0], "MainThread")
            self.assertEqual(reductions[1], "MainThread", order)

    def test_a_graph_is_captured_and_launched(self):
        run = Run(self.script("graph_order"), 1)
        self.assertEqual([call[2] for call in run.calls[-6:]],
                         ["capture_begin", "all_reduce", "all_reduce", "capture_end", "replay", "synchronize"])
        self.assertEqual({call[1] for call in run.calls[-6:-1]}, {"stream1"})

    def test_all_that_there_is(self):
        runs = [Run(self.script("all_that_there_is"), rank) for rank in range(3)]
        names = {call[2] for run in runs for call in run.calls}
        self.assertLessEqual({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "batch",
                              "zero_", "record", "wait_event", "Event.synchronize", "Event.query", "empty_cache", "synchronize", "cpu"}, names)
        grouped = [call for call in runs[0].calls if call[2] == "batch" and len(call) == 6]
        self.assertEqual([call[3:] for call in grouped], [["{0 1 2}", "isend 1024 float32 1", "irecv 1024 float32 2"]])
        # A place in a group is not a rank of the job: the second member of `pair` is rank 2.
        self.assertIn("batch {0 2} isend 1024 float32 2", runs[0].after_groups())

    def test_who_is_stuck_says_where(self):
        for rank in range(2):
            run = Run(self.script("inversion_synchronise"), rank, stuck="Stream.synchronize", arguments=["--patience", "0.3"])
            self.assertEqual(run.code, 42, run.err)
            self.assertIn(f"reproduced: rank {rank} has made no step", run.err)
            self.assertIn(f"s{rank + 1}.synchronize()", run.err)

    def test_what_else_goes_wrong_is_3(self):
        environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "fake_torch"), "FAKE_TORCH_LOG": "/nowhere/log", "RANK": "0",
                       "LOCAL_RANK": "0", "WORLD_SIZE": "2", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, self.script("inversion_one_stream")], env=environment, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
