#!/usr/bin/env python3
"""The training jobs over gloo, on the host, with small models: however the work is divided, it is the same work.

Ends with 77 where there is no PyTorch (neither python3's nor Debian's).
"""

import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, WARM = 2, 2


def python_with_torch():
    for python in ("python3", "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0:
            return python
    print("skipped: no PyTorch")
    sys.exit(77)


def run(python, ranks, workloads):
    """{workload: [result of each rank]}"""
    with tempfile.TemporaryDirectory() as out:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        command = [python, os.path.join(HERE, "train.py"), "--tiny", "--out", out, "--steps", str(STEPS), "--warm", str(WARM)]
        processes = []
        for rank in range(ranks):
            env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(ranks), RANK=str(rank),
                       LOCAL_RANK=str(rank), OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo")
            processes.append(subprocess.Popen(command + workloads, env=env))
        try:
            codes = [p.wait(timeout=120) for p in processes]
        finally:
            for p in processes:
                p.kill()
        assert codes == [0] * ranks, codes
        found = {}
        for workload in workloads:
            found[workload] = []
            for rank in range(ranks):
                with open(os.path.join(out, f"{workload}.{rank}.json"), encoding="utf-8") as f:
                    found[workload].append(json.load(f))
        return found


def losses(result):
    values = [float.fromhex(x) for x in result["losses"]]
    assert not values or len(values) == STEPS + WARM
    return values


def assert_near(name, one, other):
    assert one and len(one) == len(other), name
    apart = max(abs(a - b) / abs(a) for a, b in zip(one, other))
    print(f"{name}: {apart:.1e} apart")
    assert apart < 1e-4, name


def assert_learns(name, values):
    assert values[-1] < values[0], (name, values)


def main():
    python = python_with_torch()
    one = run(python, 1, ["vit_tp"])
    two = run(python, 2, ["resnet_ddp", "resnet_each", "resnet_windows", "resnet_shuffled", "vit_dp", "vit_tp", "gpt2_pp"])
    four = run(python, 4, ["vit_tp", "vit_hybrid", "gpt2_pp", "gpt2_tp_pp"])
    for rank in range(2):
        for workload in ("resnet_each", "resnet_windows", "resnet_shuffled"):
            assert_near(f"{workload}, rank {rank}, to DDP", losses(two["resnet_ddp"][rank]), losses(two[workload][rank]))
        # The same additions, in whatever order they were called.
        assert two["resnet_windows"][rank]["parameters"] == two["resnet_shuffled"][rank]["parameters"]
        assert_near(f"tensor parallel, rank {rank} of 2", losses(one["vit_tp"][0]), losses(two["vit_tp"][rank]))
    for rank in range(4):
        assert_near(f"tensor parallel, rank {rank} of 4", losses(one["vit_tp"][0]), losses(four["vit_tp"][rank]))
        assert_near(f"hybrid, rank {rank}", losses(two["vit_dp"][0]), losses(four["vit_hybrid"][rank]))
    # Other data gives other losses: what is near above is so for a reason.
    assert losses(two["resnet_each"][0]) != losses(two["resnet_each"][1])
    pipeline = losses(two["gpt2_pp"][1])
    for rank in (2, 3):
        assert_near(f"two stages of two, rank {rank}", pipeline, losses(four["gpt2_tp_pp"][rank]))
    assert losses(four["gpt2_pp"][2]) != losses(four["gpt2_pp"][3])
    assert four["gpt2_pp"][2]["parameters"] == four["gpt2_pp"][3]["parameters"]
    for name, values in (("resnet", losses(two["resnet_each"][0])), ("vit", losses(two["vit_dp"][0])), ("gpt2", pipeline)):
        assert_learns(name, values)


if __name__ == "__main__":
    main()
