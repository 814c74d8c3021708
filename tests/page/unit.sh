#!/bin/sh
# Runs the page's unit tests on a copy of its sources, beside the packages of a build folder.
#   unit.sh BUILD
set -eu
source=$(cd "$(dirname "$0")/../../dashboard" && pwd)
place=$1/dashboard/unit
rm -rf "$place"
mkdir -p "$place/test"
cp -r "$source/src" "$source/package.json" "$source/tsconfig.json" "$source/vite.config.ts" "$place"
cp -r "$source/test/fixtures" "$place/test"
ln -s ../work/node_modules "$place/node_modules"
cd "$place"
exec node node_modules/vitest/vitest.mjs run --dir src
