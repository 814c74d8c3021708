#!/usr/bin/env python3
"""`gordian export`: real jobs under the emulator, in every format, read back.

  export.py BUILD
"""

import csv
import io
import json
import os
import re
import sys
import unittest

import flight_recorder_reader as reader
from export_testing import BUILD, ExportTest, gordian, main

SOURCES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4))
sys.path.insert(0, os.path.join(SOURCES, "tests", "npm"))
import packages  # noqa: E402


class Exports(ExportTest):
    """Dumps, timelines and lists."""

    def dumps(self, session, *options):
        folder = session + ".fr"
        gordian("export", session, "-f", "fr", "-o", folder, *options)
        return folder

    def round_trip(self, job, ranks=2):
        """The reader's answer, and the verdicts on the session and on its dumps."""
        session = self.session(job, ranks)
        folder = self.dumps(session)
        return reader.first_mismatches(*reader.read(folder)), self.verdict(session), self.verdict(folder)

    def test_fr_missing_rank(self):
        mismatches, before, after = self.round_trip("missing_rank", 3)
        self.assertEqual(list(mismatches.values()), [(2, [2], [])])
        self.assertEqual(after["verdict"], "rank_not_joined")
        self.assertEqual(after["culprit_ranks"], before["culprit_ranks"])
        self.assertEqual(after["operations"][0]["comm_name"], before["operations"][0]["comm_name"])

    def test_fr_opposite_orders(self):
        for job in ("inversion_sync", "inversion_one_stream"):  # called by one rank only; called by both
            with self.subTest(job):
                mismatches, before, after = self.round_trip(job)
                self.assertEqual((before["verdict"], after["verdict"]), ("deadlock", "deadlock"))
                self.assertEqual(after["culprit_ranks"], before["culprit_ranks"])
                self.assertEqual({edge["comm_name"] for edge in after["cycle"]}, {edge["comm_name"] for edge in before["cycle"]})
                self.assertEqual(after["confidence"], "suspected")
                self.assertEqual(sorted(number for number, _, _ in mismatches.values()), [2, 2])

    def test_fr_mismatches(self):
        for job, check in (("mismatch_count_hangs", "mismatch-count"), ("mismatch_kind_hangs", "mismatch-kind")):
            with self.subTest(job):
                mismatches, before, after = self.round_trip(job)
                self.assertEqual((before["check"], after["check"]), (check, check))
                self.assertEqual(after["culprit_ranks"], before["culprit_ranks"])
                self.assertEqual([(missing, differing) for _, missing, differing in mismatches.values()], [([], [1])])

    def test_fr_batch(self):
        # Rank 1 leaves a send of a batch out. A dump does not show which of the two transfers a number is of.
        _, _, after = self.round_trip("batch_asymmetric")
        self.assertEqual((after["verdict"], after["culprit_ranks"]), ("inconclusive", []))
        dumps, _ = reader.read(self.session("batch_asymmetric") + ".fr")
        names = [entry["profiling_name"] for entry in dumps[0]["entries"] if entry["is_p2p"]]
        self.assertEqual(names[-3:], ["nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"])

    def test_fr_of_a_job_that_ends(self):
        folder = self.dumps(self.session("inversion_sync", twin=True))
        dumps, groups = reader.read(folder)
        self.assertEqual(reader.first_mismatches(dumps, groups), {})
        self.assertEqual({entry["state"] for dump in dumps.values() for entry in dump["entries"]}, {"completed"})
        self.assertEqual(self.verdict(folder)["verdict"], "inconclusive")

    def test_fr_last_ones(self):
        folder = self.dumps(self.session("inversion_one_stream"), "--last", "1")
        dumps, _ = reader.read(folder)  # all that are unfinished, whatever --last says
        self.assertEqual([[entry["state"] for entry in dump["entries"]] for dump in dumps.values()],
                         [["started", "scheduled"]] * 2)

    def test_dot(self):
        text = gordian("export", self.session("inversion_one_stream"), "-f", "dot").stdout
        labels = dict(re.findall(r'^(\d+)\[label="([^"]*)"', text, re.M))
        edges = [(labels[a], labels[b]) for a, b in re.findall(r"^(\d+)->(\d+)", text, re.M)]
        self.assertIn(("rank 0 ends AllReduce #1 on dp", "all started #1 on dp"), edges)
        # From each start that waits one comes back to it.
        after = {}
        for a, b in edges:
            after.setdefault(a, set()).add(b)
        start = "all started #1 on dp"
        reached, work = set(), [start]
        while work:
            for label in after.get(work.pop(), ()):
                if label not in reached:
                    reached.add(label)
                    work.append(label)
        self.assertIn(start, reached)

    def test_chrome(self):
        path = os.path.join(self.work, "timeline.json")
        said = json.loads(gordian("export", self.session("inversion_one_stream"), "-f", "chrome", "-o", path, "--json").stdout)
        self.assertEqual(said["files"], [path])
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        self.assertEqual({e["args"]["name"] for e in events if e["name"] == "process_name"}, {"rank 0", "rank 1"})
        tracks = {}
        for event in events:
            if event["ph"] == "X":
                tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        self.assertEqual(len(tracks), 2)
        for slices in tracks.values():
            for one, other in zip(slices, slices[1:]):
                self.assertLessEqual(one["ts"] + one["dur"], other["ts"] + 1e-3)
            self.assertEqual([e["args"]["state"] for e in slices], ["done", "done", "started"])
        self.assertEqual([e["args"]["state"] for e in events if e["ph"] == "i"], ["called", "called"])

    def test_what_gordian_reads_back_of_its_own(self):
        for job, twin, check in (("mismatch_count_hangs", False, "mismatch-count"), ("mismatch_kind_hangs", False, "mismatch-kind"),
                                 ("mismatch_count_hangs", True, "evidence-missing")):
            with self.subTest(job, twin=twin):
                session = self.session(job, twin=twin)
                gordian("export", session, "-f", "chakra", "-o", session + ".chakra")
                after = self.verdict(session + ".chakra")
                self.assertEqual((after["check"], after["evidence"]["ranks_seen"]), (check, 2))
                if not twin:
                    before = self.verdict(session)
                    self.assertEqual((before["check"], before["culprit_ranks"]), (check, after["culprit_ranks"]))
                    where = before["operations"][0]
                    self.assertIn(f"#{where['seq']} on {where['comm_name']} ", after["summary"])
        # A timeline lacks types and the members of groups.
        path = os.path.join(self.work, "refused.json")
        gordian("export", session, "-f", "chrome", "-o", path)
        said = gordian("analyze", path, ok=False).stderr
        self.assertIn("gordian exported it", said)
        self.assertIn(path, said)

    def test_jsonl(self):
        session = self.session("missing_rank", 3)
        lines = [json.loads(line) for line in gordian("export", session, "-f", "jsonl").stdout.splitlines()]
        self.assertEqual(lines[0]["schema"], "gordian.operations.v1")
        self.assertEqual([rank["rank"] for rank in lines[0]["ranks"]], [0, 1, 2])
        self.assertEqual([(line["rank"], line["operation"], line["sequence"], line["state"]) for line in lines[1:]],
                         [(0, "AllReduce", 0, "done"), (0, "AllReduce", 1, "started"), (1, "AllReduce", 0, "done"),
                          (1, "AllReduce", 1, "started"), (2, "AllReduce", 0, "done")])
        self.assertTrue(all("job.cc" in line["site"] for line in lines[1:]))

    def test_csv(self):
        session = self.session("missing_rank", 3)
        text = gordian("export", session, "-f", "csv", text=False).stdout.decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual([(row["rank"], row["operation"], row["sequence"], row["state"]) for row in rows],
                         [("0", "AllReduce", "0", "done"), ("0", "AllReduce", "1", "started"), ("1", "AllReduce", "0", "done"),
                          ("1", "AllReduce", "1", "started"), ("2", "AllReduce", "0", "done")])
        self.assertTrue(all("job.cc" in row["site"] and None not in row for row in rows), rows)
        lines = [json.loads(line) for line in gordian("export", session, "-f", "jsonl").stdout.splitlines()[1:]]
        for row, line in zip(rows, lines, strict=True):  # both say the same
            for key in ("member", "count", "datatype", "stream", "thread", "order", "called_ns", "done_ns", "site"):
                self.assertEqual(row[key], str(line[key]), key)

    def spans(self, session):
        """The lines, and rank, trace, span, communicator, sequence and state of each span."""
        lines = gordian("export", session, "-f", "otlp").stdout.splitlines()
        spans = []
        for line in lines:
            (resource,) = json.loads(line)["resourceSpans"]
            for span in resource["scopeSpans"][0]["spans"]:
                says = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
                self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
                self.assertEqual("status" in span, says["gordian.state"] != "done")
                spans.append((int(says["gordian.rank"]), span["traceId"], span["spanId"], says["gordian.communicator"],
                              int(says["gordian.sequence"]), says["gordian.state"]))
        return lines, spans

    def test_otlp(self):
        lines, spans = self.spans(self.session("missing_rank", 3))
        self.assertEqual([(span[0], span[4], span[5]) for span in spans],
                         [(0, 0, "done"), (0, 1, "started"), (1, 0, "done"), (1, 1, "started"), (2, 0, "done")])
        traces = {}
        for rank, trace, span, communicator, sequence, _ in spans:
            traces.setdefault(trace, []).append((rank, span, communicator, sequence))
        self.assertEqual(sorted(len(members) for members in traces.values()), [2, 3])  # one for each all-reduce
        for members in traces.values():
            self.assertEqual(len({member[2:] for member in members}), 1)
            self.assertEqual(len({member[1] for member in members}), len(members))
        more, transfers = self.spans(self.session("hybrid_recv_all_reduce"))
        self.assertEqual(len({span[1:3] for span in transfers}), len(transfers))  # ids are of one span alone
        try:
            code, said = packages.run(BUILD, "otlp_requests.cjs", "\n".join(lines + more))
        except packages.Missing as why:
            self.skipTest(str(why))
        self.assertEqual(code, 0, said)
        broken = lines[0].replace('"kind":1', '"kind":"1"')
        self.assertNotEqual(packages.run(BUILD, "otlp_requests.cjs", broken)[0], 0)

    def test_errors_say_what_to_do(self):
        session = self.session("missing_rank", 3)
        done = gordian("export", session, "-f", "fr", ok=False)
        self.assertEqual((done.returncode, "-o DIR" in done.stderr), (2, True))
        done = gordian("export", self.dumps(session), "-f", "jsonl", ok=False)
        self.assertEqual((done.returncode, "another tool" in done.stderr), (2, True))
        done = gordian("export", session, "-f", "dot", "-o", os.path.join(self.work, "no", "such"), ok=False)
        self.assertEqual((done.returncode, "cannot write" in done.stderr), (2, True))
        done = gordian("export", session, "-f", "csv", "--witness", ok=False)
        self.assertEqual((done.returncode, "-f dot or graphml" in done.stderr), (2, True))
        done = gordian("export", session, "-f", "dot", "--rank", "7", ok=False)
        self.assertEqual((done.returncode, "ranks are 0 to 2" in done.stderr), (2, True))
        done = gordian("export", session, "-f", "perfetto", "-o", os.path.join(self.work, "no", "such"), ok=False)
        self.assertEqual((done.returncode, "cannot write" in done.stderr), (2, True))


class Reader(unittest.TestCase):
    """It takes what PyTorch writes, and not what fr_trace does not take."""

    def test_it_finds_faults(self):
        entry = {"record_id": 0, "pg_id": 0, "process_group": ("0", "dp"), "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
                 "profiling_name": "nccl:all_reduce", "time_created_ns": 1, "input_sizes": [[8]], "input_dtypes": ["Float"],
                 "output_sizes": [[8]], "output_dtypes": ["Float"], "state": "scheduled", "time_discovered_started_ns": None,
                 "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 0, "is_p2p": False, "frames": []}
        config = {"0": {"name": "0", "desc": "dp", "ranks": "[0, 1]"}}
        reader.check_entry(entry, 0, config, [0, 1])
        for key, value in (("profiling_name", "all_reduce"), ("profiling_name", "nccl:frobnicate"), ("state", "done"),
                           ("process_group", ("0", "tp")), ("input_sizes", [8]), ("input_dtypes", []), ("retired", True),
                           ("profiling_name", "nccl:send 1->0"), ("frames", [{"name": "f"}])):
            with self.subTest(key=key, value=value), self.assertRaises((reader.Malformed, KeyError, ValueError, TypeError)):
                reader.check_entry({**entry, key: value, "is_p2p": "send" in str(value)}, 0, config, [0, 1])


if __name__ == "__main__":
    main()
