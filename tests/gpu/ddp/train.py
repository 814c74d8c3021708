#!/usr/bin/env python3
"""A small data-parallel training whose losses are the same, bit for bit, in every run.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 train.py --losses FOLDER [--steps 30] [--swap STEP]

--swap: in that step the last rank sums its two metrics, of two process groups, the other way round, and NCCL hangs.
Every rank writes FOLDER/losses.RANK, one line a step: the step, its loss exactly (hexadecimal) and for
people. Rank 0 prints the same. The last line is a digest of the parameters.
"""

import argparse
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS: its results repeat

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def deterministic(seed):
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def make_model():
    layers = []
    for _ in range(6):
        layers += [nn.Linear(512, 512), nn.LayerNorm(512), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(512, 32))


def digest(model):
    state = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        state.update(name.encode())
        state.update(value.detach().cpu().contiguous().numpy().tobytes())
    return state.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--swap", type=int, default=-1, metavar="STEP")
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    rank = dist.get_rank()
    everybody = list(range(dist.get_world_size()))
    means, hits = (dist.new_group(everybody, group_desc=name) for name in ("means", "hits"))
    deterministic(args.seed)
    # Small buckets: several all-reduces run beside the backward pass of every step.
    model = DistributedDataParallel(make_model().to(device), device_ids=[local_rank], bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    # Every rank has data of its own; the teacher is the same at all.
    teacher = torch.randn(512, 32, generator=torch.Generator().manual_seed(args.seed)).to(device)
    data = torch.Generator().manual_seed(args.seed + 1 + rank)

    os.makedirs(args.losses, exist_ok=True)
    with open(os.path.join(args.losses, f"losses.{rank}"), "w") as out:
        for step in range(args.steps):
            x = torch.randn(256, 512, generator=data).to(device)
            y = (x @ teacher).argmax(dim=1)
            optimizer.zero_grad(set_to_none=True)
            scores = model(x)
            loss = loss_of(scores, y)
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            right = (scores.argmax(dim=1) == y).sum()
            sums = [(mean, means), (right, hits)]
            if step == args.swap and rank == dist.get_world_size() - 1:
                sums.reverse()
            for value, group in sums:
                dist.all_reduce(value, group=group)
            mean = mean.item() / dist.get_world_size()
            line = f"{step} {loss.item().hex()} {mean.hex()} {mean:.6f} {right.item()}"
            out.write(line + "\n")
            out.flush()
            if rank == 0:
                print(line, flush=True)
        out.write(f"parameters {digest(model.module)}\n")
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
