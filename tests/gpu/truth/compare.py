#!/usr/bin/env python3
"""Holds the emulator's outcomes against those of hardware.

  compare.py EMULATOR.jsonl H200.jsonl [--newer H100.jsonl] [--results FILE]
  compare.py EMULATOR.jsonl --known
  compare.py RESULTS.jsonl --verdicts

--newer: outcomes with a newer NCCL; the emulator is held against those that the first file lacks.
Ends with 1 if a row differs and explained.txt does not say why, or explains a row that does not differ.
--results writes the rows into the table of FILE, bench/results/emulator-truth.json. --known compares with
what rows.py knows instead. --verdicts lists what `gordian run` said (run.py --gordian): a problem in a
program that ends with right data is a false alarm, none in one that hangs was missed.
Compared are: the outcome, the state and the step of every rank, and whether the data was right.
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import rows as table  # noqa: E402

HARDWARE = os.path.join(HERE, "h200.jsonl")  # NCCL 2.28.9
NEWER = os.path.join(HERE, "h100_nccl_2_30.jsonl")  # what the emulator does of what 2.28.9 lacks
EXPLAINED = os.path.join(HERE, "explained.txt")


def load(path):
    """Records by row id, the last one of each; a torn last line does not count."""
    out = {}
    with open(path) as f:
        for line in f:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            out[table.id_of(record)] = record
    return out


def load_explained(path):
    """Row id -> why it may differ. Lines: `ID: text`; `#` begins a comment."""
    out = {}
    if not os.path.exists(path):
        return out
    with open(path) as f:
        for line in f:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            identity, _, why = line.partition(": ")
            if not why.strip():
                raise SystemExit(f"{path}: no explanation in '{line}'")
            out[identity] = why.strip()
    return out


def fate(rank):
    """One rank's end, as far as two runs must agree on it."""
    return (rank["state"], rank["step"] if rank["state"] not in ("done", "device") else "")


def essence(record):
    return (record["outcome"], [fate(rank) for rank in record["ranks_at"]], record["data"])


def describe(record):
    outcome = record["outcome"]
    if outcome == "completes":
        return outcome + {"right": "", "wrong": ", wrong data", None: ", no data"}[record["data"]]
    parts = []
    for i, rank in enumerate(record["ranks_at"]):
        state, step = rank["state"], rank["step"]
        if state == "done":
            parts.append(f"{i} ends")
        elif state == "device":
            parts.append(f"{i} on the device")
        elif state == "host":
            parts.append(f"{i} in {step}")
        elif state == "flag":
            parts.append(f"{i} waits for: {step}")
        else:
            parts.append(f"{i} {state}: {step}")
    return f"{outcome}: " + "; ".join(parts) + (", wrong data" if record["data"] == "wrong" else "")


def against_known(emulator):
    """Prints rows that depart from what rows.py knows; how many do."""
    bad = checked = 0
    explained = load_explained(EXPLAINED)
    for identity, record in sorted(emulator.items()):
        known = table.expected(identity)
        why = None
        if known is not None:
            checked += 1
            why = table.departs_from(record, known)
        elif record["outcome"] in ("error", "timeout", "unclear"):
            why = "no expectation, but that is none"
        if why and identity not in explained:
            bad += 1
            print(f"DIFFERS {identity}: {why} ({describe(record)})")
    print(f"{len(emulator)} rows, {checked} of them known, {bad} differ")
    return bad


def against_hardware(emulator, hardware, rows, newer=None):
    """Prints rows that differ, adds all to `rows` as bench/results has them; returns how many are unexplained."""
    explained = load_explained(EXPLAINED)
    newer = newer or {}
    older = hardware
    hardware = {**newer, **older}
    bad = []
    counts = {"yes": 0, "no": 0, "explained": 0}
    for identity, real in sorted(hardware.items()):
        ours = emulator.get(identity)
        if ours is None:
            bad.append(f"{identity}: not run on the emulator")
            continue
        same = essence(ours) == essence(real)
        verdict = "yes" if same else "explained" if identity in explained else "no"
        counts[verdict] += 1
        if verdict == "no":
            bad.append(f"{identity}: emulator {describe(ours)} | GPUs {describe(real)}")
        if same and identity in explained:
            bad.append(f"{identity}: explained.txt explains a difference that is none")
        env = " ".join(f"{k}={v}" for k, v in sorted(real["env"].items()))
        emulated = "the same" if same else f"{describe(ours)} ({explained.get(identity, 'not explained')})"
        changed = identity in newer and identity in older and essence(newer[identity]) != essence(real)
        rows.append([real["program"], real["ranks"], real["size"], env,
                     describe(real) if identity in older else "not run",
                     describe(newer[identity]) if changed or identity not in older
                     else "the same" if identity in newer else "not run", emulated])
    for identity in sorted(set(explained) - set(hardware)):
        bad.append(f"{identity}: explained.txt names a row that was not run on hardware")
    versions = sorted({r.get("nccl", 0) for r in hardware.values()})
    for line in bad:
        print(f"DIFFERS {line}", file=sys.stderr)
    print(f"{len(hardware)} rows on hardware (NCCL {versions}): {counts['yes']} the same, {counts['explained']} "
          f"explained, {len(bad)} unexplained; {len(set(emulator) - set(hardware))} rows not run there", file=sys.stderr)
    return len(bad)


def write_rows(path, rows):
    """Puts `rows`, each on a line of its own, into the one table of a file of bench/results."""
    with open(path) as f:
        data = json.load(f)
    data["tables"][0]["rows"] = ["ROWS"]
    head, tail = json.dumps(data, indent=1).split('"ROWS"')
    with open(path, "w") as f:
        f.write(head + ",\n    ".join(json.dumps(row) for row in rows) + tail + "\n")


def verdicts(records):
    """Prints a table of verdicts by outcome; how many are false alarms or missed."""
    false_alarms, missed, counts = [], [], {}
    for identity, record in sorted(records.items()):
        said = record.get("gordian")
        if said is None:
            continue
        quiet = said["verdict"] in ("healthy", "finished", "inconclusive")
        key = (record["outcome"] + (", wrong data" if record["data"] == "wrong" else ""),
               f"{said['verdict']} ({said['confidence']})")
        counts[key] = counts.get(key, 0) + 1
        line = f"{identity}: {describe(record)} | {said['verdict']} ({said['confidence']}) {said['culprit_ranks']}"
        if record["outcome"] == "hangs" and quiet:
            missed.append(line)
        # A mismatch is one even where the data came out right.
        if record["outcome"] == "completes" and record["data"] != "wrong" and not quiet and said["verdict"] != "mismatch":
            false_alarms.append(line)
    print("| Outcome | Verdict | Programs |\n|---|---|---|")
    for (outcome, said), n in sorted(counts.items()):
        print(f"| {outcome} | {said} | {n} |")
    for kind, lines in (("FALSE ALARM", false_alarms), ("MISSED", missed)):
        for line in lines:
            print(f"{kind} {line}")
    return len(false_alarms) + len(missed)


def check(emulator):
    """The exit code for these results of the emulator."""
    if os.path.exists(HARDWARE):
        return 1 if against_hardware(emulator, load(HARDWARE), [], load(NEWER)) else 0
    return 1 if against_known(emulator) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emulator")
    parser.add_argument("hardware", nargs="?")
    parser.add_argument("--newer", metavar="FILE")
    parser.add_argument("--results", metavar="FILE")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--verdicts", action="store_true")
    args = parser.parse_args()
    if args.verdicts:
        return 1 if verdicts(load(args.emulator)) else 0
    if args.known:
        return 1 if against_known(load(args.emulator)) else 0
    if not args.hardware:
        parser.error("a second file, or --known")
    rows = []
    bad = against_hardware(load(args.emulator), load(args.hardware), rows, load(args.newer) if args.newer else {})
    if args.results:
        write_rows(args.results, rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
