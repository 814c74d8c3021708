#!/usr/bin/env bash
# The demonstration behind ./dev demo: the job hangs and is diagnosed, then the repaired job runs.
#   demo.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
gordian="$build/bin/gordian-observe"  # gordian, without the verbs that a demonstration does not need
train="$build/examples/hybrid_training"
sessions=$(mktemp -d "${TMPDIR:-/tmp}/gordian-demo-XXXXXX")

title() { printf '\n=== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; }

title "1. Four processes train (tensor, pipeline and data parallel). From step 4 on, rank 3 overlaps its gradient flush."
show "gordian run --emulator --session $sessions/hung --on-verdict kill -- hybrid_training --steps 8 --overlap-from 4"
set +e
"$gordian" run --emulator --session "$sessions/hung" --on-verdict kill -- "$train" --steps 8 --overlap-from 4
code=$?
set -e
printf '(exit code %d: gordian ended the job, as --on-verdict kill asks; without it the job would hang on)\n' "$code"
[ "$code" -eq 137 ] || { echo "demo: expected exit code 137, got $code" >&2; exit 1; }

title "2. The same job without the overlap."
show "gordian run --emulator --session $sessions/repaired -- hybrid_training --steps 8"
"$gordian" run --emulator --session "$sessions/repaired" -- "$train" --steps 8
show "gordian analyze $sessions/repaired"
"$gordian" analyze "$sessions/repaired"

title "Look closer at the hang (the sessions stay in $sessions):"
echo "  $gordian explain $sessions/hung"
