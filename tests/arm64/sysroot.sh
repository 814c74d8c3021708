#!/usr/bin/env bash
# Makes a folder that holds Debian 12 for AArch64: what gordian is compiled against, and the root
# filesystem that it runs in. apt downloads the packages, dpkg unpacks them; no package script runs,
# nothing is installed on this machine, and no root is needed.
#
#   sysroot.sh FOLDER PACKAGE...
set -euo pipefail
folder=$(realpath -m "$1")
shift
wanted=$(printf '%s\n' "$@" | sha256sum)
if [ -f "$folder.packages" ] && [ "$(cat "$folder.packages")" = "$wanted" ]; then exit 0; fi

apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
: >"$apt/status"  # an empty machine: apt downloads all that the packages depend on
options=(-o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
  -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=0
  -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)")
log=$apt/log
if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" -y --download-only install "$@"; } \
    >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "sysroot.sh: apt could not download Debian's packages for arm64 (the lines above)" >&2
  exit 1
fi

rm -rf "$folder" "$folder.packages"
mkdir -p "$folder"
for package in "$apt"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$folder"; done
# Where it is not the root, its absolute links would lead out of it.
find "$folder" -type l -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -srfn "$folder$target" "$folder/$link"
done
# What package scripts would make.
[ -e "$folder/bin/sh" ] || ln -s dash "$folder/bin/sh"
echo 'root:x:0:0:root:/root:/bin/bash' >"$folder/etc/passwd"
echo 'root:x:0:' >"$folder/etc/group"
printf '%s\n' "$wanted" >"$folder.packages"
