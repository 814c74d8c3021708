#!/usr/bin/env python3
"""One verdict over several sources of a job: `gordian analyze SESSION DUMPS RAS`.

  several_sources.py BUILD

Jobs run under the emulator, each once and recorded whole. Ranks are then taken out of the trace, and stand
in the dumps that `gordian export -f fr` writes, or in reports of NCCL RAS made of their counts.
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = ""


def gordian(*arguments):
    return subprocess.run([os.path.join(BUILD, "bin", "gordian"), *arguments], capture_output=True, text=True, timeout=120,
                          check=False)


def analyze(*paths):
    done = gordian("analyze", *paths, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else None, " ".join(done.stderr.split())


def load(path):
    with open(path, "rb") as f:
        return pickle.load(f)


class SeveralSources(unittest.TestCase):
    """What went wrong stays in the folder that is printed."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="gordian-merge-")
        cls.recorded = {}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work, ignore_errors=True)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.work)

    def record(self, job, twin=False):
        """The session, its verdict, and a folder of the dumps of all ranks."""
        name = job + ("-twin" if twin else "")
        if name not in self.recorded:
            session, dumps = os.path.join(self.work, name), os.path.join(self.work, name + "-dumps")
            ranks = "for r in 0 1 2 3; do RANK=$r WORLD_SIZE=4 JOB_PROGRESS=$0.progress $1 $2 --elastic $3 & done; wait"
            gordian("run", "--emulator", "--quiet", "--session", session, "--on-verdict", "kill-suspected", "--suspect-after",
                    "3", "--", "sh", "-c", ranks, session, os.path.join(BUILD, "tests", "gordian_e2e_job"), job,
                    "--twin" if twin else "")
            self.assertEqual(gordian("export", session, "-f", "fr", "-o", dumps).returncode, 0)
            self.assertEqual(sorted(os.listdir(dumps)), [f"nccl_trace_rank_{rank}" for rank in range(4)])
            self.recorded[name] = session, analyze(session)[1], dumps
        return self.recorded[name]

    def cut(self, session, *ranks):
        """A session that has seen these ranks only."""
        path = os.path.join(self.folder, "cut-" + "".join(map(str, ranks)))
        os.makedirs(path, exist_ok=True)
        subprocess.run([os.path.join(BUILD, "tests", "cut_trace"), os.path.join(session, "trace.gtrace"),
                        os.path.join(path, "trace.gtrace"), *map(str, ranks)], check=True, timeout=60)
        return path

    def dumps(self, whole, *ranks, change=None, name="dumps"):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        for rank in ranks:
            dump = load(os.path.join(whole, f"nccl_trace_rank_{rank}"))
            if change:
                change(rank, dump)
            with open(os.path.join(path, f"nccl_trace_rank_{rank}"), "wb") as f:
                pickle.dump(dump, f, protocol=2)
        return path

    def sources(self, verdict):
        return [(of["tool"], of["ranks"], of["also_holds"]) for of in verdict["merged"]["sources"]]

    def test_the_culprits_of_the_whole_session(self):
        for job, culprits in (("missing_rank", [3]), ("mismatch_kind_hangs", [0]), ("inversion_one_stream", [3]),
                              ("inversion_subset", [0, 1])):
            session, whole, dumps = self.record(job)
            self.assertEqual(whole["culprit_ranks"], culprits, whole["summary"])
            for seen in ((0, 1), (2, 3), (0, 3), (1, 2)):
                with self.subTest(job=job, seen=seen):
                    others = [rank for rank in range(4) if rank not in seen]
                    code, verdict, err = analyze(self.cut(session, *seen), self.dumps(dumps, *others, name=f"{job}{seen}"))
                    self.assertEqual((code, verdict["culprit_ranks"]), (1, culprits), verdict["summary"] + err)
                    self.assertEqual(self.sources(verdict), [("gordian", list(seen), []), ("flight-recorder", others, [])])
                    self.assertEqual((verdict["evidence"]["ranks_seen"], verdict["evidence"]["ranks_expected"]), (4, 4))
                    self.assertEqual(verdict["merged"]["contradictions"], [])
                    self.assertFalse([rank for rank in culprits if rank in verdict["victim_ranks"]])
                    # Only what the session alone proves is confirmed.
                    alone = analyze(self.cut(session, *seen))[1]
                    if alone["culprit_ranks"] != culprits or alone["confidence"] != "confirmed":
                        self.assertNotEqual(verdict["confidence"], "confirmed")
                    for of in verdict["merged"]["sources"]:
                        self.assertTrue(of["newest"] and of["behind_s"] >= 0, of)
                        self.assertEqual(of["tool"] == "flight-recorder", any("streams" in text for text in of["not_visible"]))

    def test_an_innocent_job_has_no_culprit(self):
        for job in ("missing_rank", "inversion_one_stream"):
            session, _, dumps = self.record(job, twin=True)
            code, verdict, err = analyze(self.cut(session, 0, 1), self.dumps(dumps, 2, 3, name=job))
            self.assertEqual((code, verdict["verdict"], verdict["culprit_ranks"]), (3, "inconclusive", []), err)
            self.assertEqual((verdict["findings"], verdict["merged"]["contradictions"]), ([], []))

    def test_for_people(self):
        session, _, dumps = self.record("missing_rank")
        done = gordian("analyze", self.cut(session, 0, 1), self.dumps(dumps, 2, 3))
        text = " ".join(done.stdout.split())
        self.assertIn("ranks 0 and 1: session", text)
        self.assertIn("ranks 2 and 3: Flight Recorder dumps", text)
        self.assertIn("world of the session is world of the dumps, by members", text)
        self.assertNotIn("contradictions", text)

    def test_ranks_that_two_sources_hold(self):
        session, whole, dumps = self.record("missing_rank")
        cut = self.cut(session, 0, 1)
        _, verdict, err = analyze(cut, dumps)
        self.assertEqual(self.sources(verdict), [("gordian", [0, 1], []), ("flight-recorder", [2, 3], [0, 1])], err)
        self.assertEqual((verdict["culprit_ranks"], verdict["merged"]["contradictions"]), ([3], []))
        # All of them: the dumps confirm what the session knows better.
        _, verdict, _ = analyze(session, dumps)
        for key in ("verdict", "check", "confidence", "culprit_ranks", "summary"):
            self.assertEqual(verdict[key], whole[key])

        def further(rank, dump):
            if rank == 3:
                dump["pg_status"]["0"]["last_enqueued_collective"] = 9

        # The dump of the culprit says that it has called what others wait for.
        _, verdict, _ = analyze(self.cut(session, 2, 3), self.dumps(dumps, 0, 1, 3, change=further))
        self.assertEqual(len(verdict["merged"]["contradictions"]), 1, verdict["merged"])
        self.assertIn("rank 3", verdict["merged"]["contradictions"][0])
        self.assertTrue(verdict["confidence"] == "possible" or verdict["culprit_ranks"] == [], verdict["summary"])

    def test_sources_that_contradict_each_other(self):
        session, _, dumps = self.record("missing_rank")

        def done_alone(rank, dump):  # an all-reduce is done at rank 2 that ranks of the session have not called
            if rank == 2:
                for entry in list(dump["entries"]):
                    if entry["state"] != "completed":
                        dump["entries"].append(dict(entry, record_id=90, collective_seq_id=7, state="completed", retired=True))
                        break
                dump["pg_status"]["0"]["last_enqueued_collective"] = 7

        def another(rank, dump):  # what both have done is not the same
            dump["entries"][0].update(profiling_name="nccl:broadcast", state="completed", retired=True)

        for change, said in ((done_alone, "#7 is done at rank 2"), (another, "broadcast")):
            with self.subTest(said):
                code, verdict, err = analyze(self.cut(session, 0, 1), self.dumps(dumps, 2, change=change, name=said[:5]))
                self.assertEqual(code, 3, err + verdict["summary"])
                self.assertEqual(verdict["culprit_ranks"], [])
                self.assertTrue(any(said in text for text in verdict["merged"]["contradictions"]), verdict["merged"])
                self.assertEqual(verdict["merged"]["communicators"], [])

    def test_communicators_that_nothing_tells_apart(self):
        session, _, dumps = self.record("inversion_one_stream")

        def nameless(_, dump):
            for group in dump["pg_config"].values():
                group["desc"] = "undefined"
            for entry in dump["entries"]:
                entry["process_group"] = (entry["process_group"][0], "undefined")

        code, verdict, err = analyze(self.cut(session, 0, 1, 2), self.dumps(dumps, 3, change=nameless))
        self.assertEqual((code, verdict["culprit_ranks"], verdict["merged"]["communicators"]), (3, [], []), err)
        self.assertEqual(len(verdict["merged"]["unclear"]), 1)
        for name in ("dp, tp of the session", "group 0, group 1"):
            self.assertIn(name, verdict["merged"]["unclear"][0])

        def sizes(_, dump):  # of what is done: those of dp and tp differ
            nameless(_, dump)
            for entry in dump["entries"]:
                if entry["process_group"][0] == "1" and entry["state"] == "completed":
                    entry.update(input_sizes=[[5]], output_sizes=[[5]])

        _, verdict, _ = analyze(self.cut(session, 0, 1, 2), self.dumps(dumps, 3, change=sizes, name="sizes"))
        self.assertTrue(verdict["merged"]["contradictions"] or verdict["merged"]["unclear"], verdict["merged"])
        self.assertEqual(verdict["culprit_ranks"], [])

    def test_numbers_that_nothing_compares(self):
        session, _, dumps = self.record("missing_rank")

        def bare(_, dump):  # PyTorch's status alone
            dump["entries"] = []

        _, verdict, err = analyze(self.cut(session, 0, 1, 2), self.dumps(dumps, 3, change=bare))
        self.assertEqual((verdict["culprit_ranks"], verdict["confidence"]), ([3], "possible"), err + verdict["summary"])
        self.assertEqual([of["verified"] for of in verdict["merged"]["communicators"]], [False])
        self.assertTrue(any("number the operations" in text for text in verdict["evidence"]["assumes"]))

    def test_a_rank_without_a_source_is_named(self):
        session, _, dumps = self.record("missing_rank")
        code, verdict, _ = analyze(self.cut(session, 0, 1), self.dumps(dumps, 2))
        self.assertEqual((code, verdict["culprit_ranks"]), (3, []), verdict["summary"])
        self.assertIn("no source shows rank 3", verdict["evidence"]["not_visible"])

    def test_dumps_in_two_folders(self):
        _, _, dumps = self.record("missing_rank")
        one, other = self.dumps(dumps, 0, 1, name="one"), self.dumps(dumps, 2, 3, name="other")
        _, verdict, _ = analyze(one, other)
        self.assertEqual((verdict["culprit_ranks"], verdict["confidence"]), ([3], "suspected"))
        self.assertEqual(self.sources(verdict), [("flight-recorder", [0, 1], []), ("flight-recorder", [2, 3], [])])

    def report(self, time, counts, version="2.30.7", size=4, name="ras.json"):
        members = [{"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                    "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                               "abort_flag": False},
                    "collective_counts": {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": n}}
                   for rank, n in counts.items()]
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"nccl_version": version, "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": time,
                       "communicators_count": 1,
                       "communicators": [{"hash": "0xa", "secondary_hash": "0x1:0x2", "size": size, "ranks_count": len(counts),
                                          "missing_ranks_count": 0, "ranks": members, "missing_ranks": []}],
                       "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}, f, indent=2)
        return path

    def test_ranks_that_only_ras_counts(self):
        session, _, dumps = self.record("missing_rank")
        cut, some = self.cut(session, 0, 1), self.dumps(dumps, 2)
        counts = {0: 2, 1: 2, 2: 2, 3: 1}
        first, second = self.report("2026-11-21 10:00:00", counts), self.report("2026-11-21 10:01:00", counts, name="ras2.json")
        _, verdict, err = analyze(cut, some, first, second)
        self.assertEqual((verdict["culprit_ranks"], verdict["confidence"]), ([3], "suspected"), err + verdict["summary"])
        self.assertEqual(self.sources(verdict)[-1], ("ras", [3], [0, 1, 2]))
        # One report is one moment.
        _, verdict, _ = analyze(cut, some, first)
        self.assertEqual((verdict["culprit_ranks"], verdict["confidence"]), ([3], "possible"))
        # Rank 3 has called it: no rank is behind.
        even = self.report("2026-11-21 10:00:00", {0: 2, 1: 2, 2: 2, 3: 2}, name="even.json")
        code, verdict, _ = analyze(cut, some, even)
        self.assertEqual((code, verdict["culprit_ranks"]), (3, []))
        # Of another moment: ranks that both hold have other counts.
        other = self.report("2026-11-21 10:00:00", {0: 7, 1: 7, 2: 7, 3: 1}, name="other.json")
        code, verdict, _ = analyze(cut, some, other)
        self.assertEqual((code, verdict["culprit_ranks"]), (3, []))
        self.assertTrue(any("RAS says" in text for text in verdict["merged"]["contradictions"]), verdict["merged"])

    def test_what_is_not_of_one_job_is_refused(self):
        session, _, dumps = self.record("missing_rank")
        cut = self.cut(session, 0, 1)

        def wider(_, dump):
            dump["pg_config"]["0"]["ranks"] = str(list(range(8)))

        refusals = (
            ((cut, self.dumps(dumps, 2, 3, change=wider, name="eight")), ("a job of 4 ranks", "one of 8 ranks", cut, "eight")),
            ((cut, self.dumps(dumps, 2, name="a"), self.dumps(dumps, 2, name="b")), ("rank 2 has two dumps", "/a/", "/b/")),
            ((cut, session), ("both recordings of gordian",)),
            ((cut, os.path.join(self.folder, "absent")), ("absent cannot be read",)),
            ((cut, self.report("2026-11-21 10:00:00", {0: 1}, size=9)), ("a communicator of 9 ranks", "ras.json")))
        for paths, texts in refusals:
            code, verdict, err = analyze(*paths)
            self.assertEqual((code, verdict), (2, None), err)
            for text in texts:
                self.assertIn(text, err)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
