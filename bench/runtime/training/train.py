#!/usr/bin/env python3
"""Trains small models on several GPUs of one host, and times the steps.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 train.py --out FOLDER resnet_ddp vit_tp ...

Each rank writes FOLDER/WORKLOAD.RANK.json as soon as a workload is done: times of the steps, losses, a digest of the
parameters, operations and bytes of a step, and under `gordian run --collectives=preemptive` what the preemptive runtime
has counted. Without GPUs: the same code over gloo, for tests (with --tiny).
"""

import argparse
import gc
import hashlib
import json
import os
import struct
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS: its results repeat

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import workloads  # noqa: E402

# grtFrontCounters_t (runtime/include/gordian/runtime_front.h), in its order.
COUNTERS = ("operations", "communicators", "communicators with NCCL", "not agreed", "own operator", "in a graph", "helped")


def counters():
    session = os.environ.get("GORDIAN_SESSION")
    path = os.path.join(session, f"collectives.{os.getpid()}") if session else ""
    if not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        return dict(zip(COUNTERS, struct.unpack(f"={len(COUNTERS)}Q", f.read(8 * len(COUNTERS)))))


def digest(model):
    state = hashlib.sha256()
    for _, value in sorted(model.state_dict().items()):
        state.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


class Clock:
    """Times between marks on the device's default stream, or on the host's clock."""

    def __init__(self, device):
        self.on_device, self.marks = device.type == "cuda", []

    def mark(self):
        if self.on_device:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def milliseconds(self):
        pairs = zip(self.marks, self.marks[1:])
        if self.on_device:
            torch.cuda.synchronize()
            return [a.elapsed_time(b) for a, b in pairs]
        return [1000 * (b - a) for a, b in pairs]


def train(name, job, warm, steps):
    torch.manual_seed(1234)
    step, model = workloads.ALL[name](job)
    losses = []
    for _ in range(warm):
        losses.append(step())
    job.traffic.of.clear()
    before = counters()
    dist.barrier()
    clock, began = Clock(job.device), time.perf_counter()
    clock.mark()
    for _ in range(steps):
        losses.append(step())
        clock.mark()
    times = clock.milliseconds()
    wall = time.perf_counter() - began
    after = counters()
    return {
        "workload": name,
        "ranks": job.ranks,
        "steps_ms": times,
        "wall_s": wall,
        "losses": [loss.float().item().hex() for loss in losses if loss is not None],
        "parameters": digest(model),
        "operations_a_step": {kind: n / steps for kind, (n, _) in job.traffic.of.items()},
        "bytes_a_step": {kind: n / steps for kind, (_, n) in job.traffic.of.items()},
        # The runtime's; a barrier is in them.
        "counted": {key: after[key] - before[key] for key in after} if before else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="models of a few thousand parameters")
    parser.add_argument("workloads", nargs="+", choices=sorted(workloads.ALL))
    args = parser.parse_args()

    # Warnings only: what repeats anyhow is seen from the losses.
    torch.use_deterministic_algorithms(True, warn_only=True)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = False
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
    os.makedirs(args.out, exist_ok=True)
    job = workloads.Job(device, args.tiny)
    for name in args.workloads:
        if job.rank == 0:
            print(f"{name} begins", flush=True)
        result = train(name, job, args.warm, args.steps)
        path = os.path.join(args.out, f"{name}.{job.rank}.json")
        with open(path + ".part", "w") as f:
            json.dump(result, f)
        os.rename(path + ".part", path)
        if job.rank == 0:
            middle = sorted(result["steps_ms"])[len(result["steps_ms"]) // 2]
            print(f"{name}: {1000 / middle:.2f} steps/s, median of {args.steps}; {result['counted']}", flush=True)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
