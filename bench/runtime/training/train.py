#!/usr/bin/env python3
"""Trains small models on several GPUs of one host, and times the steps.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 train.py --out FOLDER resnet_ddp vit_tp ...

Each rank writes FOLDER/WORKLOAD.RANK.json as soon as a workload is done: times of the steps, losses, a digest of the
parameters, operations and bytes of a step, and under `gordian run --collectives=preemptive` what the preemptive runtime
has counted. Without GPUs: the same code over gloo, for tests (with --tiny).
"""

import argparse
import contextlib
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
    """Of all bits of the parameters and buffers, added up on their device."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = []
    for _, value in sorted(model.state_dict().items()):
        bits = value.detach().contiguous().view(-1).view(whole[value.element_size()]).to(torch.int64)
        places = torch.arange(1, bits.numel() + 1, device=bits.device)
        sums.append((bits * places).sum())
    return hashlib.sha256(repr(torch.stack([s.cpu() for s in sums]).tolist()).encode()).hexdigest()


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
    # Weights are drawn on the device: the same ones on all devices of a kind.
    with torch.device(job.device) if job.device.type == "cuda" else contextlib.nullcontext():
        step, model = workloads.ALL[name](job)
    losses = []
    for _ in range(warm):
        losses.append(step())
    job.traffic.of.clear()
    before = counters()
    dist.barrier()
    gc.collect()
    gc.disable()  # its pauses are not what is compared
    clock, began = Clock(job.device), time.perf_counter()
    clock.mark()
    for _ in range(steps):
        losses.append(step())
        clock.mark()
    times = clock.milliseconds()
    gc.enable()
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
        torch.backends.cuda.enable_cudnn_sdp(False)  # its gradients do not repeat
        torch.utils.deterministic.fill_uninitialized_memory = False  # a kernel for each new tensor
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
    os.makedirs(args.out, exist_ok=True)
    job = workloads.Job(device, args.tiny)
    started = time.perf_counter()
    for name in args.workloads:
        if job.rank == 0:
            print(f"{time.perf_counter() - started:.1f} s: {name} begins", flush=True)
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
    if device.type != "cuda":
        dist.destroy_process_group()
        return
    # NCCL takes 10 s to destroy two dozen communicators, which shows nothing more than two do. With one of them the
    # runtime tells how much was helped.
    torch.cuda.synchronize()
    dist.barrier()
    if job.groups:
        dist.destroy_process_group(next(iter(job.groups.values())))
    if counters() is not None and job.rank == 0:
        print(f"rank 0, all of the process: {counters()}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
