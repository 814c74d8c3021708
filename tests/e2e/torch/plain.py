"""A job of one rank that does what may go wrong under a front end, and prints what came of it."""

import os
import signal
import sys
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.tensor(float(at))


def child(rank):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[2], rank=rank,
                            world_size=1)
    dist.all_reduce(torch.ones(1))
    raise RuntimeError("the child fails")


def main():
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
    dist.init_process_group("gloo")
    print("sum", sum(float(batch.sum()) for batch in DataLoader(Numbers(), 2, num_workers=2)))
    group = dist.distributed_c10d._get_default_group()
    for call in (lambda: group.allreduce(3), lambda: dist.broadcast(torch.ones(1), 5),
                 lambda: dist.send(torch.ones(1), 0)):
        try:
            call()
        except Exception:
            print(traceback.format_exc())
    work = dist.all_reduce(torch.ones(1), async_op=True)
    print("wait", work.wait(), work.is_completed())
    if os.fork() == 0:
        print("forked", dist.get_world_size(), flush=True)
        os._exit(7)
    print("child", os.WEXITSTATUS(os.wait()[1]))
    try:
        mp.spawn(child, nprocs=1)
    except Exception as error:
        print(type(error).__name__, error)
    print(sorted(name for name in sys.modules if name.startswith("sitecustomize")))
    dist.destroy_process_group()
    if sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("the last word")


if __name__ == "__main__":
    main()
