#!/usr/bin/env python3
"""A training step of PyTorch by DistributedDataParallel, by the priority baseline and by the plan of `gordian plan`,
each beside what the planner predicts, at several coverage rates.

  plan_step.py --build BUILD [--backend gloo|nccl] [--ranks 2] [--batches 1,4,16] [--width 256] [--layers 6]
               [--steps 40] [--blocks 3] [--plan-options "--links 2"] [--json FILE]

The batch sets the coverage rate (communication / computation): the larger, the lower. For each batch one job measures
the times of the buckets (gordian.torch.measure), plans, and trains in turn by each schedule, in blocks of --steps
steps after a warm-up. Prints the median of the blocks. The priority baseline makes DDP's updates, and the job says
whether it ended with the same parameters, bit for bit.

On gloo, communication takes the processors that compute: predictions are then too short. For GPUs, for example:
--backend nccl --width 4096 --layers 8 --batches 64,512,2048 --steps 200.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "torch", "start.py")
MEASURED = 20
WARM_UP = 6
SCHEDULES = ["DDP", "priority", "plan"]
PREDICTIONS = {"DDP": "wfbp_us", "priority": "priority_us", "plan": "step_us"}


class Training:
    """What each rank does."""

    def __init__(self, args):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.args = torch, dist, args
        self.on_gpu = args.backend == "nccl"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        dist.init_process_group(args.backend)
        self.rank = dist.get_rank()
        torch.manual_seed(5 + self.rank)
        self.inputs = torch.randn(args.batch, args.width, device=self.device)

    def model(self):
        nn = self.torch.nn
        self.torch.manual_seed(3)
        width = self.args.width
        layers = [layer for _ in range(self.args.layers) for layer in (nn.Linear(width, width), nn.ReLU())]
        bucket = 4 * width * (width + 1)  # a layer in each
        self.dist._DEFAULT_FIRST_BUCKET_BYTES = bucket
        return nn.parallel.DistributedDataParallel(nn.Sequential(*layers).to(self.device), bucket_cap_mb=bucket / 2 ** 20)

    def sgd(self, parameters):
        return self.torch.optim.SGD(parameters, lr=1e-3)

    def steps(self, model, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            model(self.inputs).square().mean().backward()
            optimizer.step()

    def settle(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()
        self.dist.barrier()

    def plan(self, table):
        """By rank 0, for all."""
        path = os.path.join(self.args.work, "plan.json")
        if self.rank == 0:
            with open(os.path.join(self.args.work, "buckets.json"), "w", encoding="utf-8") as f:
                json.dump(table, f)
            subprocess.run([self.args.gordian, "plan", f.name, "--ranks", str(self.dist.get_world_size()), "-o", path,
                            *shlex.split(self.args.plan_options)], check=True, stdout=subprocess.DEVNULL)
        self.dist.barrier()
        return path

    def run(self):
        from gordian.torch import measure, plan
        from priority import Priority
        model = self.model()
        times = measure.Times(model)
        self.steps(model, self.sgd(model.parameters()), MEASURED + 2)
        table = times.table()
        path = self.plan(table)
        ways = {}
        for schedule in SCHEDULES:
            model = self.model()
            optimizer = (Priority(model, self.sgd, table["buckets"]) if schedule == "priority"
                         else self.sgd(model.parameters()))
            ways[schedule] = (model, plan.follow(model, optimizer, path) if schedule == "plan" else optimizer)
            self.steps(*ways[schedule], WARM_UP)
        step_ms = {schedule: [] for schedule in SCHEDULES}
        for block in range(self.args.blocks):
            for schedule in SCHEDULES if block % 2 == 0 else SCHEDULES[::-1]:
                self.settle()
                began = time.perf_counter()
                self.steps(*ways[schedule], self.args.steps)
                if self.on_gpu:
                    self.torch.cuda.synchronize()
                step_ms[schedule].append(1e3 * (time.perf_counter() - began) / self.args.steps)
        ways["priority"][1].flush()
        same = all(self.torch.equal(a, b) for a, b in zip(ways["DDP"][0].parameters(), ways["priority"][0].parameters()))
        updates = ways["plan"][1].updates
        ways["plan"][1].flush()
        self.dist.destroy_process_group()
        if self.rank == 0:
            with open(path, encoding="utf-8") as f:
                document = json.load(f)
            buckets = table["buckets"]
            computation = sum(bucket["forward_us"] + bucket["backward_us"] for bucket in buckets)
            print(json.dumps({
                "batch": self.args.batch, "coverage": sum(bucket["comm_us"] for bucket in buckets) / computation,
                "buckets": len(buckets), "updates": updates / (WARM_UP + self.args.blocks * self.args.steps),
                "merged": document["merged"], "same_parameters": same,
                "ms": {schedule: statistics.median(step_ms[schedule]) for schedule in SCHEDULES},
                "predicted_ms": {schedule: 1e-3 * document["predicted"][PREDICTIONS[schedule]] for schedule in SCHEDULES},
                "plan": document["hash"]}), flush=True)


def run_batch(args, batch):
    build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory(prefix="gordian-plan-step-") as work:
        command = [sys.executable, START, str(args.ranks), os.path.abspath(__file__), "--train", "--batch", str(batch), "--work",
                   work, "--gordian", os.path.join(build, "bin", "gordian")]
        for name in ("backend", "width", "layers", "steps", "blocks"):
            command += [f"--{name}", str(getattr(args, name))]
        command += [f"--plan-options={args.plan_options}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, PYTHONPATH=os.path.join(build, "lib", "python")))
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=40, help="of a block")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--plan-options", default="", help="of `gordian plan`")
    parser.add_argument("--json")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--gordian", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        Training(args).run()
        return 0
    results = []
    print("coverage  updates  schedule   step, ms  predicted  measured / predicted", flush=True)
    for batch in args.batches.split(","):
        result = run_batch(args, int(batch))
        results.append(result)
        for schedule in SCHEDULES:
            ms, predicted = result["ms"][schedule], result["predicted_ms"][schedule]
            updates = result["updates"] if schedule == "plan" else 1
            print(f"{result['coverage']:8.3f}  {updates:7.3f}  {schedule:9}  {ms:8.3f}  {predicted:9.3f}  {ms / predicted:.3f}",
                  flush=True)
        if not result["same_parameters"]:
            print("  the priority baseline's parameters DIFFER from DDP's", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"arguments": vars(args), "results": results}, f, indent=1)
    return 0 if all(result["same_parameters"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
