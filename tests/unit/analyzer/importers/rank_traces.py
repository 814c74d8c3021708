#!/usr/bin/env python3
"""Traces of PyTorch's profiler (Kineto) and of Chakra through `gordian analyze`, and what other verbs say of them.

  rank_traces.py GORDIAN
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

GORDIAN = ""


def gordian(*arguments):
    done = subprocess.run([GORDIAN, *arguments], capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout, done.stderr


def call(number, name="allreduce", elements=1 << 20, group="0", ranks=(0, 1, 2, 3), us=30):
    args = {"External id": 50 + number, "Record function id": 0, "Ev Idx": number, "Collective name": name,
            "In msg nelems": elements, "Out msg nelems": elements, "Group size": len(ranks), "dtype": "BFloat16",
            "In split size": "[]", "Out split size": "[]", "Process Group Name": group,
            "Process Group Description": "default_pg", "Process Group Ranks": str(list(ranks)), "Rank": 0, "Seq": number}
    kernel = {key: args[key] for key in args if key not in ("Record function id", "Ev Idx", "Rank")}
    return [{"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": 7, "tid": 7, "ts": 100.5 * number, "dur": 4},
            {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7, "tid": 7, "ts": 100.5 * number, "dur": 3,
             "args": args},
            {"ph": "s", "id": 50 + number, "pid": 7, "tid": 7, "ts": 100.5 * number, "cat": "ac2g", "name": "ac2g"},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 20,
             "ts": 100.5 * number + 9, "dur": us, "args": dict(kernel, stream=20, device=0)}]


def kineto(rank, calls, world=4):
    config = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": world, "ranks": []}]
    return {"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, "pg_count": 1, "pg_config": config,
                                "nccl_version": "2.27.5"},
            "displayTimeUnit": "ms", "baseTimeNanoseconds": 1700000000000000000,
            "traceEvents": [event for one in calls for event in one], "traceName": "trace.json"}


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def delimited(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def node(number, kind=0, size=4096, group="tp"):
    def attribute(name, value):
        return delimited(10, delimited(1, name.encode()) + value)
    data = varint(1 << 3) + varint(number + 1) + delimited(2, b"ncclDevKernel_AllReduce") + varint(3 << 3) + varint(7) + \
        attribute("comm_type", varint(9 << 3) + varint(kind)) + attribute("comm_size", varint(9 << 3) + varint(size)) + \
        attribute("pg_name", delimited(29, group.encode()))
    return varint(len(data)) + data


def chakra(nodes):
    metadata = delimited(2, delimited(1, b"schema") + delimited(29, b"1.1.1-chakra.0.0.4"))
    return varint(len(metadata)) + metadata + b"".join(nodes)


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gordian-traces-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def kineto(self, rank, calls, packed=False):
        name = self.path(f"node_{4711 + rank}.1700000000.pt.trace.json" + (".gz" if packed else ""))
        with (gzip.open if packed else open)(name, "wt", encoding="utf-8") as f:
            json.dump(kineto(rank, calls), f, indent=1)
        return name

    def verdict(self, *paths):
        code, out, err = gordian("analyze", "--json", *paths)
        self.assertTrue(out, err)
        return code, json.loads(out), err

    def test_a_mismatch_and_its_innocent_twin(self):
        for third, expected in (("broadcast", (1, "mismatch", "mismatch-kind", [2])),
                                ("allreduce", (3, "inconclusive", "evidence-missing", []))):
            for rank in range(4):
                name = third if rank == 2 else "allreduce"
                self.kineto(rank, [call(5), call(6), call(7, name), call(8)], packed=rank == 1)
            code, verdict, err = self.verdict(self.folder)
            self.assertEqual((code, verdict["verdict"], verdict["check"], verdict["culprit_ranks"]), expected, err)
            self.assertEqual(verdict["confidence"], "suspected")
            self.assertEqual(verdict["cycle"], [])
            self.assertIn("hangs", verdict["evidence"]["not_visible"][0])
            self.assertIn("4 traces of PyTorch's profiler, 16 collectives", err)
            os.remove(self.path("node_4712.1700000000.pt.trace.json.gz"))

    def test_windows_that_end_elsewhere_blame_nobody(self):
        for rank in range(4):
            self.kineto(rank, [call(number) for number in range(5 + rank, 12 - (rank == 3))])
        code, verdict, _ = self.verdict(self.folder)
        self.assertEqual((code, verdict["culprit_ranks"], verdict["findings"]), (3, [], []))
        self.assertIn("rank 3 recorded nothing on default_pg behind #10, others up to #11", verdict["summary"].lower())

    def test_several_paths(self):
        paths = [self.kineto(rank, [call(5), call(6, elements=8 + rank // 3)]) for rank in range(4)]
        code, verdict, _ = self.verdict(*paths)
        self.assertEqual((code, verdict["check"], verdict["culprit_ranks"]), (1, "mismatch-count", [3]))
        code, _, err = gordian("analyze", paths[0], GORDIAN)
        self.assertEqual(code, 2)
        self.assertIn(GORDIAN + " is none of the files", err)

    def test_chakra(self):
        for rank in range(2):
            with open(self.path(f"job.{rank}.et"), "wb") as f:
                f.write(chakra([node(0), node(1, kind=5 * rank), node(2)]))
        code, verdict, err = self.verdict(self.folder)
        self.assertEqual((code, verdict["verdict"], verdict["culprit_ranks"]), (3, "inconclusive", []), err)
        self.assertIn("part at operation 2", verdict["summary"])

    def test_bad_files_are_named_with_their_byte(self):
        path = self.kineto(0, [call(5)])
        with open(path, "rb+") as f:
            f.truncate(700)
        code, _, err = gordian("analyze", self.folder)
        self.assertEqual(code, 2)
        self.assertIn(path + " cannot be read as a trace of PyTorch's profiler: byte 70", err)
        os.remove(path)
        with open(self.path("job.0.et"), "wb") as f:
            f.write(chakra([node(0), node(1)])[:-1])
        code, _, err = gordian("analyze", self.folder)
        self.assertEqual(code, 2)
        self.assertIn("job.0.et cannot be read as a trace of Chakra: byte", err)
        self.assertIn("node 2", err)

    def test_other_verbs_refuse_by_name(self):
        path = self.kineto(0, [call(5)])
        for verb, expected in ((["replay", self.folder, "-o", self.path("out")], 3), (["predict", self.folder], 3),
                               (["plan", self.folder], 2), (["plan", path], 2),
                               (["export", self.folder, "-f", "fr", "-o", self.path("out")], 2)):
            with self.subTest(verb=verb[0]):
                code, _, err = gordian(*verb)
                self.assertEqual(code, expected, err)
                self.assertIn(verb[1], err)
                self.assertIn("gordian", err.split(":", 1)[1])
        code, out, err = gordian("predict", "--json", self.folder)
        self.assertEqual((code, json.loads(out)["judged"]), (3, False), err)

    def times(self):
        code, out, err = gordian("plan", self.folder, "--collectives", "--json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        self.assertEqual(report["schema"], "gordian.collectives.v1")
        return [(row["communicator"], row["operation"], row["ranks"], row["bytes"], row["instances"], row["measured"],
                 row["median_us"], row["best_us"], row["worst_us"], row["late_rank"]) for row in report["collectives"]]

    def test_times_of_collectives(self):
        # The rank that comes last waits for no other: its kernel is the shortest.
        for rank in range(4):
            self.kineto(rank, [call(5), call(6, us=90.5 - 10 * rank), call(7, us=40 + 10 * rank), call(8, us=50 + rank),
                               call(9, "_reduce_scatter_base", elements=64, us=20 if rank == 2 else 25)])
        self.assertEqual(self.times(), [
            ("default_pg", "AllReduce", 4, 2 << 20, 3, 3, 50, 40, 60.5, -1),
            ("default_pg", "ReduceScatter", 4, 4 * 2 * 64, 1, 1, 20, 20, 20, -1)])
        code, out, err = gordian("plan", self.folder, "--collectives")
        self.assertEqual(code, 0, err)
        self.assertIn("measured  50.0 us (40.0 us to 60.5 us, 3 of them)", out)
        # Without rank 3's trace, all that are known may have waited for it.
        os.remove(self.path("node_4714.1700000000.pt.trace.json"))
        self.assertEqual([row[4:6] for row in self.times()], [(3, 0), (1, 0)])
        self.assertIn("unknown: not every member's trace holds its kernel", gordian("plan", self.folder, "--collectives")[1])

    def test_batches_have_no_times(self):
        for rank in range(2):
            batch = [call(6, "_reduce_scatter_base", ranks=(0, 1)), call(6, ranks=(0, 1))]
            self.kineto(rank, [call(5, ranks=(0, 1)), *batch, call(7, ranks=(0, 1))])
        self.assertEqual([row[1:6] for row in self.times()], [("AllReduce", 2, 2 << 20, 1, 1)])
        self.assertIn("left out 2 operations", gordian("plan", self.folder, "--collectives")[2])

    def test_a_benchmark_of_what_all_members_recorded(self):
        for rank in range(4):
            pair = (rank // 2 * 2, rank // 2 * 2 + 1)
            name = "1" if rank < 2 else "2"
            own = [call(number, elements=1024, group=name, ranks=pair) for number in (3, 4, 5)]
            for one in own:  # each rank numbers the calls of each group
                one[1]["args"]["Process Group Description"] = "tp"
                one[1]["ts"] += 2000
                one[1]["args"]["External id"] += 1000
            self.kineto(rank, [call(5), call(6, elements=4096), call(7, "broadcast", elements=64),
                               *own, *([call(8)] if rank else [])])
        out = self.path("out")
        code, text, err = gordian("replay", self.folder, "--all-steps", "-o", out, "--verify", "1", "--json")
        self.assertEqual(code, 0, err)
        report = json.loads(text)
        # Of 8 operations those that all members recorded, with the number before: 2 of all, 2 of each pair.
        self.assertEqual(report["ranks"], {"recorded": 4, "replay": 4})
        self.assertEqual(report["operations"], {"recorded": 27, "replay": 4 * 2 + 2 * 2 * 2})
        self.assertEqual(report["verified"], {"runs": 1, "ended": 1})
        self.assertTrue([note for note in report["notes"] if note.startswith("left out: 4 collectives")], report["notes"])
        with open(os.path.join(out, "bench.cc"), encoding="utf-8") as f:
            self.assertIn("guessed: one stream for each process group", f.read())
        code, _, err = gordian("replay", self.folder, "--all-steps", "3..4", "-o", out)
        self.assertEqual(code, 3)
        self.assertIn("knows no steps", err)

    def test_a_benchmark_needs_all_members(self):
        self.kineto(0, [call(5), call(6)])
        code, _, err = gordian("replay", self.folder, "--all-steps", "-o", self.path("out"))
        self.assertEqual(code, 3)
        self.assertIn("no operation is in the traces of all members", err)

    def test_times_of_chakra_are_refused(self):
        with open(self.path("job.0.et"), "wb") as f:
            f.write(chakra([node(0)]))
        code, _, err = gordian("plan", self.folder, "--collectives")
        self.assertEqual(code, 2)
        self.assertIn(self.folder + " holds traces of Chakra", err)

    def test_dumps_beside_traces_come_first(self):
        self.kineto(0, [call(5)])
        entry = {"record_id": 1, "process_group": ["0", "default_pg"], "collective_seq_id": 7, "p2p_seq_id": 0,
                 "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"],
                 "output_sizes": [[4]], "output_dtypes": ["Float"], "state": "scheduled", "is_p2p": False}
        for rank in range(2):
            with open(self.path(f"_dump_{rank}.json"), "w", encoding="utf-8") as f:
                json.dump({"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
                           "pg_status": {}, "entries": [entry]}, f)
        _, _, err = self.verdict(self.folder)
        self.assertIn("2 Flight Recorder dumps", err)


if __name__ == "__main__":
    GORDIAN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
