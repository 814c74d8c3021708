#!/usr/bin/env bash
# Runs a command whose ranks are more than the devices: under MPS, each with its share of a device's
# multiprocessors, so that kernels that wait for each other run at once. For what depends on the number of
# ranks and not on their speed. NCCL refuses two ranks on one device of a
# host: one_gpu_ranks.sh makes each a host of its own.
#   mps.sh RANKS COMMAND...
#   tests/gpu/mps.sh 4 gordian-runtime-cases crowd --ranks 4        # on two devices
# Exit code: the command's; 77 when MPS cannot be had.
set -u
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
ranks=$1
shift
devices=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$devices" -ge 1 ] || { echo "mps.sh: nvidia-smi names no device" >&2; exit 77; }
command -v nvidia-cuda-mps-control >/dev/null || { echo "mps.sh: nvidia-cuda-mps-control is not installed" >&2; exit 77; }
each=$(((ranks + devices - 1) / devices))
folder=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY="$folder/pipe" CUDA_MPS_LOG_DIRECTORY="$folder/log"
export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$((100 / each))
# Four processes with 32 hardware queues each found no room for their contexts on an H200.
[ "$each" -le 3 ] || export CUDA_DEVICE_MAX_CONNECTIONS=16
mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
end() {
  echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null 2>&1
  rm -rf "$folder"
}
trap end EXIT
nvidia-cuda-mps-control -d || { echo "mps.sh: the daemon does not start" >&2; exit 77; }
"$@"
code=$?
[ "$code" -eq 0 ] || tail -n 5 "$CUDA_MPS_LOG_DIRECTORY"/*.log >&2
exit "$code"
