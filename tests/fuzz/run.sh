#!/usr/bin/env bash
# Builds the libFuzzer programs with clang and runs each for SECONDS, two at a time. What crashes one
# stays in build/fuzz/found/, with the command that repeats it; the inputs that reach new code stay in
# build/fuzz/corpus/ for the next time. KEEP: also takes a few small ones over into tests/fuzz/corpus.
#   run.sh SECONDS [keep]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?seconds for each fuzzer}
keep=${2:-}
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_C_COMPILER=clang -DGORDIAN_SANITIZE=address,fuzzer-no-link >build/fuzz.configure.log
fuzzers=(ring_file trace_reader flight_dump nccl_report rank_trace analysis trace_contents text http)
cmake --build build/fuzz --target "${fuzzers[@]/%/_fuzzer}"
mkdir -p build/fuzz/found

fuzz() {  # NAME: a line of figures; 1 where it found something
  local name=$1 log=build/fuzz/$1.log code=0
  mkdir -p "build/fuzz/corpus/$name"
  # Error texts of a fuzzed library would be most of the log.
  "build/fuzz/tests/${name}_fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=16384 \
    -print_final_stats=1 -close_fd_mask=1 -artifact_prefix="build/fuzz/found/$name-" \
    "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 || code=1
  echo "$name: $seconds s, $(grep -ao 'number_of_executed_units: *[0-9]*' "$log" | grep -o '[0-9]*$') inputs," \
    "$(grep -ao 'cov: [0-9]*' "$log" | tail -n 1 | grep -o '[0-9]*') edges," \
    "$(grep -ao 'peak_rss_mb: *[0-9]*' "$log" | grep -o '[0-9]*$') MiB$([ $code -eq 0 ] || echo ', FAILED')"
  if [ $code -ne 0 ]; then
    grep -a -B2 -A20 -m1 'ERROR\|SUMMARY' "$log" || tail -n 30 "$log"
    echo "FAILED: repeat with build/fuzz/tests/${name}_fuzzer build/fuzz/found/$name-..."
  fi
  return $code
}
export -f fuzz
export seconds
failed=0
printf '%s\n' "${fuzzers[@]}" | xargs -P 2 -I NAME bash -c 'fuzz NAME' || failed=1
if [ "$keep" = keep ]; then
  for name in "${fuzzers[@]}"; do
    into=tests/fuzz/corpus/$name
    small=$(mktemp -d)
    # Of inputs that reach the same code libFuzzer keeps the smallest; of those some forty, 64 KiB in all.
    "build/fuzz/tests/${name}_fuzzer" -merge=1 -max_len=4096 "$small" "build/fuzz/corpus/$name" "$into" >/dev/null 2>&1
    rm -f "$into"/*
    every=$(($(ls "$small" | wc -l) / 40 + 1))
    bytes=0
    for file in $(ls -S "$small" | awk -v every="$every" 'NR % every == 0'); do
      bytes=$((bytes + $(stat -c %s "$small/$file")))
      [ "$bytes" -le 65536 ] || break
      cp "$small/$file" "$into/${file:0:12}"
    done
    rm -r "$small"
    echo "$name: $(ls "$into" | wc -l) inputs kept"
  done
fi
exit "$failed"
