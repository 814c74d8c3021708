#!/usr/bin/env python3
"""jobs.py with gordian and without, on GPUs: every job alone, watched, and with its mistake.

  run_jobs.py GORDIAN OUTPUT_FOLDER [--ranks 2] [--jobs fsdp,pipeline,graph,compile|mesh_tp,mesh_pp,mesh_dp]

Alone and watched must give the same bits, and the watched one no finding and no lost record; the one with
the mistake must be ended by gordian with the right verdict. What was printed and verdict.json of each run
stay in OUTPUT_FOLDER. One line a job; exits with 1 if anything was wrong.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAST, EITHER, PAIR = "last", "either", "pair"
# What a mistake must be called, how surely, and whose it is. In a pipeline of pairs every pair has it, and
# one of them comes first.
EXPECTED = {
    "fsdp": (["deadlock"], "confirmed", EITHER),
    "pipeline": (["deadlock"], "confirmed", PAIR),
    "graph": (["rank_not_joined", "host_blocked"], "suspected", LAST),
    "compile": (["deadlock"], "confirmed", EITHER),
    "mesh_tp": (["deadlock"], "confirmed", LAST),
    "mesh_pp": (["deadlock"], "confirmed", LAST),
    "mesh_dp": (["deadlock"], "confirmed", LAST),
}


def run(args, name, command, limit):
    with open(os.path.join(args.output, name + ".out"), "w", encoding="utf-8") as out, \
            open(os.path.join(args.output, name + ".err"), "w", encoding="utf-8") as err:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()
            code = process.wait(timeout=30)
            code = f"nothing within {limit} s, {code} when told to end"
    with open(os.path.join(args.output, name + ".out"), encoding="utf-8") as f:
        done = "done" in f.read().split()
    return code, done, time.monotonic() - begin


def watched(args, name, command, options, limit):
    session = os.path.join(args.output, "session_" + name)
    shutil.rmtree(session, ignore_errors=True)
    code, done, seconds = run(args, name, [args.gordian, "run", "--session", session] + options + ["--"] + command, limit)
    with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
        verdict = json.load(f)
    shutil.copy(os.path.join(session, "verdict.json"), os.path.join(args.output, name + ".verdict.json"))
    shutil.copy(os.path.join(session, "report.txt"), os.path.join(args.output, name + ".report.txt"))
    shutil.rmtree(session, ignore_errors=True)
    return code, done, seconds, verdict


def one_job(args, job):
    wrong = []
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks),
                os.path.join(HERE, "jobs.py"), job]
    digests = {side: os.path.join(args.output, f"{job}.{side}") for side in ("alone", "watched")}
    code, done, _ = run(args, job + "_alone", torchrun + ["--digest", digests["alone"]], 120)
    if code != 0 or not done:
        return [f"alone: ended with {code}"], ""
    code, done, seconds, verdict = watched(args, job + "_watched", torchrun + ["--digest", digests["watched"]],
                                           ["--on-verdict", "kill-suspected"], 120)
    if code != 0 or not done:
        wrong.append(f"watched: ended with {code}")
    for rank in range(args.ranks):
        a, b = (os.path.join(digests[side], f"digest.{rank}") for side in ("alone", "watched"))
        if not os.path.exists(b) or not filecmp.cmp(a, b, shallow=False):
            wrong.append(f"rank {rank}: other results than alone")
    if verdict["verdict"] != "finished" or verdict["findings"]:
        wrong.append(f"watched: {verdict['verdict']} ({verdict['confidence']}): {verdict['summary']}")
    if verdict["evidence"]["records_lost"] != 0:
        wrong.append(f"watched: {verdict['evidence']['records_lost']} records lost")
    said = f"watched: {verdict['verdict']}, {verdict['evidence']['nccl_calls']} NCCL calls"

    kinds, confidence, whose = EXPECTED[job]
    code, done, seconds, verdict = watched(args, job + "_hung", torchrun + ["--hang"],
                                           ["--on-verdict", "kill-suspected", "--suspect-after", "5"], 120)
    culprits = sorted(verdict["culprit_ranks"])
    last = [args.ranks - 1]
    accepted = {LAST: [last], EITHER: [list(range(args.ranks)), last],
                PAIR: [[first, first + 1] for first in range(0, args.ranks, 2)]}[whose]
    if code != 137 or done:
        wrong.append(f"hung: ended with {code}")
    if verdict["verdict"] not in kinds or verdict["confidence"] != confidence:
        wrong.append(f"hung: {verdict['verdict']} ({verdict['confidence']}), expected {kinds} ({confidence})")
    if culprits not in accepted:
        wrong.append(f"hung: culprits {culprits}, expected one of {accepted}")
    return wrong, said + f"; hung: {verdict['verdict']} ({verdict['confidence']}) of {culprits} after {seconds:.1f} s in " \
                         f"all: {verdict['summary']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gordian")
    parser.add_argument("output")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", default="fsdp,pipeline,graph,compile")
    args = parser.parse_args()
    args.output = os.path.abspath(args.output)
    os.makedirs(args.output, exist_ok=True)
    failed = False
    for job in args.jobs.split(","):
        wrong, said = one_job(args, job)
        print(f"{job}: {said}", flush=True)
        for problem in wrong:
            print(f"WRONG: {job}: {problem}", flush=True)
        failed = failed or bool(wrong)
    print("all as it should be" if not failed else "something was wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
