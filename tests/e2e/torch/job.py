"""Jobs of torch.distributed over gloo, one rank a process: job.py KIND. The environment says which."""

import json
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
listener = socket.socket()


def opposite(twin):
    """Two groups of the same ranks, used in opposite order."""
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    data = torch.ones(4)
    for group in (first, second):  # connected, and in one order
        dist.all_reduce(data, group=group)
    order = (first, second) if twin or dist.get_rank() == 0 else (second, first)
    for group in order:
        dist.all_reduce(data, group=group)  # here they wait


def key(twin):
    """Rank 0 waits for a key that rank 1 sets after a barrier."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1 and twin:
        store.set("ready", "yes")
    if dist.get_rank() == 0:
        store.get("ready")  # here it waits
    dist.barrier()
    if dist.get_rank() == 1:
        store.set("ready", "yes")


def unset_key(twin):
    """Rank 0 waits for a key that nothing sets, while rank 1 does something else than calls."""
    if dist.get_rank() == 0:
        dist.distributed_c10d._get_default_store().get("schedule")  # here it waits
    time.sleep(600)


def late_thread(twin):
    """`opposite`, but another thread of rank 1 makes the missing call after a while."""
    import threading

    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])

    def later():
        time.sleep(3)
        dist.all_reduce(torch.ones(4), group=first)

    if dist.get_rank() == 0:
        for group in (first, second):
            dist.all_reduce(torch.ones(4), group=group)
    else:
        thread = threading.Thread(target=later)
        thread.start()
        dist.all_reduce(torch.ones(4), group=second)
        thread.join()


def raises(twin):
    if dist.get_rank() == 1:
        raise ValueError("the batch is empty")
    dist.distributed_c10d._get_default_store().get("never")


def raises_before_a_barrier(twin):
    """gloo tells rank 0 that rank 1 has ended, in an exception of its own."""
    dist.barrier()
    if dist.get_rank() == 1 and not twin:
        raise ValueError("the batch is empty")
    dist.barrier()


def before_never_meets(twin):
    """Rank 1 does something else, and the others wait for it before there is a group."""
    if RANK == 1 and not twin:
        time.sleep(600)


def before_raises_early(twin):
    if RANK == 1 and not twin:
        raise ValueError("no such folder")


def before_taken_port(twin):
    """Another program has the port on which rank 0 wants to listen, and does not answer rank 1."""
    if not twin:
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if RANK == 0:
            while listener.connect_ex(address) != 0:  # until rank 1 listens
                time.sleep(0.01)
        else:
            listener.bind(address)
            listener.listen()


def before_other_size(twin):
    if RANK == 1 and not twin:
        os.environ["WORLD_SIZE"] = "3"


def before_helper_raises(twin):
    """A process that a rank has started ends by an exception, with the rank's variables."""
    code = "import torch.distributed; raise ValueError('of no rank')"
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 1


def before_comes_late(twin):
    """The same, and then the rank is so late that gordian has said something."""
    if RANK == 1:
        before_helper_raises(twin)
        deadline = time.monotonic() + 100
        while said() != "rank_exited" and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # it prints that now


def said():
    try:
        with open(os.path.join(os.environ["GORDIAN_SESSION"], "verdict.json")) as f:
            return json.load(f)["verdict"]
    except (OSError, ValueError):
        return None  # not written yet


def nothing(twin):
    pass


never_meets = raises_early = taken_port = other_size = helper_raises = comes_late = nothing


def main():
    kind, twin = sys.argv[1], "--twin" in sys.argv
    globals().get(f"before_{kind}", nothing)(twin)
    dist.init_process_group("gloo")  # here: meeting
    globals()[kind](twin)
    dist.barrier()
    print(f"rank {dist.get_rank()} ends", flush=True)
    dist.destroy_process_group()  # else PyTorch 1.13 now and then aborts when the interpreter ends


if __name__ == "__main__":
    main()
