"""One rank does not come, for a reason outside of its collectives."""

import ctypes
import os
import threading

import torch.distributed as dist


def store_key(job):
    """Rank 0 waits for a key of the store that no rank sets; the others reduce."""
    if job.rank == job.world - 1 and job.twin:
        job.store.set("schedule", "cosine")
    if job.rank == 0:
        job.store.get("schedule")  # guilty: store_key
    dist.all_reduce(job.ones())
    job.wait()


def gil_held(job):
    """A thread of the last rank blocks in C and keeps the interpreter's lock, so that its main thread cannot call."""
    if job.last:
        read_end, write_end = os.pipe()
        if job.twin:
            os.write(write_end, b"x")
        byte = ctypes.create_string_buffer(1)
        called = threading.Event()

        def read():
            called.set()
            ctypes.PyDLL(None).read(read_end, byte, 1)  # guilty: gil_held

        thread = threading.Thread(target=read, name="reader")
        thread.start()
        called.wait()
        thread.join()
    dist.all_reduce(job.ones())
    job.wait()


def os_exit(job):
    """The last rank ends without a word to the others."""
    dist.all_reduce(job.ones())
    job.wait()
    if job.mistaken and job.last:
        os._exit(0)  # guilty: os_exit
    dist.all_reduce(job.ones())
    job.wait()


JOBS = {job.__name__: job for job in (store_key, gil_held, os_exit)}
