#!/usr/bin/env python3
"""All-reduce on the CPU between two processes: this library and gloo (PyTorch's, Debian's python3-torch), turn by
turn in one run, in place, on the same memory.

    gloo.py BUILD_FOLDER [--ranks N] [--max BYTES]

Ratio first: the library's median time of a call over gloo's; below 1 the library is faster. Both are called from
Python, so both have its overhead: torch.distributed.all_reduce, and grtAllReduce with grtStreamSynchronize by
ctypes. A barrier of gloo's goes before each call that is timed. Every size is checked. Processor time is of both
ranks, a call. Without torch it says so, and is no failure.
"""
import argparse
import ctypes
import multiprocessing
import os
import queue
import socket
import statistics
import sys
import time


def sizes(most):
    size = 8
    while size < most:
        yield size
        size *= 8
    yield most


class Library:
    """What is needed of gordian/runtime.h."""

    FLOAT32, SUM, FOREVER = 7, 0, 2**64 - 1

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    def __init__(self, build):
        self.lib = ctypes.CDLL(os.path.join(build, "lib", "libgordian_runtime.so"))
        # Pointers and sizes as wide as they are.
        handle, size = ctypes.c_void_p, ctypes.c_size_t
        self.lib.grtAllReduce.argtypes = [handle, handle, size, ctypes.c_int, ctypes.c_int, handle, handle]
        self.lib.grtStreamSynchronize.argtypes = [handle, ctypes.c_uint64]
        self.lib.grtCommInitRankConfig.argtypes = [handle, ctypes.c_int, self.UniqueId, ctypes.c_int, handle]

    def must(self, result):
        if result != 0:
            raise RuntimeError(f"result {result} of the library")

    def new_id(self):
        made = self.UniqueId()
        self.must(self.lib.grtGetUniqueId(ctypes.byref(made)))
        return bytes(made)

    def join(self, ranks, raw_id, rank):
        self.comm, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        unique = self.UniqueId.from_buffer_copy(raw_id)
        self.must(self.lib.grtCommInitRankConfig(ctypes.byref(self.comm), ranks, unique, rank, None))
        self.must(self.lib.grtStreamCreate(ctypes.byref(self.stream)))

    def all_reduce(self, address, count):
        self.must(self.lib.grtAllReduce(address, address, count, self.FLOAT32, self.SUM, self.comm, self.stream))
        self.must(self.lib.grtStreamSynchronize(self.stream, self.FOREVER))


def timed(body, barrier):
    barrier()
    processor, wall = time.process_time(), time.perf_counter()
    body()
    return time.perf_counter() - wall, time.process_time() - processor


def rank_main(rank, ranks, build, port, raw_id, most, results):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    ours = Library(build)
    ours.join(ranks, raw_id, rank)
    rows = []
    for bytes_ in sizes(most):
        count = bytes_ // 4
        tensor = torch.zeros(count)
        address = tensor.data_ptr()

        def ours_once():
            ours.all_reduce(address, count)

        def gloo_once():
            dist.all_reduce(tensor)

        for body in (ours_once, gloo_once):  # warms up, and is checked
            tensor.copy_(torch.arange(count, dtype=torch.float32) % 1000 + rank)
            body()
            expected = (torch.arange(count, dtype=torch.float32) % 1000) * ranks + ranks * (ranks - 1) / 2
            if not torch.equal(tensor, expected):
                raise RuntimeError(f"{body.__name__}: wrong results at {bytes_} bytes")
            del expected
        tensor.zero_()
        repeats = 200 if bytes_ <= 1 << 16 else 40 if bytes_ <= 1 << 22 else 10
        pairs = [(timed(ours_once, dist.barrier), timed(gloo_once, dist.barrier)) for _ in range(repeats)]
        rows.append([statistics.median(p[0][0] for p in pairs), statistics.median(p[1][0] for p in pairs),
                     sum(p[0][1] for p in pairs) / repeats, sum(p[1][1] for p in pairs) / repeats])
    results.put((rank, rows))
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max", type=int, default=64 << 20)
    options = parser.parse_args()
    try:
        import torch.distributed as dist
        if not dist.is_gloo_available():
            raise ImportError("this torch has no gloo")
    except ImportError as error:
        print(f"gloo is not compared: {error} (Debian: python3-torch)")
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    raw_id = Library(options.build).new_id()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=rank_main, daemon=True,
                             args=(r, options.ranks, options.build, port, raw_id, options.max, results))
             for r in range(options.ranks)]
    for process in ranks:
        process.start()
    by_rank = {}
    while len(by_rank) < len(ranks):
        try:
            rank, rows = results.get(timeout=1)
            by_rank[rank] = rows
        except queue.Empty:
            if any(process.exitcode not in (None, 0) for process in ranks):
                print("a rank failed", file=sys.stderr)
                return 1
    for process in ranks:
        process.join()
    print(f"{options.ranks} ranks as processes, float sum, in place")
    print(f"{'ratio':>7} {'bytes':>12} {'us':>12} {'gloo us':>12} {'processor us':>14} {'gloo processor us':>18}")
    for i, bytes_ in enumerate(sizes(options.max)):
        ours_s, gloo_s = (max(by_rank[r][i][k] for r in by_rank) for k in (0, 1))
        ours_cpu, gloo_cpu = (sum(by_rank[r][i][k] for r in by_rank) for k in (2, 3))
        print(f"{ours_s / gloo_s:7.2f} {bytes_:12} {ours_s * 1e6:12.1f} {gloo_s * 1e6:12.1f} {ours_cpu * 1e6:14.1f} {gloo_cpu * 1e6:18.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
