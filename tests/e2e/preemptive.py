#!/usr/bin/env python3
"""Jobs whose collectives go to the preemptive runtime: `gordian run --emulator --collectives=preemptive`.

  preemptive.py BUILD JOB [--ranks N] [--without-memory]

A job that hangs for order alone must end by itself, with right results, and without a word of a deadlock; the same
program with NCCL's collectives must hang. A job with a host wait between, or whose data need the order, must hang
either way and be told as before. So must a job of which a rank ends. A job that gives up what it has called, and goes on with fewer ranks, must end either way,
and its rest be the runtime's, too. --without-memory: the job's twin, of which one rank gets no memory for the runtime's
communicators, must end all the same, on NCCL.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ORDER_ALONE = {"inversion_one_stream", "inversion_subset", "inversion_cold", "three_comm_cycle", "event_cycle",
               "hybrid_recv_all_reduce", "pipeline_swapped_apart"}
# A host waits in between, or what an operation sends is what the one before it receives.
HARD = {"inversion_sync", "inversion_free", "inversion_pageable_copy", "pipeline_swapped"}
# A rank that is gone: what the others wait for never comes, and nothing goes on with what was not written.
GONE = {"exited_rank": "rank_exited", "killed_rank": "rank_exited"}
ENDS = {"shrunk_with_abort", "revoked_and_shrunk", "devices_of_one_thread",
        "devices_default_streams"}  # with NCCL's collectives, too
# Operations in graphs stay with NCCL: it hangs either way, and is told; its twin ends.
GRAPHS = {"graph_inversion"}


def run(build, job, ranks, collectives, twin=False, without_memory=False):
    work = tempfile.mkdtemp(prefix="gordian-preemptive-")
    session = os.path.join(work, "session")
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--collectives", collectives, "--session", session,
               "--on-verdict", "kill", "--", os.path.join(build, "tests", "gordian_e2e_job"), job, "--check"]
    if ranks:
        command += ["--ranks", str(ranks)]
    if twin:
        command += ["--twin"]
    env = dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress"))
    if without_memory:
        env["LD_PRELOAD"] = os.path.join(build, "tests", "libgordian_e2e_no_shared_memory.so")
        env["NO_SHARED_MEMORY_FILE"] = os.path.join(work, "taken")
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100,
                          check=False)
    taken = os.path.exists(os.path.join(work, "taken"))
    need(taken == without_memory, "which rank has no memory?", done.stderr)
    with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
        verdict = json.load(f)
    shutil.rmtree(work)
    return done.returncode, verdict, done.stderr


def need(condition, what, output):
    if not condition:
        sys.exit(f"{what}\n{output}")


def operations(output):
    found = re.search(r"gordian: ([\d,]+) operations? by the preemptive runtime(.*)", output)
    need(found, "gordian does not say what the runtime did", output)
    return int(found[1].replace(",", "")), found[2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("job")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--without-memory", action="store_true")
    options = parser.parse_args()

    if options.without_memory:
        code, verdict, output = run(options.build, options.job, options.ranks, "preemptive", twin=True, without_memory=True)
        need(code == 0, f"the twin ended with {code}", output)
        done, left = operations(output)
        need(done == 0 and "not all members routed" in left, "not all stayed with NCCL", output)
        return
    if options.job in GRAPHS:
        code, verdict, output = run(options.build, options.job, options.ranks, "preemptive", twin=True)
        need(code == 0, f"the twin ended with {code}", output)
        need("in captured CUDA graphs" in operations(output)[1], "what stays with NCCL is not named", output)
        code, verdict, output = run(options.build, options.job, options.ranks, "preemptive")
        need(code == 137 and verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed",
             f"the circle ended with {code} and {verdict['verdict']}", output)
        return
    code, verdict, output = run(options.build, options.job, options.ranks, "preemptive")
    done, left = operations(output)
    need(done > 0 and left == ", none by NCCL", "not all went to the runtime", output)
    if options.job in HARD:
        need(code == 137 and verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed",
             f"a hard cycle ended with {code} and {verdict['verdict']}", output)
        code, verdict, output = run(options.build, options.job, options.ranks, "preemptive", twin=True)
        need(code == 0, f"the twin ended with {code}", output)
    elif options.job in GONE:
        need(code == 137 and verdict["verdict"] == GONE[options.job], f"it ended with {code} and {verdict['verdict']}", output)
        code, verdict, output = run(options.build, options.job, options.ranks, "preemptive", twin=True)
        need(code == 0 and verdict["verdict"] in ("finished", "healthy"), f"the twin ended with {code}", output)
    elif options.job in ENDS:
        need(code == 0, f"it ended with {code}", output)
        code, verdict, output = run(options.build, options.job, options.ranks, "nccl")
        need(code == 0, f"with NCCL it ended with {code}", output)
    else:
        need(options.job in ORDER_ALONE, f"{options.job}: what should become of it?", "")
        need(code == 0, f"it ended with {code}", output)
        need(verdict["verdict"] in ("finished", "healthy"), f"the verdict is {verdict['verdict']}", output)
        code, verdict, output = run(options.build, options.job, options.ranks, "nccl")
        need(code == 137 and verdict["verdict"] == "deadlock", f"with NCCL it ended with {code}", output)


if __name__ == "__main__":
    main()
