"""`gordian attach` on jobs of the emulator that run without gordian: what it may say, and that it leaves
every process as it was."""
import json
import os
import signal
import subprocess

from cli_testing import EMULATOR, JOB, CliTest, children_of, clean_environment, main, stat_fields, wait_until


def state(pid):
    fields = stat_fields(pid)
    return fields[0] if fields else None


class Attach(CliTest):
    def job(self, *arguments):
        self.need(JOB)
        process = subprocess.Popen([JOB, *arguments], env=clean_environment(LD_LIBRARY_PATH=EMULATOR),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            for pid in [*children_of(process.pid), process.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        self.addCleanup(end)
        return process

    def attach(self, pid):
        done = self.gordian("attach", str(pid), "--json")
        return done, json.loads(done.stdout)

    def settled(self, process, verdict, ranks=2):
        """Attaches until the job has got to where it hangs."""
        last = {}

        def there():
            if len(children_of(process.pid)) < ranks:
                return False
            last["done"], last["json"] = self.attach(process.pid)
            return last["json"]["verdict"] == verdict
        self.assertTrue(wait_until(there, every=0.2), last)
        return last["done"], last["json"]

    def test_a_rank_that_does_something_else_is_suspected(self):
        process = self.job("missing_rank")
        done, seen = self.settled(process, "rank_not_joined")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(seen["confidence"], "suspected")
        places = {p["pid"]: p for p in seen["processes"]}
        for pid in seen["culprit_pids"]:
            self.assertIn("SleepInUserCode", json.dumps(places[pid]["stack"]))
        self.assertNotIn(process.pid, seen["culprit_pids"], "the launcher is no rank")
        self.assertTrue(all(any("libnccl" in path for path in places[p]["libraries"]) for p in children_of(process.pid)))

    def test_ranks_that_all_wait_prove_nothing_from_outside(self):
        process = self.job("inversion_one_stream")
        ranks = lambda: [p for p in children_of(process.pid)]
        wait_until(lambda: len(ranks()) == 2 and all(state(p) == "S" for p in ranks()))

        def both_wait():
            done, seen = self.attach(process.pid)
            places = [p["place"] for p in seen["processes"] if p["pid"] in ranks()]
            return places and all(p in ("nccl", "cuda") for p in places) and (done, seen)
        self.assertTrue(wait_until(both_wait, every=0.2))
        done, seen = both_wait()
        self.assertEqual((done.returncode, seen["verdict"], seen["culprit_pids"]), (3, "inconclusive", []))

    def test_a_stopped_rank_stays_stopped_and_the_others_go_on(self):
        process = self.job("stopped_rank")
        done, seen = self.settled(process, "rank_stopped", ranks=3)
        self.assertEqual(len(seen["culprit_pids"]), 1)
        self.assertEqual(state(seen["culprit_pids"][0]), "T")
        for pid in set(children_of(process.pid)) - set(seen["culprit_pids"]):
            self.assertIn(state(pid), "SR")
            with open(f"/proc/{pid}/status") as f:
                self.assertIn("TracerPid:\t0", f.read())

    def test_a_job_that_is_looked_at_ends_as_it_would_alone(self):
        process = self.job("inversion_sync", "--twin", "--busy", "0:1")
        while process.poll() is None:
            done = self.gordian("attach", str(process.pid))
            self.assertIn(done.returncode, (1, 2, 3), done.stderr)
        self.assertEqual(process.returncode, 0)

    def test_no_such_process(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        done = self.gordian("attach", str(gone.pid))
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr, str(gone.pid))


if __name__ == "__main__":
    main()
