#!/usr/bin/env bash
# `gordian run --on-verdict recover` on two GPUs with real NCCL (docs/recovery.md): the jobs of tests/e2e/recover.py, sizes from
# 1 KiB to 256 MiB, a rank that dies in the middle, a PyTorch training, and what being armed costs.
#   recovery.sh BUILD_FOLDER OUTPUT_FOLDER [PARTS]
# BUILD_FOLDER also has libgordian_runtime_cuda.so (./dev build cuda). PARTS: any of "jobs sizes faults ddp price" (default: all).
# One line a case; every case's output stays in OUTPUT_FOLDER. Ends with 1 if anything was wrong.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
mkdir -p "$2" || exit 2
out=$(cd "$2" && pwd)
parts=${3:-"jobs sizes faults ddp price"}
python=${PYTHON:-python3}
failed=0
has() { [[ " $parts " == *" $1 "* ]]; }
# NAME COMMAND...: one line, and how it ended. Code 77: it proves nothing.
try() {
  local name=$1
  shift
  timeout -k 10 150 "$@" >"$out/$name.txt" 2>&1
  local code=$?
  case $code in
    0) echo "ok      $name: $(grep -v '^$' "$out/$name.txt" | tail -n 1 | cut -c1-240)" ;;
    77) echo "skipped $name: $(tail -n 1 "$out/$name.txt")" ;;
    *)
      failed=1
      echo "FAILED  $name (code $code): $(grep -m1 -v '^$' "$out/$name.txt" | cut -c1-240)"
      ;;
  esac | tee -a "$out/summary.txt"
  [ $code -eq 0 ] || [ $code -eq 77 ]
}
recover() { "$python" "$here/../e2e/recover.py" "$build" "$@" --hardware; }
export -f recover
export python here build
: >"$out/summary.txt"
{ nvidia-smi --query-gpu=name,driver_version --format=csv; "$python" -c '
import torch
print("torch", torch.__version__, "NCCL", torch.cuda.nccl.version())'; } >"$out/machine.txt" 2>&1

if has jobs; then
  # Without those whose kernels the emulator alone has.
  for job in inversion large events observed goes_on groups twice heavy in_place group_in_place reused; do
    try "recover_$job" bash -c "recover recover_$job" || failed=1
    try "recover_$job.twin" bash -c "recover recover_$job --twin" || failed=1
  done
  for job in recover_small_pool recover_feeds inversion_sync hybrid_recv_all_reduce graph_inversion; do
    try "$job" bash -c "recover $job" || failed=1
  done
fi
if has sizes; then
  for job in recover_sized recover_sized_in_place; do
    for count in 256 65536 1048576 16777216 67108864; do
      try "$job.$count" bash -c "recover $job --count $count" || failed=1
    done
  done
fi
if has faults; then
  try recover_heavy.kill bash -c "recover recover_heavy --kill" || failed=1
fi
if has ddp; then
  export CUBLAS_WORKSPACE_CONFIG=:4096:8 OMP_NUM_THREADS=2
  train=("$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/ddp/train.py" --steps 200)
  try ddp.alone "${train[@]}" --losses "$out/losses.alone" || failed=1
  rm -rf "$out/session.ddp"
  try ddp.recovered "$build/bin/gordian" run --session "$out/session.ddp" --on-verdict recover -- \
    "${train[@]}" --swap 100 --losses "$out/losses.recovered" || failed=1
  grep -h "gordian:" "$out/ddp.recovered.txt" | tee -a "$out/summary.txt"
  try ddp.same diff -r "$out/losses.alone" "$out/losses.recovered" || failed=1
  cp "$out/session.ddp/verdict.json" "$out/ddp.verdict.json"
  rm -rf "$out/session.ddp"
fi
if has price; then
  "$python" "$here/../../bench/impact/armed.py" --build "$build" --hardware "$out/price" 2>"$out/price.err" | tee "$out/price.txt" || failed=1
fi
exit "$failed"
