#!/usr/bin/env bash
# Makes the tarball and the Debian packages of a build, in BUILD/packages. Does nothing where they
# are newer than all that is in them.
#   packaging/debian.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$build/packages"
exec 9> "$build/packages/.lock"
flock 9  # tests that need the packages run side by side
stamp="$build/packages/.made"
if [ -e "$stamp" ] && [ -z "$(find "$build/bin/gordian" "$build/lib" "$build/reference" "$build/CPackConfig.cmake" \
    "$root/packaging" "$root/README.md" "$root/runtime/include" -newer "$stamp" -type f -print -quit)" ]; then
  exit 0
fi
rm -rf "$build/packages/_CPack_Packages" "$build"/packages/*.deb "$build"/packages/*.tar.gz
(cd "$build" && cpack -G "TGZ;DEB")
rm -rf "$build/packages/_CPack_Packages"
touch "$stamp"
