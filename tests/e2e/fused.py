#!/usr/bin/env python3
"""Fused gradients that are reduced when they are ready: dl2's table 3, predicted from one healthy run a cell.

  fused.py BUILD [--orders N]    prints a row for each cell, as bench/results/prediction.json holds them

A cell is a number and a size of buffers. One run in the order of the list is recorded; `gordian predict` reads it and
runs the program that it writes. Then the job itself runs in N other orders, without gordian: whether it hangs is the
emulator's word, whether its sums are wrong the job's.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [1, 2, 4, 8, 64]  # MiB
NUMBERS = [1, 2, 4, 8]
# Table 3 of dl2: fused all-reduces of a process in a step; a potential deadlock in all cells but those of 64 MB.
PAPER = {1: [64, 55, 28, 19, 2], 2: [61, 48, 28, 19, 2], 4: [63, 50, 28, 18, 4], 8: [60, 57, 32, 20, 8]}
LIMIT_S = 120
WRONG = 7  # the job's exit code


def ready_site():
    """Where the job reduces a buffer that is full and ready."""
    with open(os.path.join(HERE, "jobs", "fusions.cc")) as f:
        return next(f"fusions.cc:{number}" for number, line in enumerate(f, 1) if "ncclAllReduce" in line)


def environment(number, size, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))}
    return {**env, "FUSED_BUFFERS": str(number), "FUSED_MB": str(size), **more}


def record(build, number, size, session):
    """A run in the order of the list; the job tells gordian what is free."""
    return subprocess.run(
        [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--session", session, "--on-verdict", "kill",
         "--", os.path.join(build, "tests", "gordian_e2e_job"), "fused_gradients", "--ranks", "2"],
        env=environment(number, size, GORDIAN_READINESS_ORDERED=ready_site()), capture_output=True, text=True,
        timeout=LIMIT_S)


def run_in_order(build, number, size, seed, twin=False):
    """What another order does, without gordian: "ends", "wrong sums" or "hangs"."""
    folder = tempfile.mkdtemp(prefix="gordian-fused-")
    still = os.path.join(folder, "still")
    env = environment(number, size, FUSED_SEED=str(seed), GORDIAN_EMU_QUIESCENCE=still, GORDIAN_EMU_PROCESSES="2",
                      LD_LIBRARY_PATH=os.path.join(build, "lib", "emulator"))
    job = subprocess.Popen([os.path.join(build, "tests", "gordian_e2e_job"), "fused_gradients", "--ranks", "2",
                            *(["--twin"] if twin else [])], env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            code = job.poll()
            if code is not None:
                outcome = {0: "ends", WRONG: "wrong sums"}.get(code)
                if outcome is None:
                    raise RuntimeError(f"the job exited with {code}")
                return outcome
            found = glob.glob(still + ".*")
            time.sleep(0.05)
            # One that moves again takes its report back.
            if found and job.poll() is None and all(os.path.exists(name) for name in found):
                return "hangs"
        raise RuntimeError(f"{number} x {size} MiB, seed {seed}: neither ended nor hung in {LIMIT_S} s")
    finally:
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.wait()
        shutil.rmtree(folder, ignore_errors=True)


def count_of(outcomes, outcome):
    return f"{outcomes.count(outcome)} of {len(outcomes)}"


def row_of(build, number, size, orders):
    folder = tempfile.mkdtemp(prefix="gordian-fused-")
    try:
        session = os.path.join(folder, "s")
        done = record(build, number, size, session)
        if done.returncode != 0:
            raise RuntimeError(f"{number} x {size} MiB: {done.stderr}")
        done = subprocess.run(
            [os.path.join(build, "bin", "gordian"), "predict", session, "-o", os.path.join(folder, "p"), "--verify", "3",
             "--json"], capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{number} x {size} MiB: {done.stderr}")
        said = json.loads(done.stdout)
        reductions = reductions_in(build, session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if said["predicted"]:
        found = said["predicted"][0]
        predicted = "hangs"
        program = f'hung in {found["verified"]["same"]} of {found["verified"]["runs"]}'
    else:
        predicted, program = "wrong sums" if said["unconfirmed"] else "nothing", ""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda seed: run_in_order(build, number, size, seed), range(1, orders + 1)))
    paper = PAPER[number][SIZES.index(size)]
    return [number, size, reductions, f"{paper}, {'No' if size == 64 else 'Yes'}", predicted, program,
            count_of(outcomes, "hangs"), count_of(outcomes, "wrong sums")]


def reductions_in(build, session):
    """All-reduces of rank 0 in the step."""
    done = subprocess.run([os.path.join(build, "bin", "gordian"), "export", session, "-f", "jsonl"],
                          capture_output=True, text=True, timeout=LIMIT_S, check=True)
    operations = [json.loads(line) for line in done.stdout.splitlines()]
    return sum(1 for one in operations if one.get("rank") == 0 and "fusions.cc" in json.dumps(one))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--orders", type=int, default=10)
    options = parser.parse_args()
    for size in SIZES:
        for number in NUMBERS:
            print(json.dumps(row_of(os.path.abspath(options.build), number, size, options.orders)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
