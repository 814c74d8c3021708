"""Jobs of torch.distributed over gloo, one rank a process: job.py KIND. The environment says which."""

import sys
import time

import torch
import torch.distributed as dist


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


def main():
    kind, twin = sys.argv[1], "--twin" in sys.argv
    dist.init_process_group("gloo")
    globals()[kind](twin)
    dist.barrier()
    print(f"rank {dist.get_rank()} ends", flush=True)
    dist.destroy_process_group()  # else PyTorch 1.13 now and then aborts when the interpreter ends


if __name__ == "__main__":
    main()
