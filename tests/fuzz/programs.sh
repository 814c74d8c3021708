#!/usr/bin/env bash
# Random programs against the reference decider (docs/wait-model.md), a million: chunks side by side. A chunk
# that is done stays done until the test is built anew; one that fails stays in build/fuzz/programs/ with its output.
#   programs.sh BUILD [CHUNKS]      20,000 programs each
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?build folder}
chunks=${2:-50}
readonly programs=20000
test=$build/tests/model_reference_test
folder=build/fuzz/programs/$(sha256sum "$test" | cut -c1-16)
mkdir -p "$folder"

run_chunk() {  # TEST FOLDER PROGRAMS CHUNK
  [ -e "$2/$4.passed" ] && return 0
  if GORDIAN_TEST_PROGRAMS=$3 GORDIAN_TEST_SEED=$((20260401 + $4 * $3)) "$1" >"$2/$4.txt" 2>&1; then
    mv "$2/$4.txt" "$2/$4.passed"
    echo "programs: $(find "$2" -name '*.passed' | wc -l) chunks of $3 done"
  else
    echo "FAILED: chunk $4: $2/$4.txt; repeat: GORDIAN_TEST_PROGRAMS=$3 GORDIAN_TEST_SEED=$((20260401 + $4 * $3)) $1"
    return 1
  fi
}
export -f run_chunk
seq 0 $((chunks - 1)) | xargs -P "$(nproc)" -I{} bash -c 'run_chunk "$@"' _ "$test" "$folder" "$programs" {}
echo "$((chunks * programs)) random programs: no difference"
