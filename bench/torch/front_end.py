#!/usr/bin/env python3
"""What gordian's front end for PyTorch adds to a call of torch.distributed.

  gordian run --quiet -- python3 bench/torch/front_end.py [--json FILE]

Makes blocks of calls with the methods as PyTorch has them, and as the front end wraps them, in turn,
on a gloo group of one rank: all_reduce, which issues an operation and waits for it. Prints the median
of the blocks' differences, and the ratio. The goal is 2 us a call.
"""

import argparse
import json
import os
import statistics
import sys
import time

BLOCKS = 41
CALLS = 400


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    args = parser.parse_args()
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29713"))
    import torch
    import torch.distributed as dist

    if "gordian_torch.front_end" not in sys.modules:
        sys.exit("the front end is not loaded: start this under `gordian run`")
    dist.init_process_group("gloo")
    c10d = dist.distributed_c10d
    watched = [(c10d.ProcessGroup, "allreduce"), (c10d.Work, "wait")]
    wrapped = [cls.__dict__[name] for cls, name in watched]
    plain = [bound.__func__.__self__[1] for bound in wrapped]
    data = torch.ones(1)

    def block(methods):
        for (cls, name), method in zip(watched, methods):
            setattr(cls, name, method)
        began = time.perf_counter()
        for _ in range(CALLS):
            dist.all_reduce(data)
        return (time.perf_counter() - began) / CALLS * 1e6

    block(plain), block(wrapped)
    without, added = [], []
    for _ in range(BLOCKS):
        base = block(plain)
        added.append(block(wrapped) - base)
        without.append(base)
    # The two halves alone, which no thread of gloo's disturbs: as many calls of each as one all_reduce makes.
    before_issue, _, after_issue = wrapped[0].__func__.__self__
    before_wait, _, after_wait = wrapped[1].__func__.__self__
    group = c10d._get_default_group()
    options = dist.AllreduceOptions()
    work = dist.all_reduce(data, async_op=True)
    work.wait()
    alone = []
    for _ in range(BLOCKS):
        began = time.perf_counter()
        for _ in range(CALLS):
            after_issue(before_issue(group, [data], options), work)
            after_wait(before_wait(work), True)
        alone.append((time.perf_counter() - began) / CALLS * 1e6)
    result = {
        "all_reduce_us": round(statistics.median(without), 2),
        "added_us": round(statistics.median(added), 2),
        "ratio": round(1 + statistics.median(added) / statistics.median(without), 3),
        "front_end_alone_us": round(statistics.median(alone), 2),
    }
    print(f"{result['ratio']}x: all_reduce of one rank takes {result['all_reduce_us']} us, "
          f"and {result['added_us']} us more under the front end "
          f"({result['front_end_alone_us']} us when measured alone; goal 2)")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=2)


if __name__ == "__main__":
    main()
