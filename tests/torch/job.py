#!/usr/bin/env python3
"""A job of PyTorch that hangs by one mistake, or its twin without it, which ends.

  job.py NAME [--ranks N] [--twin] [--backend gloo|nccl]
  job.py all --twin        # every twin, one after the other, in the same processes

Started without RANK it starts the ranks itself (start.py). Rank 0 of a job that ends prints `done`. Where the
mistake stands, the source says `# guilty: NAME`.
"""

import argparse
import datetime
import os
import subprocess
import sys

from start import start_ranks


def functions(backend):
    """Every job by its name. Imports torch, which takes seconds: ranks do that, what starts them does not."""
    from jobs import data_parallel, groups, mesh, mistakes, outside, parallel, transfers
    modules = [data_parallel, groups, mesh, mistakes, outside, transfers] + ([parallel] if backend == "nccl" else [])
    return {name: function for module in modules for name, function in module.JOBS.items()}


class Job:
    """What a job may ask for: who it is, and where its tensors are."""

    def __init__(self, args):
        import torch
        import torch.distributed as dist
        self.twin = args.twin
        self.mistaken = not args.twin
        self.backend = args.backend
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.last = self.rank == self.world - 1
        self.everybody = list(range(self.world))
        torch.manual_seed(7)
        torch.set_num_threads(1)
        if self.backend == "nccl":
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")
        if "JOB_TIMEOUT_S" in os.environ:  # of all groups: PyTorch's own is ten minutes
            limit = datetime.timedelta(seconds=int(os.environ["JOB_TIMEOUT_S"]))
            dist.distributed_c10d._get_default_timeout = lambda backend: limit
        dist.init_process_group(self.backend)
        # What is not about NCCL, as object collectives beside it, goes over gloo, as people do it.
        self.store = dist.distributed_c10d._get_default_store()

    def ones(self, count=1024):
        import torch
        return torch.ones(count, device=self.device)

    def group(self, ranks=None, backend=None):
        """A group that has been used once, so that its first use holds nothing up."""
        import torch.distributed as dist
        ranks = self.everybody if ranks is None else ranks
        made = dist.new_group(ranks, backend=backend)
        if self.rank in ranks:
            self.warm(made, backend)
        return made

    def warm(self, group=None, backend=None):
        import torch
        import torch.distributed as dist
        device = torch.device("cpu") if backend == "gloo" else self.device
        dist.all_reduce(torch.ones(1, device=device), group=group)
        self.wait()

    def own_stream(self):
        """Another stream than the other threads': on one stream their groups' operations wait for each other. A new
        thread's device is the first, whichever the main thread has set."""
        import contextlib

        import torch
        return torch.cuda.stream(torch.cuda.Stream(self.device)) if self.backend == "nccl" else contextlib.nullcontext()

    def wait(self):
        """Until what was issued is done: gloo's calls are by themselves, NCCL's go to a stream."""
        if self.backend == "nccl":
            import torch
            torch.cuda.synchronize()


def run_rank(args):
    import torch.distributed as dist
    known = functions(args.backend)
    chosen = known.values() if args.name == "all" and args.twin else [known[args.name]]
    job = Job(args)
    job.warm()
    for function in chosen:
        function(job)
        job.wait()
    dist.destroy_process_group()
    if job.rank == 0:
        print("done", flush=True)


def order_of_set(rank, ranks):
    """Hash seeds with which the last rank's set has another order than the others'."""
    seeds = {}
    for seed in map(str, range(32)):
        order = subprocess.run([sys.executable, "-c", "print(*{'dense', 'expert'})"], env={"PYTHONHASHSEED": seed},
                               capture_output=True, text=True, check=True).stdout
        seeds.setdefault(order, seed)
        if len(seeds) == 2:
            break
    return {"PYTHONHASHSEED": sorted(seeds.values(), key=int)[1 if rank == ranks - 1 else 0]}


SETTINGS = {"set_order": order_of_set}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default=os.environ.get("JOB_BACKEND", "gloo"))
    args = parser.parse_args()
    if "RANK" not in os.environ:
        settings = SETTINGS.get(args.name) if not args.twin else None
        return start_ranks([sys.executable, *sys.argv], args.ranks,
                           settings and (lambda rank: settings(rank, args.ranks)))
    return run_rank(args)


if __name__ == "__main__":
    sys.exit(main())
