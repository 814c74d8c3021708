#!/usr/bin/env bash
# PyTorch DDP with and without gordian, on GPUs.
#   run_ddp.sh GORDIAN OUTPUT_FOLDER [RANKS...]      (default: 2, and 4 where there are 4 GPUs)
# GORDIAN is the program; its libraries must lie where a build or an installation puts them. PYTHON
# names another interpreter than python3. For every number of ranks:
#   1. the training alone, twice: its losses must repeat at all;
#   2. under `gordian run`: the same losses, bit for bit, and no finding;
#   3. the job that swaps two all-reduces: a confirmed deadlock that is ended; and its innocent twin.
# What was printed and the sessions stay in OUTPUT_FOLDER. Ends with 1 if anything was wrong.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
gordian=$1
mkdir -p "$2" || exit 2
out=$(cd "$2" && pwd)
shift 2
python=${PYTHON:-python3}
export CUBLAS_WORKSPACE_CONFIG=:4096:8
export OMP_NUM_THREADS=2
if [ $# -eq 0 ]; then
  set -- 2
  [ "$(nvidia-smi -L | wc -l)" -ge 4 ] && set -- 2 4
fi

failed=0
say() { printf '%s\n' "$*" | tee -a "$out/summary.txt"; }
wrong() { say "WRONG: $*"; failed=1; }
torchrun() {  # RANKS SCRIPT [ARGUMENTS]
  local ranks=$1
  shift
  set -- "$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$@"
  command_line=("$@")
}

# NAME LIMIT COMMAND...: its exit code in $code, its time in $seconds
timed() {
  local name=$1 limit=$2
  shift 2
  local start
  start=$(date +%s.%N)
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.out" 2>"$out/$name.err"
  code=$?
  seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
}

: >"$out/summary.txt"
"$python" - >"$out/versions.txt" 2>&1 <<'PY'
import torch
print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", torch.cuda.nccl.version())
for i in range(torch.cuda.device_count()):
    print(i, torch.cuda.get_device_name(i))
PY
say "$(head -n 1 "$out/versions.txt")"

for ranks in "$@"; do
  for run in alone again; do
    torchrun "$ranks" "$here/train.py" --losses "$out/$run.$ranks"
    timed "train_$run.$ranks" 120 "${command_line[@]}"
    [ "$code" -eq 0 ] || wrong "$ranks ranks: the training $run ended with $code"
    say "$ranks ranks: training $run: $seconds s"
  done
  diff -r "$out/alone.$ranks" "$out/again.$ranks" >"$out/repeat.$ranks.diff" ||
    wrong "$ranks ranks: the training does not repeat by itself; nothing can be concluded about gordian"

  rm -rf "$out/session_train.$ranks"
  torchrun "$ranks" "$here/train.py" --losses "$out/watched.$ranks"
  timed "train_watched.$ranks" 120 "$gordian" run --session "$out/session_train.$ranks" -- "${command_line[@]}"
  [ "$code" -eq 0 ] || wrong "$ranks ranks: the watched training ended with $code"
  say "$ranks ranks: training under gordian: $seconds s"
  if diff -r "$out/alone.$ranks" "$out/watched.$ranks" >"$out/watched.$ranks.diff" &&
    [ "$(find "$out/watched.$ranks" -name 'losses.*' -size +0 | wc -l)" -eq "$ranks" ]; then
    say "$ranks ranks: losses and parameters are the same"
  else
    wrong "$ranks ranks: losses differ (watched.$ranks.diff)"
  fi
  "$python" "$here/check_verdict.py" "$out/session_train.$ranks" "$ranks" finished >"$out/verdict_train.$ranks.txt" 2>&1 ||
    wrong "$ranks ranks: verdict on the training"
  say "$(sed 's/^/  /' "$out/verdict_train.$ranks.txt" | head -n 1)"

  rm -rf "$out/session_twin.$ranks"
  torchrun "$ranks" "$here/swapped.py" --never
  timed "twin.$ranks" 90 "$gordian" run --session "$out/session_twin.$ranks" --on-verdict kill -- "${command_line[@]}"
  { [ "$code" -eq 0 ] && grep -qx 'done' "$out/twin.$ranks.out"; } || wrong "$ranks ranks: the innocent twin ended with $code"
  "$python" "$here/check_verdict.py" "$out/session_twin.$ranks" "$ranks" finished >"$out/verdict_twin.$ranks.txt" 2>&1 ||
    wrong "$ranks ranks: verdict on the innocent twin"

  rm -rf "$out/session_swapped.$ranks"
  torchrun "$ranks" "$here/swapped.py"
  timed "swapped.$ranks" 90 "$gordian" run --session "$out/session_swapped.$ranks" --on-verdict kill -- "${command_line[@]}"
  [ "$code" -eq 137 ] || wrong "$ranks ranks: the swapped job ended with $code after $seconds s, not by gordian (137)"
  grep -qx 'done' "$out/swapped.$ranks.out" && wrong "$ranks ranks: the swapped job did not hang"
  "$python" "$here/check_verdict.py" "$out/session_swapped.$ranks" "$ranks" deadlock >"$out/verdict_swapped.$ranks.txt" 2>&1 ||
    wrong "$ranks ranks: verdict on the swapped job"
  say "$ranks ranks: swapped all-reduces, after $seconds s in all:"
  say "$(sed 's/^/  /' "$out/verdict_swapped.$ranks.txt")"
done
[ "$failed" -eq 0 ] && say "all as it should be"
exit "$failed"
