"""gordian explore from outside: all orders of a healthy session's threads, with bounds, checkpoints and programs."""
import json
import os
import shutil

from cli_testing import EMULATOR, JOB, CliTest, main


class Explore(CliTest):
    def setUp(self):
        super().setUp()
        for path in [JOB, os.path.join(EMULATOR, "libnccl.so.2")]:
            self.need(path)

    def record(self, session, *job):
        """A session; of near_miss, one whose order is free. On a machine that is full gordian may see the helper thread
        only once the main thread has called, and then the record fixes their order."""
        for _ in range(4):
            shutil.rmtree(self.path(session), ignore_errors=True)
            self.record_once(session, *job)
            if job != ("near_miss",) or self.explore(session)[1]["tried"]["ends"] > 1:
                break

    def record_once(self, session, *job):
        done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", JOB, *job, "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)

    def explore(self, *arguments):
        done = self.gordian("explore", *arguments, "--json")
        return done.returncode, json.loads(done.stdout), done.stdout

    def test_the_deadlock_and_its_twin(self):
        self.record("s", "near_miss")
        code, said, text = self.explore("s", "-o", "explored", "--verify", "2", "--jobs", "1")
        self.assertEqual((code, len(said["found"]), said["unconfirmed"], said["not_judged"]), (1, 1, [], []), said)
        found = said["found"][0]
        self.assertEqual(found["verified"], {"runs": 2, "same": 2})
        self.assertEqual((found["check"], found["preemptions"]), ("communicator-order-cycle", 0), found)
        with open(self.path("explored/explored-1.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f), found["schedule"])
        # The calls that would wait are in the schedule, before those of their ranks that they forestall.
        steps = found["schedule"]["steps"]
        for order in found["orders"]:
            self.assertIn(order["first"], steps)
        predicted = json.loads(self.gordian("predict", "s", "--json").stdout)
        self.assertEqual([one["sites"] for one in predicted["predicted"]], [found["sites"]])
        # Threads make no difference.
        shutil.rmtree(self.path("explored"))
        self.assertEqual(self.explore("s", "-o", "explored", "--verify", "2", "--jobs", "2")[2], text)
        said_so = self.gordian("explore", "s")
        self.assertEqual(said_so.returncode, 1)
        for words in ("DEADLOCK (possible): rank ", "with 0 preemptions", "tried: ", "--assume threads-ordered"):
            self.assertIn(words, said_so.stdout)
        self.assertEqual(self.explore("s", "--assume", "threads-ordered")[0], 0)
        # Too few calls for it.
        code, said, _ = self.explore("s", "--depth", "1")
        self.assertEqual((code, said["found"], said["complete"], said["stopped_by"]), (0, [], False, ""), said)
        self.assertIn("no tried order with at most 1 calls", self.gordian("explore", "s", "--depth", "1").stdout)

        self.record("twin", "near_miss", "--twin")
        code, said, _ = self.explore("twin")
        self.assertEqual((code, said["found"], said["unconfirmed"], said["complete"]), (0, [], [], True), said)
        self.assertIn("no deadlock found: no order of ", self.gordian("explore", "twin").stdout)

    def sarif(self, verb, *arguments):
        """The exit code, and the one result."""
        done = self.gordian(verb, "s", *arguments, "--sarif", "found.sarif")
        with open(self.path("found.sarif"), encoding="utf-8") as f:
            (result,) = json.load(f)["runs"][0]["results"]
        return done.returncode, result

    def test_only_what_is_new_counts(self):
        self.record("s", "near_miss")
        for verb, found in (("explore", "found"), ("predict", "predicted")):
            said = json.loads(self.gordian(verb, "s", "--json").stdout)
            self.write("known.json", json.dumps(said))
            self.write("none.json", json.dumps({**said, found: []}))
            code, again, _ = self.explore("s", "--baseline", "known.json")
            self.assertEqual((code, [one["known"] for one in again["found"]]), (0, [True]), again)
            self.assertIn("DEADLOCK (possible, known): ", self.gordian("explore", "s", "--baseline", "known.json").stdout)
            self.assertEqual(self.gordian("predict", "s", "--baseline", "known.json").returncode, 0)
            code, again, _ = self.explore("s", "--baseline", "none.json")
            self.assertEqual((code, [one["known"] for one in again["found"]]), (1, [False]), again)
            code, result = self.sarif("explore", "--baseline", "known.json")
            self.assertEqual((code, result["baselineState"]), (0, "unchanged"))
            code, result = self.sarif("explore", "--baseline", "none.json")
            self.assertEqual((code, result["baselineState"]), (1, "new"))

    def test_code_scanners(self):
        """They see one deadlock, whichever verb found it."""
        self.record("s", "near_miss")
        (code, explored), (_, predicted) = self.sarif("explore"), self.sarif("predict")
        self.assertEqual(code, 1)
        self.assertNotIn("baselineState", explored)
        for name in ("ruleId", "level", "partialFingerprints"):
            self.assertEqual(explored[name], predicted[name])

        def lines(result):
            return {(place["physicalLocation"]["artifactLocation"]["uri"], place["physicalLocation"]["region"]["startLine"])
                    for place in result["locations"] + result["relatedLocations"]}
        self.assertEqual(lines(explored), lines(predicted))
        self.assertEqual(len(lines(explored)), 2)
        # Without a judgement it says nothing, and not that there is nothing.
        os.remove(self.path("found.sarif"))
        shutil.copy(self.path("s/trace.gtrace"), self.path("cut.gtrace"))
        os.truncate(self.path("cut.gtrace"), os.path.getsize(self.path("cut.gtrace")) // 2)
        self.assertEqual(self.gordian("explore", "cut.gtrace", "--sarif", "found.sarif").returncode, 3)
        self.assertFalse(os.path.exists(self.path("found.sarif")))
        done = self.gordian("explore", "s", "--sarif", "nowhere/found.sarif")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "nowhere/found.sarif")

    def test_checkpoints(self):
        self.record("s", "near_miss")
        whole = self.explore("s")[1]
        code, said, _ = self.explore("s", "--checkpoint", "c.json", "--max-states", "1")
        self.assertEqual((said["stopped_by"], said["tried"]["states"]), ("states", 1), said)
        self.assertFalse(said["complete"])
        # Another bound, another trace, another file.
        done = self.gordian("explore", "s", "--checkpoint", "c.json", "--preemptions", "3")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "c.json was begun with another --preemptions: none, now 3")
        self.record("twin", "near_miss", "--twin")
        done = self.gordian("explore", "twin", "--checkpoint", "c.json")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "c.json is of another trace")
        for text, why in (("{", "is no checkpoint"), ('{"schema": "gordian.checkpoint.v1"}', "another version")):
            done = self.gordian("explore", "s", "--checkpoint", self.write("bad.json", text))
            self.assertEqual(done.returncode, 2)
            self.assert_one_line(done.stderr, why)
        # It goes on to the same end, and once there begins nothing.
        for _ in range(2):
            code, said, _ = self.explore("s", "--checkpoint", "c.json")
            self.assertEqual((code, said), (1, whole))

    def test_mistakes(self):
        done = self.gordian("explore", "nowhere")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, "nowhere")
        self.assertEqual(self.gordian("explore", "nowhere", "--time-limit", "0").returncode, 2)


if __name__ == "__main__":
    main()
