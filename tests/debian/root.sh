#!/usr/bin/env bash
# Makes a folder that holds another Debian than this machine's: for another processor, to compile for it
# and as the root of an emulated machine; or of another release. apt downloads the packages, dpkg unpacks
# them; no package script runs, nothing is installed on this machine, and no root is needed.
#
#   root.sh FOLDER ARCHITECTURE SUITE PACKAGE...
#
# FOLDER.packages lists the package of each file.
set -euo pipefail
folder=$(realpath -m "$1") architecture=$2 suite=$3
wanted=$(printf '%s\n' "$@" | sha256sum)
shift 3
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ -f "$folder.made" ] && [ "$(cat "$folder.made")" = "$wanted" ]; then exit 0; fi

apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
: >"$apt/status"  # an empty machine: apt downloads all that the packages depend on
# From where this machine has its own packages.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sed -n 1p)
echo "deb $site $suite main" >"$apt/sources.list"
options=(-o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
  -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o APT::Install-Recommends=0
  -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)")
log=$apt/log
if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" -y --download-only install "$@"; } \
    >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "root.sh: apt could not download $architecture packages of Debian $suite (the lines above)" >&2
  exit 1
fi

rm -rf "$folder" "$folder.made" "$folder.packages"
mkdir -p "$folder"
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb --extract "$package" "$folder"
  name=$(basename "$package")
  dpkg-deb --fsys-tarfile "$package" | tar --list | grep -v '/$' |
    sed "s|^\.|${name%%_*}\t|" >>"$folder.packages"
done
# Where it is not the root, its absolute links would lead out of it.
find "$folder" -type l -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -srfn "$folder$target" "$folder/$link"
done
# What package scripts would make.
[ -e "$folder/bin/sh" ] || ! [ -e "$folder/bin/dash" ] || ln -s dash "$folder/bin/sh"
mkdir -p "$folder/etc"
echo 'root:x:0:0:root:/root:/bin/bash' >"$folder/etc/passwd"
echo 'root:x:0:' >"$folder/etc/group"
printf '%s\n' "$wanted" >"$folder.made"
