#!/usr/bin/env python3
"""Makes the Python wheel of a build, in BUILD/packages: what `cmake --install` makes, with the shared libraries that its
programs need beside it, but for glibc's.

    packaging/wheel.py BUILD

`pip install` puts the program where Python's own programs are, and LIB/gordian beside it, so gordian finds its parts as
anywhere else. All of it runs on glibc 2.28 (older_glibc.py). Needs readelf, objdump, patchelf, and dpkg for the libraries'
copyright files; of a build for another processor, its cross compiler.
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

import older_glibc

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every glibc has these; a program that brought its own would not start.
GLIBC = re.compile(r"(ld-linux-(x86-64|aarch64)|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.\d+")
SUMMARY = "Finds and proves deadlocks in multi-GPU jobs"
# Which of the installed files a wheel leaves out: those for compilers, which know no Python's folders.
LEFT_OUT = re.compile(r"include/|.*/(pkgconfig|cmake)/")
MODULES = "share/gordian/python/"  # for Python's own folder of modules


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def needed_by(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path))


def owner_here():
    """The same as System.owner_in_root, by this machine's dpkg."""
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "deploy/container/bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.owner_of


class System:
    """The Debian that a build was linked against: this machine, or a folder of tests/debian/root.sh."""

    def __init__(self, build):
        cache = (build / "CMakeCache.txt").read_text()
        folder = re.search(r"(?m)^GORDIAN_ROOT:PATH=(.*)$", cache)
        self.root = pathlib.Path(folder.group(1)).resolve() if folder else pathlib.Path("/")
        self.version = re.search(r"(?m)^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache).group(1)
        self.objdump = re.search(r"(?m)^CMAKE_OBJDUMP:FILEPATH=(.*)$", cache).group(1)
        (compiler,) = build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake")
        self.compiler = [re.search(r'set\(CMAKE_CXX_COMPILER "(.*)"\)', compiler.read_text()).group(1)]
        self.triplet = run(*self.compiler, "-dumpmachine").strip()
        if folder:
            self.compiler.append(f"--sysroot={self.root}")
        self.owner_of = self.owner_in_root() if folder else owner_here()

    @property
    def processor(self):
        return self.triplet.split("-")[0]

    def place_of(self, name):
        for folder in ("lib", "usr/lib"):
            path = self.root / folder / self.triplet / name
            if path.exists():
                return path
        sys.exit(f"wheel: {name} is not installed below {self.root}")

    def owner_in_root(self):
        """The function that names the package of a file below the root; None: of no package."""
        lines = self.root.with_name(self.root.name + ".packages").read_text().splitlines()
        packages = {path: package for package, path in (line.split("\t") for line in lines)}
        return lambda library: packages.get("/" + str(library.relative_to(self.root)))

    def copyright_of(self, library):
        """(package, its copyright file)"""
        package = self.owner_of(library)
        notice = self.root / "usr/share/doc" / (package or "-") / "copyright"
        if not notice.exists():
            sys.exit(f"wheel: no copyright file of {library}")
        return package, notice

    def glibc(self):
        names = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2")
        return older_glibc.versions_of_glibc([self.place_of(name) for name in names], self.objdump)


def bundle(prefix, library, system):
    """Copies what the programs below `prefix` load into LIB/gordian/deps, makes them look there, and makes all of it run on an
    older glibc."""
    deps = library / "deps"
    notices = deps / "copyright"
    notices.mkdir(parents=True)
    own = [path for path in sorted(prefix.rglob("*")) if path.is_file() and not path.is_symlink() and is_elf(path)]
    # Jobs take CUDA and NCCL from where they find them: a wheel brings the emulated ones alone.
    inside = {path.name for path in prefix.rglob("*.so*")}
    brought = {}
    todo = [name for path in own for name in needed_by(path)]
    while todo:
        name = todo.pop()
        if name in inside or name in brought or GLIBC.fullmatch(name):
            continue
        source = system.place_of(name)
        brought[name] = deps / name
        shutil.copy(source, deps / name)
        (deps / name).chmod(0o644)
        package, notice = system.copyright_of(source)
        shutil.copy(notice, notices / package)
        todo += needed_by(source)
    compat = older_glibc.build_compat(system.compiler, deps)
    glibc = system.glibc()
    older_glibc.lower(compat, glibc)
    for path in own + sorted(brought.values()):
        newer = older_glibc.needs_newer(path)
        if newer:
            run("patchelf", "--add-needed", compat.name, path)
        if path in own and (newer or any(name in brought for name in needed_by(path))):
            # The demonstration's job and others take the emulated libraries from LD_LIBRARY_PATH alone.
            places = ["$ORIGIN"] if path.parent.name == "emulator" else []
            places.append("/".join(["$ORIGIN", os.path.relpath(deps, path.parent)]))
            # DT_RPATH also serves what these libraries need themselves.
            run("patchelf", "--force-rpath", "--set-rpath", ":".join(places), path)
        if newer:
            older_glibc.lower(path, glibc)


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
    system = System(build)
    version = system.version

    with tempfile.TemporaryDirectory(prefix="gordian-wheel-") as work:
        prefix = pathlib.Path(work).resolve() / "prefix"
        run("cmake", "--install", build, "--prefix", prefix, "--strip")
        (library,) = [path.parent for path in prefix.rglob("libgordian_interpose.so")]
        bundle(prefix, library, system)
        files = [path for path in sorted(prefix.rglob("*")) if path.is_file()]
        files = [path for path in files if not LEFT_OUT.match(str(path.relative_to(prefix)))]
        tag = "py3-none-manylinux_%d_%d_%s" % (*older_glibc.OLDEST, system.processor)

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
