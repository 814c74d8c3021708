#!/usr/bin/env python3
"""A small NCCL job under torch.profiler, healthy or with one mistake of one rank.

  ../one_gpu_ranks.sh python3 -m torch.distributed.run --standalone --nproc-per-node 4 profiled.py JOB --out FOLDER

JOB: healthy, or what the odd rank, the last but one, does in the last step: kind, count, type, root, skip, stall, order.
Every rank leaves its trace of the profiler, its execution trace and its Flight Recorder dump in FOLDER, and rank 0
two reports of RAS. Where the job hangs, a thread of each rank writes the dump and aborts NCCL, so that the profiler
can end; a process ended before that leaves an execution trace without an end. pack_traces.py packs them for tests.
"""

import argparse
import datetime
import os
import socket
import sys
import threading
import time

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # the helper below ends a hang
os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile  # noqa: E402


def every_collective(world, rank, groups, device):
    default, means, pipeline = groups["default"], groups["means"], groups["pipeline"]
    x = torch.ones(4096, device=device)
    dist.all_reduce(x)
    dist.all_reduce(x, op=dist.ReduceOp.MAX, group=means)
    dist.broadcast(x, src=1)
    dist.reduce(x, dst=0, group=means)
    out = torch.empty(4096 * world, device=device, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(out, torch.ones(4096, device=device, dtype=torch.bfloat16))
    dist.all_gather([torch.empty(100, device=device) for _ in range(world)], torch.ones(100, device=device))
    dist.reduce_scatter_tensor(torch.empty(1024, device=device), torch.ones(1024 * world, device=device))
    dist.reduce_scatter(torch.empty(64, device=device), [torch.ones(64, device=device) for _ in range(world)])
    dist.all_to_all_single(torch.empty(8 * world, device=device), torch.ones(8 * world, device=device))
    # Each rank sends r + 1 elements to rank r.
    dist.all_to_all_single(torch.empty(world * (rank + 1), device=device),
                           torch.ones(world * (world + 1) // 2, device=device),
                           output_split_sizes=[rank + 1] * world, input_split_sizes=[r + 1 for r in range(world)])
    dist.all_to_all([torch.empty(4, device=device) for _ in range(world)], [torch.ones(4, device=device) for _ in range(world)])
    dist.gather(x, [torch.empty_like(x) for _ in range(world)] if rank == 0 else None, dst=0, group=means)
    dist.scatter(x, [torch.ones_like(x) for _ in range(world)] if rank == 0 else None, src=0, group=means)
    pair = groups["pair"]
    dist.all_reduce(torch.ones(16, device=device), group=pair)
    with dist._coalescing_manager(group=means, device=device, async_ops=False):
        for size in (256, 512):
            dist.all_reduce(torch.ones(size, device=device), group=means)
    with dist._coalescing_manager(group=default, device=device, async_ops=False):
        for size in (128, 64):
            dist.all_gather_into_tensor(torch.empty(size * world, device=device), torch.ones(size, device=device))
    # A pipeline: rank r to r + 1.
    if rank > 0:
        dist.recv(x, src=rank - 1, group=pipeline)
    if rank < world - 1:
        dist.send(x, dst=rank + 1, group=pipeline)
    ring = [dist.P2POp(dist.isend, x, (rank + 1) % world, group=pipeline),
            dist.P2POp(dist.irecv, torch.empty_like(x), (rank - 1) % world, group=pipeline)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    dist.broadcast_object_list([{"step": 1}], src=0)
    dist.barrier()


def mistake(job, odd, groups, device):
    """The last step; async, so that the calls after the odd one are made too."""
    means, hits = groups["means"], groups["hits"]
    x = torch.ones(1 << 20, device=device)
    y = torch.ones(1 << 20, device=device)
    dist.all_reduce(x, group=means, async_op=True)
    torch.cuda.synchronize()
    if job == "stall" and odd:
        return
    if job == "order":
        for group in (hits, means) if odd else (means, hits):
            dist.all_reduce(x if group is means else y, group=group, async_op=True)
            torch.cuda.synchronize()
        return
    if job == "kind" and odd:
        dist.broadcast(x, src=0, group=means, async_op=True)
    elif job == "count" and odd:
        dist.all_reduce(x[:1 << 19], group=means, async_op=True)
    elif job == "type" and odd:
        dist.all_reduce(x.half(), group=means, async_op=True)
    elif job == "skip" and odd:
        pass
    else:
        dist.all_reduce(x, group=means, async_op=True)
    dist.broadcast(y, src=1 if job == "root" and odd else 0, group=means, async_op=True)
    dist.all_reduce(y, group=hits, async_op=True)


def end_hang(out, rank, done):
    if done.wait(timeout=6):
        return
    print(f"rank {rank}: hangs", flush=True)
    if rank == 0:
        ras(os.path.join(out, "ras_first.json"))
    time.sleep(3)
    if rank == 0:
        ras(os.path.join(out, "ras_second.json"))
    time.sleep(1)
    dump(out, rank)
    # At once: an abort frees memory of the device, which waits for a kernel of another communicator that hangs.
    for group in list(dist.distributed_c10d._world.pg_map):
        threading.Thread(target=abort, args=(rank, group), daemon=True).start()


def abort(rank, group):
    try:
        group._get_backend(torch.device("cuda")).abort()
    except Exception as error:  # the abort of one must not keep the others
        print(f"rank {rank}: abort: {error}", flush=True)


def ras(path):
    """What `ncclras -f json` prints."""
    try:
        with socket.create_connection(("localhost", 28028), timeout=8) as peer, open(path, "wb") as f:
            lines = peer.makefile("rb")
            for request in (b"CLIENT PROTOCOL 2\n", b"TIMEOUT 2\n", b"SET FORMAT json\n"):
                peer.sendall(request)
                print("RAS:", lines.readline(), flush=True)
            peer.sendall(b"STATUS\n")
            f.write(lines.read())
    except OSError as error:
        print("RAS:", error, flush=True)


def dump(out, rank):
    with open(os.path.join(out, f"nccl_trace_rank_{rank}"), "wb") as f:
        f.write(torch._C._distributed_c10d._dump_nccl_trace())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=["healthy", "kind", "count", "type", "root", "skip", "stall", "order"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--activities", default="both", choices=["cpu", "both"])
    parser.add_argument("--shift", action="store_true", help="rank r begins to record r steps later")
    parser.add_argument("--mixed", action="store_true", help="transfers in the group of all, too")
    parser.add_argument("--cold", action="store_true", help="NCCL first connects in the last step")
    parser.add_argument("--graph", action="store_true", help="replay a CUDA graph with a collective")
    args = parser.parse_args()
    begin = time.monotonic()
    os.makedirs(args.out, exist_ok=True)
    torch.cuda.set_device(0)
    device = torch.device("cuda", 0)
    dist.init_process_group("nccl", device_id=device, timeout=datetime.timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    everybody = list(range(world))
    groups = {name: dist.new_group(everybody, group_desc=name) for name in ("means", "hits", "pipeline")}
    groups["default"] = dist.group.WORLD
    for first in range(0, world, 2):
        pair = dist.new_group([first, first + 1], group_desc="pair")
        if rank in (first, first + 1):
            groups["pair"] = pair
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(32, 64, device=device)).square().mean().backward()
        optimizer.step()
        every_collective(world, rank, groups, device)
        if args.mixed:
            x = torch.ones(512, device=device)
            if rank in (0, 1):
                ops = [dist.P2POp(dist.isend if rank == 0 else dist.irecv, x, 1 - rank)]
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
            dist.all_reduce(x)

    step()
    # By the algorithm of the last step: NCCL connects when it is first used, and waits there on the host.
    for name in ("means",) if args.cold else ("means", "hits"):
        dist.all_reduce(torch.ones(1 << 20, device=device), group=groups[name])
        dist.broadcast(torch.ones(1 << 20, device=device), src=0, group=groups[name])
    dist.all_reduce(torch.ones(1, device=device), group=groups["hits"])
    torch.cuda.synchronize()
    print(f"rank {rank}: warm after {time.monotonic() - begin:.1f} s", flush=True)
    done = threading.Event()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if args.activities == "both" else [])
    for _ in range(rank if args.shift else 0):
        step()
    graph = None
    if args.graph:
        static = torch.ones(1024, device=device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            dist.all_reduce(static, group=groups["hits"])
    observer = ExecutionTraceObserver().register_callback(os.path.join(args.out, f"pytorch_et_rank{rank}.json"))
    prof = profile(activities=activities, record_shapes=True, execution_trace_observer=observer)
    prof.start()
    for _ in range(2 + (world - 1 - rank if args.shift else 0)):
        step()
        if graph:
            graph.replay()
    threading.Thread(target=end_hang, args=(args.out, rank, done), daemon=True).start()
    hung = args.job != "healthy"
    try:
        mistake(args.job, rank == world - 2, groups, device)
    except Exception as error:
        print(f"rank {rank}: raised: {str(error)[:300]}", flush=True)
    prof.stop()
    if args.activities == "cpu":
        prof.export_chrome_trace(os.path.join(args.out, f"rank{rank}.before_the_end.json"))
        torch.cuda.synchronize()
    done.set()
    if not os.path.exists(os.path.join(args.out, f"nccl_trace_rank_{rank}")):
        dump(args.out, rank)
    name = os.path.join(args.out, f"rank{rank}.pt.trace.json")
    prof.export_chrome_trace(name + (".gz" if rank % 2 else ""))
    print(f"rank {rank}: exported after {time.monotonic() - begin:.1f} s", flush=True)
    sys.stdout.flush()
    if hung:
        # torchrun would end the others, and they would lose their peer.
        for _ in range(40):
            time.sleep(0.5)
            if sum(".pt.trace.json" in file for file in os.listdir(args.out)) == world:
                time.sleep(1)
                break
        os._exit(0)
    graph = None
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
