#!/usr/bin/env python3
"""SIGKILL at random moments to `gordian serve` and to the nodes' `gordian run`:

  kills.py BUILD_FOLDER [--long] [--repeat N] [--seed N] [CASE...]

Ranks and `gordian run` of one machine: tests/e2e/crash.py.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet_testing import (NODES, Job, check_deadlock, check_exactly_once, check_finished, expect, main, steps_go_on,
                           wait_for)


def at_a_moment(case, longest):
    """A kill has a moment; which one, the seed says."""
    time.sleep(case.rng.uniform(0, longest))


def server_of_a_job_that_runs(case):
    """Killed, and again while it reads its folder: no record is lost or doubled, and the job ends well."""
    server = case.server()
    proxy = case.proxy(server)
    job = Job(case, "a", f"127.0.0.1:{proxy.port}", "steady_then_inversion", twin=True)
    steps_go_on(server, job)
    for longest in (0.5, 0.1):
        at_a_moment(case, longest)
        server.kill()
        server.start()
        proxy.target = server.port
    steps_go_on(server, job)
    job.tell()
    check_finished(server, job, job.wait())
    check_exactly_once(server, job)


def server_of_a_job_that_hangs(case):
    """Killed before, at or after the verdict: every node hears the deadlock. It may be proven before the last node is
    back; then ranks 1 and 2 differ, and no third says which of them departs."""
    server = case.server()
    proxy = case.proxy(server)
    job = Job(case, "a", f"127.0.0.1:{proxy.port}", "inversion_one_stream")
    at_a_moment(case, 1.5)
    server.kill()
    server.start()
    proxy.target = server.port
    codes = job.wait()
    wait_for(lambda: (server.verdict("a") or {}).get("verdict") == "deadlock", "the server's verdict")
    verdict = server.verdict("a")
    if verdict["culprit_ranks"] != [NODES - 2, NODES - 1] or "went away" not in str(verdict["evidence"]["not_visible"]):
        check_deadlock(server, job, codes)
    expect(verdict["confidence"] == "confirmed" and codes == [137] * NODES, verdict["summary"], codes)


def node(case):
    """The killed node's rank and all others go on, and no verdict claims what it cannot know."""
    server = case.server()
    job = Job(case, "a", f"127.0.0.1:{server.port}", "steady_then_inversion", twin=True)
    steps_go_on(server, job)
    at_a_moment(case, 0.5)
    victim = case.rng.randrange(NODES)
    job.nodes[victim].kill()

    def step_of(rank):
        with open(job.progress, "rb") as f:
            return struct.unpack_from("<q", f.read(64 * NODES), 64 * rank)[0]
    for rank in range(NODES):
        before = step_of(rank)
        wait_for(lambda: step_of(rank) > before, f"rank {rank} goes on")
    job.tell()
    codes = job.wait()
    codes.pop(victim)
    expect(codes == [0] * (NODES - 1), "exit codes of the other nodes", codes)
    verdict = server.verdict("a")
    expect(verdict["verdict"] in ("healthy", "finished", "inconclusive") and verdict["confidence"] != "confirmed",
           verdict["verdict"], verdict["confidence"], verdict["summary"])


CASES = [server_of_a_job_that_runs, server_of_a_job_that_hangs, node]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
