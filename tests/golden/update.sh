#!/usr/bin/env bash
# Writes the golden texts and the pages of docs/checks anew. Look at the difference before you commit it.
#   tests/golden/update.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
ninja -C "$build" gordian server_verdict_test server_checks_test replayer_writer_test replayer_torch_writer_test
mkdir -p tests/golden/checks tests/golden/torch_replays
GORDIAN_UPDATE_GOLDEN=1 "$build/tests/server_verdict_test" --gtest_filter='*Golden*' --gtest_brief=1
GORDIAN_UPDATE_GOLDEN=1 "$build/tests/server_checks_test" --gtest_filter='*Golden*' --gtest_brief=1
GORDIAN_UPDATE_GOLDEN=1 "$build/tests/replayer_writer_test" --gtest_filter='*Golden*' --gtest_brief=1
GORDIAN_UPDATE_GOLDEN=1 "$build/tests/replayer_torch_writer_test" --gtest_filter='*Golden*' --gtest_brief=1
python3 tests/checks/check_pages.py "$build/bin/gordian" "$build" --update
git status --short tests/golden docs/checks
