#!/usr/bin/env bash
# Runs a command whose `torchrun` puts all its ranks on the first GPU of this machine, over NCCL.
#   one_gpu_ranks.sh COMMAND...
#   tests/gpu/one_gpu_ranks.sh python3 -m torch.distributed.run --standalone --nproc-per-node 4 train.py
#   tests/gpu/one_gpu_ranks.sh tests/gpu/ddp/run_ddp.sh gordian OUTPUT 2
# NCCL refuses two ranks on a GPU of one host, so each rank becomes a host of its own (NCCL_HOSTID), and they talk over
# the loopback. Their kernels take turns on the GPU, or run at once under mps.sh. What depends on order shows; speed,
# NVLink and shared memory do not. A rank sees LOCAL_RANK 0. PYTHON names another interpreter than python3.
set -u
if [ -n "${GORDIAN_ONE_GPU_PYTHON:-}" ] && [ -n "${TORCHELASTIC_RUN_ID:-}" ] && [ -n "${RANK:-}" ]; then
  export NCCL_HOSTID="one-gpu-$RANK" LOCAL_RANK=0  # torchrun starts this script as the rank's interpreter
  exec "$GORDIAN_ONE_GPU_PYTHON" "$@"
fi
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
nvidia-smi -L >/dev/null 2>&1 || { echo "one_gpu_ranks.sh: nvidia-smi names no device" >&2; exit 77; }
GORDIAN_ONE_GPU_PYTHON=$(command -v "${PYTHON:-python3}") || { echo "one_gpu_ranks.sh: there is no ${PYTHON:-python3}" >&2; exit 2; }
PYTHON_EXEC=$(realpath "$0")
export GORDIAN_ONE_GPU_PYTHON PYTHON_EXEC
export NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
exec "$@"
