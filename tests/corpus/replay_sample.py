#!/usr/bin/env python3
"""Replays of corpus jobs that hang: each is recorded, and `gordian replay --minimize --verify` must hang in the same way.

  replay_sample.py --build build/release [--count 100] [--runs 5] [--seed S] [--families F,...] [--jobs N]
  replay_sample.py --build build/release --only dl2_mlp.5,ours_splits.11 [--keep FOLDER]      these jobs, as a run names them

Mutated jobs are drawn until so many of them hang (gordian's own verdict: deadlock, a rank that does not come, ...). What
cannot be replayed is listed with its reason. Mismatches do not count: many of them do not hang.
"""

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import execute  # noqa: E402
from families import FAMILIES  # noqa: E402

NO_HANG = ("healthy", "finished", "inconclusive", "mismatch", "none")


def one(args, family, index):
    """(name, kind, detail): kind is `no hang`, `same`, `refused` or `different`."""
    job = FAMILIES[family].job(index, random.Random(f"{args.seed}/{family}/{index}"))
    name = f"{family}.{index}"
    folder = tempfile.mkdtemp(prefix="gordian-replay-corpus-")
    try:
        text, session = os.path.join(folder, "job"), os.path.join(folder, "session")
        with open(text, "w") as f:
            f.write(job.mutated.text())
        env = execute.environment(job.mutated, os.path.join(folder, "report"))
        gordian = os.path.join(args.build, "bin", "gordian")
        with open(os.path.join(folder, "run.out"), "wb") as out:
            process = subprocess.Popen(
                [gordian, "run", "--emulator", "--quiet", "--suspect-after", "1.5", "--on-verdict", "kill-suspected",
                 "--session", session, "--", os.path.join(args.build, "tests", "gordian_corpus_job"), text,
                 os.path.join(folder, "results")], stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                execute.end_group(process)
                return name, "no hang", "neither ended nor told in a minute"
        with open(os.path.join(session, "verdict.json")) as f:
            verdict = json.load(f)["verdict"]
        if verdict in NO_HANG:
            return name, "no hang", verdict
        began = time.monotonic()
        done = subprocess.run([gordian, "replay", session, "-o", os.path.join(folder, "replay"), "--minimize", "--json",
                               "--verify", str(args.runs)], capture_output=True, text=True, timeout=200,
                              env={k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))})
        seconds = time.monotonic() - began
        document = json.loads(done.stdout) if done.stdout else {}
        if done.returncode == 3:
            return name, "refused", "; ".join(document["refused"])
        if done.returncode != 0:
            if args.keep:
                shutil.copytree(folder, os.path.join(args.keep, name), dirs_exist_ok=True)
            return name, "different", f"{verdict}: exit code {done.returncode}: {document.get('verified')} {done.stderr[-600:]}"
        return name, "same", (verdict, document["operations"], seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", default="")
    parser.add_argument("--only", default="", type=lambda names: [name.rsplit(".", 1) for name in names.split(",")])
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    families = args.families.split(",")
    hung, index, results = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        while hung < args.count and not (args.only and index >= len(args.only)):
            batch = [(families[(index + i) % len(families)], (index + i) // len(families)) for i in range(args.jobs)]
            if args.only:
                batch = [(family, int(number)) for family, number in args.only[index:index + args.jobs]]
            index += args.jobs
            for name, kind, detail in pool.map(lambda each: one(args, *each), batch):
                if kind == "no hang":
                    continue
                hung += 1
                results.append((kind, detail))
                print(f"{kind:9} {name} {detail}", flush=True)
    same = [detail for kind, detail in results if kind == "same"]
    print(f"{len(same)} of {len(results)} replayed and told as the same {args.runs} of {args.runs} times; "
          f"{sum(kind == 'refused' for kind, _ in results)} refused")
    if same:
        left = [1 - operations["replay"] / max(1, operations["recorded"]) for _, operations, _ in same]
        print(f"operations left out: median {100 * statistics.median(left):.0f} %; "
              f"seconds: median {statistics.median(s for _, _, s in same):.1f}, most {max(s for _, _, s in same):.1f}")
    return 1 if any(kind == "different" for kind, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
