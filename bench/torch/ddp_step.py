#!/usr/bin/env python3
"""What gordian adds to a training step of PyTorch's DistributedDataParallel on two GPUs.

  ddp_step.py --build BUILD [--pairs 12] [--steps 400] [--json FILE]

Starts the same training in turn with and without `gordian run`, a pair in the order A B, the next in
the order B A. Each takes the median of its steps' times. Prints the median of the pairs' ratios, a
95 % interval of that median (by order statistics), and whether all runs ended with the same
parameters, bit for bit. The goal is 0.5 % of a step of 5 ms or more.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "torch", "start.py")
WARM_UP = 50


def train(steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    width = 4096
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(512, width, device="cuda")
    times = []
    for step in range(WARM_UP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()  # as training loops log it
        if step >= WARM_UP:
            times.append(time.perf_counter() - begin)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"step_ms": 1e3 * statistics.median(times), "parameters": digest.hexdigest()}), flush=True)


def run_once(args, watched):
    command = [sys.executable, START, "2", os.path.abspath(__file__), "--train", str(args.steps)]
    work = tempfile.mkdtemp(prefix="gordian-ddp-step-")
    if watched:
        command = [os.path.join(os.path.abspath(args.build), "bin", "gordian"), "run", "--quiet", "--session",
                   os.path.join(work, "session"), "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
    records = None
    if done.returncode == 0 and watched:
        with open(os.path.join(work, "session", "verdict.json"), encoding="utf-8") as f:
            evidence = json.load(f)["evidence"]
        records = [evidence["records"], evidence["records_lost"]]
    shutil.rmtree(work)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    result = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return {**result, "records": records}


def interval(values):
    """Of the median, at 95 % or a little more, by order statistics."""
    ordered, n = sorted(values), len(values)
    outside = 0
    low = 0
    while low < n // 2 and 2 * (outside + math.comb(n, low)) / 2 ** n <= 0.05:
        outside += math.comb(n, low)
        low += 1
    return (ordered[low - 1], ordered[n - low]) if low else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--json")
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        return train(args.train)
    run_once(args, False)  # the first one reads the disk
    ratios, plain_ms, watched_ms, parameters, records = [], [], [], set(), []
    for pair in range(args.pairs):
        results = {}
        for watched in ((False, True) if pair % 2 == 0 else (True, False)):
            results[watched] = run_once(args, watched)
            parameters.add(results[watched]["parameters"])
        plain_ms.append(results[False]["step_ms"])
        watched_ms.append(results[True]["step_ms"])
        records.append(results[True]["records"])
        ratios.append(watched_ms[-1] / plain_ms[-1])
        print(f"pair {pair + 1} of {args.pairs}: {ratios[-1]:.4f}, {watched_ms[-1]:.3f} ms with, {plain_ms[-1]:.3f} without",
              flush=True)
    result = {"ratio": statistics.median(ratios), "interval": interval(ratios), "pairs": args.pairs,
              "step_ms": statistics.median(plain_ms), "watched_ms": statistics.median(watched_ms),
              "same_parameters": len(parameters) == 1, "records_and_lost": records[-1]}
    between = f"{result['interval'][0]:.4f} to {result['interval'][1]:.4f}" if result["interval"] else "too few pairs"
    print(f"{result['ratio']:.4f} times a step without gordian (95 %: {between}); {result['watched_ms']:.3f} ms with, "
          f"{result['step_ms']:.3f} without; parameters {'equal to the bit' if result['same_parameters'] else 'DIFFER'}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
    return 0 if result["same_parameters"] else 1


if __name__ == "__main__":
    sys.exit(main())
