#!/usr/bin/env python3
"""Reports of NCCL RAS and files of NCCL Inspector through `gordian analyze`.

  nccl_reports.py GORDIAN
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

GORDIAN = ""


def analyze(path, *more):
    done = subprocess.run([GORDIAN, "analyze", path, *more], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def report(time, counts):
    members = [{"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
                "collective_counts": {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": n}}
               for rank, n in enumerate(counts)]
    return {"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": time,
            "communicators_count": 1,
            "communicators": [{"hash": "0xa", "secondary_hash": "0x1:0x2", "size": len(counts), "ranks_count": len(counts),
                               "missing_ranks_count": 0, "ranks": members, "missing_ranks": []}],
            "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}


def line(rank, number, size):
    return json.dumps({"header": {"id": "0xabc", "comm_name": "dp", "rank": rank, "n_ranks": 2, "nnodes": 1},
                       "metadata": {"inspector_output_format_version": "v4.2", "hostname": "n", "pid": 5 + rank},
                       "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size}}) + "\n"


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def test_ras(self):
        # Names that end in a number, as those of Flight Recorder dumps do.
        self.write("ras_1.json", json.dumps(report("2026-11-21 10:00:00", [10, 10, 9]), indent=2))
        code, out, err = analyze(self.folder, "--json")
        verdict = json.loads(out)
        self.assertEqual((code, verdict["verdict"], verdict["culprit_ranks"]), (3, "inconclusive", []), err)
        self.write("ras_2.json", json.dumps(report("2026-11-21 10:01:00", [10, 10, 9]), indent=2))
        code, out, err = analyze(self.folder, "--json")
        verdict = json.loads(out)
        self.assertEqual((code, verdict["check"], verdict["confidence"], verdict["culprit_ranks"]),
                         (1, "rank-not-joined", "suspected", [2]), err)
        self.assertIn("2 reports of NCCL RAS", err)
        code, out, _ = analyze(self.folder)
        self.assertIn("rank 2 is behind", out)

    def test_ras_of_every_release(self):
        fixtures = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ras")
        for name in sorted(os.listdir(fixtures)):
            with self.subTest(name):
                code, out, err = analyze(os.path.join(fixtures, name), "--json")
                if name.startswith("words_"):
                    self.assertEqual((code, out), (2, ""))
                    self.assertIn("the report in words", err)
                    continue
                verdict = json.loads(out)
                self.assertEqual((code, verdict["check"], verdict["culprit_ranks"]), (1, "rank-exited", [1, 3]), err)
                # The releases that leave a comma out are repaired, and say so.
                repaired = "2.28." in name
                self.assertEqual("put in 2 commas behind nvml_dev" in err, repaired, err)
                self.assertEqual(any("nvml_dev" in text for text in verdict["evidence"].get("assumes", [])), repaired)

    def test_ras_with_another_mistake(self):
        fixtures = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ras")
        with open(os.path.join(fixtures, "missing_2.28.9.json"), encoding="utf-8") as f:
            text = f.read()
        for wrong in (text.replace('"cuda_dev": 1,', '"cuda_dev": 1'), text.replace("2.28.9", "2.30.7"), text[:-20]):
            self.write("ras.json", wrong)
            code, out, err = analyze(self.folder)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("cannot be read as a report of NCCL RAS", err)

    def test_inspector(self):
        for rank, size in ((0, 8192), (1, 16384)):
            self.write(f"rank{rank}.log", line(rank, 1, 8192) + line(rank, 2, size))
        code, out, err = analyze(self.folder, "--json")
        verdict = json.loads(out)
        self.assertEqual((code, verdict["check"], verdict["confidence"]), (1, "mismatch-count", "suspected"), err)
        self.write("rank1.log", line(1, 1, 8192) + line(1, 2, 8192))
        self.assertEqual(analyze(self.folder, "--json")[0], 3)

    def test_what_cannot_be_read(self):
        self.write("ras.json", json.dumps(report("t", [1, 1]))[:-40])
        code, out, err = analyze(self.folder)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("cannot be read as a report of NCCL RAS", err)
        self.write("rank0.log", line(0, 1, 8192))
        code, _, err = analyze(self.folder)
        self.assertEqual(code, 2)
        self.assertIn("its own folder", " ".join(err.split()))


if __name__ == "__main__":
    GORDIAN = sys.argv.pop(1)
    unittest.main()
