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
                verdict = json.loads(out)
                if name.startswith("words_"):
                    self.assertEqual((code, verdict["check"], verdict["culprit_ranks"], verdict["victim_ranks"]),
                                     (1, "rank-exited", [3], [0, 1, 2]), err)
                    self.assertEqual(verdict["confidence"], "suspected")
                    continue
                self.assertEqual((code, verdict["check"], verdict["culprit_ranks"]), (1, "rank-exited", [1, 3]), err)
                # The releases that leave a comma out are repaired, and say so.
                repaired = "2.28." in name
                self.assertEqual("put in 2 commas behind nvml_dev" in err, repaired, err)
                self.assertEqual(any("nvml_dev" in text for text in verdict["evidence"].get("assumes", [])), repaired)

    def test_ras_in_words(self):
        fixtures = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ras")
        with open(os.path.join(fixtures, "words_2.27.7.txt"), encoding="utf-8") as f:
            text = f.read()
        alive = text.replace("INCOMPLETE,MISMATCH", "MISMATCH")
        alive = alive[:alive.index("DEAD")] + alive[alive.index("Warnings"):]
        alive = alive.replace("  2 ranks have", "  3 ranks have")
        # A report in words has no time: two that are equal do not show that nothing moves.
        self.write("ras.txt", alive)
        self.write("ras2.txt", alive)
        for path in (os.path.join(self.folder, "ras.txt"), self.folder):
            code, out, err = analyze(path, "--json")
            verdict = json.loads(out)
            self.assertEqual((code, verdict["verdict"], verdict["culprit_ranks"]), (3, "inconclusive", []), err)
            self.assertEqual([m["instead"] for m in verdict["operations"][0]["members"]],
                             ["has launched 6", "has launched 6", "has launched 5", "has launched 6"])
            self.assertTrue(any("no time" in text for text in verdict["evidence"]["not_visible"]))
        os.remove(os.path.join(self.folder, "ras2.txt"))
        # Whose counts nothing tells apart: two sets without a list.
        self.write("ras.txt", alive.replace(
            "  Rank 2 has launched up to operation 5 -- GPU 2 managed by process 502 on node 10.0.0.1",
            "  2 ranks have launched up to operation 5").replace("  3 ranks have", "  2 ranks have"))
        code, out, err = analyze(self.folder, "--json")
        self.assertEqual((code, json.loads(out)["operations"]), (3, []), err)
        # A line of a later release is named.
        self.write("ras.txt", alive.replace("2.27.7", "2.33.1").replace(
            "  3 ranks have", "  Ranks disagree on the weather\n  3 ranks have"))
        code, out, err = analyze(self.folder, "--json")
        self.assertTrue(any("weather" in text and "2.33.1" in text for text in json.loads(out)["evidence"]["not_visible"]), err)
        self.write("ras.txt", text[:text.index("Warnings")])
        code, out, err = analyze(self.folder, "--json")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("ends before its section", " ".join(err.split()))

    def test_ras_of_a_later_release(self):
        later = report("2026-11-21 10:00:00", [10, 9])
        later["nccl_version"] = "2.34.1"
        later["communicators"][0]["name"] = "dp"
        later["communicators"][0]["ranks"][0]["collective_counts"]["AllToAll"] = 3
        self.write("ras.json", json.dumps(later, indent=2))
        code, out, err = analyze(self.folder, "--json")
        verdict = json.loads(out)
        self.assertEqual((code, verdict["verdict"]), (3, "inconclusive"), err)
        self.assertTrue(any("communicators.name" in text and "2.34.1" in text for text in verdict["evidence"]["not_visible"]))

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

    def test_inspector_of_every_version(self):
        # v4.0 (NCCL 2.28) has no name of the communicator, v4.1 adds lines of what was dropped, v4.2 (2.30 and
        # later) algorithm and protocol.
        def lines(version, rank, size):
            one = json.loads(line(rank, 2, size))
            one["metadata"]["inspector_output_format_version"] = version
            if version == "v4.0":
                del one["header"]["comm_name"]
            if version not in ("v4.0", "v4.1"):
                one["coll_perf"].update(coll_algo="RING", coll_proto="LL")
            text = json.dumps(one) + "\n"
            if version != "v4.0":
                text += json.dumps({"header": one["header"], "metadata": one["metadata"],
                                    "dump_stats": {"coll_dropped_since_last_dump": 1, "p2p_dropped_since_last_dump": 0}}) + "\n"
            if version == "v5.0":
                text += json.dumps({"header": one["header"], "metadata": one["metadata"], "rma_perf": {"x": 1}}) + "\n"
            return text

        for version in ("v4.0", "v4.1", "v4.2", "v5.0"):
            with self.subTest(version):
                for rank, size in ((0, 8192), (1, 16384)):
                    self.write(f"rank{rank}.log", lines(version, rank, size))
                code, out, err = analyze(self.folder, "--json")
                verdict = json.loads(out)
                self.assertEqual((code, verdict["check"]), (1, "mismatch-count"), err)
                self.assertEqual(verdict["evidence"]["records_lost"], 0 if version == "v4.0" else 2)
                for what in ("version v5.0", "lines of rma_perf"):
                    self.assertEqual(any(what in text for text in verdict["evidence"]["not_visible"]), version == "v5.0")

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
