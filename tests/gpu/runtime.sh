#!/usr/bin/env bash
# The CUDA backend of the runtime on real GPUs: correctness, faults, random orders, and the benchmark
# against NCCL. Every case is a process tree of its own with a watchdog; raw output goes to a folder.
#   runtime.sh PROGRAMS_FOLDER OUTPUT_FOLDER [RANKS] [PARTS]
# PROGRAMS_FOLDER holds gordian-runtime-cases, gordian-runtime-pair-cases and gordian-runtime-cuda-bench (tests/gpu/runtime/build.sh).
# PARTS: any of "smoke cases order bench others windows sweep again third" (default: all but the last four;
# about 3 minutes on 2 GPUs). again: what several streams and the ways of carrying depend on, and a sweep.
# third: groups, and large data in one direction, in a minute and a half.
# NCCL is the one of PyTorch's wheel, if python3 finds it, else the system's.
set -u
programs=$1
out=$2
ranks=${3:-2}
parts=${4:-"smoke cases order bench others"}
mkdir -p "$out"
nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib")' 2>/dev/null || true)
[ -n "$nccl" ] && export LD_LIBRARY_PATH="$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CUDA_DEVICE_MAX_CONNECTIONS=32
passed=0
failed=0
failures=""
# NAME SECONDS COMMAND...: runs it, keeps its output, says how it ended.
run() {
  local name=$1 limit=$2
  shift 2
  local begin=$SECONDS
  if timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - begin)) s): $(grep -v '^PASS' "$out/$name.txt" | tail -n 1 | cut -c1-200)"
  else
    failed=$((failed + 1))
    failures="$failures $name"
    echo "FAILED  $name ($((SECONDS - begin)) s)"
    grep -m 12 -E 'FAILED|HANG|WRONG|rank [0-9]|error' "$out/$name.txt" | sed 's/^/        /'
  fi
}
has() { [[ " $parts " == *" $1 "* ]]; }
cases="$programs/gordian-runtime-cases"
bench="$programs/gordian-runtime-cuda-bench"
{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv
  nvidia-smi topo -m
  echo "NCCL from: ${nccl:-the system}"
} >"$out/machine.txt" 2>&1

# The kernels must not read anything through the read-only cache: peers and hosts write while they run.
sass() {
  command -v cuobjdump >/dev/null || { echo "no cuobjdump here: not looked at"; return 0; }
  cuobjdump --dump-sass "$cases" >"$out/sass.full" 2>&1
  grep -q EXIT "$out/sass.full" || { echo "no machine code found: error"; return 1; }
  local count
  count=$(grep -cE 'LDG[A-Z0-9.]*\.CONSTANT' "$out/sass.full")
  rm -f "$out/sass.full"
  echo "$count loads through the read-only cache"
  [ "$count" -eq 0 ]
}
export -f sass
export cases out

if has smoke; then
  run sass 60 bash -c sass
  run inversion 60 "$cases" inversion --ranks "$ranks" --iterations 1000
  run kinds 100 "$cases" kinds --ranks "$ranks"
fi
if has cases; then
  run twin 60 "$cases" twin --ranks "$ranks"
  run group 60 "$cases" group --ranks "$ranks"
  CUDA_DEVICE_MAX_CONNECTIONS=32 run crowd 60 "$cases" crowd --ranks "$ranks"
  run dead 60 "$cases" dead --ranks "$ranks"
  run types 100 "$cases" types --ranks "$ranks"
  run inversion_ipc 60 "$cases" inversion --ranks "$ranks" --iterations 200 --ipc
  run kinds_alone 60 "$cases" kinds --ranks 1
fi
if has order; then
  run order_small 60 "$cases" order --ranks "$ranks" --iterations 1000 --ops 16 --most-bytes 65536 --seed 11
  run order_1_stream 100 "$cases" order --ranks "$ranks" --iterations 1000 --ops 8 --seed 1
  run order_pairs 60 "$cases" order --pairs --ranks "$ranks" --iterations 500 --ops 8 --streams 2 --seed 3
  run order_3_streams 100 "$cases" order --ranks "$ranks" --iterations 1000 --ops 8 --streams 3 --seed 2
  for what in groups alone; do run "pairs_$what" 40 "$programs/gordian-runtime-pair-cases" "$what" --ranks "$ranks" --iterations 200; done
  run pairs_crowd 40 "$programs/gordian-runtime-pair-cases" crowd --ranks "$ranks" --iterations 30
fi
if has bench; then
  run bench_all_reduce 150 "$bench" --ranks "$ranks" --kinds all_reduce --step 4
  run bench_exclusive 60 "$bench" --ranks "$ranks" --kinds all_reduce --to 65536 --step 8 --exclusive
fi
if has others; then
  run bench_others 200 "$bench" --ranks "$ranks" \
    --kinds all_gather,reduce_scatter,broadcast,reduce,all_to_all,gather,scatter --from 1024 --step 16 --samples 100
fi
if has again; then
  run kinds 100 "$cases" kinds --ranks "$ranks"
  run kinds_alone 30 "$cases" kinds --ranks 1
  run inversion 30 "$cases" inversion --ranks "$ranks" --iterations 1000
  run twin 30 "$cases" twin --ranks "$ranks"
  run group 30 "$cases" group --ranks "$ranks"
  run dead 30 "$cases" dead --ranks "$ranks"
  run types 60 "$cases" types --ranks "$ranks"
  for streams in 1 2 3 6; do
    run "order_${streams}_streams" 40 "$cases" order --ranks "$ranks" --iterations 500 --ops 8 --streams "$streams" --seed "2$streams"
  done
  run order_small_4_streams 40 "$cases" order --ranks "$ranks" --iterations 1000 --ops 16 --most-bytes 65536 --streams 4 --seed 12
  run bench_all_reduce 100 "$bench" --ranks "$ranks" --kinds all_reduce --step 2 --samples 100
  run bench_exclusive 60 "$bench" --ranks "$ranks" --kinds all_reduce --to 65536 --step 8 --exclusive
  run bench_others 120 "$bench" --ranks "$ranks" \
    --kinds all_gather,reduce_scatter,broadcast,reduce,all_to_all,gather,scatter --from 1024 --step 4 --to 268435456 --samples 60
fi
if has third; then
  run group 30 "$cases" group --ranks "$ranks"
  run kinds 60 "$cases" kinds --ranks "$ranks"
  run inversion 30 "$cases" inversion --ranks "$ranks" --iterations 1000
  run order_2_streams 40 "$cases" order --ranks "$ranks" --iterations 200 --ops 8 --streams 2 --seed 32
  run bench_others 60 "$bench" --ranks "$ranks" --from 1048576 --step 4 --to 268435456 --samples 60 \
    --kinds all_gather,reduce_scatter,broadcast,reduce,all_to_all,gather,scatter
  run bench_all_reduce 40 "$bench" --ranks "$ranks" --kinds all_reduce --from 1024 --step 16 --samples 60
fi
if has windows || has again; then
  run bench_windows 60 "$bench" --ranks "$ranks" --windows --kinds all_reduce,all_gather,reduce_scatter --step 16 --samples 60
fi
if has sweep || has again; then
  # Ways of carrying around the sizes at which they change.
  run sweep 200 "$bench" --ranks "$ranks" --kinds all_reduce,all_gather,broadcast,reduce --from 131072 --step 2 --to 33554432 --samples 30 \
    --try one-shot=0,two-shot=0,root-lines=0,move-lines=0 --try two-shot-tiles=0,move-tiles=0 --try two-shot-tiles=33554432,move-tiles=33554432 --try split=4
fi
echo "$ranks ranks: $passed passed, $failed failed:${failures:- none}, ${SECONDS} s" | tee "$out/summary.txt"
[ "$failed" -eq 0 ]
