"""Starts a Ray Train job whose workers run under gordian.

    ray job submit --working-dir deploy/ray -- python3 train.py HEAD:7411 NAME

A `gordian serve` listens at HEAD:7411, and every node of the cluster has gordian on its PATH.
`gordian status --analyzer HEAD:7411 --job NAME` then shows the ranks.
"""
import sys


def runtime_env(analyzer, job):
    """What gordian needs of Ray. Ray runs py_executable by bash in the working directory."""
    return {
        "py_executable": "bash gordian_worker.sh",
        "env_vars": {"GORDIAN_ANALYZER": analyzer, "GORDIAN_JOB": job},
    }


def train_loop(config):
    import torch
    import torch.distributed as dist

    values = torch.ones(1024, device="cuda")
    for _ in range(config["steps"]):
        dist.all_reduce(values)
    torch.cuda.synchronize()


def main():
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    analyzer, job = sys.argv[1:]
    ray.init()
    TorchTrainer(
        train_loop,
        train_loop_config={"steps": 100},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        # The workers alone: the driver and Ray's controllers need no gordian.
        run_config=RunConfig(name=job, worker_runtime_env=runtime_env(analyzer, job)),
    ).fit()


if __name__ == "__main__":
    main()
