#!/usr/bin/env python3
"""compare.py and rows.py: that they can fail."""

import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare  # noqa: E402
import rows as table  # noqa: E402


def record(program="inversion_one_stream", outcome="hangs", states=(("device", "final wait"), ("device", "final wait")),
           data=None, size=4096, env=None):
    return {"program": program, "ranks": len(states), "size": size, "env": env or {}, "outcome": outcome, "data": data,
            "ranks_at": [{"state": s, "step": step, "data": None} for s, step in states], "nccl": 22809}


def by_id(*records):
    return {table.id_of(r): r for r in records}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        compare.EXPLAINED = os.path.join(self.folder.name, "explained.txt")
        self.quiet, sys.stderr = sys.stderr, io.StringIO()

    def tearDown(self):
        sys.stderr = self.quiet
        self.folder.cleanup()

    def explain(self, text):
        with open(compare.EXPLAINED, "w") as f:
            f.write(text)

    def bad(self, ours, real):
        return compare.against_hardware(by_id(*ours), by_id(*real), [])

    def test_same(self):
        self.assertEqual(self.bad([record()], [record()]), 0)

    def test_every_part_counts(self):
        done = (("done", ""), ("done", ""))
        in_call = (("host", "cudaFree"), ("device", "final wait"))
        self.assertEqual(self.bad([record(outcome="completes", states=done)], [record()]), 1)
        self.assertEqual(self.bad([record(states=in_call)], [record()]), 1)
        self.assertEqual(self.bad([record(states=(("host", "cudaMalloc"), in_call[1]))], [record(states=in_call)]), 1)
        self.assertEqual(self.bad([record(data="wrong")], [record(data="right")]), 1)

    def test_missing_row(self):
        self.assertEqual(self.bad([], [record()]), 1)

    def test_newer_rows_count_where_the_older_library_has_none(self):
        done = (("done", ""), ("done", ""))
        self.assertEqual(compare.against_hardware(by_id(record()), {}, [], by_id(record())), 0)
        self.assertEqual(compare.against_hardware(by_id(record()), {}, [], by_id(record(outcome="completes", states=done))), 1)
        rows = []
        self.assertEqual(compare.against_hardware(by_id(record()), by_id(record()), rows,
                                                  by_id(record(outcome="completes", states=done))), 0)
        self.assertEqual(rows[0][-2], "completes, no data")

    def test_explained(self):
        identity = table.id_of(record())
        self.explain(f"# why\n{identity}: not modelled\n")
        other = record(outcome="completes", states=(("done", ""), ("done", "")))
        self.assertEqual(self.bad([other], [record()]), 0)
        self.assertEqual(self.bad([record()], [record()]), 1)  # nothing left to explain
        self.explain(f"{identity}:\n")
        with self.assertRaises(SystemExit):
            self.bad([other], [record()])

    def test_results_hold_every_row(self):
        path = os.path.join(self.folder.name, "results.json")
        with open(path, "w") as f:
            json.dump({"title": "t", "tables": [{"id": "rows", "rows": [["old"]]}]}, f)
        rows = []
        other = record(outcome="completes", states=(("done", ""), ("done", "")), size=8)
        compare.against_hardware(by_id(record(), other), by_id(record(), record(size=8)), rows)
        compare.write_rows(path, rows)
        with open(path) as f:
            written = json.load(f)["tables"][0]["rows"]
        hang = "hangs: 0 on the device; 1 on the device"
        self.assertEqual(written, [
            ["inversion_one_stream", 2, 4096, "", hang, "not run", "the same"],
            ["inversion_one_stream", 2, 8, "", hang, "not run", "completes, no data (not explained)"]])

    def test_explained_row_that_is_unknown(self):
        self.explain("no_such_program/2/4096: gone\n")
        self.assertEqual(self.bad([record()], [record()]), 1)

    def test_torn_line(self):
        path = os.path.join(self.folder.name, "r.jsonl")
        with open(path, "w") as f:
            f.write(json.dumps(record()) + "\n" + json.dumps(record(size=8))[:40])
        self.assertEqual(list(compare.load(path)), [table.id_of(record())])


class Known(unittest.TestCase):
    def test_patterns(self):
        self.assertEqual(table.expected("inversion_one_stream/4/4096")["outcome"], "hangs")
        self.assertIsNone(table.expected("inversion_one_stream/2/4096/NCCL_P2P_DISABLE=1"))
        self.assertEqual(table.expected("inversion_cold/2/4096/NCCL_CUMEM_ENABLE=0")["outcome"], "completes")
        self.assertIsNone(table.expected("inversion_one_streams/2/4096"))

    def test_departures(self):
        self.assertIsNone(table.departs_from(record(), table.hangs()))
        self.assertIsNotNone(table.departs_from(record(), table.completes()))
        self.assertIsNotNone(table.departs_from(record(), table.hangs(1)))
        done = record(outcome="completes", states=(("done", ""),), data="right")
        self.assertIsNotNone(table.departs_from(done, table.completes("wrong")))
        self.assertIsNone(table.departs_from(done, table.completes(None)))


if __name__ == "__main__":
    unittest.main()
