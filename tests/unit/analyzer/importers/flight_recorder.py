#!/usr/bin/env python3
"""Flight Recorder dumps, as Python writes them, through `gordian analyze`.

  flight_recorder.py GORDIAN

GORDIAN_TEST_TRACES names a folder that holds flight-recorder/SET/ with real dumps, whose truth is below;
without it these are skipped, and said to be.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

GORDIAN = ""
REAL = {"gpu_error_2nd": [9, 14], "lock_gil_1st": [9, 14]}


def analyze(path):
    done = subprocess.run([GORDIAN, "analyze", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def entry(record, group, seq, name="nccl:all_reduce", p2p=False, state="scheduled", numel=16):
    return {"record_id": record, "pg_id": int(group), "process_group": (group, "desc " + group),
            "collective_seq_id": 0 if p2p else seq, "p2p_seq_id": seq if p2p else 0, "op_id": record,
            "profiling_name": name, "time_created_ns": 1, "input_sizes": [[numel]], "input_dtypes": ["Float"],
            "output_sizes": [[numel]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": p2p,
            "frames": [{"name": "step", "filename": "/x/train.py", "line": 7}]}


def dump(groups, entries, status, version="2.9"):
    return {"version": version, "nccl_version": "2.27.3", "entries": entries,
            "pg_config": {g: {"name": g, "desc": "desc " + g, "ranks": str(r)} for g, r in groups.items()},
            "pg_status": {g: {"last_enqueued_collective": s[0], "last_started_collective": -1,
                              "last_completed_collective": s[1]} for g, s in status.items()}}


def write(folder, dumps, protocol=2, prefix="_dump_"):
    for rank, what in dumps.items():
        if protocol == "json":
            with open(os.path.join(folder, f"{prefix}{rank}.json"), "w", encoding="utf-8") as f:
                json.dump(what, f)
        else:
            with open(os.path.join(folder, f"{prefix}{rank}"), "wb") as f:
                pickle.dump(what, f, protocol=protocol)


# Tensor-parallel pairs and a data-parallel group of all; rank 2 has stopped calling, its pair waits for it and
# all others for that.
def lagging(version="2.9"):
    groups = {"0": [0, 1, 2, 3], "1": [0, 1], "2": [2, 3]}
    mine = {r: {g: m for g, m in groups.items() if r in m} for r in range(4)}
    return {0: dump(mine[0], [entry(90, "0", 7)], {"0": (7, 6), "1": (40, 40)}, version),
            1: dump(mine[1], [entry(90, "0", 7)], {"0": (7, 6), "1": (40, 40)}, version),
            2: dump(mine[2], [], {"0": (6, 6), "2": (39, 39)}, version),
            3: dump(mine[3], [entry(88, "2", 40)], {"0": (6, 6), "2": (40, 39)}, version)}


class Dumps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gordian-flight-")
        self.path = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def test_every_protocol_and_json(self):
        for version in ("2.0", "2.4", "2.9", "2.10", "2.12"):
            for protocol in (2, 3, 4, 5, "json"):
                with self.subTest(protocol=protocol, version=version), tempfile.TemporaryDirectory() as path:
                    write(path, lagging(version), protocol)
                    code, verdict, _ = analyze(path)
                    self.assertEqual(code, 1)
                    self.assertEqual(verdict["verdict"], "rank_not_joined")
                    self.assertEqual(verdict["confidence"], "suspected")
                    self.assertEqual(verdict["culprit_ranks"], [2])
                    self.assertEqual(verdict["victim_ranks"], [0, 1, 3])

    def test_prefixes_of_other_writers(self):
        write(self.path, lagging(), prefix="nccl_trace_rank_")
        self.assertEqual(analyze(self.path)[1]["culprit_ranks"], [2])

    def test_any_backend(self):
        for backend in ("nccl2", "ncclx", "xccl", "gloo", "my-own_backend"):
            with self.subTest(backend), tempfile.TemporaryDirectory() as path:
                groups = {"5": [0, 1]}
                write(path, {0: dump(groups, [entry(3, "5", 12, backend + ":send 0->1", True)], {"5": (12, 11)}),
                             1: dump(groups, [], {"5": (11, 11)})})
                verdict = analyze(path)[1]
                self.assertEqual(verdict["culprit_ranks"], [1])
                self.assertEqual(verdict["operations"][0]["op"], "send")

    def test_what_is_retired_is_complete(self):
        retired = dict(entry(80, "2", 38), retired=True)  # its state was never asked for
        dumps = lagging()
        dumps[3]["entries"].insert(0, retired)
        write(self.path, dumps)
        self.assertEqual(analyze(self.path)[1]["culprit_ranks"], [2])
        # Open, it would be one that rank 2 is done with.
        groups = {"0": [0, 1]}
        for state, verdict in ((True, "inconclusive"), (False, "stuck_kernel")):
            with self.subTest(state), tempfile.TemporaryDirectory() as path:
                write(path, {0: dump(groups, [dict(entry(1, "0", 4), retired=state), entry(2, "0", 5)], {"0": (5, 3)}),
                             1: dump(groups, [entry(2, "0", 5)], {"0": (5, 4)})})
                self.assertEqual(analyze(path)[1]["verdict"], verdict)

    def test_what_the_device_has_begun(self):
        groups = {"1": [0, 1], "2": [0, 1]}

        def opposite(first, second):
            return {0: dump(groups, [entry(1, "1", 4, state=first), entry(2, "2", 4, state=second)], {}),
                    1: dump(groups, [entry(1, "2", 4, state=first), entry(2, "1", 4, state=second)], {})}

        for first, second, expected in (("started", "scheduled", "deadlock"), ("scheduled", "scheduled", "inconclusive"),
                                        ("started", "started", "inconclusive")):
            with self.subTest(first=first, second=second), tempfile.TemporaryDirectory() as path:
                write(path, opposite(first, second))
                verdict = analyze(path)[1]
                self.assertEqual(verdict["verdict"], expected)
                self.assertEqual(verdict["confidence"], "suspected")
                self.assertEqual(verdict["culprit_ranks"], [0, 1] if expected == "deadlock" else [])
                self.assertEqual([edge["comm_name"] for edge in verdict["cycle"]],
                                 ["desc 1", "desc 2"] if expected == "deadlock" else [])
        # In the same order, with one rank further: no cycle.
        with tempfile.TemporaryDirectory() as path:
            dumps = opposite("started", "scheduled")
            dumps[1] = dump(groups, [entry(1, "1", 4, state="started"), entry(2, "2", 4)], {})
            write(path, dumps)
            self.assertEqual(analyze(path)[1]["verdict"], "inconclusive")

    def test_who_departs_is_blamed(self):
        # Ranks 0 to 2 call group 1 and then 2, rank 3 the other way round. Each stands in its first, and the second
        # of 0 to 2, which all of them have behind that, is no cycle of theirs.
        groups = {"1": [0, 1, 2, 3], "2": [0, 1, 2, 3]}

        def order(rank, first, second):
            return dump(groups, [entry(1, first, 4, state="started"), entry(2, second, 4)], {})

        write(self.path, {rank: order(rank, *(("2", "1") if rank == 3 else ("1", "2"))) for rank in range(4)})
        verdict = analyze(self.path)[1]
        self.assertEqual((verdict["verdict"], verdict["culprit_ranks"], verdict["victim_ranks"]),
                         ("deadlock", [3], [0, 1, 2]), verdict["summary"])
        self.assertIn(3, [edge["rank"] for edge in verdict["cycle"]])
        # Two against two: nothing tells who departs.
        write(self.path, {2: order(2, "2", "1")})
        culprits = analyze(self.path)[1]["culprit_ranks"]
        self.assertEqual((len(culprits), culprits[0] < 2, culprits[1] >= 2), (2, True, True))

    def test_a_batch_has_no_peer_at_its_end(self):
        groups = {"5": [0, 1]}
        batch = [entry(3, "5", 12, "nccl:send 0->1", True), entry(4, "5", 12, "nccl:recv 0<-1", True),
                 entry(5, "5", 12, "nccl:coalesced", True)]
        write(self.path, {0: dump(groups, batch, {"5": (12, 11)}), 1: dump(groups, [], {"5": (11, 11)})})
        verdict = analyze(self.path)[1]
        self.assertEqual(verdict["culprit_ranks"], [1])
        self.assertFalse([text for text in verdict["evidence"]["not_visible"] if "peers" in text])

    def test_two_sets_in_one_folder_are_refused(self):
        write(self.path, lagging())
        write(self.path, lagging(), prefix="comm_lib_trace_rank_")
        code, _, err = analyze(self.path)
        self.assertEqual(code, 2)
        self.assertIn("comm_lib_trace_rank_*", err)

    def test_a_broken_dump_is_named(self):
        write(self.path, lagging())
        with open(os.path.join(self.path, "_dump_1"), "r+b") as f:
            f.truncate(100)
        code, _, err = analyze(self.path)
        self.assertEqual(code, 2)
        self.assertIn("_dump_1", err)

    def test_nothing_is_called(self):
        trap = os.path.join(self.path, "called")

        class Evil:
            def __reduce__(self):
                return os.mkdir, (trap,)

        write(self.path, lagging())
        with open(os.path.join(self.path, "_dump_3"), "wb") as f:
            pickle.dump(dict(lagging()[3], extra=Evil()), f, protocol=2)
        code, _, err = analyze(self.path)
        self.assertEqual(code, 2)
        self.assertIn("GLOBAL", err)
        self.assertFalse(os.path.exists(trap))

    def test_pipeline_of_pairs(self):
        # Rank 0 waits for the activations of rank 1, which is in a host loop: its send was not called.
        groups = {"5": [0, 1]}
        write(self.path, {0: dump(groups, [entry(3, "5", 12, "nccl:recv 0<-1", True)], {"5": (12, 11)}),
                          1: dump(groups, [], {"5": (11, 11)})})
        self.assertEqual(analyze(self.path)[1]["culprit_ranks"], [1])

    def test_numbers_of_sends_in_larger_groups_are_each_rank_s_own(self):
        # Rank 1 receives from 0 and sends to 2: its twelfth is rank 0's sixth. Nobody is to be blamed.
        groups = {"5": [0, 1, 2]}
        write(self.path, {0: dump(groups, [], {"5": (6, 6)}),
                          1: dump(groups, [entry(3, "5", 12, "nccl:recv 1<-0", True),
                                           entry(4, "5", 13, "nccl:send 1->2", True)], {"5": (13, 11)}),
                          2: dump(groups, [entry(4, "5", 7, "nccl:recv 2<-1", True)], {"5": (7, 6)})})
        self.assertEqual(analyze(self.path)[1]["culprit_ranks"], [])

    def test_real_dumps(self):
        traces = os.environ.get("GORDIAN_TEST_TRACES")
        if not traces:
            self.skipTest("GORDIAN_TEST_TRACES names no folder of real dumps")
        for name, culprits in REAL.items():
            with self.subTest(set=name):
                code, verdict, _ = analyze(os.path.join(traces, "flight-recorder", name))
                self.assertEqual(code, 1)
                self.assertEqual(verdict["culprit_ranks"], culprits)
                self.assertEqual(verdict["confidence"], "suspected")
                self.assertFalse(set(culprits) & set(verdict["victim_ranks"]))


if __name__ == "__main__":
    GORDIAN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
