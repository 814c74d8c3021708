#!/usr/bin/env python3
"""gordian.torch.plan from outside: plans that are followed, refused, and left by a rank.

  run_plan.py --build build/release --case followed|hang|example

followed: plan_job.py's training and refusals. hang: `gordian run` explains a rank that leaves out an iteration of its
plan. example: examples/torch-plan, from its times to its training. The interpreter is run_torch.py's; without torch
the test is skipped (exit code 77). A failed test keeps its folder and names it.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from run_torch import HERE, LONGEST_S, SKIP, Failure, end, guilty_lines, interpreter

JOB = os.path.join(HERE, "plan_job.py")
EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "torch-plan", "train.py")


class Case:
    def __init__(self, build, python, work):
        self.build, self.python, self.work = os.path.abspath(build), python, work
        self.gordian = os.path.join(self.build, "bin", "gordian")

    def path(self, name):
        return os.path.join(self.work, name)

    def start(self, *script):
        return [self.python, os.path.join(HERE, "start.py"), "2", *script]

    def run(self, command, code=0):
        env = dict(os.environ, PYTHONPATH=os.path.join(self.build, "lib", "python"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            printed = process.communicate(timeout=LONGEST_S)[0]
        except subprocess.TimeoutExpired:
            end(process)
            raise Failure(f"{shlex.join(command)}: still running after {LONGEST_S} s:\n"
                          f"{process.communicate()[0][-3000:]}") from None
        if process.returncode != code:
            raise Failure(f"{shlex.join(command)}: {process.returncode} instead of {code}:\n{printed[-6000:]}")
        return printed

    def followed(self):
        print(self.run(self.start(JOB, "training,refusals", self.work, self.gordian)))

    def hang(self):
        session = self.path("session")
        self.run([self.gordian, "run", "--session", session, "--on-verdict", "kill", "--",
                  *self.start(JOB, "hang", self.work, self.gordian)], code=137)
        with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
            verdict = json.load(f)
        if (verdict["verdict"], verdict["confidence"]) != ("deadlock", "confirmed"):
            raise Failure(f"{verdict['verdict']}, {verdict['confidence']}: {verdict['summary']}")
        report = self.run([self.gordian, "explain", session], code=1)
        for what in ("the rank that waits", "the rank that left"):
            for line in guilty_lines(JOB, what):
                if f"plan_job.py:{line} " not in report:
                    raise Failure(f"the report does not name line {line}, {what}:\n{report}")
        # The line of an operation is the job's, not one of gordian's package between it and PyTorch.
        if re.search(r"^ *\|? +at plan\.py:", report, re.M):
            raise Failure(f"an operation has a line of plan.py:\n{report}")

    def example(self):
        table, plan = self.path("buckets.json"), self.path("plan.json")
        self.run(self.start(EXAMPLE, "--measure", table, "--steps", "10"))
        self.run([self.gordian, "plan", table, "--ranks", "2", "--baselines", "-o", plan])
        printed = self.run(self.start(EXAMPLE, "--plan", plan, "--steps", "10"))
        if not re.search(r"^\d+ updates in 10 steps$", printed, re.M) or "done" not in printed.split():
            raise Failure(f"the training by the plan printed:\n{printed}")
        print(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--case", choices=["followed", "hang", "example"], required=True)
    args = parser.parse_args()
    python = interpreter()
    if python is None:
        print("skipped: no python3 has torch")
        return SKIP
    work = tempfile.mkdtemp(prefix=f"gordian-plan-{args.case}-")
    try:
        getattr(Case(args.build, python, work), args.case)()
    except Failure as failure:
        print(f"FAILED {args.case}: {failure}\nevidence: {work}\n"
              f"repeat: {shlex.join([sys.argv[0], '--build', args.build, '--case', args.case])}")
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
