#!/usr/bin/env python3
"""Makes what the image holds: gordian with all that it needs, and no distribution.

    root.py INSTALLED DEST

INSTALLED is a prefix of `cmake --install`. DEST/system becomes what root owns in the image, and
DEST/user what the user of the last line of USERS owns. Beside what bundle.py needs, this takes
Debian's packages busybox-static and ca-certificates.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

import bundle

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path("/opt/gordian")
USERS = [("root", 0, "/"), ("gordian", 65532, "/data")]
# A shell for `--on-verdict exec:` and `--alert exec:`, and cp for the init container.
BUSYBOX = pathlib.Path("/bin/busybox")
# Whom alerts over HTTPS trust.
CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
# What jobs bring, or the emulator has.
OF_JOBS = ("libcuda.so", "libcudart.so", "libnccl.so")
NAMES = "passwd: files\ngroup: files\nhosts: files dns\n"


def copy(source, root, package):
    """Copies a file of a Debian package to the same place, and the package's copyright file."""
    for path in (source, pathlib.Path("/usr/share/doc") / package / "copyright"):
        if not path.is_file():
            sys.exit(f"root: {path} of the package {package} is missing")
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def patchelf(question, path):
    return subprocess.run(["patchelf", question, path], capture_output=True, text=True).stdout


def serve_jobs(tree, root):
    """Gives jobs in the image the loader and the libraries that they, and what gordian loads into
    them, expect of a distribution: bundle.py changed none but the programs in bin."""
    deps = tree / "deps"
    for path in sorted((tree / "lib").rglob("*")):
        if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            continue
        for name in patchelf("--print-needed", path).split():
            if not name.startswith(OF_JOBS) and not (path.parent / name).exists():
                library = bundle.place_of(name)
                for needed in (library, *bundle.libraries_of(library)):
                    bundle.bring(needed, deps)
        loader = patchelf("--print-interpreter", path).strip()  # none of a library
        link = root / loader.lstrip("/")
        if loader and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(PREFIX / "deps" / link.name)
    # The loader looks here whatever the processor is.
    (root / "usr").mkdir(exist_ok=True)
    (root / "usr/lib").symlink_to(PREFIX / "deps")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("installed", type=pathlib.Path)
    parser.add_argument("dest", type=pathlib.Path)
    args = parser.parse_args()

    root = args.dest / "system"
    tree = root / PREFIX.relative_to("/")
    tree.parent.mkdir(parents=True)
    subprocess.run([sys.executable, HERE / "bundle.py", args.installed, tree, "--at", PREFIX],
                   check=True)

    serve_jobs(tree, root)

    (root / "usr/bin").symlink_to("../bin")

    copy(BUSYBOX, root, "busybox-static")
    copy(CERTIFICATES, root, "ca-certificates")
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True)
    for applet in applets.stdout.split():
        if applet != BUSYBOX.name:
            (root / "bin" / applet).symlink_to(BUSYBOX.name)

    (root / "etc/passwd").write_text("".join(
        f"{name}:x:{number}:{number}:{name}:{home}:/bin/sh\n" for name, number, home in USERS))
    (root / "etc/group").write_text("".join(f"{name}:x:{number}:\n" for name, number, _ in USERS))
    (root / "etc/nsswitch.conf").write_text(NAMES)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)

    # The place where kubernetes/server.yaml mounts its volume, for use without Kubernetes.
    home = args.dest / "user" / pathlib.Path(USERS[-1][2]).relative_to("/")
    home.mkdir(parents=True)
    home.chmod(0o700)


if __name__ == "__main__":
    main()
