"""A job of one rank that a debugger goes through step by step."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[1], rank=0, world_size=1)
group = dist.new_group([0])  # break
work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
print("done", work.wait(), group.rank())
raise ValueError("the last word")
