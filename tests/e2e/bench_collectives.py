#!/usr/bin/env python3
"""`gordian bench collectives` under the emulator: its samples are what `gordian plan --samples` reads.

  bench_collectives.py --build build/release
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "checks"))
import schemas  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", default="build/release")
build = os.path.abspath(parser.parse_args().build)
GORDIAN = f"{build}/bin/gordian"
ENVIRONMENT = {**os.environ, "GORDIAN_EMU_DEVICES": "4"}


def gordian(*arguments, code=0, environment=ENVIRONMENT):
    done = subprocess.run([GORDIAN, *arguments], capture_output=True, text=True, timeout=100, env=environment)
    if done.returncode != code:
        sys.exit(f"FAILED: gordian {' '.join(arguments)}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    schemas.check(done.stdout)
    return done


def expect(what, seen):
    if not what:
        sys.exit(f"FAILED: {seen}")


with tempfile.TemporaryDirectory(prefix="gordian-bench-") as folder:
    samples = f"{folder}/samples.csv"
    for operation in ("all_gather", "reduce_scatter"):
        quiet = gordian("bench", "collectives", "--emulator", "--ranks", "2", "--operation", operation, "--to", "131072", "-o", samples)
        expect(quiet.stdout == "", quiet.stdout)
        with open(samples) as lines:
            rows = list(csv.DictReader(lines))
        expect([int(row["bytes"]) for row in rows] == [8192, 32768, 131072], rows)
        expect(all(row["plan"] == "ring" and row["ranks"] == "2" and float(row["us"]) > 0 for row in rows), rows)

    # What is not divisible by the ranks is cut, and the line says by how much.
    told = json.loads(gordian("bench", "collectives", "--emulator", "--ranks", "3", "--from", "1000", "--to", "1000", "--json").stdout)
    expect(told["emulated"] and [s["bytes"] for s in told["samples"]] == [996], told)

    gordian("run", "--emulator", "--quiet", "--session", f"{folder}/session", "--", f"{build}/tests/gordian_e2e_job",
            "inversion_one_stream", "--twin", "--ranks", "2")
    report = json.loads(gordian("plan", f"{folder}/session", "--collectives", "--samples", samples, "--json").stdout)
    expect(report["cost"]["samples"] == 3, report)

    many = gordian("bench", "collectives", "--emulator", "--ranks", "5", code=1).stderr
    expect("this machine has 4 devices" in many, many)
    order = gordian("bench", "collectives", "--emulator", "--from", "9000", "--to", "8000", code=2).stderr
    expect("--from 9000 is above --to 8000" in order, order)
    unwritable = gordian("bench", "collectives", "--emulator", "-o", f"{folder}/none/x", code=2).stderr
    expect(f"cannot write {folder}/none/x" in unwritable, unwritable)
print("samples of 2 operations, read by the cost model; 3 errors named")
