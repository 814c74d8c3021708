"""The kinds of hangs whose cause gordian does not see (docs/checks): each still gets a verdict, which says what follows
from it, and its innocent twin gets none.

  unseen.py BUILD [Unseen.test_...]
"""
import json
import os
import signal
import subprocess
import sys
import time

from cli_testing import BUILD, JOB, CliTest, clean_environment, end_with_job, main

QUIET = ("healthy", "finished")
LIMIT_S = 60
SUSPECT_AFTER_S = 1
PATIENT_S = 60  # for a job that ends, however busy the machine


class Case:
    def __init__(self, kinds, job, verdict, check, culprits, signs=(), settings=None, options=(), frame=None, hole=None,
                 other=None):
        self.kinds, self.job = kinds, job
        self.frame = frame  # a function that a stack must show
        self.hole = hole    # part of what evidence.not_visible must say
        # What is true as well, by the moment at which it hangs: (verdict, check, culprits).
        self.right = [(verdict, check, culprits)] + ([other] if other else [])
        self.signs, self.settings, self.options = list(signs), settings or {}, list(options)


CASES = [
    Case([23], "used_too_early", "host_blocked", "host-blocked", [1], signs=["call-failed", "waits-for-input"]),
    Case([25], "lazy_loading", "host_blocked", "host-blocked", [1], settings={"CUDA_MODULE_LOADING": "LAZY"}),
    # Where the other rank's part is done before the device stops, that rank waits in the next operation.
    Case([34, 37], "frozen_device", "stuck_kernel", "stuck-kernel", [], other=("host_blocked", "host-blocked", [1])),
    Case([38], "device_waits", "inconclusive", "no-progress", []),
    Case([], "host_functions", "host_blocked", "host-blocked", [0, 1], frame="AwaitAnswer"),
    Case([], "inversion_late_communicators", "inconclusive", "evidence-missing", [], hole="found no room in gordian's table"),
    Case([42], "stuck_watchdog", "host_blocked", "host-blocked", [1]),
    Case([49], "blocked_monitor", "host_blocked", "host-blocked", [1]),
]
# Kind 47 ends by itself, once the straggler has come: test_a_straggler.
STRAGGLER = Case([47], "missing_rank", "host_blocked", "host-blocked", [1], options=["--twin", "--late", "1:4"])


class Unseen(CliTest):
    def standing(self):
        try:
            return self.verdict("session")
        except (OSError, ValueError):
            return None

    def run_job(self, case, twin=False):
        """(first verdict of trouble, last verdict, exit code). A job in trouble is ended after a moment for what follows."""
        threshold = str(PATIENT_S if twin else SUSPECT_AFTER_S)
        process = subprocess.Popen(
            [os.path.join(BUILD, "bin", "gordian"), "run", "--emulator", "--session", self.path("session"), "--suspect-after",
             threshold, "--", JOB, case.job, "--ranks", "2", *case.options, *(["--twin"] if twin else [])],
            env=clean_environment(**({} if twin else case.settings)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, cwd=self.work)
        self.addCleanup(end_with_job, process)
        trouble, deadline, until = None, time.monotonic() + LIMIT_S, None
        while process.poll() is None and time.monotonic() < (until or deadline):
            now = self.standing()
            if now is not None and now["verdict"] not in QUIET:
                trouble = trouble or now
                # What is first said of a hang may be that nothing moves. The stacks come with a further revision.
                here = not case.frame or case.frame in str(now["stacks"])
                if case is not STRAGGLER and until is None and now["check"] in [check for _, check, _ in case.right] and here:
                    until = time.monotonic() + 1.5
            time.sleep(0.02)
        last = self.standing()
        if process.poll() is None:
            self.signal_until_gone(process, signal.SIGTERM)
            self.assertIsNotNone(trouble, f"kinds {case.kinds}: it hangs, and after {LIMIT_S} s gordian says {last}")
        return trouble, last, process.wait()

    def check_case(self, case):
        self.need(JOB)
        trouble, last, _ = self.run_job(case)
        said = json.dumps(last, indent=1)
        self.assertIn(trouble["check"], ["no-progress"] + [check for _, check, _ in case.right], "said first")
        self.assertIn((last["verdict"], last["check"], last["culprit_ranks"]), case.right, said)
        self.assertNotEqual(last["confidence"], "confirmed", said)
        self.assertLessEqual(set(case.signs), {sign["check"] for sign in last["signs"]}, said)
        if case.hole:
            self.assertIn(case.hole, " ".join(last["evidence"]["not_visible"]), said)
        if case.frame:
            self.assertIn(case.frame, " ".join(frame["function"] for stack in last["stacks"] for frame in stack["frames"]), said)

    def check_twin(self, case):
        self.need(JOB)
        trouble, last, code = self.run_job(case, twin=True)
        self.assertEqual((trouble, last["verdict"], last["findings"], code), (None, "finished", [], 0), last["summary"])

    def test_a_straggler(self):
        self.need(JOB)
        trouble, last, code = self.run_job(STRAGGLER)
        self.assertIsNotNone(trouble, last)
        self.assertIn((trouble["verdict"], trouble["check"], trouble["culprit_ranks"]), STRAGGLER.right)
        self.assertEqual((last["verdict"], code), ("finished", 0), last["summary"])

    def test_every_kind_that_is_not_visible_is_here(self):
        listed = json.loads(self.gordian("checks", "--json").stdout)["classes"]
        here = {kind for case in [*CASES, STRAGGLER] for kind in case.kinds}
        self.assertEqual({row["number"] for row in listed if row["visibility"] == "not visible"} - here, set())


def add(case):
    setattr(Unseen, f"test_{case.job}", lambda self: self.check_case(case))
    setattr(Unseen, f"test_{case.job}_twin", lambda self: self.check_twin(case))


for each in CASES:
    add(each)

if __name__ == "__main__":
    main()
