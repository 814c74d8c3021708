#!/usr/bin/env python3
"""Starts the ranks of a job of PyTorch, each as a process with the variables that torchrun sets, and ends with the
first exit code that is not 0 once all have ended. No rank outlives it, and a rank may have variables of its own.

  start.py RANKS SCRIPT [ARGUMENTS]

Debian 12's own torchrun (PyTorch 1.13) starts with its Python 3.11 only as `torchrun -r 1 -t 1 ...`.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start_ranks(command, ranks, settings=None):
    """settings: a function of the rank that gives variables of its own."""
    # Bound and not listening: no other job is given the port, and rank 0 may listen on it all the same.
    with socket.socket(socket.AF_INET6) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("::1", 0))
        env = dict(os.environ, WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="localhost",
                   MASTER_PORT=str(reserved.getsockname()[1]), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        started = []
        for rank in range(ranks):
            own = settings(rank) if settings else {}
            started.append(subprocess.Popen(command, preexec_fn=end_with_parent,
                                            env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank), **own)))
        codes = [process.wait() for process in started]
        return next((code for code in codes if code), 0)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: start.py RANKS SCRIPT [ARGUMENTS]")
    sys.exit(start_ranks([sys.executable, *sys.argv[2:]], int(sys.argv[1])))
