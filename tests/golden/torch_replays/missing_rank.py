#!/usr/bin/env python3
"""A replay written by gordian VERSION: a small program that hangs as the recorded job did.

Verdict   rank_not_joined, confirmed [rank-not-joined]
Recorded  missing_rank
Here      2 of 8 ranks, 1 of 91 operations of NCCL
Verified  not yet

Run       torchrun --nproc-per-node=2 missing_rank.py   (PyTorch 2.3 or later)
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

import torch
import torch.distributed as dist

BUFFER_BYTES = 262144


def data(count, dtype):
    """What an operation sends: `count` elements."""
    return SENT[:count * dtype.itemsize].view(dtype)


def result(count, dtype):
    """Where it receives."""
    return RECEIVED[:count * dtype.itemsize].view(dtype)


def on(stream):
    return torch.cuda.stream(stream)


def compute_for_ever():
    """In the recorded job the thread ran its own code here, and made no further call."""
    while True:
        pass


def make_groups():
    global world
    world = dist.new_group([0, 1])


def rank_0():
    # rank 6 of the recorded job
    s1 = torch.cuda.Stream()
    with on(s1): dist.all_reduce(data(65536, torch.float32), op=dist.ReduceOp.SUM, group=world)


def rank_1():
    # rank 7 of the recorded job
    compute_for_ever()


RANKS = [rank_0, rank_1]


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
