#!/usr/bin/env python3
"""Jobs that an elastic launcher starts again (launcher.py): a rank dies in the middle, the rest is ended,
and all come back with the same RANK.

  elastic.py BUILD_FOLDER [CASE...]

The communicators of the job (jobs/elastic.cc) count its ranks from the other end: a rank that is named
right was named by RANK.
"""

import json
import os
import signal
import subprocess
import sys

from fleet_testing import (BUILD, PATIENCE, Job, check_exactly_once, clean_environment, expect, main, read_json,
                           wait_for)

RANKS = 3
DIES = 2  # of the three; the first in its communicators
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")


def command(*options, twin=True):
    return [sys.executable, LAUNCHER, "--ranks", str(RANKS), *options, "--", BUILD.job, "elastic", "--elastic",
            *(["--twin"] if twin else [])]


class Run:
    """`gordian run` with a launcher on this machine."""

    def __init__(self, case, *options, twin=True, on_verdict="report", environment=None):
        self.case = case
        self.session = case.path("session")
        env = clean_environment(JOB_PROGRESS=case.path("progress"), JOB_DIES=str(DIES), **(environment or {}))
        with open(case.path("run.err"), "wb") as err:
            self.process = subprocess.Popen(
                [BUILD.gordian, "run", "--emulator", "--session", self.session, "--on-verdict", on_verdict,
                 "--suspect-after", "3", "--", *command(*options, twin=twin)],
                env=env, stdout=err, stderr=err, stdin=subprocess.DEVNULL, cwd=case.work)
        case.jobs.append(self)

    def verdict(self):
        return read_json(os.path.join(self.session, "verdict.json"))

    def text(self, name):
        with open(os.path.join(self.session, name)) as f:
            return f.read()

    def says(self, kind, culprits):
        """The verdict, once it is this one and proven."""
        def now():
            verdict = self.verdict()
            return (verdict and verdict["verdict"] == kind and verdict["confidence"] == "confirmed"
                    and verdict["culprit_ranks"] == culprits and verdict)
        return wait_for(now, f"a verdict of {kind} by {culprits}, last: {self.verdict()}")

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            expect(False, "the job did not end")

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def check_came_back(run, verdict, because, times=1):
    told = {"times": times, "ranks": list(range(RANKS)), "because": because}
    expect(verdict.get("restarts") == told, "restarts:", verdict.get("restarts"), "expected:", told)
    expect("restarted: ranks 0-2" in run.text("report.txt"), run.text("report.txt"))
    evidence = verdict["evidence"]
    expect(evidence["ranks_seen"] == RANKS and evidence["ranks_expected"] == RANKS, evidence)
    again = subprocess.run([BUILD.gordian, "analyze", run.session, "--json"], capture_output=True, text=True,
                           timeout=PATIENCE, env=clean_environment())
    anew = json.loads(again.stdout)
    expect(anew["verdict"] == verdict["verdict"] and anew["restarts"] == told, again.stdout[:2000])


def check_ended_well(run, code, because, times=1):
    verdict = run.verdict()
    expect(code == 0, "exit code", code)
    expect(verdict["verdict"] == "finished" and not verdict["findings"], verdict["verdict"], verdict["summary"],
           verdict["findings"])
    check_came_back(run, verdict, because, times)


def ends_well(case):
    """The death is seen, the group started again, and then it is history."""
    go = case.path("go")
    run = Run(case, "--restart-when", go)
    run.says("rank_exited", [DIES])
    open(go, "w").close()
    check_ended_well(run, run.wait(), f"rank {DIES} was killed by signal 9")
    with open(case.path("run.err")) as f:
        said = f.read()
    expect("launcher restarted the ranks" in said and "withdrawn" not in said, said)
    status = subprocess.run([BUILD.gordian, "status", run.session, "--json"], capture_output=True, text=True,
                            timeout=PATIENCE, env=clean_environment())
    ranks = json.loads(status.stdout)["ranks"]
    expect([(r["rank"], r["incarnation"]) for r in ranks] == [(r, 2) for r in range(RANKS)], ranks)


def ends_well_at_once(case):
    """The launcher is faster than a verdict, and has to start twice."""
    run = Run(case, "--max-restarts", "2", environment={"JOB_DEATHS": "2", "JOB_EXIT": "3"})
    check_ended_well(run, run.wait(), f"rank {DIES} exited with code 3", times=2)


def then_deadlocks(case):
    """What comes back deadlocks: proven, and the culprit is named by RANK."""
    go = case.path("go")
    run = Run(case, "--restart-when", go, twin=False)
    run.says("rank_exited", [DIES])
    open(go, "w").close()
    verdict = run.says("deadlock", [RANKS - 1])
    expect(sorted(verdict["victim_ranks"]) == list(range(RANKS - 1)), verdict["victim_ranks"])
    run.kill()
    verdict = run.says("deadlock", [RANKS - 1])
    expect(not any(f["verdict"] == "rank_exited" for f in verdict["findings"]), verdict["findings"])
    check_came_back(run, verdict, f"rank {DIES} was killed by signal 9")


def not_restarted(case):
    """Nobody comes back: the exit is what the others hang for."""
    run = Run(case, "--leave-others", on_verdict="kill")
    code = run.wait()
    verdict = run.says("rank_exited", [DIES])
    expect(code == 137, "exit code", code)
    expect(verdict["victim_ranks"] == [0, 1] and "restarts" not in verdict, verdict)


def gives_up(case):
    """The last incarnation dies as well: that stays, whatever came back before."""
    first, then = case.path("go"), f"rank {DIES} exited with code 3"
    run = Run(case, "--restart-when", first, environment={"JOB_DEATHS": "2", "JOB_EXIT": "3"})
    run.says("rank_exited", [DIES])
    open(first, "w").close()
    wait_for(lambda: (run.verdict() or {}).get("restarts"), "it comes back")
    code = run.wait()
    expect(code == 1, "exit code", code)
    verdict = run.verdict()
    expect(verdict["restarts"]["times"] == 1 and verdict["restarts"]["because"] == then, verdict["restarts"])
    text = verdict["summary"] + str(verdict["findings"])
    expect(verdict["verdict"] in ("rank_exited", "finished") and "exited with code 3" in text, verdict)


def nodes(case, twin):
    server = case.server()
    meet = case.path("meet")
    os.mkdir(meet)
    go = case.path("go")
    job = Job(case, "a", f"127.0.0.1:{server.port}", "elastic", on_verdict="report", ranks=2,
              environment={"JOB_DIES": "3"},
              program=lambda node: [sys.executable, LAUNCHER, "--ranks", "4", "--nodes", "2", "--node", str(node),
                                    "--meet", meet, "--restart-when", go, "--", BUILD.job, "elastic", "--elastic",
                                    *(["--twin"] if twin else [])])

    def says(kind):
        verdict = server.verdict("a")
        return (verdict and verdict["verdict"] == kind and verdict["confidence"] == "confirmed"
                and verdict["culprit_ranks"] == [3])
    wait_for(lambda: says("rank_exited"), "the death of rank 3 is a verdict")
    open(go, "w").close()
    if not twin:
        wait_for(lambda: says("deadlock"), "the deadlock of the second incarnation is proven")
        job.kill()
    codes = job.wait()
    _, verdict = check_exactly_once(server, job)
    expect(verdict["restarts"]["ranks"] == [0, 1, 2, 3] and verdict["restarts"]["times"] == 1, verdict["restarts"])
    expect(verdict["restarts"]["because"] == "rank 3 was killed by signal 9", verdict["restarts"])
    if twin:
        expect(codes == [0, 0], "exit codes", codes)
        expect(verdict["verdict"] == "finished" and not verdict["findings"], verdict["verdict"], verdict["findings"])
    else:
        expect(says("deadlock"), verdict["verdict"], verdict["summary"])


def nodes_end_well(case):
    """Two nodes with a launcher each, one job: as ends_well."""
    nodes(case, twin=True)


def nodes_then_deadlock(case):
    """Two nodes with a launcher each, one job: as then_deadlocks."""
    nodes(case, twin=False)


CASES = [ends_well, ends_well_at_once, then_deadlocks, not_restarted, gives_up, nodes_end_well, nodes_then_deadlock]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
