#!/usr/bin/env python3
"""Flight Recorder dumps, as Python writes them, through `gordian replay`: the program is compiled, hangs under the
emulator and is told as what the dumps show.

  flight_replay.py GORDIAN

GORDIAN_TEST_TRACES names a folder that holds flight-recorder/SET/ with real dumps, whose truth is in flight_recorder.py;
without it these are skipped, and said to be.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import flight_recorder
from flight_recorder import dump, entry, lagging, write

GORDIAN = ""
RUNS = 2


def run(*command, seconds=100):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds, check=False)


def missing_call(called):
    """Ranks 0 and 1 wait for rank 2, which has nothing open. Twin: it has called, and all is done."""
    groups = {"0": [0, 1, 2]}
    state = "completed" if called else "scheduled"
    dumps = {r: dump(groups, [entry(9, "0", 4, "nccl:_all_gather_base", state=state)], {"0": (4, 4 if called else 3)}) for r in (0, 1)}
    dumps[2] = dump(groups, [entry(9, "0", 4, "nccl:_all_gather_base", state=state)] if called else [], {"0": (4, 4) if called else (3, 3)})
    return dumps


def crossed(in_order):
    """Rank 0 is in its fifth all-reduce of one group, rank 1 in the eighth of the other. Twin: both in the same, done."""
    groups = {"1": [0, 1], "2": [0, 1]}
    if in_order:
        done = [entry(20, "1", 5, state="completed"), entry(21, "2", 8, state="completed")]
        return {r: dump(groups, done, {"1": (5, 5), "2": (8, 8)}) for r in (0, 1)}
    return {0: dump(groups, [entry(20, "1", 5)], {"1": (5, 4), "2": (7, 7)}),
            1: dump(groups, [entry(20, "2", 8)], {"1": (4, 4), "2": (8, 7)})}


def wrong_call(same):
    """Rank 2 calls another collective than the others. Twin: the same one, and all is done."""
    groups = {"0": [0, 1, 2]}
    state = "completed" if same else "scheduled"
    status = {"0": (6, 6 if same else 5)}
    dumps = {r: dump(groups, [entry(9, "0", 6, state=state)], status) for r in (0, 1)}
    dumps[2] = dump(groups, [entry(9, "0", 6, "nccl:all_reduce" if same else "nccl:broadcast", state=state)], status)
    return dumps


class Replays(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gordian-flight-replay-")
        self.dumps = os.path.join(self.folder.name, "dumps")
        self.out = os.path.join(self.folder.name, "replay")
        os.mkdir(self.dumps)

    def tearDown(self):
        self.folder.cleanup()

    def replay(self, path, *more):
        done = run(GORDIAN, "replay", path, "-o", self.out, "--json", *more)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def hangs(self, dumps, verdicts):
        write(self.dumps, dumps)
        code, told, err = self.replay(self.dumps, "--verify", str(RUNS))
        self.assertEqual(code, 0, err)
        self.assertEqual(told["verified"]["hung"], RUNS)
        self.assertEqual(told["verified"]["same"], RUNS)
        self.assertIn(told["signature"]["verdict"], verdicts)
        self.assertTrue(any("no more than suspected" in note for note in told["notes"]))
        with open(told["program"], encoding="utf-8") as f:
            text = f.read()
        self.assertIn(", suspected", text.split("#include")[0])
        self.assertIn("// train.py:7 step", text)

    def refused(self, dumps, why):
        write(self.dumps, dumps)
        code, told, err = self.replay(self.dumps)
        self.assertEqual(code, 3, err)
        self.assertFalse(told["replayed"])
        self.assertIn(why, told["refused"][0])
        self.assertFalse(os.path.exists(self.out))

    def test_a_missing_call_hangs(self):
        self.hangs(missing_call(False), ("rank_not_joined", "host_blocked"))

    def test_a_missing_call_twin(self):
        self.refused(missing_call(True), "show no hang")

    def test_a_lagging_rank_hangs(self):
        self.hangs(lagging(), ("rank_not_joined", "host_blocked"))

    def test_crossed_groups_hang(self):
        self.hangs(crossed(False), ("deadlock",))

    def test_crossed_groups_twin(self):
        self.refused(crossed(True), "show no hang")

    def test_a_wrong_call_hangs(self):
        self.hangs(wrong_call(False), ("mismatch",))

    def test_a_wrong_call_twin(self):
        self.refused(wrong_call(True), "show no hang")

    def test_a_rank_without_a_dump_is_not_guessed(self):
        dumps = missing_call(False)
        del dumps[2]
        self.refused(dumps, "rank 2")

    def test_reports_without_an_order_are_refused(self):
        with open(os.path.join(self.dumps, "x.json"), "w", encoding="utf-8") as f:
            f.write('{"header":{"id":"0x1","rank":0,"n_ranks":2,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.2",'
                    '"git_rev":"","rec_mechanism":"x","dump_timestamp_us":1,"hostname":"h","pid":1},'
                    '"coll_perf":{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":8,"coll_exec_time_us":1}}\n')
        code, told, err = self.replay(self.dumps)
        self.assertEqual(code, 3, err)
        self.assertIn("no order of calls", told["refused"][0])

    def test_a_broken_dump_is_named(self):
        write(self.dumps, lagging())
        with open(os.path.join(self.dumps, "_dump_1"), "r+b") as f:
            f.truncate(100)
        code, _, err = self.replay(self.dumps)
        self.assertEqual(code, 2)
        self.assertIn("_dump_1", err)

    def test_real_dumps(self):
        traces = os.environ.get("GORDIAN_TEST_TRACES")
        if not traces:
            self.skipTest("GORDIAN_TEST_TRACES names no folder of real dumps")
        for name, culprits in flight_recorder.REAL.items():
            with self.subTest(set=name):
                code, told, err = self.replay(os.path.join(traces, "flight-recorder", name), "--verify", str(RUNS))
                self.assertEqual(code, 0, err)
                self.assertEqual(told["verified"]["hung"], RUNS)
                self.assertEqual(told["verified"]["same"], RUNS)
                self.assertEqual(told["ranks"], {"recorded": 16, "replay": 16})
                # The program blames whom the dumps' truth blames.
                hung = run(GORDIAN, "run", "--emulator", "--session", os.path.join(self.folder.name, name + ".session"),
                           "--suspect-after", "3", "--", os.path.join(self.out, "replay"), "--patience", "8")
                self.assertEqual(hung.returncode, 42, hung.stderr)
                self.assertIn("cause: look at ranks " + " and ".join(map(str, culprits)) + " first", hung.stderr)


if __name__ == "__main__":
    GORDIAN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
