#!/usr/bin/env bash
# Builds the NCCL whose source tree is SOURCE for Hopper GPUs, with the kernels that the programs
# here use and no others: a minute or two on 32 processors, where all kernels take far longer.
#   build_nccl.sh SOURCE OUTPUT_FOLDER
# The library is then OUTPUT_FOLDER/lib/libnccl.so.2.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
kernels="AllReduce (Sum|MinMax) (f32|f16|i32|u8|f64) (RING|TREE) *|ReduceScatter Sum f32 (RING|PAT) *"
kernels+="|Reduce Sum f32 * *|(AllGather|AllGatherV|Broadcast) * *|SendRecv"
make -C "$1" -j "$(nproc)" src.build BUILDDIR="$(realpath -m "$2")" \
  NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90" ONLY_FUNCS="$kernels"
