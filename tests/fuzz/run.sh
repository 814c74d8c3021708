#!/usr/bin/env bash
# Builds the libFuzzer programs with clang and runs each for SECONDS. What crashes one stays in
# build/fuzz/found/, with the command that repeats it; the inputs that reach new code stay in
# build/fuzz/corpus/ for the next time.
#   run.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?seconds for each fuzzer}
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_C_COMPILER=clang -DGORDIAN_SANITIZE=address,fuzzer-no-link >build/fuzz.configure.log
fuzzers=(ring_file_fuzzer trace_reader_fuzzer flight_dump_fuzzer nccl_report_fuzzer analysis_fuzzer
  trace_contents_fuzzer text_fuzzer)
cmake --build build/fuzz --target "${fuzzers[@]}"
failed=0
for fuzzer in "${fuzzers[@]}"; do
  mkdir -p "build/fuzz/corpus/$fuzzer" build/fuzz/found
  echo "$fuzzer: $seconds s"
  if ! "build/fuzz/tests/$fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$fuzzer-" "build/fuzz/corpus/$fuzzer" >"build/fuzz/$fuzzer.log" 2>&1; then
    failed=1
    tail -n 30 "build/fuzz/$fuzzer.log"
    echo "FAILED: repeat with build/fuzz/tests/$fuzzer build/fuzz/found/$fuzzer-..."
  fi
  grep -E 'number_of_executed_units|peak_rss_mb' "build/fuzz/$fuzzer.log" || true
done
exit "$failed"
