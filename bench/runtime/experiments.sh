#!/usr/bin/env bash
# The experiments of docs/runtime-measured.md on the GPUs of one host.
#   experiments.sh PROGRAMS_FOLDER OUTPUT_FOLDER [RANKS] [PARTS]
# PROGRAMS_FOLDER: of tests/gpu/runtime/build.sh. OUTPUT_FOLDER/summary.txt comes first.
# PARTS: any of "worker random sync calls idle late trace memory" (default: all; four to five minutes on two GPUs).
# BUDGET: seconds in all, what does not fit is not run; SYNCS: iterations of the long experiment with waits for the
# device between. NCCL is the one of PyTorch's wheel, if python3 finds it, else the system's. What hangs is ended by its watchdog.
set -u
programs=$1
out=$2
ranks=${3:-2}
parts=${4:-"worker random sync calls idle late trace memory"}
mkdir -p "$out"
nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib")' 2>/dev/null || true)
[ -n "$nccl" ] && export LD_LIBRARY_PATH="$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CUDA_DEVICE_MAX_CONNECTIONS=32
summary="$out/summary.txt"
: >"$summary"
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv >"$out/machine.txt" 2>&1
cases="$programs/gordian-runtime-cases"
experiments="$programs/gordian-runtime-experiments"
has() { [[ " $parts " == *" $1 "* ]]; }
# NAME SECONDS EXPECTED COMMAND...: runs it and says how it ended. EXPECTED: the exit status, 3 for a hang.
run() {
  local name=$1 limit=$2 expected=$3
  shift 3
  local begin=$SECONDS status=0 left=$((${BUDGET:-3600} - SECONDS))
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -lt 5 ]; then
    echo "== $name: NOT RUN, no time left" >>"$summary"
    return
  fi
  timeout -k 5 "$limit" "$@" --ranks "$ranks" >"$out/$name.txt" 2>&1 || status=$?
  {
    if [ "$status" -eq "$expected" ]; then echo "== $name: as expected ($((SECONDS - begin)) s)"
    else echo "== $name: ENDED WITH $status ($((SECONDS - begin)) s)"; fi
    grep -v '^PASS' "$out/$name.txt" | tail -n 60 | cut -c1-220
  } >>"$summary"
}
e() { run "$1" "$2" "$3" "$experiments" "${@:4}"; }

if has worker; then
  run detached_kinds 60 0 "$cases" kinds --detached
  run detached_types 60 0 "$cases" types --detached
  run detached_dead 40 0 "$cases" dead --detached
fi
if has random; then
  e random_nccl 30 3 random --with nccl --iterations 200 --patience 4
  for seed in 1 2 3; do e "random_detached_$seed" 60 0 random --with detached --iterations 10000 --seed "$seed"; done
  e random_strict 60 0 random --with strict --iterations 1000
  e random_dfccl 40 0 random --with dfccl,dfccl:naive --iterations 50
  e random_dfccl_ready 40 0 random --with dfccl:ready --iterations 1000
  e ordered 60 0 random --ordered --with nccl,strict,detached,dfccl --iterations 1000
  e ordered_idle_1ms 60 0 random --ordered --with detached --iterations 1000 --idle 1000
fi
if has sync; then
  e sync_nccl 30 3 sync --with nccl --iterations 200 --patience 4
  e sync_strict 30 3 sync --with strict --iterations 200 --patience 4
  e sync_detached 120 0 sync --with detached --iterations "${SYNCS:-10000}"
  e sync_dfccl 60 0 sync --with dfccl:naive --iterations 100
  e single_nccl 30 3 single --with nccl --iterations 10 --patience 4
  e single_detached 60 0 single --with detached,dfccl:naive --iterations 300
fi
if has calls; then
  # One daemon a run: the thread that polls for it takes a processor from the others.
  e calls 60 0 calls --with nccl,strict,detached,dfccl --iterations 200 --to 67108864
  for blocks in 16 32; do
    e "calls_${blocks}_blocks" 60 0 calls --with nccl,detached,dfccl --iterations 100 --blocks "$blocks" --from 65536
  done
  for variant in naive ready vanilla packed word push; do
    e "calls_$variant" 30 0 calls --with "dfccl:$variant" --iterations 300 --from 512 --to 4194304
  done
  e all_gather 40 0 calls --kind all_gather --with nccl,strict,detached --iterations 500 --from 4096 --to 4096
  e reduce_scatter 40 0 calls --kind reduce_scatter --with nccl,strict,detached --iterations 500 --from 4194304 --to 4194304
fi
if has idle; then
  for one in detached dfccl; do e "idle_$one" 60 0 idle --with "$one"; done
  e beside 60 0 beside --with detached,dfccl
fi
if has late; then
  e late 90 0 late --with nccl,strict,detached,dfccl:naive,dfccl,dfccl:ready --iterations 20
  # Later than the naive threshold lasts.
  e later 60 0 late --with nccl,strict,detached,dfccl:naive,dfccl --iterations 5 --late 20000
fi
if has trace; then
  e trace_ordered 60 0 trace --ordered --with nccl,strict,detached,dfccl --iterations 50
  e trace_shuffled 60 0 trace --with detached --iterations 50
  e trace_shuffled_32_blocks 60 0 trace --with detached --iterations 50 --blocks 32
  e trace_shuffled_dfccl 60 0 trace --with dfccl:naive --iterations 2
fi
if has memory; then
  {
    echo "== memory"
    cuobjdump --dump-resource-usage "$experiments" 2>/dev/null | c++filt | grep -A1 -E 'ResidentWorker|DfcclDaemon' | grep -oE 'ResidentWorker|DfcclDaemon|REG:[0-9]+|SHARED:[0-9]+|STACK:[0-9]+' | paste -sd' '
  } >>"$summary" 2>&1
fi
failed=$(grep -cE 'ENDED WITH|NOT RUN' "$summary")
sed -i "1i $(grep -c 'as expected' "$summary") as expected, $failed not, ${SECONDS} s" "$summary"
[ "$failed" -eq 0 ]
