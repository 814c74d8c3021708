"""Commands in a root directory of another system, with processes, a network and shared memory of their own. Needs root."""
import subprocess

ENTER = ("mount --make-rprivate / && mount --bind {0} {0} && mount -t proc proc {0}/proc && mount -t tmpfs tmpfs {0}/dev && "
         "mkdir {0}/dev/shm && touch {0}/dev/null {0}/dev/urandom && mount --bind /dev/null {0}/dev/null && "
         "mount --bind /dev/urandom {0}/dev/urandom && mount -t tmpfs tmpfs {0}/dev/shm && "
         "exec chroot {0} {1} -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \"$@\"")
APART = ("unshare", "--mount", "--pid", "--fork", "--net", "--kill-child")


def run(root, *command, env=("/usr/bin/env",), **options):
    """`env`: how `env` is called in that root."""
    return subprocess.run([*APART, "sh", "-c", ENTER.format(root, " ".join(env)), "sh", *command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **options)


def can_run():
    return subprocess.run([*APART, "mount", "--make-rprivate", "/"], capture_output=True).returncode == 0
