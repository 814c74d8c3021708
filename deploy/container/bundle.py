#!/usr/bin/env python3
"""Makes an installed gordian independent of the system that it is copied to.

    bundle.py INSTALLED DEST [--at PATH]

DEST becomes a copy of INSTALLED (a prefix of `cmake --install`) whose programs bring the shared
libraries and the loader that they were built with, in DEST/deps. The kernel needs the loader's
absolute path, so DEST works at PATH alone (default: /opt/gordian). What gordian loads into jobs
stays as it is: the shim needs no more than the job's own C library (2.17 or newer).

Needs ldd, patchelf, and dpkg for the libraries' copyright files.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# What gordian loads itself, when it sends something (analyzer/http/curl_library.cc).
LOADED_LATER = ["libcurl.so.4"]


def place_of(name):
    """Where the loader finds a library."""
    for line in output("/sbin/ldconfig", "-p").splitlines():
        if line.split()[:1] == [name]:
            return pathlib.Path(line.split("=>")[-1].strip())
    sys.exit(f"bundle: {name} is not installed")


def libraries_of(program):
    """The files that the loader maps for a program or library, the loader itself among them."""
    found = []
    for line in output("ldd", program).splitlines():
        if "not found" in line:
            sys.exit(f"bundle: {program}: {line.strip()}")
        path = line.split("=>")[-1].split("(")[0].strip()
        if path.startswith("/"):
            found.append(pathlib.Path(path))
    return found


def owner_of(library):
    """The Debian package of a library; dpkg knows the file by one of its names."""
    for path in (library, library.resolve(), pathlib.Path("/usr") / library.relative_to("/"),
                 *(pathlib.Path("/") / p.relative_to("/usr") for p in (library, library.resolve())
                   if p.is_relative_to("/usr"))):
        asked = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if asked.returncode == 0:
            return asked.stdout.split(":")[0]
    return None


def bring(library, deps):
    """Copies a library, and the copyright file of its package, unless it is there."""
    target = deps / library.name
    if target.exists():
        return
    shutil.copy(library, target)
    target.chmod(0o755)
    package = owner_of(library)
    notice = pathlib.Path("/usr/share/doc") / (package or "-") / "copyright"
    if not notice.exists():
        sys.exit(f"bundle: no copyright file of {library}")
    shutil.copy(notice, deps / "copyright" / package)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("installed", type=pathlib.Path)
    parser.add_argument("dest", type=pathlib.Path)
    parser.add_argument("--at", default="/opt/gordian")
    args = parser.parse_args()

    shutil.copytree(args.installed, args.dest, symlinks=True)
    deps = args.dest / "deps"
    (deps / "copyright").mkdir(parents=True)
    for program in sorted((args.dest / "bin").iterdir()):
        if program.read_bytes()[:4] != b"\x7fELF":
            continue
        loader = None
        libraries = libraries_of(program)
        for later in map(place_of, LOADED_LATER):
            libraries += [later, *libraries_of(later)]
        for library in libraries:
            bring(library, deps)
            if library.name.startswith("ld-linux"):
                loader = library.name
        if loader is None:
            continue
        # DT_RPATH and not DT_RUNPATH: it also serves what the libraries need themselves.
        subprocess.run(["patchelf", "--set-interpreter", f"{args.at}/deps/{loader}",
                        "--force-rpath", "--set-rpath", f"{args.at}/deps", program], check=True)


if __name__ == "__main__":
    main()
