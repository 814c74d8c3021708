#!/usr/bin/env bash
# Builds the GPU programs of the runtime alone, without CMake: a minute, and nothing but nvcc and g++.
#   build.sh OUTPUT_FOLDER
# They need no library but libc and, for the benchmark, libnccl.so.2 at run time.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
out=$1
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$out/obj"
cd "$root"
nvcc=("$cuda/bin/nvcc" -std=c++20 -arch=sm_90 -O3 --expt-relaxed-constexpr -Xcompiler -fPIC -I.)
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c runtime/cuda/list/help.cu -o "$out/obj/help.o" &
helper=$!
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c runtime/cuda/worker/worker.cu -o "$out/obj/worker_kernel.o"
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c runtime/cuda/list/group.cu -o "$out/obj/group.o"
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c runtime/cuda/list/mark.cu -o "$out/obj/mark.o"
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c bench/runtime/dfccl_like.cu -o "$out/obj/dfccl_like.o"
"${nvcc[@]}" -rdc=true -maxrregcount=64 -c runtime/cuda/list/carrier.cu -o "$out/obj/carrier.o"
wait $helper
"${nvcc[@]}" -c runtime/testing/patterns.cu -o "$out/obj/patterns.o"
"$cuda/bin/nvcc" -arch=sm_90 -dlink "$out"/obj/{help,carrier,group,mark,worker_kernel,dfccl_like}.o -o "$out/obj/device_link.o"
objects=()
for source in runtime/cuda/domain/{communicator,domain,domain_graphs,domain_groups,graph_order,heap,rendezvous}.cc \
  runtime/cuda/{driver/driver,driver/physical_memory,list/help_stream,protocol/work}.cc \
  runtime/cuda/worker/{worker,worker_list,worker_queue}.cc common/status.cc \
  tests/gpu/runtime/{cases,pair_cases}.cc bench/runtime/{cuda_bench,contenders,experiments}.cc; do
  object="$out/obj/$(basename "$source" .cc).o"
  g++ -std=c++20 -O2 -g1 -Wall -Wextra -fPIC -I. -I"$cuda/include" -c "$source" -o "$object"
  case $source in tests/* | bench/*) ;; *) objects+=("$object") ;; esac
done
for program in cases:gordian-runtime-cases pair_cases:gordian-runtime-pair-cases cuda_bench:gordian-runtime-cuda-bench experiments:gordian-runtime-experiments; do
  more=()
  [ "${program%%:*}" = experiments ] && more=("$out/obj/contenders.o")
  g++ -o "$out/${program#*:}" "$out/obj/${program%%:*}.o" "${more[@]}" "${objects[@]}" \
    "$out"/obj/{help,carrier,group,mark,worker_kernel,dfccl_like,device_link,patterns}.o \
    -L"$cuda/lib64" -lcudadevrt -lcudart_static -lpthread -ldl -lrt -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL
done
strip --strip-debug "$out"/gordian-runtime-{cases,pair-cases,cuda-bench,experiments}
ls -l "$out"/gordian-runtime-*
