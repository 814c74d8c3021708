#!/usr/bin/env bash
# The C API over GPUs, and jobs whose NCCL collectives go there, on the machine with GPUs.
#   runtime_api.sh BUILD OUTPUT_FOLDER [PARTS]
# BUILD holds bin/gordian, bin/gordian-runtime-{api,order,handle,graph,devices,register,stream}-cases, bin/gordian-runtime-{graph,register}-bench, tests/gordian_e2e_job and lib/ (a build folder,
# or what was carried of one). PARTS: any of "api orders streams graphs devices registered carriers jobs new_jobs graphed ddp" (default: all; 6 minutes
# on 2 GPUs, of which graphs and devices need one and a half; with 4 GPUs some of their cases run with all of them too). Every
# case is a process tree of its own with a limit; what was printed stays in OUTPUT_FOLDER, summary.txt says how each ended.
# LAST_SECOND: no case is begun later.
# NCCL is the one of PyTorch's wheel, if python3 finds it, else the system's. PYTHON: another interpreter than python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2" || exit 2
out=$(cd "$2" && pwd)
parts=${3:-"api orders streams graphs devices registered carriers jobs new_jobs graphed ddp"}
last=${LAST_SECOND:-100000}
gpus=$(nvidia-smi -L | grep -c '^GPU')
python=${PYTHON:-python3}
nccl=$("$python" -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib")' 2>/dev/null || true)
[ -n "$nccl" ] && export LD_LIBRARY_PATH="$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
failed=0
: >"$out/summary.txt"
say() { printf '%s\n' "$*" >>"$out/summary.txt"; }
has() { [[ " $parts " == *" $1 "* ]]; }
# NAME LIMIT WANTED_CODE COMMAND...
run() {
  local name=$1 limit=$2 wanted=$3
  shift 3
  local begin=$SECONDS
  if [ "$SECONDS" -gt "$last" ]; then
    say "NOT RUN $name: no time left"
    return
  fi
  timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1
  code=$?
  if [ "$code" -eq "$wanted" ]; then
    say "ok      $name ($((SECONDS - begin)) s): $(grep -v '^PASS' "$out/$name.txt" | tail -n 1 | cut -c1-220)"
  else
    failed=$((failed + 1))
    say "WRONG   $name ($((SECONDS - begin)) s): ended with $code, not $wanted"
    grep -m 6 -E 'FAILED|HANG|rank [0-9]|gordian: |rror' "$out/$name.txt" | cut -c1-220 | sed 's/^/        /' >>"$out/summary.txt"
  fi
}
gordian() {  # COLLECTIVES VERDICT COMMAND...
  local whose=$1 verdict=$2
  shift 2
  rm -rf "$out/session"
  command_line=("$build/bin/gordian" run --collectives "$whose" --on-verdict "$verdict" --session "$out/session" -- "$@")
}
# A job that ended by itself must not have been told to hang.
innocent() {  # NAME
  grep -q -E '^gordian: (DEADLOCK|INIT HANG|HOST)' "$out/$1.txt" || return
  say "ALARM   $1: $(grep -m 1 -E '^gordian: (DEADLOCK|INIT HANG|HOST)' "$out/$1.txt" | cut -c1-160)"
  tar czf "$out/session_$1.tgz" -C "$out" session
}

if has api; then
  for case in kinds mismatch order order_twin events detached faults rest; do
    run "api_$case" 60 0 "$build/bin/gordian-runtime-api-cases" "$case"
  done
fi
if has orders; then
  orders="$build/bin/gordian-runtime-order-cases" handles="$build/bin/gordian-runtime-handle-cases"
  for case in priority deferred behind joins groups syncs kinds cost queues; do
    run "orders_$case" 40 0 "$orders" "$case"
  done
  for case in faults death late refused callbacks ports; do
    run "orders_$case" 40 0 "$handles" "$case"
  done
  for connections in 1 2 32; do
    CUDA_DEVICE_MAX_CONNECTIONS=$connections run "orders_queues_$connections" 40 0 "$orders" queues
  done
  for case in deferred joins groups syncs; do
    CUDA_DEVICE_MAX_CONNECTIONS=1 run "orders_one_$case" 40 0 "$orders" "$case"
  done
  # By waits of hardware queues, which these have for themselves.
  for case in cost deferred joins; do
    CUDA_DEVICE_MAX_CONNECTIONS=32 run "orders_queue_$case" 40 0 "$orders" "$case" --queue
  done
  if [ "$gpus" -ge 4 ]; then
    for case in deferred groups queues ports; do
      program=$orders
      [ "$case" = ports ] && program=$handles
      run "orders_${case}_4" 40 0 "$program" "$case" --ranks 4
    done
  fi
fi
if has streams; then
  # Streams that wait for each other's events, differently on each rank.
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  cases="$build/bin/gordian-runtime-stream-cases"
  for case in cycle twin random graph_between; do
    run "streams_$case" 60 0 "$cases" "$case"
  done
  run streams_random_2 60 0 "$cases" random --seed 2
  [ "$gpus" -lt 4 ] || run streams_random_4 60 0 "$cases" random --ranks 4 --rounds 500
  unset CUDA_DEVICE_MAX_CONNECTIONS
  run streams_cycle_8 60 0 "$cases" cycle --rounds 100
  for twin in "" --twin; do
    gordian preemptive report "$build/tests/gordian_e2e_job" event_cycle --check $twin
    rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run "job_event_cycle$twin" 40 0 "${command_line[@]}"
    innocent "job_event_cycle$twin"
    grep -q 'by the preemptive runtime, none by NCCL' "$out/job_event_cycle$twin.txt" || say "WRONG   job_event_cycle$twin: not all went to the runtime"
  done
  # The second time its streams wait for each other, the runtime has its communicators.
  run job_recover_events 60 0 "$python" "$here/../e2e/recover.py" "$build" recover_events --hardware
fi
if has graphs; then
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  cases="$build/bin/gordian-runtime-graph-cases"
  for case in replay mixed first groups one_captures streams helped once_more death opposite refused threads; do
    run "graph_$case" 40 0 "$cases" "$case"
  done
  for case in mixed groups; do
    [ "$gpus" -lt 4 ] || run "graph_${case}_4" 40 0 "$cases" "$case" --ranks 4
  done
  run graph_bench 40 0 "$build/bin/gordian-runtime-graph-bench"
  unset CUDA_DEVICE_MAX_CONNECTIONS
fi
if has devices; then
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  cases="$build/bin/gordian-runtime-devices-cases"
  for case in threads single ungrouped graphs detached order abort mapped same_device; do
    run "devices_$case" 40 0 "$cases" "$case"
  done
  for case in threads single graphs; do
    [ "$gpus" -lt 4 ] || run "devices_${case}_4" 40 0 "$cases" "$case" --devices 4
  done
  for case in threads graphs; do
    [ "$gpus" -lt 4 ] || run "devices_${case}_2x2" 40 0 "$cases" "$case" --devices 2 --processes 2
  done
  unset CUDA_DEVICE_MAX_CONNECTIONS
fi
if has registered; then
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  for case in kinds agreed ranges refused lifetimes stalled graph churn orders abort death; do
    run "register_$case" 40 0 "$build/bin/gordian-runtime-register-cases" "$case"
    [ "$gpus" -lt 4 ] || run "register_${case}_4" 40 0 "$build/bin/gordian-runtime-register-cases" "$case" --ranks 4
  done
  run devices_registered 40 0 "$build/bin/gordian-runtime-devices-cases" registered
  run register_bench 60 0 "$build/bin/gordian-runtime-register-bench"
  [ "$gpus" -lt 4 ] || run register_bench_4 60 0 "$build/bin/gordian-runtime-register-bench" --ranks 4
  unset CUDA_DEVICE_MAX_CONNECTIONS
  # Jobs that register with NCCL.
  for twin in "" --twin; do
    gordian preemptive report "$build/tests/gordian_e2e_job" registered_memory $twin
    rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run "job_registered_memory$twin" 60 0 "${command_line[@]}"
    innocent "job_registered_memory$twin"
    say "        $(grep -m 1 'by the preemptive runtime' "$out/job_registered_memory$twin.txt")"
  done
  for whose in nccl preemptive; do
    gordian "$whose" report "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/ddp/registered.py"
    run "registered_$whose" 60 0 "${command_line[@]}"
    innocent "registered_$whose"
    say "        $(grep -m 1 'all_reduce of' "$out/registered_$whose.txt"); $(grep -m 1 'by the preemptive runtime' "$out/registered_$whose.txt")"
  done
fi
if has carriers && [ -x "$build/bin/gordian-runtime-cases" ]; then
  run carriers_inversion 30 0 "$build/bin/gordian-runtime-cases" inversion --iterations 1000
  run carriers_kinds 60 0 "$build/bin/gordian-runtime-cases" kinds
  run bench_all_reduce 60 0 "$build/bin/gordian-runtime-cuda-bench" --kinds all_reduce --step 8 --samples 100
fi
if has jobs; then
  # Order alone: hangs with NCCL, ends with the runtime, with right results. A host wait between: hangs either way.
  for job in inversion_one_stream hybrid_recv_all_reduce inversion_cold; do
    for twin in "" --twin; do
      gordian preemptive report "$build/tests/gordian_e2e_job" "$job" --check $twin
      rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run "job_$job$twin" 60 0 "${command_line[@]}"
      innocent "job_$job$twin"
      grep -q 'by the preemptive runtime, none by NCCL' "$out/job_$job$twin.txt" || say "WRONG   job_$job$twin: not all went to the runtime"
    done
  done
  gordian nccl kill "$build/tests/gordian_e2e_job" inversion_one_stream --check
  rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run job_nccl_inversion_one_stream 60 137 "${command_line[@]}"
  gordian preemptive kill "$build/tests/gordian_e2e_job" inversion_sync --check
  rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run job_inversion_sync 60 137 "${command_line[@]}"
fi
if has new_jobs; then
  # Captured operations, and several devices of one thread.
  for job in "graph_inversion --twin --check" "graphs_share_communicator --twin" "devices_of_one_thread --ranks 1"; do
    name="job_${job%% *}"
    # shellcheck disable=SC2086
    gordian preemptive report "$build/tests/gordian_e2e_job" $job
    rm -f "$out/progress"; JOB_PROGRESS="$out/progress" run "$name" 60 0 "${command_line[@]}"
    innocent "$name"
    grep -q 'by the preemptive runtime, none by NCCL' "$out/$name.txt" || say "WRONG   $name: not all went to the runtime"
  done
fi
if has graphed; then
  # PyTorch's collectives in a CUDA graph.
  for whose in nccl preemptive; do
    gordian "$whose" report "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/ddp/graphed.py"
    run "graphed_$whose" 60 0 "${command_line[@]}"
    innocent "graphed_$whose"
    say "        $(grep -m 1 'launches' "$out/graphed_$whose.txt"); $(grep -m 1 'by the preemptive runtime' "$out/graphed_$whose.txt")"
  done
fi
if has ddp; then
  # Twice by the runtime: the same losses, bit for bit. By NCCL: the same within rounding.
  export CUBLAS_WORKSPACE_CONFIG=:4096:8 OMP_NUM_THREADS=2
  for turn in nccl first second; do
    rm -rf "$out/ddp.$turn"
    whose=preemptive
    [ "$turn" = nccl ] && whose=nccl
    gordian "$whose" report "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/ddp/train.py" --losses "$out/ddp.$turn"
    run "ddp_$turn" 100 0 "${command_line[@]}"
    innocent "ddp_$turn"
    say "        $(grep -m 1 'by the preemptive runtime' "$out/ddp_$turn.txt")"
  done
  if diff -r "$out/ddp.first" "$out/ddp.second" >"$out/ddp.diff" && [ -s "$out/ddp.first/losses.0" ]; then
    say "ok      ddp: losses and parameters repeat"
  else
    failed=$((failed + 1))
    say "WRONG   ddp: losses do not repeat"
  fi
  "$python" - "$out" >>"$out/summary.txt" 2>&1 <<'PY' || failed=$((failed + 1))
import sys
def losses(turn):
    with open(f"{sys.argv[1]}/ddp.{turn}/losses.0") as f:
        return [float.fromhex(line.split()[1]) for line in f if line.split()[1:2] and line.split()[1].startswith(("0x", "-0x"))]
nccl, own = losses("nccl"), losses("first")
assert nccl and len(nccl) == len(own), (len(nccl), len(own))
worst = max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(nccl, own))
print(f"{'ok     ' if worst < 1e-3 else 'WRONG  '} ddp: {len(own)} losses, at most {worst:.2e} from NCCL's")
sys.exit(worst >= 1e-3)
PY
fi
say "$failed wrong, ${SECONDS} s"
[ "$failed" -eq 0 ]
