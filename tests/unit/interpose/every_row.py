#!/usr/bin/env python3
"""Every row of the table, called through the shim and without it, on the emulated libraries.

  every_row.py --source ROOT --program every_row --shim libgordian_interpose.so

Return value and errno must be the same; with a ring, every call must have gone through its wrapper and left
the records that its row promises.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Copies between places on the device: queued, so recorded as the asynchronous copy, not as a wait.
QUEUED = re.compile(r"^(cudaMemcpy|cuMemcpy)(2D|3D|2DUnaligned)?((To|From)(Symbol|Array))?(_v2)?(_ptds)?$")
LEAST_SUCCEEDING = 260


def rows_of(source):
    with open(os.path.join(source, "interpose/hooked_calls.def")) as f:
        found = re.findall(r"^GORDIAN_HOOK\((\w+), (\w+),.*\), (\w+), (\w+), \"([^\"]*)\"\)$", f.read(), re.M)
    return {name: (library, payload, style) for library, name, payload, style, _ in found}


def run(program, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "GORDIAN_RING_DIR")}
    env.update(environment)
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")
    out = {}
    for line in done.stdout.splitlines():
        name, result, error, used, records = line.split()
        out[name] = (result, error, used, records)
    return out


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "program", "shim"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    rows = rows_of(args.source)
    rings = tempfile.mkdtemp(prefix="gordian-rows-", dir="/dev/shm")
    try:
        alone = run(args.program)
        silent = run(args.program, LD_PRELOAD=args.shim)
        shimmed = run(args.program, LD_PRELOAD=args.shim, GORDIAN_RING_DIR=rings)
    finally:
        shutil.rmtree(rings)
    problems = []
    for name, (library, payload, style) in rows.items():
        if name not in alone or name not in silent or name not in shimmed:
            problems.append(f"{name} was not called")
            continue
        for what, got in (("silent", silent[name]), ("with a ring", shimmed[name])):
            if got[:2] != alone[name][:2]:
                problems.append(f"{name}, shim {what}: {got[0]}, errno {got[1]}; without it {alone[name][0]}, {alone[name][1]}")
        result, _, used, records = shimmed[name]
        if result == "absent":
            continue
        if result.startswith("signal"):
            problems.append(f"{name}: ended by {result}, so the test shows nothing")
            continue
        if used != "1":
            problems.append(f"{name}: did not go through its wrapper")
        if style == "Blocks" and records != "BE" and not (QUEUED.match(name) and records == "-"):
            problems.append(f"{name}: records {records}, expected begin and end")
        elif style == "Point" and records != ("P" if result == "0" else "-"):
            # An asynchronous copy that may wait says so under the synchronous one's number.
            problems.append(f"{name}: result {result}, records {records}")
        elif style == "Silent" and records != "-":
            problems.append(f"{name}: records {records}, expected none")
    fine = [n for n, r in shimmed.items() if r[0] == "0"]
    if len(fine) < LEAST_SUCCEEDING:
        problems.append(f"only {len(fine)} calls succeeded: the test's arguments no longer fit")
    absent = [n for n, r in alone.items() if r[0] == "absent"]
    for problem in problems:
        print(problem)
    print(f"{len(rows)} rows called: {len(fine)} succeeded, {len(absent)} are in no library here, the rest refused alike")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
