#!/usr/bin/env python3
"""What `--on-verdict recover` costs a job that does not hang: alone, watched and armed, in turns.

  armed.py [--build build/release] [--hardware] [--rounds 5] [--only NAME] OUTPUT_FOLDER

All-reduces of several sizes, in place and not, enqueued back to back by two ranks, and, on GPUs, a data-parallel
training. Prints ratios first; OUTPUT_FOLDER/armed.json has every batch.
"""

import json
import os
import statistics
import subprocess
import sys

import impact

HERE = os.path.dirname(os.path.abspath(__file__))
ARMED = ["--on-verdict", "recover"]
# Batches of fewer operations than may be unfinished under the shim's gates.
SIZES = {"8 B": (8, 400), "1 MiB": (1 << 20, 400), "64 MiB": (1 << 26, 20)}


def jobs(args):
    loop = os.path.join(args.build, "bin", "bench_collective_loop")
    for size, (number, calls) in SIZES.items():
        for where in ("", ", in place"):
            command = [loop, "--ranks", str(args.ranks), "--batches", str(args.batches), "--bytes", str(number), "--calls",
                       str(calls if args.hardware else min(calls, 50))]
            yield "all-reduce " + size + where, "us", command + (["--in-place"] if where else []), None
    if args.hardware:
        training = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks),
                    os.path.join(HERE, "training.py"), "--steps", "60"]
        yield "DDP step", "ms", training, impact.NO_RECORDER


def main():
    args = impact.arguments(__doc__, batches=10)
    everything, failed = {}, False
    print("| Job | With | Ratio to the bare job (of the rounds) | Bare | With it |\n|---|---|---|---|---|", flush=True)
    for name, unit, command, env in jobs(args):
        if args.only and args.only not in name:
            continue
        try:
            raw, rows = impact.compare(args, name, unit, {
                "bare": lambda c=command, n=name, e=env: impact.run(args, n, c, False, e),
                "gordian": lambda c=command, n=name, e=env: impact.run(args, n, c, True, e),
                "armed": lambda c=command, n=name, e=env: impact.run(args, n, c, True, e, ARMED)})
        except (impact.Failure, subprocess.TimeoutExpired) as failure:
            print(failure, file=sys.stderr)
            failed = True
            continue
        everything[name] = {"rows": rows, "raw": raw}
        with open(os.path.join(args.output, "armed.json"), "w", encoding="utf-8") as f:
            json.dump(everything, f)
        for r in rows:
            print(f"| {name} | {r['side']} | {r['ratio']:.4f} ({r['low']:.4f} to {r['high']:.4f}) | "
                  f"{r['bare']:.2f} {unit} | {r['with']:.2f} {unit} |", flush=True)
        armed, watched = (statistics.median(statistics.median(r[unit]) for r in raw[side]) for side in ("armed", "gordian"))
        print(f"| {name} | armed over gordian | {armed / watched:.4f} | | {armed - watched:+.2f} {unit} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
