"""gordian predict from outside: healthy sessions of jobs with two threads on one stream and two communicators."""
import json
import os
import shutil
import subprocess

import fused
from cli_testing import BUILD, EMULATOR, GORDIAN, JOB, CliTest, clean_environment, main

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def call_sites():
    """Where the job near_miss reduces: in its helper thread, then in its main thread."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "near_misses.cc")) as f:
        return [f"near_misses.cc:{number}" for number, line in enumerate(f, 1) if "ncclAllReduce" in line][:2]


HELPER, MAIN = call_sites()


class Predict(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def record(self, *job):
        done = self.gordian("run", "--emulator", "--session", "s", "--on-verdict", "kill", "--", JOB, *job, "--ranks", "2")
        self.assertEqual(done.returncode, 137 if job == ("inversion_one_stream",) else 0, done.stderr)

    def predict(self, *arguments):
        done = self.gordian("predict", *arguments, "--json")
        return done.returncode, json.loads(done.stdout)

    def include_folders(self):
        folders = [os.path.join(os.environ[v], "include") for v in ("CUDA_HOME", "NCCL_HOME") if v in os.environ]
        with open(os.path.join(BUILD, "CMakeCache.txt")) as f:
            return folders + [line.split("=", 1)[1].strip() for line in f
                              if line.startswith(("GORDIAN_CUDA_INCLUDE:", "GORDIAN_NCCL_INCLUDE:"))]

    def compiled(self, source):
        binary = self.path("witness")
        done = subprocess.run(["g++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o", binary,
                               *[word for folder in self.include_folders() for word in ("-isystem", folder)],
                               "-L" + EMULATOR, "-lnccl", "-lcudart", "-Wl,-rpath-link," + EMULATOR],
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return binary

    def test_the_deadlock_that_a_healthy_run_missed(self):
        self.record("near_miss")
        code, said = self.predict("s", "-o", "predicted", "--verify", "2")
        self.assertEqual(code, 1, said)
        self.assertEqual((len(said["predicted"]), said["unconfirmed"], said["not_judged"]), (1, [], []), said)
        found = said["predicted"][0]
        self.assertEqual(found["freedoms"], ["threads-unordered"])
        self.assertEqual(found["verified"], {"runs": 2, "same": 2})
        self.assertEqual(found["check"], "communicator-order-cycle")
        self.assertEqual(sorted(call["rank"] for call in found["cycle"]), [0, 1])
        self.assertEqual(sorted(call["communicator"] for call in found["cycle"]), ["dp", "tp"])
        # One rank as recorded, the other the other way round, at the job's own lines.
        self.assertEqual(sorted(order["as_recorded"] for order in found["orders"]), [False, True])
        for order in found["orders"]:
            first, then = order["first"], order["then"]
            self.assertEqual((first["rank"], {first["thread"], then["thread"]}), (then["rank"], {1, 2}))
            lines = [call["site"].split()[0] for call in (first, then)]
            self.assertEqual(lines, [MAIN, HELPER] if order["as_recorded"] else [HELPER, MAIN])
        text = self.gordian("predict", "s")
        self.assertEqual(text.returncode, 1)
        for words in ("DEADLOCK (predicted): rank ", MAIN, HELPER, "recorded the other way round", "--assume threads-ordered"):
            self.assertIn(words, text.stdout)
        # In CI only what is new counts.
        self.write("known.json", json.dumps(said))
        code, again = self.predict("s", "--baseline", "known.json")
        self.assertEqual((code, [found["known"] for found in again["predicted"]]), (0, [True]), again)
        self.assertIn("DEADLOCK (predicted, known)", self.gordian("predict", "s", "--baseline", "known.json").stdout)
        self.write("known.json", json.dumps({**said, "predicted": []}))
        code, again = self.predict("s", "--baseline", "known.json")
        self.assertEqual((code, [found["known"] for found in again["predicted"]]), (1, [False]), again)
        # Code scanners show it at the lines, by paths below the folder that gordian runs in.
        self.write("known.json", json.dumps({**said, "predicted": []}))
        done = self.gordian("predict", "s", "--baseline", "known.json", "--sarif", "found.sarif")
        self.assertEqual(done.returncode, 1, done.stderr)
        with open(self.path("found.sarif"), encoding="utf-8") as f:
            sarif = json.load(f)
        self.assertEqual((sarif["version"], len(sarif["runs"])), ("2.1.0", 1))
        (result,) = sarif["runs"][0]["results"]
        rule = sarif["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
        self.assertEqual((rule["id"], result["ruleId"]), (found["check"], found["check"]))
        self.assertEqual(result["baselineState"], "new")
        places = [place["physicalLocation"] for place in result["locations"] + result["relatedLocations"]]
        self.assertEqual({f'{os.path.basename(place["artifactLocation"]["uri"])}:{place["region"]["startLine"]}'
                          for place in places}, {HELPER, MAIN})
        self.assertTrue(all(place["artifactLocation"]["uri"].startswith("file:///") for place in places), places)
        done = subprocess.run([GORDIAN, "predict", self.path("s"), "--sarif", self.path("below.sarif")], cwd=SOURCES,
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 1, done.stderr)
        with open(self.path("below.sarif"), encoding="utf-8") as f:
            (result,) = json.load(f)["runs"][0]["results"]
        self.assertEqual(result["locations"][0]["physicalLocation"]["artifactLocation"],
                         {"uri": "tests/e2e/jobs/near_misses.cc", "uriBaseId": "%SRCROOT%"})
        self.assertNotIn("baselineState", result)
        # The program that forces the order hangs, each time, without gordian too.
        binary = self.compiled(self.path(found["program"]))
        for _ in range(3):
            done = subprocess.run([binary, "--patience", "1.5"], capture_output=True, text=True, timeout=60,
                                  env=clean_environment(LD_LIBRARY_PATH=EMULATOR))
            self.assertEqual(done.returncode, 42, done.stderr)
        done = self.gordian("run", "--emulator", "--session", "w", "--on-verdict", "kill", "--", binary)
        self.assertEqual(done.returncode, 137, done.stderr)
        verdict = self.verdict("w")
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), verdict)
        # A person who knows of an order that gordian does not see says so.
        code, said = self.predict("s", "--assume", "threads-ordered")
        self.assertEqual((code, said["predicted"], said["assumed"]), (0, [], ["threads-ordered"]), said)

    def test_buckets_that_are_reduced_when_ready(self):
        # One line, one thread: only the job's word makes their order free, and only a run confirms it.
        done = fused.record(BUILD, 1, 1, self.path("s"))
        self.assertEqual(done.returncode, 0, done.stderr)
        code, said = self.predict("s")
        self.assertEqual((code, said["judged"], said["predicted"], len(said["unconfirmed"])), (0, True, [], 1), said)
        self.assertIn("the job says", said["unconfirmed"][0]["why"])
        code, said = self.predict("s", "-o", "predicted", "--verify", "2")
        self.assertEqual((code, len(said["predicted"]), said["unconfirmed"]), (1, 1, []), said)
        found = said["predicted"][0]
        self.assertEqual((found["freedoms"], found["check"]), (["readiness-ordered"], "mismatch-count"))
        self.assertEqual(found["verified"], {"runs": 2, "same": 2})
        for call in found["cycle"]:
            self.assertEqual(call["site"].split()[0], fused.ready_site())
        self.assertNotEqual(found["cycle"][0]["bytes"], found["cycle"][1]["bytes"])
        code, said = self.predict("s", "--assume", "buckets-ordered")
        self.assertEqual((code, said["predicted"], said["unconfirmed"], said["complete"]), (0, [], [], True), said)
        # Orders of the job itself, without gordian.
        self.assertEqual(fused.run_in_order(BUILD, 1, 1, seed=1), "hangs")
        self.assertEqual(fused.run_in_order(BUILD, 1, 1, seed=1, twin=True), "ends")

    def test_buckets_that_are_too_small_to_be_forgiven(self):
        # In each other order one of less than 2 MiB meets a larger one; H200s hung in all that were tried.
        done = fused.record(BUILD, 2, 1, self.path("s"))
        self.assertEqual(done.returncode, 0, done.stderr)
        code, said = self.predict("s", "-o", "predicted", "--verify", "2")
        self.assertEqual((code, len(said["predicted"]), said["unconfirmed"]), (1, 1, []), said)
        self.assertEqual(said["predicted"][0]["verified"], {"runs": 2, "same": 2})
        self.assertEqual(fused.run_in_order(BUILD, 2, 1, seed=1), "hangs")

    def test_two_buckets_of_which_one_is_ready_last(self):
        done = fused.record(BUILD, 1, 64, self.path("s"))
        self.assertEqual(done.returncode, 0, done.stderr)
        code, said = self.predict("s")
        self.assertEqual((code, said["predicted"], said["unconfirmed"], said["complete"]), (0, [], [], True), said)
        self.assertEqual(fused.run_in_order(BUILD, 1, 64, seed=1), "ends")

    def expect_one(self, job, checks):
        """One prediction, whose program hangs; none of the twin."""
        self.record(job)
        code, said = self.predict("s", "-o", "predicted", "--verify", "2")
        self.assertEqual((code, len(said["predicted"]), said["unconfirmed"]), (1, 1, []), said)
        found = said["predicted"][0]
        self.assertEqual(found["verified"], {"runs": 2, "same": 2})
        self.assertEqual(sorted(call["call"] for call in found["cycle"]), checks)
        shutil.rmtree(self.path("s"))
        self.expect_silence(job, "--twin")

    def test_a_broadcast_beside_a_reduction(self):
        self.expect_one("near_miss_loader", ["Broadcast", "ReduceScatter"])

    def test_a_transfer_beside_a_reduction(self):
        self.expect_one("near_miss_pipeline", ["AllReduce", "Recv"])

    def test_behind_the_run(self):
        def run(*arguments):
            done = self.gordian("run", "--emulator", "--session", "r", "--on-verdict", "kill", "--predict",
                                "--error-exitcode", "9", *arguments, "--ranks", "2")
            shutil.rmtree(self.path("r"))
            return done

        done = run("--", JOB, "near_miss")
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertIn("DEADLOCK (predicted): rank ", done.stderr)
        self.assertNotIn("DEADLOCK", done.stdout)  # which is the job's
        done = run("--", JOB, "near_miss", "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no deadlock predicted", done.stderr)
        done = run("--", JOB, "inversion_one_stream")
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertNotIn("predicted", done.stderr)
        done = self.gordian("run", "--predict", "--analyzer", "localhost:1", "--", JOB, "near_miss")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "--analyzer")

    def expect_silence(self, *job):
        self.record(*job)
        code, said = self.predict("s")
        self.assertEqual((code, said["judged"], said["complete"]), (0, True, True), said)
        self.assertEqual((said["predicted"], said["unconfirmed"], said["not_judged"]), ([], [], []), said)
        self.assertGreater(said["calls"]["judged"], 3)
        self.assertIn("no deadlock predicted", self.gordian("predict", "s").stdout)

    def test_a_thread_that_has_ended_before(self):
        self.expect_silence("near_miss", "--twin")

    def test_windows_leave_no_call_out(self):
        self.record("launch_race", "--twin")
        whole = self.predict("s")[1]
        code, said = self.predict("s", "--window", "40")
        self.assertEqual(said["calls"], whole["calls"])
        self.assertEqual((code, said["predicted"], said["complete"]), (0, [], False), said)
        self.assertEqual(len(said["unconfirmed"]), len(whole["unconfirmed"]))
        code, said = self.predict("s", "--max-calls", "100")
        self.assertLessEqual(said["calls"]["judged"], 100)
        self.assertGreater(said["calls"]["judged"], 50)
        self.assertIn("calls after these", said["not_judged"])

    def test_an_event_between(self):
        self.expect_silence("near_miss_handed_over")

    def test_threads_that_hand_over_are_a_doubt(self):
        # By a condition variable, as PyTorch's autograd threads: gordian sees that threads wait, not for whom.
        self.record("inversion_beside_sleeper", "--twin")
        code, said = self.predict("s")
        self.assertEqual((code, said["predicted"], said["complete"]), (0, [], False), said)
        self.assertTrue(said["unconfirmed"], said)
        for found in said["unconfirmed"]:
            # If gordian saw the thread run before its call, and never wait, the reason is what both threads use.
            self.assertRegex(found["why"], "another thread|used one communicator by turns")
        text = self.gordian("predict", "s").stdout
        self.assertIn("not confirmed: ", text)
        self.assertIn("no deadlock predicted that is confirmed", text)

    def test_threads_that_share_a_communicator_are_a_doubt(self):
        self.record("near_miss_shared")
        code, said = self.predict("s")
        self.assertEqual((code, said["predicted"]), (0, []), said)
        self.assertTrue(said["unconfirmed"], said)
        for found in said["unconfirmed"]:
            self.assertIn("used one communicator by turns", found["why"])

    def test_one_thread(self):
        self.expect_silence("inversion_one_stream", "--twin")

    def test_a_run_that_hung_is_not_judged(self):
        self.record("inversion_one_stream")
        code, said = self.predict("s", "--sarif", "found.sarif")
        self.assertFalse(os.path.exists(self.path("found.sarif")), "it would say that there is nothing")
        self.assertEqual((code, said["judged"], said["predicted"]), (3, False, []), said)
        self.assertTrue(any("did not pass" in why for why in said["not_judged"]), said)
        self.assertIn("not judged: the run did not pass", self.gordian("predict", "s").stderr)

    def test_a_cut_trace_is_named(self):
        self.record("near_miss")
        shutil.copy(self.path("s/trace.gtrace"), self.path("cut.gtrace"))
        os.truncate(self.path("cut.gtrace"), os.path.getsize(self.path("cut.gtrace")) - 100)
        code, said = self.predict("cut.gtrace")
        self.assertTrue(any("the trace is" in why for why in said["not_judged"]), said)
        self.assertFalse(said["complete"] and code == 0, "a cut trace is called complete")

    def test_mistakes(self):
        done = self.gordian("predict", "nowhere")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "nowhere")
        self.assertEqual(self.gordian("predict", "nowhere", "--assume", "luck").returncode, 2)
        for text in ("", "{", "[]", '{"schema": "gordian.verdict.v1"}', '{"schema": "gordian.predict.v1", "predicted": [1]}',
                     '{"schema": "gordian.explore.v1", "found": [{"sites": [1]}]}'):
            for verb in ("predict", "explore"):
                done = self.gordian(verb, "nowhere", "--baseline", self.write("bad.json", text))
                self.assertEqual(done.returncode, 2)
                self.assert_one_line(done.stderr, "bad.json is no output of gordian predict or explore with --json")


if __name__ == "__main__":
    main()
