#!/usr/bin/env python3
"""Two pipeline stages a pair of ranks: activations go forth, gradients come back. In step 3 the first stage asks for
its gradients before it has sent the activations that they are of, and the job hangs. Runs on CPUs (gloo), and on
GPUs (nccl).

  gordian run -- torchrun --nproc-per-node 2 examples/torch-pipeline/train.py
  torchrun --nproc-per-node 2 examples/torch-pipeline/train.py --repaired      # ends
"""

import argparse
import os

import torch
import torch.distributed as dist


def first_stage(layer, batch, peer, receives_early):
    activations = layer(batch)
    gradients = torch.empty_like(activations)
    if receives_early:
        dist.recv(gradients, src=peer)
    dist.send(activations.detach(), dst=peer)
    if not receives_early:
        dist.recv(gradients, src=peer)
    activations.backward(gradients)


def second_stage(layer, shape, device, peer):
    activations = torch.empty(shape, device=device)
    dist.recv(activations, src=peer)
    activations.requires_grad_(True)
    loss = layer(activations).square().mean()
    loss.backward()
    dist.send(activations.grad, dst=peer)
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repaired", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    peer = rank ^ 1
    torch.manual_seed(1)
    layer = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for step in range(args.steps):
        optimizer.zero_grad()
        if rank % 2 == 0:
            batch = torch.randn(32, 64, device=device)
            first_stage(layer, batch, peer, receives_early=not args.repaired and step == 3)
        else:
            loss = second_stage(layer, (32, 64), device, peer)
            print(f"step {step}: loss {loss:.4f}", flush=True)
        optimizer.step()
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
