#!/usr/bin/env python3
"""What the pieces of training jobs cost, each alone: exchanges, all-reduces, windows of them, a wait beside computation.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 pieces.py [--own-orders]

A line for each case and rank: microseconds on the caller's stream, median (second least to second largest of 15). "late"
cases: the last rank's device begins 4.3 ms later than the others, so that its own figure is the operation alone, without what
the host takes to call it. --own-orders: windows also in an order of each rank's own (NCCL hangs).
"""

import argparse
import os
import random

import torch
import torch.distributed as dist

REPEATS, WARM = 15, 3
LATE_CYCLES = 8_500_000


class Pieces:
    def __init__(self):
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def time(self, name, call, late=False):
        took = []
        for i in range(REPEATS + WARM):
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            if late and self.rank == self.ranks - 1:
                torch.cuda._sleep(LATE_CYCLES)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if i >= WARM:
                took.append(begin.elapsed_time(end) * 1000)
        took.sort()
        line = f"{name}{', late' if late else ''}, rank {self.rank}: {took[REPEATS // 2]:.0f} ({took[1]:.0f} to {took[-2]:.0f}) us\n"
        os.write(1, line.encode())  # in one piece

    def transfers(self, megabytes):
        count = int(megabytes * 5e5)
        out = torch.ones(count, dtype=torch.bfloat16, device=self.device)
        into = torch.empty_like(out)
        peer = self.rank ^ 1

        def call(both):
            calls = []
            if both or self.rank % 2 == 0:
                calls.append(dist.P2POp(dist.isend, out, peer))
            if both or self.rank % 2 == 1:
                calls.append(dist.P2POp(dist.irecv, into, peer))
            for work in dist.batch_isend_irecv(calls):
                work.wait()

        for late in (False, True):
            self.time(f"exchange of {megabytes} MB", lambda: call(True), late)
            self.time(f"{megabytes} MB one way", lambda: call(False), late)

    def all_reduces(self, megabytes):
        x = torch.ones(int(megabytes * 5e5), dtype=torch.bfloat16, device=self.device)
        for late in (False, True):
            self.time(f"all-reduce of {megabytes} MB", lambda: dist.all_reduce(x, op=dist.ReduceOp.AVG), late)

    def beside(self):
        """Matrix products on one stream, an all-reduce on another."""
        m = torch.randn(8192, 8192, dtype=torch.bfloat16, device=self.device)
        x = torch.ones(25_000_000, device=self.device)

        def products():
            for _ in range(4):
                torch.mm(m, m)

        def both():
            work = dist.all_reduce(x, async_op=True)
            products()
            work.wait()

        self.time("4 products", products)
        self.time("all-reduce of 100 MB", lambda: dist.all_reduce(x))
        self.time("4 products beside it", both)
        self.time("4 products beside it", both, late=True)

    def windows(self, own_orders):
        groups = [dist.new_group(range(self.ranks)) for _ in range(23)]
        one = torch.ones(1, device=self.device)
        for group in groups:
            dist.all_reduce(one, group=group)
        stream = torch.cuda.Stream()
        for name, sizes in (("256 B", [64]), ("1 MiB", [262144]), ("256 B to 4 MiB", [64 << 2 * k for k in range(8)])):
            tensors = [torch.ones(sizes[k % len(sizes)], device=self.device) for k in range(len(groups))]
            for own in (False, True) if own_orders else (False,):
                shuffle = random.Random(5 + (self.rank if own else 0)).shuffle

                def call():
                    order = list(range(len(groups)))
                    shuffle(order)
                    stream.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(stream):
                        for k in order:
                            dist.all_reduce(tensors[k], group=groups[k])
                    torch.cuda.current_stream().wait_stream(stream)

                self.time(f"{len(groups)} all-reduces of {name}, {'orders of their own' if own else 'one order'}", call)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own-orders", action="store_true")
    args = parser.parse_args()
    pieces = Pieces()
    for megabytes in (1, 12.6):
        pieces.transfers(megabytes)
    for megabytes in (0.004, 1, 9.4, 25, 38.7):
        pieces.all_reduces(megabytes)
    pieces.beside()
    pieces.windows(args.own_orders)
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(0)  # destroying the groups takes NCCL seconds


if __name__ == "__main__":
    main()
