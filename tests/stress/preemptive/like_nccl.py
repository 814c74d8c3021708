#!/usr/bin/env python3
"""What streams and hosts may read after an operation, on the preemptive runtime as with NCCL.

  like_nccl.py BUILD

Each program copies a result as soon as NCCL's rules allow that, while the other rank comes 0.3 s later. It must end with the
same bytes, whoever executes its collectives.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import layout  # noqa: E402,F401: where the corpus is
from program import Program  # noqa: E402

LATE_US = 300000


def begin(streams):
    p = Program(2)
    comm = p.comm("c", [0, 1])
    p.init_all()
    for rank in range(2):
        for stream in range(streams):
            p.collective(rank, f"warm{stream}", "all_reduce", comm, stream, 64)
        p.add(rank, "warm", "device_sync")
    return p, comm


def copied(p, rank, stream, label):
    p.add(rank, "copied", "copy", stream=stream, input=label, bytes=256, type="f32", room=256)
    p.add(rank, "end", "device_sync")


def group_on_two_streams():
    """One communicator's operations in a group: none of their streams goes on before all are done."""
    p, comm = begin(2)
    for rank in range(2):
        if rank == 1:
            p.add(rank, "late", "kernel", stream=1, us=LATE_US)
        p.add(rank, "group", "group_start")
        p.collective(rank, "a", "all_reduce", comm, 0, 64)
        p.collective(rank, "b", "all_reduce", comm, 1, 64)
        p.add(rank, "ended", "group_end")
        copied(p, rank, 0, "b")
    return p


def finalized():
    """ncclCommFinalize waits for the member's operations: the host may do with them what it likes."""
    p, comm = begin(1)
    for rank in range(2):
        if rank == 1:
            p.add(rank, "late", "kernel", stream=0, us=LATE_US)
        p.collective(rank, "a", "all_reduce", comm, 0, 64)
        p.add(rank, "final", "finalize", comm=comm)
        copied(p, rank, 1, "a")
    return p


def results(build, program, collectives, folder):
    path = os.path.join(folder, collectives)
    with open(path, "w", encoding="utf-8") as f:
        f.write(program.text())
    subprocess.run([os.path.join(build, "bin", "gordian"), "run", "--emulator", "--quiet", "--collectives", collectives,
                    "--session", path + ".session", "--", os.path.join(build, "tests", "gordian_corpus_job"), path,
                    path + ".results"], check=True, timeout=60)
    found = []
    for rank in range(program.ranks):
        with open(f"{path}.results.{rank}", encoding="utf-8") as f:
            found.append(f.read())
    return found


def main():
    for make in (group_on_two_streams, finalized):
        with tempfile.TemporaryDirectory(prefix="gordian-like-nccl-") as folder:
            want, got = (results(sys.argv[1], make(), collectives, folder) for collectives in ("nccl", "preemptive"))
            if want != got:
                sys.exit(f"{make.__name__}:\n{want}\nwith NCCL's collectives, and on the preemptive runtime\n{got}")


if __name__ == "__main__":
    main()
