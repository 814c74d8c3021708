"""Stacks on a verdict, of C++ and of Python ranks, and where they are refused; `gordian attach` on Python."""
import json
import os
import re
import shutil
import subprocess
import sys

from cli_testing import BUILD, JOB, CliTest, clean_environment, main, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
RANK_LIBRARY = os.path.join(BUILD, "tests", "libgordian_e2e_rank.so")
RANKS = os.path.join(HERE, "jobs", "python_ranks.py")


def functions(stack):
    return [frame["function"] for frame in stack["frames"]]


def pythons():
    """Interpreters that can be read: the one at hand, others by GORDIAN_TEST_PYTHONS (a:b:...)."""
    out = []
    for name in [sys.executable, *filter(None, os.environ.get("GORDIAN_TEST_PYTHONS", "").split(":"))]:
        asked = subprocess.run([name, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.strip() in ("(3, 11)", "(3, 12)", "(3, 13)"):
            out.append(name)
    return out


class Stacks(CliTest):
    def run_job(self, *command, kill="kill-suspected", prefix=(), **environment):
        session = self.path("session")
        done = subprocess.run([*prefix, os.path.join(BUILD, "bin", "gordian"), "run", "--emulator", "--session", session,
                               "--suspect-after", "2", "--on-verdict", kill, "--", *command],
                              env=clean_environment(**environment), cwd=self.work, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100)
        with open(os.path.join(session, "verdict.json")) as f:
            return done, json.load(f), session

    def stack_of(self, verdict, function):
        found = [s for s in verdict["stacks"] if function in functions(s)]
        self.assertTrue(found, json.dumps(verdict["stacks"], indent=1))
        return found[0]

    def test_a_rank_that_does_not_come_is_shown_where_it_is(self):
        self.need(JOB)
        done, verdict, session = self.run_job(JOB, "missing_rank")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn(verdict["verdict"], ("rank_not_joined", "host_blocked"))
        absent = verdict["stacks"][0]
        self.assertEqual(absent["ranks"], verdict["culprit_ranks"])
        self.assertTrue(any("SleepInUserCode" in f for f in functions(absent)), absent)
        waiting = self.stack_of(verdict, "cudaStreamSynchronize")
        self.assertEqual(waiting["ranks"], verdict["victim_ranks"])
        # Said once, with the stacks; the file for people and the long form have them, too.
        self.assertEqual(len(re.findall(r"^gordian: RANK NOT JOINED|^gordian: HOST BLOCKED", done.stderr, re.M)), 1)
        self.assertEqual(done.stderr.count("where the threads are:"), 1, done.stderr)
        self.assertIn("SleepInUserCode", done.stderr)
        with open(os.path.join(session, "report.txt")) as f:
            self.assertIn("SleepInUserCode", f.read())
        explained = self.gordian("explain", session).stdout
        self.assertIn("Where the threads are", explained)
        self.assertIn("SleepInUserCode", explained)
        # And the trace.
        os.unlink(os.path.join(session, "verdict.json"))
        again = json.loads(self.gordian("analyze", session, "--json").stdout)
        self.assertEqual(again["stacks"], verdict["stacks"])

    def test_a_confirmed_verdict_has_them_before_the_job_is_killed(self):
        self.need(JOB)
        done, verdict, _ = self.run_job(JOB, "inversion_one_stream", "--ranks", "4", kill="kill")
        self.assertEqual((done.returncode, verdict["verdict"], verdict["confidence"]), (137, "deadlock", "confirmed"), done.stderr)
        self.assertEqual(sorted(r for s in verdict["stacks"] for r in s["ranks"]), [0, 1, 2, 3])
        self.assertEqual(done.stderr.count("gordian: DEADLOCK"), 1, done.stderr)
        self.assertEqual([n for n in verdict["evidence"]["not_visible"] if "stack" in n], [])

    def test_the_twin_has_none(self):
        self.need(JOB)
        done, verdict, _ = self.run_job(JOB, "inversion_one_stream", "--twin", kill="kill")
        self.assertEqual((done.returncode, verdict["verdict"], verdict["stacks"]), (0, "finished", []), done.stderr)
        self.assertNotIn("where the threads are", done.stderr)

    def test_where_ptrace_is_refused_the_verdict_is_the_same_and_says_so(self):
        self.need(JOB)
        _, with_stacks, _ = self.run_job(JOB, "missing_rank")
        shutil.rmtree(self.path("session"))
        prefix = ()
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                self.skipTest("setpriv is not here, and root may trace everything")
            prefix = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
        done, without, _ = self.run_job(JOB, "missing_rank", "--hidden", prefix=prefix)
        self.assertEqual(done.returncode, 137, done.stderr)
        for key in ("check", "verdict", "confidence", "culprit_ranks", "victim_ranks", "summary"):
            self.assertEqual(without[key], with_stacks[key])
        self.assertEqual(without["stacks"], [])
        self.assertTrue(any("native stacks of" in n and "not permitted" in n for n in without["evidence"]["not_visible"]),
                        without["evidence"])

    def test_python_ranks(self):
        self.need(RANK_LIBRARY)
        for python in pythons():
            with self.subTest(python):
                done, verdict, session = self.run_job(python, RANKS, RANK_LIBRARY, "3")
                self.assertEqual(done.returncode, 137, done.stderr)
                self.assertIn(verdict["verdict"], ("rank_not_joined", "host_blocked"))
                self.assertEqual(verdict["culprit_ranks"], [2])
                absent = self.stack_of(verdict, "Loader.next_batch")
                self.assertEqual(absent["ranks"], [2])
                names = functions(absent)
                self.assertLess(names.index("Event.wait"), names.index("Loader.next_batch"))
                self.assertLess(names.index("Loader.next_batch"), names.index("run"))
                frame = absent["frames"][names.index("Loader.next_batch")]
                self.assertTrue(frame["python"])
                with open(RANKS) as f:
                    self.assertIn("self.ready.wait()", f.read().splitlines()[frame["line"] - 1])
                waiting = self.stack_of(verdict, "Trainer.finish")
                self.assertEqual((waiting["ranks"], waiting["folded_ranks"]), ([0, 1], "0,1"))
                names = functions(waiting)
                order = [names.index(n) for n in ("cudaStreamSynchronize", "rank_synchronize", "Trainer.finish", "Trainer.step", "run")]
                self.assertEqual(order, sorted(order), names)
                self.assertFalse(any(n.startswith("_PyEval") for n in names), names)
                self.assertIn("python_ranks.py", done.stderr)
                shutil.rmtree(session)

    def test_a_python_rank_that_waits_for_the_interpreters_lock(self):
        self.need(RANK_LIBRARY)
        done, verdict, session = self.run_job(sys.executable, RANKS, RANK_LIBRARY, "3", "--lock")
        self.assertIn(verdict["verdict"], ("rank_not_joined", "host_blocked"), done.stderr)
        self.assertEqual(verdict["culprit_ranks"], [2])
        self.assertIn(("waits-for-gil", [2]), [(s["check"], s["ranks"]) for s in verdict["signs"]], verdict["stacks"])
        self.assertIn("waits-for-gil", self.gordian("explain", session).stdout)
        shutil.rmtree(session)
        done, verdict, _ = self.run_job(sys.executable, RANKS, RANK_LIBRARY, "3", "--lock-twin")
        self.assertEqual((done.returncode, verdict["verdict"], verdict["signs"]), (0, "finished", []), done.stderr)

    def test_python_ranks_that_all_come(self):
        self.need(RANK_LIBRARY)
        done, verdict, _ = self.run_job(sys.executable, RANKS, RANK_LIBRARY, "3", "--twin")
        self.assertEqual((done.returncode, verdict["verdict"], verdict["stacks"]), (0, "finished", []), done.stderr)

    def test_attach_reads_python(self):
        script = self.write("sleeper.py", "import time, threading\n"
                            "def fetch():\n    time.sleep(3600)\n"
                            "def train():\n    fetch()\n"
                            "threading.Thread(target=fetch, daemon=True).start()\n"
                            "print('up', flush=True)\ntrain()\n")
        for python in pythons():
            with self.subTest(python):
                process = subprocess.Popen([python, script], stdout=subprocess.PIPE, text=True)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                self.assertEqual(process.stdout.readline(), "up\n")
                self.addCleanup(process.stdout.close)
                seen = {}

                def both():
                    seen.update(json.loads(self.gordian("attach", str(process.pid), "--json").stdout))
                    return sum("fetch" in functions(s) for s in seen["processes"][0]["stacks"]) == 2
                self.assertTrue(wait_until(both, every=0.1), seen)
                main_stack = seen["processes"][0]["stack"]
                frames = [(f["function"], f["line"]) for f in main_stack if f["python"]]
                self.assertEqual(frames, [("fetch", 3), ("train", 5), ("<module>", 8)])
                text = self.gordian("attach", str(process.pid)).stdout
                self.assertIn("sleeper.py:5 train()", text)
                with open(f"/proc/{process.pid}/status") as f:
                    self.assertIn("TracerPid:\t0", f.read())

    def test_python_of_another_version_is_named(self):
        others = [p for p in os.environ.get("GORDIAN_TEST_OTHER_PYTHONS", "").split(":") if p]
        if not others:
            self.skipTest("GORDIAN_TEST_OTHER_PYTHONS names no interpreter that cannot be read")
        for python in others:
            process = subprocess.Popen([python, "-c", "import time; print('up', flush=True); time.sleep(3600)"],
                                       stdout=subprocess.PIPE, text=True)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.addCleanup(process.stdout.close)
            process.stdout.readline()
            seen = json.loads(self.gordian("attach", str(process.pid), "--json").stdout)
            self.assertTrue(any("Python frames of" in n and "CPython" in n for n in seen["not_visible"]), seen)


if __name__ == "__main__":
    main()
