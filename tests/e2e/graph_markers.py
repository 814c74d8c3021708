#!/usr/bin/env python3
"""Which captured operation a launched graph is in, with `gordian run --graph-markers`.

  graph_markers.py BUILD

A graph of six all-reduces on two communicators hangs in front of the fifth, in a kernel of the last rank.
With the markers the verdict names the fifth and nothing before it: the first rank is in it, the last has it
before itself. Without them nobody can tell, and the verdict names the first. The twin ends, with and without.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

# AllReduce #0 of each communicator is the one before the graph: a and b are used once each before.
FIRST, SECOND, FIFTH, SIXTH = ("a", 1), ("b", 1), ("a", 3), ("b", 3)


def nodes(build, options):
    """Nodes of a graph of three operations and a copy; of one captured into another; of one captured after that."""
    work = tempfile.mkdtemp(prefix="gordian-graph-nodes-")
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--quiet", "--session",
               os.path.join(work, "session")] + options + \
              ["--", os.path.join(build, "tests", "gordian_e2e_job"), "graph_nodes", "--ranks", "2"]
    done = subprocess.run(command, env=dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress")),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    shutil.rmtree(work)
    words = done.stdout.decode().split()
    if done.returncode != 0 or words[:1] != ["nodes"]:
        sys.exit(f"graph_nodes: exit code {done.returncode}, {done.stdout.decode()}{done.stderr.decode()}")
    return [int(word) for word in words[1:]]


def run(build, options, twin):
    work = tempfile.mkdtemp(prefix="gordian-graph-markers-")
    session = os.path.join(work, "session")
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--session", session, "--on-verdict",
               "kill-suspected", "--suspect-after", "60" if twin else "0.5"] + options + \
              ["--", os.path.join(build, "tests", "gordian_e2e_job"), "graph_stuck_inside", "--ranks", "2"] + \
              (["--twin"] if twin else [])
    env = dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress"))
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    with open(os.path.join(session, "verdict.json")) as f:
        verdict = json.load(f)
    shutil.rmtree(work)
    return done.returncode, verdict


def states(verdict):
    """{(communicator, number): [state of rank 0, state of rank 1]}"""
    return {(operation["comm_name"], operation["seq"]): [m["state"] for m in operation["members"]]
            for operation in verdict["operations"]}


def main():
    build = os.path.abspath(sys.argv[1])
    # Five markers, not six: one lies between the first two operations. A capture into a graph ends them.
    for options, expected in (([], [4, 4, 4]), (["--graph-markers"], [9, 4, 4])):
        found = nodes(build, options)
        print(f"nodes with {options}: {found}")
        if found != expected:
            sys.exit(f"expected {expected} nodes")
    code, verdict = run(build, ["--graph-markers"], twin=False)
    found = states(verdict)
    print(f"with markers: {verdict['verdict']}: {verdict['summary']} {found}")
    if verdict["verdict"] != "stuck_kernel" or code != 137:
        sys.exit(f"expected stuck_kernel and a kill, got {verdict['verdict']} and exit code {code}")
    if found != {FIFTH: ["at_head", "enqueued"], SIXTH: ["enqueued", "enqueued"]}:
        sys.exit(f"expected the fifth and the sixth operation, the fifth begun by rank 0 only; found {found}")
    if "#3 on a" not in verdict["summary"]:
        sys.exit("the summary does not name the fifth operation")

    code, verdict = run(build, [], twin=False)
    found = states(verdict)
    print(f"without: {verdict['verdict']}: {verdict['summary']}")
    if verdict["verdict"] != "stuck_kernel" or FIRST not in found or SECOND not in found:
        sys.exit(f"without markers the whole launch is what is known; found {found}")

    for options in (["--graph-markers"], []):
        code, verdict = run(build, options, twin=True)
        print(f"twin {options}: {verdict['verdict']}, exit code {code}")
        if verdict["verdict"] != "finished" or verdict["findings"] or code != 0:
            sys.exit(f"the twin was called {verdict['verdict']}: {verdict['summary']}, exit code {code}")
        if verdict["evidence"]["records_lost"] != 0:
            sys.exit("records were lost")


if __name__ == "__main__":
    main()
