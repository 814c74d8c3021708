#!/usr/bin/env python3
"""A job in Python that reaches NCCL and CUDA through ctypes, as vLLM's PyNccl does.

  ctypes_job.py inversion --ranks 2 [--twin]

Two communicators on one stream; the last rank uses them in the other order (the twin does not).
"""

import ctypes
import mmap
import os
import struct
import sys
import time


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(result, what):
    if result != 0:
        print(f"{what}: {result}", file=sys.stderr)
        os._exit(8)


def rank_main(rank, ranks, twin, shared):
    def step(what):
        shared[64 * rank:64 * rank + 64] = struct.pack("<q55sx", time.time_ns(), what.encode())

    cuda = ctypes.CDLL("libcudart.so.13")
    nccl = ctypes.CDLL("libnccl.so.2")
    check(cuda.cudaSetDevice(ctypes.c_int(rank)), "cudaSetDevice")
    stream = ctypes.c_void_p()
    check(cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), ctypes.c_uint(1)), "cudaStreamCreateWithFlags")
    memory = ctypes.c_void_p()
    check(cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 16)), "cudaMalloc")
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]

    def all_reduce(comm):
        step("all-reduce")
        check(nccl.ncclAllReduce(memory, memory, 1024, 7, 0, comm, stream), "ncclAllReduce")
        step("all-reduce issued")

    comms = []
    for i in range(2):
        at = 4096 + 256 * i
        unique = UniqueId()
        if rank == 0:
            check(nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
            shared[at + 1:at + 129] = bytes(unique)
            shared[at] = 1
        while shared[at] == 0:
            time.sleep(0.001)
        ctypes.memmove(ctypes.byref(unique), shared[at + 1:at + 129], 128)
        comm = ctypes.c_void_p()
        check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank), "ncclCommInitRank")
        all_reduce(comm)
        check(cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
        comms.append(comm)
    if rank == ranks - 1 and not twin:
        comms.reverse()
    for comm in comms:
        all_reduce(comm)
    step("synchronise")
    check(cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
    step("end")


def main():
    twin = "--twin" in sys.argv
    ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
    with open(os.environ["JOB_PROGRESS"], "a+b") as f:
        f.truncate(1 << 16)
        shared = mmap.mmap(f.fileno(), 1 << 16)
    children = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            rank_main(rank, ranks, twin, shared)
            os._exit(0)
        children.append(pid)
    result = 0
    for pid in children:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result = result or (code if code >= 0 else 128 - code)
    return result


if __name__ == "__main__":
    sys.exit(main())
