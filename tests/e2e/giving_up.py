"""Ranks that wait for one that does not come give up, as their watchdogs make them: the suspicion stays what it was, and who
gave up first is not blamed. The twin's rank does come, and the suspicion is withdrawn."""
import os
import signal

from cli_testing import JOB, CliTest, children_of, job_below, main, wait_until

ABSENT = ("host_blocked", "rank_not_joined")


class GivingUp(CliTest):
    def begin(self, *more):
        """gordian, and the ranks' processes, once rank 2 is suspected."""
        process = self.start("run", "--emulator", "--suspect-after", "3", "--session", "s", "--", JOB, "gives_up", "--ranks", "3",
                             *more)
        # Until all that are to wait do: one that is slow to get there may be suspected before.
        suspected = lambda verdict: (verdict["verdict"] in ABSENT and verdict["culprit_ranks"] == [2]
                                     and verdict["victim_ranks"] == [0, 1])
        self.assertTrue(wait_until(lambda: suspected(self.verdict()), seconds=60), self.verdict())
        launcher = [pid for pid in job_below(process.pid) if len(children_of(pid)) == 3]
        self.assertEqual(len(launcher), 1)
        return process, sorted(children_of(launcher[0]))

    def verdict(self, session="s"):
        try:
            return super().verdict(session)
        except FileNotFoundError:
            return {"verdict": "none yet", "revision": 0}

    def stays(self, seconds):
        """Looks for so long whether anything else is said."""
        other = wait_until(lambda: self.verdict()["verdict"] not in ABSENT or self.verdict()["culprit_ranks"] != [2], seconds)
        self.assertFalse(other, self.verdict())

    def ends(self, process):
        self.signal_until_gone(process, signal.SIGTERM)
        said = process.stderr.read()
        self.assertNotIn("withdrawn", said)
        self.assertNotIn("RANK EXITED", said)
        self.assertNotIn("RANK ABORTED", said)
        self.stays(0)
        self.assertEqual(self.verdict()["victim_ranks"], [0, 1])

    def test_a_watchdog_ends_the_process(self):
        process, ranks = self.begin()
        os.kill(ranks[0], signal.SIGHUP)
        self.stays(5)
        self.ends(process)

    def test_a_watchdog_aborts_the_communicator(self):
        process, ranks = self.begin()
        os.kill(ranks[0], signal.SIGUSR1)
        self.stays(4)
        os.kill(ranks[0], signal.SIGHUP)
        self.stays(4)
        self.ends(process)

    def test_a_launcher_ends_all(self):
        process, ranks = self.begin()
        for rank in ranks:
            os.kill(rank, signal.SIGTERM)
        process.wait(60)
        self.ends(process)

    def test_the_rank_comes(self):
        process, ranks = self.begin("--twin")
        os.kill(ranks[2], signal.SIGUSR2)
        self.assertEqual(process.wait(60), 0)
        self.assertIn("withdrawn", process.stderr.read())
        self.assertEqual(self.verdict()["verdict"], "finished")


class Watchdogs(CliTest):
    """Each rank's own watchdog ends it after four seconds in the hang: the job was ended, it did not go on."""

    def watch(self, job, verdicts, culprits, code):
        done = self.gordian("run", "--emulator", "--suspect-after", "1", "--session", "s", "--", JOB, job)
        self.assertEqual(done.returncode, code, done.stderr)
        verdict = self.verdict()
        self.assertIn(verdict["verdict"], verdicts, done.stderr)
        self.assertEqual(verdict["culprit_ranks"], culprits, verdict["summary"])
        self.assertIn("The job has ended", verdict["summary"])
        for word in ("withdrawn", "goes on", "RANK EXITED", "RANK ABORTED"):
            self.assertNotIn(word, done.stderr)
        self.assertIn(f"job ended with {code}", done.stderr)

    def test_they_abort(self):
        self.watch("watchdogs_abort", ABSENT, [1], 1)

    def test_they_exit(self):
        self.watch("watchdogs_exit", ABSENT, [1], 1)

    def test_they_exit_with_code_zero(self):
        self.watch("watchdogs_exit_well", ABSENT, [1], 0)

    def test_the_innocent_twin(self):
        done = self.gordian("run", "--emulator", "--suspect-after", "1", "--session", "s", "--", JOB, "watchdogs_abort", "--twin")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.verdict()["verdict"], "finished")


if __name__ == "__main__":
    main()
