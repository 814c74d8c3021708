#!/usr/bin/env python3
"""S7: what the simulator calls a deadlock hangs, and what only the published detector calls one ends.

  witness.py --build build/release [--count 100] [--seed S]

Takes COUNT deadlocks and COUNT false positives from `gordian simulate --witness`, runs each under
`gordian run --emulator`, and wants the verdict deadlock of the one kind and an ordinary end of the other.
On failure the evidence stays in a folder that is named.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Small enough that every collective gets a hardware queue of its own. Groups overlap, so that chains of
# waiting GPUs are common that are no circle.
CONFIG = {
    "total_rounds": 1, "disorder_prob": 0.15, "sync_prob": 0.35, "model": "StreamWithSync",
    "grouping_policy": "Arbitrary", "gpu_num": 5, "group_num": 4,
    "gpu_per_group": [[0, 3], [0, 2], [1, 2], [1, 2, 4]], "coll_cnt_per_group": [2, 2, 2, 2],
}


def witnesses(build, work, count, seed):
    path = os.path.join(work, "config.json")
    with open(path, "w") as f:
        json.dump(CONFIG, f)
    done = subprocess.run([f"{build}/bin/gordian", "simulate", path, "--rounds", "1000", "--witness", str(count),
                           "--seed", str(seed), "--json"], capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)["witnesses"]
    for kind in ("deadlock", "false_positive"):
        have = sum(w["kind"] == kind for w in found)
        if have != count:
            raise SystemExit(f"FAILED: {have} witnesses of kind {kind} instead of {count}")
    return found


def numbers(witness):
    members = [witness["groups"][g] for g in witness["collectives"]]
    lines = [f"{len(witness['gpus'])} {len(members)}"]
    for each in members + witness["sequences"]:
        lines.append(" ".join(str(n) for n in [len(each)] + each))
    return "\n".join(lines) + "\n"


def run(build, work, witness):
    with open(os.path.join(work, "witness"), "w") as f:
        f.write(numbers(witness))
    session = os.path.join(work, "session")
    # Connected at init, a queue for each stream: nothing but the waits holds anything up.
    env = dict(os.environ, JOB_WITNESS=os.path.join(work, "witness"), NCCL_RUNTIME_CONNECT="0",
               CUDA_DEVICE_MAX_CONNECTIONS="32")
    with open(os.path.join(work, "output"), "w") as out:
        code = subprocess.run([f"{build}/bin/gordian", "run", "--emulator", "--quiet", "--on-verdict", "kill",
                               "--session", session, "--", f"{build}/tests/gordian_e2e_job", "witness", "--ranks",
                               str(len(witness["gpus"]))],
                              env=env, stdout=out, stderr=subprocess.STDOUT, timeout=120).returncode
    with open(os.path.join(session, "verdict.json")) as f:
        verdict = json.load(f)
    return code, verdict


def wrong(kind, code, verdict):
    said = f"{verdict['verdict']} ({verdict['confidence']}), exit code {code}: {verdict['summary']}"
    if kind == "deadlock":
        good = code == 137 and verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed"
    else:
        good = code == 0 and verdict["verdict"] in ("finished", "healthy") and not verdict["findings"]
    return None if good else said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="gordian-witness-")
    passed = {"deadlock": 0, "false_positive": 0}
    for witness in witnesses(args.build, work, args.count, args.seed):
        code, verdict = run(args.build, work, witness)
        problem = wrong(witness["kind"], code, verdict)
        if problem:
            print(f"FAILED: a {witness['kind']} (round {witness['round']}, seed {args.seed}): {problem}")
            print(f"evidence: {work}")
            return 1
        passed[witness["kind"]] += 1
        shutil.rmtree(os.path.join(work, "session"))
    print(f"S7: {passed['deadlock']} of {args.count} deadlocks hung and were called deadlock (confirmed), "
          f"{passed['false_positive']} of {args.count} false positives ran to their end")
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
