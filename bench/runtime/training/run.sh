#!/usr/bin/env bash
# Training jobs with NCCL, with NCCL under `gordian run`, and with the preemptive runtime, in turns.
#   run.sh BUILD OUTPUT_FOLDER [GPUS [SECONDS [TURNS]]]
# BUILD holds bin/gordian and lib/ with libgordian_interpose.so and libgordian_runtime_cuda.so. GPUS: 2 (default) or 4.
# No launch begins that might end after SECONDS (default 240). TURNS (default "nccl preemptive gordian hang preemptive nccl
# gordian"): "hang" is the job with an order for each rank under NCCL, which must hang, and gordian must report it; "pieces"
# times what such jobs are made of (pieces.py), with NCCL and with the runtime.
# OUTPUT_FOLDER/summary.txt has the ratios first. PYTHON: another interpreter than python3. STEPS, WARM: of each workload.
# WORKLOADS: others than those that go with GPUS. GORDIAN_TRAINING_ARGUMENTS: more for train.py (--tiny).
set -u
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2" || exit 2
out=$(cd "$2" && pwd)
gpus=${3:-2}
budget=${4:-240}
turns=${5:-nccl preemptive gordian hang preemptive nccl gordian}
python=${PYTHON:-python3}
export OMP_NUM_THREADS=2
ordered="resnet_ddp resnet_each resnet_windows vit_dp vit_tp gpt2_pp"
[ "$gpus" -ge 4 ] && ordered="$ordered vit_hybrid gpt2_tp_pp"
shuffled=resnet_shuffled
[ -n "${WORKLOADS:-}" ] && ordered=$WORKLOADS shuffled=
# shellcheck disable=SC2206  # they are several words
settings=(--steps "${STEPS:-40}" --warm "${WARM:-5}" ${GORDIAN_TRAINING_ARGUMENTS:-})
failed=0
: >"$out/log.txt"
say() { printf '%s\n' "$*" >>"$out/log.txt"; }

{
  "$python" -c '
import torch
print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", torch.cuda.is_available() and torch.cuda.nccl.version())
for i in range(torch.cuda.device_count()): print(i, torch.cuda.get_device_name(i))'
  nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1
  env | grep '^NCCL_'
} >"$out/machine.txt" 2>&1

# NAME COLLECTIVES LIMIT SCRIPT ARGUMENTS...: its exit code in $code
launch() {
  local name=$1 whose=$2 limit=$3 begin=$SECONDS
  shift 3
  printed="$out/$name.txt"
  while [ -e "$printed" ]; do printed="${printed%.txt}+.txt"; done
  set -- "$python" -m torch.distributed.run --standalone --nproc-per-node "$gpus" "$@"
  if [ "$whose" != none ]; then
    rm -rf "$out/session.$name"
    set -- "$build/bin/gordian" run --collectives "$whose" --on-verdict kill --session "$out/session.$name" -- "$@"
  fi
  timeout -k 5 "$limit" "$@" >"$printed" 2>&1
  code=$?
  say "$name: ended with $code after $((SECONDS - begin)) s. $(grep -o '[0-9,]* operations\{0,1\} by the preemptive runtime.*' "$printed" | tail -n 1)"
}

# NAME COLLECTIVES WORKLOADS...: goes on behind a workload that fails.
train() {
  local name=$1 whose=$2
  shift 2
  local left=("$@") before limit
  while [ ${#left[@]} -gt 0 ]; do
    limit=$((budget - SECONDS))
    [ "$limit" -lt 15 ] && { say "$name: no time for ${left[*]}"; return; }
    [ "$limit" -gt 90 ] && limit=90
    launch "$name" "$whose" "$limit" "$here/train.py" --out "$out/$name" "${settings[@]}" "${left[@]}"
    before=${#left[@]}
    while [ ${#left[@]} -gt 0 ] && [ -e "$out/$name/${left[0]}.0.json" ]; do left=("${left[@]:1}"); done
    if [ "$code" -ne 0 ]; then
      failed=$((failed + 1))
      say "WRONG   $name: ended with $code${left[0]:+ in ${left[0]}}"
      grep -m 8 -E 'Error|error:|HANG|DEADLOCK|gordian: ' "$printed" | cut -c1-300 | sed 's/^/        /' >>"$out/log.txt"
      left=("${left[@]:1}")
    elif [ "$before" -eq ${#left[@]} ]; then
      say "WRONG   $name: no result"
      return
    fi
  done
}

declare -A count=()
last=0  # the longest launch so far
for turn in $turns; do
  if [ $((SECONDS + last)) -gt "$budget" ]; then
    say "no time for: $turn"
    continue
  fi
  count[$turn]=$((${count[$turn]:-0} + 1))
  begin=$SECONDS
  # shellcheck disable=SC2086
  case $turn in
    nccl) train "nccl.${count[$turn]}" none $ordered ;;
    gordian) train "gordian.${count[$turn]}" nccl $ordered ;;
    preemptive) train "preemptive.${count[$turn]}" preemptive $ordered $shuffled ;;
    hang)
      launch "hang" nccl 60 "$here/train.py" --out "$out/hang" "${settings[@]}" resnet_shuffled
      if [ "$code" -eq 137 ] && grep -q '^gordian: DEADLOCK' "$printed"; then
        say "ok      hang: with NCCL it hangs, and is told: $(grep -m 1 '^gordian: DEADLOCK' "$printed" | cut -c1-200)"
      else
        failed=$((failed + 1))
        say "WRONG   hang: with NCCL it ended with $code"
      fi
      ;;
    pieces)
      launch "pieces_nccl" none 60 "$here/pieces.py"
      [ "$code" -eq 0 ] || failed=$((failed + 1))
      launch "pieces_preemptive" preemptive 60 "$here/pieces.py" --own-orders
      [ "$code" -eq 0 ] || failed=$((failed + 1))
      ;;
    *) echo "no such turn: $turn" >&2 && exit 2 ;;
  esac
  case $turn in hang | pieces) continue ;; esac
  [ $((SECONDS - begin)) -gt "$last" ] && last=$((SECONDS - begin))
done
"$python" "$here/summary.py" "$out" >"$out/summary.txt" 2>&1 || failed=$((failed + 1))
{ cat "$out/log.txt" "$out/machine.txt"; echo "$failed wrong, $SECONDS s"; } >>"$out/summary.txt"
[ "$failed" -eq 0 ]
