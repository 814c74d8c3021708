#!/usr/bin/env python3
"""A replay written by gordian VERSION: a small program that hangs as the recorded job did.

Verdict   finished
Recorded  
Here      3 of 3 ranks, 32 of 32 operations of NCCL
Verified  not yet
Note      nothing in it 'hangs' / it only calls

Run       torchrun --nproc-per-node=3 all_that_there_is.py   (PyTorch 2.3 or later)
          --free               do not force the recorded order between threads
          --patience SECONDS   how long a rank may stay where it is before that counts as a hang (20)
Expect    each rank that hangs says where, and leaves with 42; torchrun itself then with 1. All leave with 0:
          they came to their ends. 3: something else.
"""
import argparse
import linecache
import os
import sys
import threading
import time
import traceback

os.environ["NCCL_PROTO"] = "LL"  # read when NCCL is loaded
import torch
import torch.distributed as dist

BUFFER_BYTES = 65536


def data(count, dtype):
    """What an operation sends: `count` elements."""
    return SENT[:count * dtype.itemsize].view(dtype)


def result(count, dtype):
    """Where it receives."""
    return RECEIVED[:count * dtype.itemsize].view(dtype)


def on(stream):
    return torch.cuda.stream(stream)


def transfer(group, stream, *operations):
    """Sends and receives in one group of NCCL; the stream waits for them, the host does not."""
    with on(stream):
        works = dist.batch_isend_irecv([dist.P2POp(call, buffer, peer, group) for call, buffer, peer in operations])
        for work in works:
            work.wait()


def connect(group):
    """The first use of a communicator connects its members, and waits for all of them."""
    dist.all_reduce(data(1, torch.float32), group=group)
    torch.cuda.synchronize()


def connect_pair(group, source, target):
    """So does the first transfer between two of them."""
    if dist.get_rank() in (source, target):
        sends = dist.get_rank() == source
        buffer = data(1, torch.float32) if sends else result(1, torch.float32)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if sends else dist.irecv, buffer, target if sends else source, group)]):
            work.wait()
        torch.cuda.synchronize()


def poll(query):
    while not query():
        time.sleep(0.0001)


def make_groups():
    global world, pair
    world = dist.new_group([0, 1, 2])
    pair = dist.new_group([0, 2])
    if dist.get_rank() in [0, 1, 2]:
        connect(world)
    connect_pair(world, 0, 1)
    connect_pair(world, 0, 2)
    connect_pair(world, 1, 0)
    connect_pair(world, 1, 2)
    connect_pair(world, 2, 0)
    connect_pair(world, 2, 1)


def rank_0():
    s1 = torch.cuda.Stream()
    s2 = torch.cuda.Stream()
    e1 = torch.cuda.Event()
    freed = [torch.empty(33554432, dtype=torch.uint8, device="cuda") for _ in range(2)]
    # train.py:88 step()
    with on(s1): dist.all_reduce(data(256, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_gather_into_tensor(result(768, torch.float32), data(256, torch.float32), group=world)
    with on(s1): dist.reduce_scatter_tensor(result(256, torch.float32), data(768, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_to_all_single(result(768, torch.float32), data(768, torch.float32), group=world)
    with on(s2): dist.broadcast(data(256, torch.float32), src=2, group=world)
    with on(s2): dist.reduce(data(256, torch.float32), dst=2, op=dist.ReduceOp.SUM, group=world)
    with on(s2): dist.gather(data(256, torch.float32), None, dst=2, group=world)
    with on(s2): dist.scatter(result(256, torch.float32), None, src=2, group=world)
    transfer(world, s1, (dist.isend, data(1024, torch.float32), 1), (dist.irecv, result(1024, torch.float32), 2))
    transfer(pair, s2, (dist.isend, data(1024, torch.float32), 2))
    with on(s1): RECEIVED[:64].zero_()  # in place of a kernel
    e1.record(s1)
    s2.wait_event(e1)
    e1.synchronize()
    poll(e1.query)
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    torch.cuda.synchronize()
    with on(s1): RECEIVED[:4096].cpu()


def rank_1():
    s1 = torch.cuda.Stream()
    s2 = torch.cuda.Stream()
    e1 = torch.cuda.Event()
    freed = [torch.empty(33554432, dtype=torch.uint8, device="cuda") for _ in range(2)]
    with on(s1): dist.all_reduce(data(256, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_gather_into_tensor(result(768, torch.float32), data(256, torch.float32), group=world)
    with on(s1): dist.reduce_scatter_tensor(result(256, torch.float32), data(768, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_to_all_single(result(768, torch.float32), data(768, torch.float32), group=world)
    with on(s2): dist.broadcast(data(256, torch.float32), src=2, group=world)
    with on(s2): dist.reduce(data(256, torch.float32), dst=2, op=dist.ReduceOp.SUM, group=world)
    with on(s2): dist.gather(data(256, torch.float32), None, dst=2, group=world)
    with on(s2): dist.scatter(result(256, torch.float32), None, src=2, group=world)
    transfer(world, s1, (dist.isend, data(1024, torch.float32), 2), (dist.irecv, result(1024, torch.float32), 0))
    with on(s1): RECEIVED[:64].zero_()  # in place of a kernel
    e1.record(s1)
    s2.wait_event(e1)
    e1.synchronize()
    poll(e1.query)
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    torch.cuda.synchronize()
    with on(s1): RECEIVED[:4096].cpu()


def rank_2():
    s1 = torch.cuda.Stream()
    s2 = torch.cuda.Stream()
    e1 = torch.cuda.Event()
    freed = [torch.empty(33554432, dtype=torch.uint8, device="cuda") for _ in range(2)]
    with on(s1): dist.all_reduce(data(256, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_gather_into_tensor(result(768, torch.float32), data(256, torch.float32), group=world)
    with on(s1): dist.reduce_scatter_tensor(result(256, torch.float32), data(768, torch.float32), op=dist.ReduceOp.SUM, group=world)
    with on(s1): dist.all_to_all_single(result(768, torch.float32), data(768, torch.float32), group=world)
    with on(s2): dist.broadcast(data(256, torch.float32), src=2, group=world)
    with on(s2): dist.reduce(data(256, torch.float32), dst=2, op=dist.ReduceOp.SUM, group=world)
    with on(s2): dist.gather(data(256, torch.float32), list(result(768, torch.float32).chunk(3)), dst=2, group=world)
    with on(s2): dist.scatter(result(256, torch.float32), list(data(768, torch.float32).chunk(3)), src=2, group=world)
    transfer(world, s1, (dist.isend, data(1024, torch.float32), 0), (dist.irecv, result(1024, torch.float32), 1))
    transfer(pair, s2, (dist.irecv, result(1024, torch.float32), 0))
    with on(s1): RECEIVED[:64].zero_()  # in place of a kernel
    e1.record(s1)
    s2.wait_event(e1)
    e1.synchronize()
    poll(e1.query)
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    freed.pop()
    torch.cuda.empty_cache()  # calls cudaFree, which waits for the device
    torch.cuda.synchronize()
    with on(s1): RECEIVED[:4096].cpu()


RANKS = [rank_0, rank_1, rank_2]


def where(thread):
    """The line of this file, outside of its helpers, that a thread is in; of main only where it has left its rank_
    function. None once the thread has ended."""
    frame, line = sys._current_frames().get(thread.ident), None
    while frame is not None:
        name = frame.f_code.co_name
        if name.startswith("rank_") or (name == "main" and line is None):
            line = frame.f_lineno
        frame = frame.f_back
    return line


def watch(patience):
    """Ends this rank with a report when all its threads have stayed where they are."""
    last, since = None, time.monotonic()
    while True:
        time.sleep(0.05)
        threads = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
        now = [(thread.name, where(thread)) for thread in threads]
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            lines = [f"rank {dist.get_rank()}, {name}: line {line}: {linecache.getline(__file__, line).strip()}\n"
                     for name, line in now if line is not None]
            sys.stderr.write(f"replay: reproduced: rank {dist.get_rank()} has made no step for {patience:g} s\n" + "".join(lines))
            sys.stderr.flush()
            os._exit(42)


def main():
    global OPTIONS, SENT, RECEIVED
    parser = argparse.ArgumentParser()
    parser.add_argument("--free", action="store_true", help="do not force the recorded order between threads")
    parser.add_argument("--patience", type=float, default=20, help="seconds without a step that count as a hang")
    OPTIONS = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if int(os.environ["WORLD_SIZE"]) != len(RANKS):
        sys.exit(f"replay: needs {len(RANKS)} ranks: torchrun --nproc-per-node={len(RANKS)}")
    dist.init_process_group("nccl", device_id=device)
    SENT = torch.zeros(BUFFER_BYTES, dtype=torch.uint8, device=device)
    RECEIVED = torch.zeros(BUFFER_BYTES, dtype=torch.uint8, device=device)
    threading.Thread(target=watch, args=(OPTIONS.patience,), name="watch", daemon=True).start()
    make_groups()
    RANKS[dist.get_rank()]()
    torch.cuda.synchronize()
    sys.stdout.flush()
    os._exit(0)  # without a word to NCCL: others may still be stuck


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(3)
