#!/usr/bin/env bash
# Makes a Linux for AArch64 whose pages have 64 KiB, as NVIDIA's Grace machines often run it, for
# machine.sh: Debian has none. From Debian's sources of Linux (linux-source-6.1), as small as it can be.
#
#   kernel.sh SOURCES FOLDER       (SOURCES: an unpacked linux-source-6.1.tar.xz; FOLDER/boot is made)
# Needs flex, bison, bc, libssl-dev and Debian's cross compiler.
set -euo pipefail
sources=$(realpath "$1")
folder=$(realpath -m "$2")
mkdir -p "$folder/boot" "$folder/build"
make=(make -C "$sources" O="$folder/build" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
"${make[@]}" -s allnoconfig
cd "$folder/build"
yes=(SMP ARM64_64K_PAGES MULTIUSER PRINTK BUG FUTEX EPOLL EVENTFD SIGNALFD TIMERFD SHMEM AIO IO_URING ADVISE_SYSCALLS
  MEMBARRIER POSIX_TIMERS HIGH_RES_TIMERS NO_HZ_IDLE SYSVIPC POSIX_MQUEUE FHANDLE FILE_LOCKING CROSS_MEMORY_ATTACH
  BINFMT_ELF BINFMT_SCRIPT ELF_CORE COREDUMP SECCOMP SECCOMP_FILTER NAMESPACES UTS_NS PID_NS NET_NS USER_NS IPC_NS
  BLK_DEV_INITRD RD_GZIP DEVTMPFS PROC_FS PROC_SYSCTL PROC_PAGE_MONITOR SYSFS TMPFS TMPFS_XATTR INOTIFY_USER
  OVERLAY_FS NET UNIX INET IPV6 PACKET NET_9P NET_9P_VIRTIO NETWORK_FILESYSTEMS 9P_FS 9P_FS_POSIX_ACL
  PCI PCI_HOST_GENERIC VIRTIO_MENU VIRTIO_PCI VIRTIO_MMIO TTY UNIX98_PTYS VT_HW_CONSOLE_BINDING
  SERIAL_AMBA_PL011 SERIAL_AMBA_PL011_CONSOLE MAGIC_SYSRQ ARM_AMBA OF ARM_PSCI_FW STACKTRACE)
for name in "${yes[@]}"; do "$sources/scripts/config" --enable "$name"; done
"${make[@]}" -s olddefconfig
for name in "${yes[@]}"; do
  grep -q "^CONFIG_$name=y" .config || echo "kernel.sh: without $name" >&2
done
"${make[@]}" -s -j "$(nproc)" Image
cp arch/arm64/boot/Image "$folder/boot/vmlinuz-64k"
