#!/usr/bin/env python3
"""Communicators that go to the preemptive runtime by their names: `gordian run --emulator --collectives=preemptive:dp,tp`.

  preemptive_names.py BUILD

A job that takes two pairs of communicators in different orders ends with the names of both pairs, and hangs as with
NCCL alone with the names of one pair, of one of each, or of none. What only some ranks call so is NCCL's for all. The
twins end whatever is named.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile


class Run:
    def __init__(self, build, collectives, job, *options, **variables):
        with tempfile.TemporaryDirectory(prefix="gordian-names-") as work:
            session = os.path.join(work, "session")
            command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--collectives", collectives, "--session",
                       session, "--on-verdict", "kill", "--", os.path.join(build, "tests", "gordian_e2e_job"), job, "--check",
                       *options]
            env = dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress"), **variables)
            done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=100, check=False)
            self.what = f"{collectives} {job} {' '.join(options)}"
            self.code, self.said = done.returncode, done.stderr
            with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
                self.verdict = json.load(f)

    def need(self, condition, *what):
        if not condition:
            sys.exit(f"{self.what}: " + " ".join(map(str, what)) + "\n" + self.said)
        return self

    def ends(self):
        return self.need(self.code == 0 and self.verdict["verdict"] == "finished", "ended with", self.code,
                         self.verdict["summary"])

    def hangs(self, *names):
        """In a cycle of the communicators with these names, and of no other."""
        found = {edge["comm_name"].split(" ")[0].removesuffix("-here") for edge in self.verdict["cycle"]}
        return self.need(self.code == 137 and self.verdict["verdict"] == "deadlock"
                         and self.verdict["confidence"] == "confirmed" and found == set(names), "ended with", self.code,
                         self.verdict["verdict"], found)

    def counts(self, by_runtime, left):
        """How many operations the runtime did, and why the others are NCCL's."""
        found = re.search(r"gordian: ([\d,]+) operations? by the preemptive runtime(.*)", self.said)
        self.need(found, "no line on what the runtime did")
        self.need((int(found[1].replace(",", "")) > 0) == by_runtime, "operations by the runtime:", found[1])
        return self.need(left in found[2] if left else found[2] == ", none by NCCL", "by NCCL:", found[2])

    def unknown(self, *names):
        lines = [line for line in self.said.splitlines() if "--collectives names what no communicator" in line]
        told = re.search(r"when it was made: (.*) \(gordian status", lines[0])[1].split(", ") if lines else []
        return self.need(len(lines) < 2 and told == list(names), "unknown names:", told)


UNNAMED = "of communicators that --collectives does not name"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    build = parser.parse_args().build

    def two_pairs(names, *options):
        return Run(build, "preemptive" + names, "inversion_two_pairs", *options)

    two_pairs(":dp,tp,ep,cp").ends().counts(True, "").unknown()
    two_pairs("").ends().counts(True, "").unknown()
    two_pairs(":dp,tp").hangs("ep", "cp").counts(True, UNNAMED).unknown()
    # NCCL's operations hold up those of the runtime behind them, and the other way round.
    two_pairs(":dp,ep").hangs("dp", "tp").counts(True, UNNAMED).unknown()
    two_pairs(":data,tensor").hangs("dp", "tp").counts(False, UNNAMED).unknown("data", "tensor")
    two_pairs(":dp,world,tp", "--twin").ends().counts(True, UNNAMED).unknown("world")

    def half(names, *options):
        return Run(build, "preemptive" + names, "inversion_half_named", *options)

    half(":dp,tp").hangs("dp", "tp").counts(False, "that not all members routed").unknown()
    half(":dp,tp", "--twin").ends().counts(False, UNNAMED).unknown()
    half(":dp,tp,dp-here,tp-here").ends().counts(True, "").unknown()

    # As verdicts call it: a longer name by its first bytes.
    long = "-whose-name-is-longer-than-verdicts-show"
    shown = [(name + long)[:27] for name in ("dp", "tp", "ep", "cp")]
    Run(build, "preemptive:" + ",".join(shown), "inversion_two_pairs",
        JOB_NAME_SUFFIX=long).ends().counts(True, "").unknown()

    for wrong in ("preemptive:", "preemptive:dp,,tp", "nccl:dp", "both"):
        done = subprocess.run([os.path.join(build, "bin", "gordian"), "run", "--collectives", wrong, "--", "true"], text=True,
                              capture_output=True, timeout=100, check=False)
        if done.returncode != 2 or "--collectives" not in done.stderr or wrong not in done.stderr:
            sys.exit(f"--collectives {wrong}: exit code {done.returncode}\n{done.stderr}")


if __name__ == "__main__":
    main()
