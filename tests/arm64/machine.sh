#!/usr/bin/env bash
# Runs a command on an AArch64 machine that qemu emulates: two processors, a Linux of its own, so that
# ptrace, /proc and the loader are AArch64's. Its root is the folder of tests/debian/root.sh, read-only under
# memory; the source tree is there by the same path. Prints what the command prints and exits as it
# does. Needs no root.
#
#   machine.sh ROOT SOURCES COMMAND [FOLDER]   FOLDER: there by the same path, too, to read
#
# GORDIAN_ARM64_KERNEL: a folder with another boot/ and lib/modules/.
set -euo pipefail
root=$(realpath "$1")
sources=$(realpath "$2")
command=$3
extra=${4:-}
kernel=$(realpath "${GORDIAN_ARM64_KERNEL:-$root}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
image=$(find "$kernel/boot" -name 'vmlinuz-*' | head -n 1)
[ -n "$image" ] || { echo "machine.sh: no kernel in $kernel/boot" >&2; exit 3; }
version=${image##*/vmlinuz-}

# What finds the root: busybox, and the kernel's modules in the order in which they need each other.
mkdir -p "$work/early"/{bin,modules,proc,sys,root}
cp "$root/bin/busybox" "$work/early/bin/"
number=10
declare -A taken=()
take() {  # MODULE: what it needs first
  local needed
  [ -z "${taken[$1]:-}" ] || return 0
  taken[$1]=1
  local file
  file=$(find "$kernel"/{,usr/}lib/modules/"$version"/kernel -name "$1.ko*" 2>/dev/null | head -n 1 || true)
  [ -n "$file" ] || return 0  # the kernel itself has it
  case "$file" in *.xz) xz -dc "$file" >"$work/module.ko" ;; *) cp "$file" "$work/module.ko" ;; esac
  aarch64-linux-gnu-objcopy -O binary -j .modinfo "$work/module.ko" "$work/info"
  for needed in $(tr '\0' '\n' <"$work/info" | sed -n 's/^depends=//p' | tr ',' ' '); do
    take "${needed//-/_}"
    take "${needed//_/-}"
  done
  case "$file" in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac >"$work/early/modules/$number-$1.ko"
  number=$((number + 1))
}
for module in virtio_pci virtio_mmio 9pnet_virtio 9p overlay; do take "$module"; done

# The command's exit status comes back as a line of the console, between marks that no test prints.
cat >"$work/early/init" <<INIT
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc
\$b mount -t sysfs sys /sys
for module in \$(\$b ls /modules); do \$b insmod /modules/\$module || echo "machine.sh: insmod \$module failed"; done
options=trans=virtio,version=9p2000.L,msize=524288,cache=loose
\$b mkdir -p /lower /upper
\$b mount -t 9p -o \$options,ro root /lower
\$b mount -t tmpfs -o size=2g tmpfs /upper
\$b mkdir -p /upper/data /upper/work
\$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root
\$b mkdir -p /root/proc /root/sys /root/dev /root/tmp /root$sources
\$b mount -t 9p -o \$options sources /root$sources
${extra:+\$b mkdir -p /root$extra
\$b mount -t 9p -o \$options,ro extra /root$extra}
\$b mount --move /proc /root/proc
\$b mount --move /sys /root/sys
\$b mount -t devtmpfs dev /root/dev
\$b mkdir -p /root/dev/shm /root/dev/pts
\$b mount -t tmpfs tmpfs /root/dev/shm
\$b mount -t devpts pts /root/dev/pts
\$b mount -t tmpfs tmpfs /root/tmp
\$b chmod 1777 /root/tmp /root/dev/shm
\$b ip link set lo up
\$b hostname arm64
\$b cp /command /root/gordian-command
exec \$b chroot /root /bin/bash /gordian-command
INIT
chmod +x "$work/early/init"
# The root is shared read-only, so the command travels with the early files.
cat >"$work/early/command" <<COMMAND
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp LC_ALL=C.UTF-8
cd '$sources'
echo "@@gordian begin@@"
( $command )
echo "@@gordian exit \$?@@"
echo o >/proc/sysrq-trigger
sleep 60
COMMAND
(cd "$work/early" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/early.gz"

shared=()
[ -z "$extra" ] || shared=(-fsdev "local,id=extra,path=$extra,security_model=none,readonly=on"
  -device virtio-9p-pci,fsdev=extra,mount_tag=extra)
qemu-system-aarch64 -M virt -cpu "${GORDIAN_ARM64_CPU:-neoverse-n1}" -accel tcg,thread=multi -smp 2 -m 6G \
  -nographic -no-reboot -monitor none -serial stdio -nic none \
  -kernel "$image" -initrd "$work/early.gz" \
  -append "console=ttyAMA0 loglevel=3 quiet panic=-1 sysrq_always_enabled=1" \
  -fsdev "local,id=root,path=$root,security_model=none,readonly=on" \
  -device virtio-9p-pci,fsdev=root,mount_tag=root \
  -fsdev "local,id=sources,path=$sources,security_model=none" \
  -device virtio-9p-pci,fsdev=sources,mount_tag=sources "${shared[@]}" </dev/null | sed -u 's/\r$//' |
  tee "$work/console" | sed -un '/^@@gordian begin@@$/,/^@@gordian exit/{/^@@gordian/d;p}'
status=$(sed -n 's/^@@gordian exit \([0-9]*\)@@$/\1/p' "$work/console" | tail -n 1)
if [ -z "$status" ]; then
  tail -n 30 "$work/console" >&2
  echo "machine.sh: the machine ended before the command did (its console's last lines above)" >&2
  exit 3
fi
exit "$status"
