#!/usr/bin/env python3
"""Random jobs under `gordian run --emulator --collectives=preemptive`, each held against the theorem.

  fuzz.py BUILD [--seed N | --seeds N,N...] [--count N] [--seconds S] [--temper NAME] [--hangs SHARE] [--keep]

`theorem.py` says of a job, without running it, whether it must end, must hang, or may do either; `reference.py` computes
what it must leave in memory. A job that must end must do so with these bytes, and nothing may be said of it. One
that must hang must be told, confirmed, as a deadlock of ranks that are in a circle; "fixed" it would be a mistake. Each
seed is one job; of those that hang only a share is run, since each takes seconds. A failure prints the seed and the
command that repeats it, and leaves program, session and output.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import generate  # noqa: E402
import reference  # noqa: E402
import theorem  # noqa: E402

LIMIT_S = 90  # of one job; those that end take milliseconds, and seconds where a rank comes late


class Wrong(Exception):
    pass


def command(build, folder):
    return [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--collectives", "preemptive", "--on-verdict", "kill",
            "--session", os.path.join(folder, "session"), "--", os.path.join(build, "tests", "gordian_corpus_job"),
            os.path.join(folder, "program"), os.path.join(folder, "results"), "bytes"]


def environment():
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_", "GRT_")) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}


def execute(build, folder):
    """(exit code or None where it had to be ended, verdict, output)"""
    with open(os.path.join(folder, "output"), "w+", encoding="utf-8") as output:
        process = subprocess.Popen(command(build, folder), env=environment(), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
            process.terminate()  # gordian ends its job with itself
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        output.seek(0)
        text = output.read()
    return code, verdict_in(folder), text


def verdict_in(folder):
    try:
        with open(os.path.join(folder, "session", "verdict.json"), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {"verdict": "none", "confidence": "none", "culprit_ranks": []}


def compare(program, folder):
    """All that each rank's operations have left in memory, byte by byte, with what they must leave."""
    expected = reference.Reference(program)
    for rank in range(program.ranks):
        with open(os.path.join(folder, f"results.{rank}.bytes"), "rb") as f:
            difference = expected.difference(rank, f.read())
        if difference:
            raise Wrong(difference)


def check(program, predicted, code, verdict, text, folder):
    said = f"{verdict['verdict']} ({verdict['confidence']}) of ranks {verdict['culprit_ranks']}"
    if code is None:
        raise Wrong(f"it hangs, and must {predicted.word()}; said: {said}")
    if code == 0:
        if predicted.must_hang:
            raise Wrong("it ended, and must hang")
        if verdict["verdict"] not in ("finished", "healthy"):
            raise Wrong(f"it ended, and was told as {said}")
        if "by NCCL" not in text or (", none by NCCL" not in text and "in captured CUDA graphs" not in text):
            raise Wrong("operations stayed with NCCL")
        compare(program, folder)
        return "ended"
    if code != 137 or verdict["confidence"] != "confirmed":
        raise Wrong(f"it ended with {code}, and must {predicted.word()}; said: {said}")
    if predicted.must_end:
        raise Wrong(f"it was ended, and must end by itself; said: {said}")
    if verdict["verdict"] != "deadlock":
        raise Wrong(f"it hangs by the order of its operations, and was told as {said}")
    if predicted.must_hang and not set(verdict["culprit_ranks"]) <= predicted.in_circles:
        raise Wrong(f"told was {said}; in circles are {sorted(predicted.in_circles)}")
    return "told"


def run_seed(build, seed, temper, share, folder):
    """(outcome, whether NCCL would have hung); outcome `skipped`: a hang that is not run."""
    job = generate.make(seed, temper)
    predicted = theorem.Prediction(job.program)
    if not predicted.must_end and random.Random(seed).random() >= share:
        return "skipped", predicted, job
    os.makedirs(folder)
    with open(os.path.join(folder, "program"), "w", encoding="utf-8") as f:
        f.write(job.program.text())
    code, verdict, text = execute(build, folder)
    return check(job.program, predicted, code, verdict, text, folder), predicted, job


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help="these, separated by commas")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--temper", choices=sorted(generate.TEMPERS))
    parser.add_argument("--hangs", type=float, default=0.1, help="share of the jobs that hang that are run")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--stop", action="store_true", help="at the first that is wrong")
    options = parser.parse_args()
    count = options.count or (1 if options.seconds is None else sys.maxsize)
    seeds = range(options.seed, options.seed + count)
    if options.seeds:
        seeds = [int(seed) for seed in options.seeds.split(",")]
    end = time.monotonic() + (options.seconds if options.seconds is not None else sys.maxsize)
    work = tempfile.mkdtemp(prefix="gordian-preemptive-fuzz-")
    counts, failures, repaired = {}, 0, 0
    for seed in seeds:
        if time.monotonic() > end:
            break
        folder = os.path.join(work, str(seed))
        try:
            outcome, predicted, job = run_seed(options.build, seed, options.temper, options.hangs, folder)
            repaired += outcome == "ended" and not predicted.with_nccl_ends
        except Wrong as wrong:
            outcome = "wrong"
            failures += 1
            temper = f" --temper {options.temper}" if options.temper else ""
            print(f"seed {seed}: {wrong}\n  in {folder}; again: {sys.argv[0]} {options.build} --seed {seed} --hangs 1{temper}",
                  flush=True)
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome != "wrong" and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        if outcome == "wrong" and options.stop:
            break
    if failures == 0 and not options.keep:
        shutil.rmtree(work)
    print(", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) +
          f"; of those that ended {repaired} hang with NCCL")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
