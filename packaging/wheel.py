#!/usr/bin/env python3
"""Makes the Python wheel of a build, in BUILD/packages: what `cmake --install` makes, with the shared libraries that its
programs need beside it, but for glibc's.

    packaging/wheel.py BUILD

`pip install` puts the program where Python's own programs are, and LIB/gordian beside it, so gordian finds its parts as
anywhere else. The wheel's tag names the oldest glibc that all of it runs on. Needs ldd, objdump, patchelf, and dpkg for the
libraries' copyright files.
"""
import base64
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every glibc has these; a program that brought its own would not start.
GLIBC = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.\d+")
SUMMARY = "Finds and proves deadlocks in multi-GPU jobs"
# Which of the installed files a wheel leaves out: those for compilers, which know no Python's folders.
LEFT_OUT = re.compile(r"include/|.*/pkgconfig/")
MODULES = "share/gordian/python/"  # for Python's own folder of modules


def container_bundle():
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "deploy/container/bundle.py")
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def glibc_floor(path):
    """(2, N): the newest version of glibc's symbols that a program or library takes."""
    found = re.findall(r"\(GLIBC_(\d+)\.(\d+)(?:\.\d+)?\)", run("objdump", "-T", path))
    return max(((int(major), int(minor)) for major, minor in found), default=(2, 0))


def bundle(prefix, library):
    """Copies what the programs below `prefix` load into LIB/gordian/deps, and makes them look there."""
    tools = container_bundle()
    # Jobs take CUDA and NCCL from where they find them: a wheel brings the emulated ones alone.
    os.environ["LD_LIBRARY_PATH"] = str(library / "emulator")
    deps = library / "deps"
    notices = deps / "copyright"
    notices.mkdir(parents=True)
    prefix = prefix.resolve()
    programs = [path for path in sorted(prefix.rglob("*")) if path.is_file() and not path.is_symlink() and is_elf(path)]
    for program in programs:
        needed = [path for path in tools.libraries_of(program) if not GLIBC.fullmatch(path.name)]
        outside = [path for path in needed if not path.is_relative_to(prefix)]
        for source in outside:
            target = deps / source.name
            if target.exists():
                continue
            shutil.copy(source, target)
            target.chmod(0o644)
            package = tools.owner_of(source)
            notice = pathlib.Path("/usr/share/doc") / (package or "-") / "copyright"
            if not notice.exists():
                sys.exit(f"wheel: no copyright file of {source}")
            shutil.copy(notice, notices / package)
        if outside:
            # The demonstration's job and others take the emulated libraries from LD_LIBRARY_PATH alone.
            own = ["$ORIGIN"] if program.parent.name == "emulator" else []
            way = "/".join(["$ORIGIN", os.path.relpath(deps, program.parent)])
            # DT_RPATH also serves what these libraries need themselves.
            subprocess.run(["patchelf", "--force-rpath", "--set-rpath", ":".join(own + [way]), program], check=True)


def add(archive, name, content, executable, record):
    info = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(content)}")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    packages = build / "packages"
    packages.mkdir(exist_ok=True)
    lock = open(packages / ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    cache = (build / "CMakeCache.txt").read_text()
    version = re.search(r"(?m)^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache).group(1)

    with tempfile.TemporaryDirectory(prefix="gordian-wheel-") as work:
        prefix = pathlib.Path(work) / "prefix"
        run("cmake", "--install", build, "--prefix", prefix, "--strip")
        (library,) = [path.parent for path in prefix.rglob("libgordian_interpose.so")]
        bundle(prefix, library)
        files = [path for path in sorted(prefix.rglob("*")) if path.is_file()]
        files = [path for path in files if not LEFT_OUT.match(str(path.relative_to(prefix)))]
        floor = max(glibc_floor(path) for path in files if is_elf(path))
        tag = f"py3-none-manylinux_{floor[0]}_{floor[1]}_x86_64"

        wheel = packages / f"gordian-{version}-{tag}.whl"
        for old in packages.glob("*.whl"):
            old.unlink()
        data, info, record = f"gordian-{version}.data", f"gordian-{version}.dist-info", []
        unfinished = packages / ".wheel"
        with zipfile.ZipFile(unfinished, "w") as archive:
            for path in files:
                name = path.relative_to(prefix)
                place = f"data/{name}"
                if name.parts[0] == "bin":
                    place = f"scripts/{name.name}"
                elif str(name).startswith(MODULES):
                    place = "purelib/" + str(name)[len(MODULES):]
                add(archive, f"{data}/{place}", path.read_bytes(), os.access(path, os.X_OK) and path.suffix != ".py", record)
            texts = {
                "METADATA": f"Metadata-Version: 2.1\nName: gordian\nVersion: {version}\nSummary: {SUMMARY}\n"
                            "License: Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
                            + (ROOT / "README.md").read_text(),
                "WHEEL": f"Wheel-Version: 1.0\nGenerator: gordian\nRoot-Is-Purelib: false\nTag: {tag}\n",
                "LICENSE": (ROOT / "LICENSE").read_text(),
            }
            for name, text in texts.items():
                add(archive, f"{info}/{name}", text.encode(), False, record)
            record.append(f"{info}/RECORD,,")
            archive.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
        unfinished.rename(wheel)
    print(wheel)


if __name__ == "__main__":
    main()
