#!/usr/bin/env python3
"""Random jobs under `gordian run --emulator --on-verdict recover`: NCCL has their operations until they hang.

  recover.py BUILD [--seed N] [--count N] [--seconds S] [--jobs N] [--temper NAME] [--together] [--keep] [--summary FILE]

The jobs are those of fuzz.py; --together: with those collectives alone that end at all ranks or at none, since others are
refused (R3). One that NCCL ends must end, with no word of a deadlock. One that hangs must be recovered, and
then end with the bytes that `reference.py` computes, or be refused with a condition, or be a hang that gordian does not take
for a proven circle, and says so. Nothing may end with other bytes, and nothing may hang without a word. Communicators connect
when they are made, since first uses that wait for each other are refused (R1). Each seed is one job; a failure prints the
seed and the command that repeats it, and leaves program, session and output.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fuzz  # noqa: E402
import generate  # noqa: E402
import theorem  # noqa: E402
from fuzz import Wrong  # noqa: E402

LIMIT_S = 60  # for a word on a job that hangs
REFUSED = re.compile(r"^gordian: not recovered \((\w+)\): (.*)$", re.MULTILINE)
FAILED = re.compile(r"^gordian: the recovery failed \((\w+)\): (.*)$", re.MULTILINE)
SUSPECTED = re.compile(r"^gordian: (?:also )?[A-Z][A-Z ]+ \(suspected after", re.MULTILINE)
RECOVERED = "gordian: recovered in "


def command(build, folder):
    words = fuzz.command(build, folder)
    words[words.index("--collectives"):words.index("--session")] = ["--on-verdict", "recover", "--suspect-after", "2"]
    return words


def execute(build, folder):
    """(exit code, or None where it hangs, verdict, what gordian and the job have printed)"""
    path = os.path.join(folder, "output")
    with open(path, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command(build, folder), env=dict(fuzz.environment(), NCCL_RUNTIME_CONNECT="0"),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def text():
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()

    # A proof or a way out may follow a suspicion; nothing follows a refusal.
    end = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
        now = text()
        if REFUSED.search(now) or FAILED.search(now):
            end = min(end, time.monotonic() + 3)  # another circle may be recovered
        elif SUSPECTED.search(now):
            end = min(end, time.monotonic() + LIMIT_S / 3)
    code = process.poll()
    said = text()  # what gordian says of the end that it is given next counts for nothing
    if code is None:
        process.send_signal(signal.SIGTERM)  # gordian ends its job with itself
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, fuzz.verdict_in(folder), said if code is None else text()


def judge(program, predicted, code, verdict, text, folder):
    recovered = text.count(RECOVERED)
    if FAILED.search(text):
        raise Wrong(f"the recovery failed: {FAILED.search(text)[2]}")
    if code is not None:
        if code != 0:
            raise Wrong(f"the job ended with {code}")
        fuzz.compare(program, folder)
        if recovered == 0:
            if verdict["verdict"] not in ("finished", "healthy"):
                raise Wrong(f"it ended by itself, and was told as {verdict['verdict']} ({verdict['confidence']})")
            return "ended by itself"
        return "recovered"
    if predicted.with_nccl_ends and recovered == 0 and "DEADLOCK" not in text:
        raise Wrong(f"NCCL ends it, and it did not end in {LIMIT_S} s")
    refused = REFUSED.search(text)
    if refused:
        what = "refused a second time" if recovered else "refused"
        return f"{what}: {refused[1]}" + (" (the runtime alone would end it)" if predicted.must_end else "")
    if SUSPECTED.search(text) or "DEADLOCK" in text:
        return "suspected" + (" after a recovery" if recovered else "")
    raise Wrong(f"it hangs, and nothing is said in {LIMIT_S} s; verdict: {verdict['verdict']} ({verdict['confidence']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--jobs", type=int, default=1, help="that run side by side")
    parser.add_argument("--temper", choices=sorted(generate.TEMPERS))
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--summary", help="a JSON file for the counts")
    options = parser.parse_args()
    end = time.monotonic() + (options.seconds if options.seconds is not None else sys.maxsize)
    work = tempfile.mkdtemp(prefix="gordian-recover-fuzz-")
    counts, begun = collections.Counter(), time.monotonic()

    def one(seed):
        """What came of the job of this seed; None: there was no time left for it."""
        if time.monotonic() > end:
            return None
        folder = os.path.join(work, str(seed))
        os.makedirs(folder)
        job = generate.make(seed, options.temper, options.together)
        predicted = theorem.Prediction(job.program)
        with open(os.path.join(folder, "program"), "w", encoding="utf-8") as f:
            f.write(job.program.text())
        try:
            outcome = judge(job.program, predicted, *execute(options.build, folder), folder)
        except Wrong as wrong:
            outcome = "wrong"
            temper = f" --temper {options.temper}" if options.temper else ""
            temper += " --together" if options.together else ""
            print(f"seed {seed}: {wrong}\n  in {folder}; again: {sys.argv[0]} {options.build} --seed {seed}{temper}", flush=True)
        if outcome != "wrong" and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return outcome

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(one, range(options.seed, options.seed + options.count)):
            if outcome is None:
                continue
            counts[outcome] += 1
            if sys.stderr.isatty() or counts.total() % 50 == 0:
                print(f"{counts.total()} jobs, {time.monotonic() - begun:.0f} s: {dict(counts)}", file=sys.stderr, flush=True)
    failures = counts["wrong"]
    if failures == 0 and not options.keep:
        shutil.rmtree(work)
    for outcome, number in sorted(counts.items()):
        print(f"{number:5d} {outcome}")
    if options.summary:
        with open(options.summary, "w", encoding="utf-8") as f:
            json.dump({"first_seed": options.seed, "jobs": counts.total(), "counts": counts}, f, indent=1)
    sys.exit(1 if failures or not counts else 0)


if __name__ == "__main__":
    main()
