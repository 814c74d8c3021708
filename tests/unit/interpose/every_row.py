#!/usr/bin/env python3
"""Every row of the table, called through the shim and without it, on the emulated libraries.

  every_row.py --program every_row --shim libgordian_interpose.so

Return value and errno must be the same; with a ring, every call must have gone through its wrapper and left
the records that its row promises.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

LEAST_SUCCEEDING = 260


def run(program, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "GORDIAN_RING_DIR")}
    env.update(environment)
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")
    out = {}
    for line in done.stdout.splitlines():
        name, style, *row = line.split()
        out[name] = (style, *row)
    return out


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "shim"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    rings = tempfile.mkdtemp(prefix="gordian-rows-", dir="/dev/shm")
    try:
        alone = run(args.program)
        silent = run(args.program, LD_PRELOAD=args.shim)
        shimmed = run(args.program, LD_PRELOAD=args.shim, GORDIAN_RING_DIR=rings)
    finally:
        shutil.rmtree(rings)
    problems = []
    if not alone.keys() == silent.keys() == shimmed.keys():
        sys.exit("not the same rows each time")
    for name, (style, result, error, used, records) in shimmed.items():
        for what, got in (("silent", silent[name]), ("with a ring", shimmed[name])):
            if got[:3] != alone[name][:3]:
                problems.append(f"{name}, shim {what}: {got[1]}, errno {got[2]}; without it {alone[name][1]}, {alone[name][2]}")
        if result == "absent":
            continue
        if result.startswith("signal"):
            problems.append(f"{name}: ended by {result}, so the test shows nothing")
            continue
        if used != "1":
            problems.append(f"{name}: did not go through its wrapper")
        if style in ("blocks", "queued") and records != ("BE" if style == "blocks" else "-"):
            problems.append(f"{name}, {style}: records {records}")
        elif style == "point" and records != ("P" if result == "0" else "-"):
            # An asynchronous copy that may wait says so under the synchronous one's number.
            problems.append(f"{name}: result {result}, records {records}")
        elif style == "silent" and records != "-":
            problems.append(f"{name}: records {records}, expected none")
    fine = [n for n, r in shimmed.items() if r[1] == "0"]
    if len(fine) < LEAST_SUCCEEDING:
        problems.append(f"only {len(fine)} calls succeeded: the test's arguments no longer fit")
    absent = [n for n, r in alone.items() if r[1] == "absent"]
    for problem in problems:
        print(problem)
    print(f"{len(shimmed)} rows called: {len(fine)} succeeded, {len(absent)} are in no library here, the rest refused alike")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
