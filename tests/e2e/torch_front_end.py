#!/usr/bin/env python3
"""Jobs of torch.distributed over gloo, under gordian's front end for PyTorch.

  torch_front_end.py BUILD [unittest's arguments]

Exits with 77, which CTest takes for a skip, where no /usr/bin/python3 or python3 has torch.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
GORDIAN = os.path.join(BUILD, "bin", os.environ.get("GORDIAN_TEST_BINARY", "gordian"))
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch")


def find_python():
    for python in ("/usr/bin/python3", shutil.which("python3")):
        if python and subprocess.run(
                [python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                capture_output=True).returncode == 0:
            return python
    return None


PYTHON = find_python()


def reserve_port(case):
    """Until the case ends no other process is given the port. The job may listen on it all the same."""
    reserved = socket.socket(socket.AF_INET6)
    case.addCleanup(reserved.close)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("::1", 0))  # and not listening
    return str(reserved.getsockname()[1])


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "PYTHON", "LD_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


LAUNCH = r'''
port=$1; shift
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2
RANK=1 "$@" & other=$!
RANK=0 "$@"; first=$?
wait $other && exit $first
'''


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gordian-torch-")
        self.passed = False

    def tearDown(self):
        if self.passed:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"kept: {self.folder}", file=sys.stderr)

    def watch(self, kind, *more, options=("--on-verdict", "kill")):
        """The last verdict, the report's text, and how the job ended."""
        return self.watch_command([PYTHON, os.path.join(HERE, "job.py"), kind, *more], options, environment())

    def command(self, session, job, options):
        return [GORDIAN, "run", "--session", session, *options, "--", "bash", "-c", LAUNCH, "launch",
                reserve_port(self), *job]

    def watch_command(self, job, options, variables):
        session = os.path.join(tempfile.mkdtemp(dir=self.folder), "session")
        done = subprocess.run(self.command(session, job, options), env=variables, capture_output=True, text=True,
                              timeout=150)
        with open(os.path.join(session, "verdict.json")) as f:
            return json.load(f), done.stdout + done.stderr, done.returncode

    def watch_until(self, kind, check, word):
        """The verdict of this check, with `word` in its report, and the text up to there; else the last ones.

        A suspicion says what is so when it is due. On a busy machine a rank may then still be on its way, and a later
        verdict says more. So the job goes on until it has been said, and then we end it.
        """
        folder = tempfile.mkdtemp(dir=self.folder)
        session, printed = os.path.join(folder, "session"), os.path.join(folder, "printed")
        job = [PYTHON, os.path.join(HERE, "job.py"), kind]
        with open(printed, "w") as out:
            run = subprocess.Popen(self.command(session, job, ("--suspect-after", "3")), env=environment(), stdout=out,
                                   stderr=out, start_new_session=True)
        verdict, text = {}, ""
        try:
            deadline = time.monotonic() + 150
            while time.monotonic() < deadline and run.poll() is None:
                time.sleep(0.05)
                with open(printed) as f:
                    text = f.read()
                try:
                    with open(os.path.join(session, "verdict.json")) as f:
                        verdict = json.load(f)
                except OSError:
                    continue  # there is none yet
                if verdict["check"] == check and word in " ".join(text.split()):
                    break
        finally:
            try:
                os.killpg(run.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass  # it has ended
            run.wait(timeout=60)
        return verdict, text


class Watched(Run):
    def line_of(self, kind):
        """The line of the job's function that is marked so."""
        with open(os.path.join(HERE, "job.py")) as f:
            lines = f.read().split("\n")
        begin = next(i for i, line in enumerate(lines) if line.startswith(f"def {kind}("))
        return next(i + 1 for i in range(begin, len(lines)) if "# here" in lines[i])

    def test_opposite_groups(self):
        verdict, text, _ = self.watch("opposite")
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), text)
        self.assertEqual(verdict["culprit_ranks"], [0, 1], text)
        self.assertIn(f"job.py:{self.line_of('opposite')} opposite()", text)
        self.assertIn("communicators: group {0,1}, group {0,1} (2nd), made at", text)  # as many as the job made
        self.assertIn("all_reduce #1", text)
        self.passed = True

    def test_opposite_groups_twin(self):
        verdict, text, code = self.watch("opposite", "--twin")
        self.assertEqual(verdict["verdict"], "finished", text)
        self.assertEqual(code, 0, text)
        self.passed = True

    def test_key_that_is_set_behind_a_barrier(self):
        verdict, text, _ = self.watch("key")
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), text)
        self.assertIn('"ready"', text)
        self.assertIn(f"job.py:{self.line_of('key')} key()", text)
        self.passed = True

    def test_key_that_nothing_sets(self):
        self.expect_suspicion("unset_key", "host-blocked", [1], 'rank 1 has not set key "schedule" of the store')
        self.passed = True

    def test_a_thread_that_calls_later_prevents_the_proof(self):
        verdict, text, code = self.watch("late_thread")
        self.assertEqual(verdict["verdict"], "finished", text)
        self.assertEqual(code, 0, text)
        self.assertNotIn("confirmed", text)
        self.passed = True

    def test_an_exception_is_quoted(self):
        verdict, text, _ = self.watch("raises", options=("--on-verdict", "kill", "--suspect-after", "5"))
        self.assertEqual(verdict["verdict"], "rank_exited", text)
        self.assertIn("ValueError: the batch is empty at job.py:", " ".join(text.split()))
        self.passed = True

    def test_the_first_exception_comes_first(self):
        verdict, text, code = self.watch("raises_before_a_barrier")
        self.assertEqual((verdict["verdict"], code), ("finished", 1), text)
        said = " ".join(text[text.index("gordian: finished"):].split())
        first, second = "rank 1 exited with code 1, by ValueError: the batch is empty at job.py:", "by RuntimeError: "
        self.assertIn(first, said)
        self.assertIn(second, said)
        self.assertLess(said.index(first), said.index(second))
        self.passed = True

    def meeting_line(self):
        with open(os.path.join(HERE, "job.py")) as f:
            return next(i + 1 for i, line in enumerate(f) if line.endswith("# here: meeting\n"))

    def expect_suspicion(self, kind, check, culprits, word):
        verdict, text = self.watch_until(kind, check, word)
        self.assertEqual((verdict.get("check"), verdict.get("confidence")), (check, "suspected"), text)
        self.assertEqual(verdict["culprit_ranks"], culprits, text)
        self.assertIn(word, " ".join(text.split()))
        return text

    def test_a_rank_that_does_not_come(self):
        text = self.expect_suspicion("never_meets", "communicator-init-missing", [1],
                                     "rank 1 has not made init_process_group of rendezvous")
        self.assertIn(f"job.py:{self.meeting_line()} main()", text)
        self.passed = True

    def test_a_rank_that_raises_before_it_comes(self):
        self.expect_suspicion("raises_early", "rank-exited", [1], "ValueError: no such folder at job.py:")
        self.passed = True

    def test_another_process_may_come_in_its_place(self):
        verdict, text, code = self.watch("comes_late", options=("--on-verdict", "kill", "--suspect-after", "3"))
        self.assertEqual((verdict["verdict"], code), ("finished", 0), text)
        self.assertIn("rank 1 has exited", " ".join(text.split()))
        self.passed = True

    def test_a_port_that_is_taken(self):
        self.expect_suspicion("taken_port", "rank-exited", [0], "Error: The server socket has failed to listen")
        self.passed = True

    def test_ranks_that_meet_in_another_number(self):
        verdict, text = self.watch_until("other_size", "communicator-init-mismatch", "init_process_group")
        self.assertEqual(verdict.get("check"), "communicator-init-mismatch", text)
        self.passed = True

    def test_meetings_of_innocent_twins(self):
        # On a busy machine a rank may come more than a few seconds after the other.
        options = ("--on-verdict", "kill-suspected", "--suspect-after", "60")
        failed = 0
        for kind in ("never_meets", "raises_early", "taken_port", "other_size", "helper_raises"):
            failed += 1
            with self.subTest(kind):
                verdict, text, code = self.watch(kind, "--twin", options=options)
                self.assertEqual((verdict["verdict"], code), ("finished", 0), text)
                self.assertEqual((verdict["findings"], verdict["signs"]), ([], []), text)
                failed -= 1
        self.passed = failed == 0


class OverNccl(Run):
    """With a stand-in for PyTorch, whose groups issue NCCL's calls."""

    def watch_job(self, *more, store="TCPStore"):
        return self.watch_command([sys.executable, os.path.join(HERE, "nccl_job.py"), *more],
                                  ("--emulator", "--on-verdict", "kill"),
                                  environment(PYTHONPATH=os.path.join(HERE, "stand_in"), JOB_FOLDER=self.folder,
                                              JOB_STORE=os.path.join(BUILD, "tests", "libgordian_store_stand_in.so"),
                                              JOB_STORE_CLASS=store))

    def line_at(self, mark):
        with open(os.path.join(HERE, "nccl_job.py")) as f:
            return next(i + 1 for i, line in enumerate(f) if line.endswith(f"# here: {mark}\n"))

    def test_calls_are_named_by_those_of_pytorch(self):
        verdict, text, _ = self.watch_job("opposite")
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), text)
        self.assertIn(f"at nccl_job.py:{self.line_at('rank 0')} opposite() in torch's all_reduce", text)
        self.assertIn(f"at nccl_job.py:{self.line_at('rank 1')} opposite() in torch's backward", text)
        self.assertIn("AllReduce #1 on tp", text)  # as its description says
        self.assertIn("AllReduce #1 on dp", text)  # as the mesh calls its dimension
        self.assertIn(f"communicator: tp {{0,1}}, made at nccl_job.py:{self.line_at('split')} opposite() in torch's split_group", text)
        self.passed = True

    def check_backward(self, kind):
        verdict, text, _ = self.watch_job(kind)
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), text)
        self.assertIn(f"at nccl_job.py:{self.line_at('rank 1')} opposite() in torch's backward", text)
        self.passed = True

    def test_calls_of_a_hook_in_python_are_named_by_the_backward_pass(self):
        self.check_backward("engine")

    def test_calls_of_a_hook_in_cpp_are_named_by_the_backward_pass(self):
        self.check_backward("reducer")

    def check_backward_twin(self, kind):
        verdict, text, code = self.watch_job(kind, "--twin")
        self.assertEqual((verdict["verdict"], code), ("finished", 0), text)
        self.passed = True

    def test_calls_of_a_hook_in_python_are_named_by_the_backward_pass_twin(self):
        self.check_backward_twin("engine")

    def test_calls_of_a_hook_in_cpp_are_named_by_the_backward_pass_twin(self):
        self.check_backward_twin("reducer")

    def test_calls_are_named_by_those_of_pytorch_twin(self):
        verdict, text, code = self.watch_job("opposite", "--twin")
        self.assertEqual((verdict["verdict"], code), ("finished", 0), text)
        self.passed = True

    def check_join(self, store):
        verdict, text, _ = self.watch_job("join", store=store)
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("init_hang", "confirmed"), text)
        self.assertIn('it waits for key "critic"', " ".join(text.split()))
        self.assertIn(f"at nccl_job.py:{self.line_at('join')} join() in torch's all_reduce", text)
        self.passed = True

    def test_a_key_that_a_first_operation_waits_for(self):
        self.check_join("TCPStore")

    def test_a_key_of_a_file_store(self):
        self.check_join("FileStore")

    def check_join_twin(self, store):
        verdict, text, code = self.watch_job("join", "--twin", store=store)
        self.assertEqual((verdict["verdict"], code), ("finished", 0), text)
        self.passed = True

    def test_a_key_that_a_first_operation_waits_for_twin(self):
        self.check_join_twin("TCPStore")

    def test_a_key_of_a_file_store_twin(self):
        self.check_join_twin("FileStore")


class Truth(unittest.TestCase):
    def test_who_waits_for_whom(self):
        done = subprocess.run([PYTHON, os.path.join(HERE, "truth.py"), reserve_port(self)], env=environment(),
                              capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def told(text):
    """Without what differs between two runs of the same program."""
    text = re.sub(r"gordian: .*\n", "", text)
    return re.sub(r"(?<=pid )\d+|0x[0-9a-f]+|:\d{4,5}\b|\[W[^\n]*\n", "", text)


class Unchanged(unittest.TestCase):
    def run_plain(self, job, watched):
        with tempfile.TemporaryDirectory(prefix="gordian-torch-") as folder:
            prefix = [GORDIAN, "run", "--quiet", "--session", os.path.join(folder, "s"), "--"] if watched else []
            done = subprocess.run(prefix + [PYTHON, *job], env=environment(), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=150)
            code = done.returncode if done.returncode >= 0 else 128 - done.returncode
            return told(done.stdout), told(done.stderr), code

    def test_output_exit_code_and_tracebacks(self):
        for how in ("raise", "kill"):
            with self.subTest(how):
                watched, alone = (self.run_plain([os.path.join(HERE, "plain.py"), reserve_port(self), reserve_port(self),
                                                  how], under) for under in (True, False))
                self.assertEqual(watched, alone)

    def test_under_a_debugger(self):
        """It stops before a group is made, steps into that, goes on behind it, and stops at the exception."""
        path = os.path.join(HERE, "debugged.py")
        with open(path, encoding="utf-8") as f:
            line = next(number for number, text in enumerate(f, 1) if text.endswith("# break\n"))
        steps = [f"break {path}:{line}", "continue", "step", "where", "return", "next", "next", "step", "where", "continue"]
        debugger = ["-m", "pdb", *(word for step in steps for word in ("-c", step))]
        watched, alone = (self.run_plain([*debugger, path, reserve_port(self)], under) for under in (True, False))
        self.assertIn("--Call--", alone[0])
        self.assertIn("done True 0", alone[0])
        self.assertIn("ValueError: the last word", "".join(alone[:2]))
        self.assertEqual(watched, alone)


if __name__ == "__main__":
    if PYTHON is None:
        print("no python3 here has torch with gloo")
        sys.exit(77)
    unittest.main(verbosity=2)
