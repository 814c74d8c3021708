#!/usr/bin/env python3
"""What run.sh has measured: summary.py OUTPUT_FOLDER. Ends with 1 if a result is missing or losses are far apart."""

import glob
import json
import os
import statistics
import sys

# With the same arithmetic losses are equal. In another order of additions (more than two ranks) a training of 45 steps ends this
# near, as a part of the first loss: buckets of another size make a hundredth of it with NCCL alone.
NEAR = 0.05
TWIN = {"resnet_shuffled": "resnet_windows"}  # compared with, since NCCL cannot run it


def load(out):
    """{mode: {workload: [turn: [rank: result]]}}"""
    found = {}
    for folder in sorted(glob.glob(f"{out}/*.[0-9]*/")):
        mode = os.path.basename(folder.rstrip("/")).split(".")[0]
        for path in sorted(glob.glob(f"{folder}/*.0.json")):
            workload = os.path.basename(path).split(".")[0]
            ranks = []
            while os.path.exists(f"{folder}/{workload}.{len(ranks)}.json"):
                with open(f"{folder}/{workload}.{len(ranks)}.json") as f:
                    ranks.append(json.load(f))
            found.setdefault(mode, {}).setdefault(workload, []).append(ranks)
    return found


def times(turns):
    """Without each turn's first step, which begins with idle devices behind a barrier."""
    return sorted(t for ranks in turns for t in ranks[0]["steps_ms"][1:])


def losses(ranks):
    return [[float.fromhex(x) for x in r["losses"]] for r in ranks]


def apart(one, other):
    """The largest difference of two turns' losses, as a part of the first loss: they fall by orders of magnitude."""
    worst = 0.0
    for a, b in zip(losses(one), losses(other)):
        assert len(a) == len(b)
        worst = max([worst] + [abs(x - y) / a[0] for x, y in zip(a, b)])
    return worst


def how_far(one, other):
    worst = apart(one, other)
    if worst == 0:
        same = all(a["parameters"] == b["parameters"] for a, b in zip(one, other))
        return "equal" if same else "losses equal, parameters not"
    return f"{worst:.1e}"


def fast(sorted_times):
    """The time that a tenth of the steps stays below: with the host at its quickest."""
    return sorted_times[len(sorted_times) // 10]


def spread(sorted_times):
    return f"{fast(sorted_times):.2f} to {sorted_times[-1 - len(sorted_times) // 10]:.2f}"


def main():
    found = load(sys.argv[1])
    nccl = found.get("nccl", {})
    wrong = 0 if nccl else 1
    print("Throughput as ratio to NCCL's (above 1: faster), of medians of steps and of their fastest tenths; ms a step, median")
    print("(10 % to 90 %); coefficient of variation.")
    for mode in ("preemptive", "gordian"):
        print(f"\n{mode}")
        for workload, turns in sorted(found.get(mode, {}).items()):
            base = nccl.get(TWIN.get(workload, workload))
            if base is None:
                print(f"  -      {workload}: no turn with NCCL")
                continue
            own, other = times(turns), times(base)
            ratio = statistics.median(other) / statistics.median(own)
            each = [statistics.median(times([b])) / statistics.median(times([t])) for t, b in zip(turns, base)]
            print(f"  {ratio:.3f} {fast(other) / fast(own):.3f}  {workload}: {statistics.median(own):.2f} ({spread(own)}) ms, NCCL {statistics.median(other):.2f}"
                  f" ({spread(other)}); turns {', '.join(f'{r:.3f}' for r in each)};"
                  f" variation {statistics.stdev(own) / statistics.mean(own):.1%}, NCCL {statistics.stdev(other) / statistics.mean(other):.1%}")
            far = apart(turns[0], base[0])
            wrong += far > NEAR
            text = f"losses to NCCL's: {how_far(turns[0], base[0])}"
            if len(turns) > 1:
                text += f"; again: {how_far(turns[0], turns[1])}"
            if len(base) > 1:
                text += f"; NCCL's again: {how_far(base[0], base[1])}"
            print(f"               {text}")
    print("\noperations and MB of rank 0 in a step; counted by the runtime in the timed steps, all ranks")
    for workload, turns in sorted(found.get("preemptive", nccl).items()):
        first = turns[0][0]
        parts = [f"{n:g} {kind} ({first['bytes_a_step'][kind] / 1e6:.1f} MB)" for kind, n in first["operations_a_step"].items()]
        text = ", ".join(parts) or "none"
        counted = [r["counted"] for r in turns[0] if r["counted"]]
        if counted:
            text += "; " + ", ".join(f"{key} {sum(c[key] for c in counted)}" for key in counted[0])
        print(f"  {workload}: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
