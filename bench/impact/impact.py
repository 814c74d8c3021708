#!/usr/bin/env python3
"""What gordian costs a job: the same program with it and without it, taking turns.

  impact.py --build build/release OUTPUT_FOLDER [--hardware] [--rounds 5] [--only NAME] [--ranks 2]

Without --hardware the loops run under the emulator, which shows that this script works and no more: its
GPU is threads. With it they run on GPUs, and so does a PyTorch training, that is also compared with itself
under PyTorch's Flight Recorder and with CUPTI on. Raw numbers go to OUTPUT_FOLDER/impact.json. The table
has the ratio first; each round's ratio is of medians of neighbouring runs, so that a machine's slow
minutes meet both sides. Where NCCL itself goes now at one speed and now at another, the ratio of the
quickest batches tells more, and "in turn" most: there both sides are batches of one process. Exits with 1 if a run failed, or lost a record.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LOOPS = {
    "all-reduce 8 B": (["--bytes", "8", "--calls", "5000"], "us"),
    "all-reduce 8 B, in turn": (["--bytes", "8", "--calls", "5000", "--in-turn"], "us"),
    "all-reduce 1 MiB": (["--bytes", "1048576", "--calls", "1000"], "us"),
    "all-reduce 8 B in a graph": (["--bytes", "8", "--calls", "2000", "--graph"], "us"),
    "all-reduce 1 MiB in a graph": (["--bytes", "1048576", "--calls", "1000", "--graph"], "us"),
}
GOALS = {"all-reduce 8 B": "3 %", "all-reduce 8 B, in turn": "3 %", "all-reduce 1 MiB": "1 %", "all-reduce 8 B in a graph": "1 %",
         "all-reduce 1 MiB in a graph": "1 %", "DDP step": "0.5 %"}
NO_RECORDER = {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}
RECORDER = {"TORCH_FR_BUFFER_SIZE": "20000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "20000",
            "TORCH_NCCL_ENABLE_TIMING": "1"}


class Failure(Exception):
    pass


def run(args, name, command, watched, env=None, options=()):
    """The JSON object that the program printed. `options` are gordian's."""
    session = os.path.join(args.output, "session")
    if watched:
        gordian = [os.path.join(args.build, "bin", "gordian"), "run", "--quiet", "--session", session]
        command = gordian + list(options) + ([] if args.hardware else ["--emulator"]) + ["--"] + command
        subprocess.run(["rm", "-rf", session], check=True)
    environment = dict(os.environ, **(env or {}))
    if not args.hardware and not watched:
        environment["LD_LIBRARY_PATH"] = os.path.join(args.build, "lib", "emulator")
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != 1:
        raise Failure(f"{name}: {' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    result = json.loads(lines[0])
    if watched:
        with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
            verdict = json.load(f)
        result["verdict"] = verdict["verdict"]
        result["records_lost"] = verdict["evidence"]["records_lost"]
        result["nccl_calls"] = verdict["evidence"]["nccl_calls"]
        if verdict["verdict"] != "finished" or verdict["evidence"]["records_lost"] != 0:
            raise Failure(f"{name}: verdict {verdict['verdict']}, {verdict['evidence']['records_lost']} records lost: "
                          f"{verdict['summary']}")
    return result


def compare(args, name, unit, sides):
    """`sides`: {side: function that runs it}; the first is the bare job. Rounds take turns."""
    raw = {side: [] for side in sides}
    for index in range(args.rounds):
        order = list(sides) if index % 2 == 0 else list(reversed(sides))
        for side in order:
            print(f"{name}: round {index + 1} of {args.rounds}, {side}", file=sys.stderr, flush=True)
            raw[side].append(sides[side]())
    bare = [statistics.median(r[unit]) for r in raw["bare"]]
    rows = []
    for side in list(sides)[1:]:
        here = [statistics.median(r[unit]) for r in raw[side]]
        ratios = sorted(h / b for h, b in zip(here, bare))
        rows.append({"name": name, "side": side, "ratio": statistics.median(ratios), "low": ratios[0],
                     "high": ratios[-1], "quickest": quickest(raw[side], unit) / quickest(raw["bare"], unit), "bare": statistics.median(bare), "with": statistics.median(here), "unit": unit})
    return raw, rows


def compare_in_turn(args, name, unit, sides):
    """As compare(), of runs in which every second batch goes past gordian: each has its bare side in itself."""
    raw = {side: [] for side in sides if side != "bare"}
    for index in range(args.rounds):
        for side in list(raw) if index % 2 == 0 else list(reversed(raw)):
            print(f"{name}: round {index + 1} of {args.rounds}, {side}", file=sys.stderr, flush=True)
            raw[side].append(sides[side]())
    rows = []
    for side, runs in raw.items():
        ratios = sorted(statistics.median([a / b for a, b in zip(r[unit], r["direct_us"])]) for r in runs)
        here = statistics.median(statistics.median(r[unit]) for r in runs)
        bare = statistics.median(statistics.median(r["direct_us"]) for r in runs)
        rows.append({"name": name, "side": side, "ratio": statistics.median(ratios), "low": ratios[0], "high": ratios[-1],
                     "quickest": quickest(runs, unit) / quickest(runs, "direct_us"), "bare": bare, "with": here, "unit": unit})
    return raw, rows


def quickest(runs, unit):
    """Mean over the runs of the quickest batch or step."""
    return statistics.mean(min(r[unit]) for r in runs)


def watcher_share(raw):
    """Processor time of the shim's watcher as a share of the run's wall time."""
    shares = [sum(ms for thread, ms in r["threads_ms"].items() if thread.startswith("gordian")) / r["wall_ms"]
              for r in raw.get("gordian", []) if "threads_ms" in r]
    return statistics.median(shares) if shares else None


def arguments(description, batches):
    """Makes the output folder, too. `batches`: the default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--hardware", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batches", type=int, default=batches)
    parser.add_argument("--only", help="only what has this in its name")
    parser.add_argument("output")
    args = parser.parse_args()
    args.build, args.output = os.path.abspath(args.build), os.path.abspath(args.output)
    os.makedirs(args.output, exist_ok=True)
    return args


def main():
    args = arguments(__doc__, batches=30)
    loop = os.path.join(args.build, "bin", "bench_collective_loop")
    everything, failed = {}, False
    print("| Job | With | Ratio (of the rounds) | Of the quickest | Bare | With it | Goal | Watcher |")
    print("|---|---|---|---|---|---|---|---|", flush=True)

    def note(name, raw, rows):
        everything[name] = {"rows": rows, "raw": raw}
        with open(os.path.join(args.output, "impact.json"), "w", encoding="utf-8") as f:
            json.dump(everything, f)
        for r in rows:
            goal = GOALS[r["name"]] if r["side"] == "gordian" else ""
            share = watcher_share(raw) if r["side"] == "gordian" else None
            share = f"{100 * share:.2f} % of a core" if share is not None else ""
            print(f"| {r['name']} | {r['side']} | {r['ratio']:.4f} ({r['low']:.4f} to {r['high']:.4f}) | "
                  f"{r['quickest']:.4f} | {r['bare']:.2f} {r['unit']} | {r['with']:.2f} {r['unit']} | {goal} | {share} |", flush=True)

    for name, (words, unit) in LOOPS.items():
        if args.only and args.only not in name:
            continue
        command = [loop, "--ranks", str(args.ranks), "--batches", str(args.batches)] + words
        if not args.hardware:  # its GPU is threads: fewer operations
            command[command.index("--calls") + 1] = "200"
        try:
            sides = {
                "bare": lambda c=command, n=name: run(args, n, c, False),
                "gordian": lambda c=command, n=name: run(args, n, c, True),
                "gordian, no markers": lambda c=command, n=name: run(args, n, c, True, {"GORDIAN_MARKERS": "0"})}
            if args.hardware:
                sides["gordian --cupti"] = lambda c=command, n=name: run(args, n, c, True, {"GORDIAN_CUPTI": "1"})
            note(name, *(compare_in_turn if "--in-turn" in words else compare)(args, name, unit, sides))
        except (Failure, subprocess.TimeoutExpired) as failure:
            print(failure, file=sys.stderr)
            failed = True
    if args.hardware and (not args.only or args.only in "DDP step"):
        training = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks),
                    os.path.join(HERE, "training.py")]
        try:
            note("DDP step", *compare(args, "DDP step", "ms", {
                "bare": lambda: run(args, "DDP step", training, False, NO_RECORDER),
                "gordian": lambda: run(args, "DDP step", training, True, NO_RECORDER),
                "Flight Recorder": lambda: run(args, "DDP step", training, False, RECORDER),
                "CUPTI": lambda: run(args, "DDP step", training + ["--profile", "cupti"], False, NO_RECORDER)}))
        except (Failure, subprocess.TimeoutExpired) as failure:
            print(failure, file=sys.stderr)
            failed = True

    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
