#!/usr/bin/env python3
"""Holds the table of hooked calls against the libraries and headers at hand.

  hook_table.py --source ROOT --include CUDA_INCLUDE_FOLDER LIBRARY=PATH...

LIBRARY is nccl, cudart or cuda. A path that does not exist is left out (the real libraries need not
be installed) unless it is marked as LIBRARY!=PATH. Every function that a library exports, and every one that
a header declares, must be a row of proto/ring/hooked_calls.def or fit a pattern of
proto/ring/not_hooked.def with its reason. A pattern that fits nothing is an error too.
"""

import argparse
import fnmatch
import os
import re
import subprocess
import sys

HEADERS = {
    "nccl": (["nccl.h"], r"p?nccl[A-Z]\w*"),
    "cudart": (["cuda_runtime_api.h"], r"(?:__)?cuda[A-Z]\w*"),
    "cuda": (["cuda.h", "cudaProfiler.h"], r"cu[A-Z]\w*"),
}
# Functions of header files that no library exports: C++ helpers, and what device code calls.
NOT_FUNCTIONS = re.compile(r"^(cudaCGGet\w+|cudaCGSynchronize\w*|__cuda\w+_t)$")


def table(source):
    rows = {"nccl": set(), "cudart": set(), "cuda": set()}
    with open(os.path.join(source, "proto/ring/hooked_calls.def")) as f:
        for library, name in re.findall(r"^GORDIAN_HOOK\((\w+), (\w+),", f.read(), re.M):
            if name in rows[library]:
                sys.exit(f"{name} is there twice")
            rows[library].add(name)
    patterns = []
    with open(os.path.join(source, "proto/ring/not_hooked.def")) as f:
        for library, pattern, reason in re.findall(r'^GORDIAN_NOT_HOOKED\((\w+), "([^"]+)", "([^"]+)"\)$', f.read(), re.M):
            patterns.append([library, pattern, reason, 0])
    return rows, patterns


def exports(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    names = set()
    for line in out.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TWi":
            names.add(fields[2].split("@")[0])
    return names


def declared(library, include):
    headers, pattern = HEADERS[library]
    text = "".join(f"#include <{h}>\n" for h in headers if os.path.exists(os.path.join(include, h)))
    if not text:
        return set()
    # In C: without the C++ conveniences on top. With every version of a function under its own name.
    done = subprocess.run(["gcc", "-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", "-I", include, "-"],
                          input=text, capture_output=True, text=True, check=True)
    result = r"(?:CUresult|cudaError_t|ncclResult_t|const\s+char\s*\*|void|struct\s+cudaChannelFormatDesc)"
    # At the start of a declaration, so that typedefs of pointers and structures do not count.
    found = re.findall(r"(?:^|[;}])\s*(?:extern\s+)?(?:__attribute__\s*\(\(.*?\)\)\s*)*" + result +
                       r"\s*(?:__attribute__\s*\(\(.*?\)\)\s*)*\b(" + pattern + r")\s*\(", done.stdout, re.M)
    return {name for name in found if not NOT_FUNCTIONS.match(name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("libraries", nargs="+")
    args = parser.parse_args()
    rows, patterns = table(args.source)
    problems = []
    seen = {library: set() for library in rows}
    looked_at = []

    def hold(library, names, where, least):
        if len(names) < least:
            problems.append(f"{where}: only {len(names)} functions found; the test no longer sees them")
        looked_at.append(f"{where} ({len(names)})")
        seen[library] |= names
        for name in sorted(names):
            fits = next((p for p in patterns if p[0] == library and fnmatch.fnmatchcase(name, p[1])), None)
            if name in rows[library]:
                continue
            if fits is None:
                problems.append(f"{where}: {name} is no row, and no pattern of not_hooked.def says why")
            else:
                fits[3] += 1

    absent = []
    least = {"nccl": 80, "cudart": 300, "cuda": 500}
    for spec in args.libraries:
        library, path = spec.split("=", 1)
        must = library.endswith("!")
        library = library.rstrip("!")
        if not os.path.exists(path):
            if must:
                problems.append(f"{path} is not there")
            else:
                absent.append(path)
            continue
        hold(library, exports(path), path, least[library])
    for library in rows:
        # Half of libnccl's exports are the tools' forms, and all are declared.
        hold(library, declared(library, args.include), f"headers of {library}", least[library])
    for library, pattern, _, count in patterns:
        other = ("GL", "VDPAU", "EGL", "Team", "Lsa", "Graphics", "gordianEmu", "FromEGLSync")
        if count == 0 and not any(word in pattern for word in other):
            problems.append(f'not_hooked.def: nothing fits "{pattern}" of {library}')
    newer = sorted(name for library in rows for name in rows[library] - seen[library])
    for problem in problems:
        print(problem)
    print(f"{sum(map(len, rows.values()))} rows held against: {', '.join(looked_at)}")
    print(f"rows that nothing here has: {len(newer)}: {' '.join(newer)}")
    # What is in no library and in no header here must be NCCL's of a later version.
    wrong = [name for name in newer if not name.startswith("nccl") and not name.startswith("__cuda")]
    if wrong:
        print(f"rows of CUDA that are nowhere: {wrong}")
    if absent and not problems and not wrong:
        print(f"not here: {' '.join(absent)}\nOK (skipped={len(absent)})")
    return 1 if problems or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
