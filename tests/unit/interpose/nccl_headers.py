#!/usr/bin/env python3
"""Holds the table of hooked calls against any nccl.h.

  nccl_headers.py --source ROOT --compiler CXX --include CUDA_INCLUDE_FOLDER [HEADER...]

Without a HEADER: those that GORDIAN_TEST_NCCL_HEADERS names, separated by colons (exit code 77 where it is not
set). Names each function of the header that is no row of proto/ring/hooked_calls.def and fits no pattern of
proto/ring/not_hooked.def, and compiles the rows' signatures against the header's. A header may be the
unfilled nccl.h.in of NCCL's sources.
"""

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

from hook_table import table

SKIP = 77
LEAST = 80  # functions in the oldest header that anything here is built with, the tools' forms included


def filled(path):
    """The header's text, and its version as the file says it or its template must."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if "${nccl:" not in text:
        return text
    # The newest version that the header itself mentions: ncclConfig_v23100 is the structure of 2.31.
    named = [int(code) for code in re.findall(r"\bnccl\w+_v(2\d{4})\b", text)]
    code = max(named) if named else 22800
    # 2.30.7 is the first of 2.30, and its structures are named after 2.30.0.
    patch = 7 if code == 23000 else code % 100
    values = {"Major": 2, "Minor": code // 100 % 100, "Patch": patch, "Suffix": "", "Version": code - code % 100 + patch}
    return re.sub(r"\$\{nccl:(\w+)\}", lambda found: str(values[found.group(1)]), text)


def functions(path, includes):
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", "-DNCCL_OS_LINUX"] + [f"-I{i}" for i in includes] + [path],
                          capture_output=True, text=True, check=True)
    # Names that a declaration's parenthesis follows. Structures, typedefs and enumerations have none.
    return set(re.findall(r"\b(p?nccl[A-Z]\w*)\s*\(", done.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("headers", nargs="*")
    args = parser.parse_args()
    outside = not args.headers
    if outside:
        args.headers = [path for path in os.environ.get("GORDIAN_TEST_NCCL_HEADERS", "").split(":") if path]
        if not args.headers:
            print("GORDIAN_TEST_NCCL_HEADERS names no header")
            return SKIP
    rows, patterns = table(args.source)
    patterns = [(pattern, reason) for library, pattern, reason, _ in patterns if library == "nccl"]
    problems = []
    for path in args.headers:
        with tempfile.TemporaryDirectory() as folder:
            header = path
            if outside:
                header = os.path.join(folder, "nccl.h")
                with open(header, "w", encoding="utf-8") as file:
                    file.write(filled(path))
            names = functions(header, [args.source, args.include])
            if len(names) < LEAST:
                problems.append(f"{path}: only {len(names)} functions found; the test no longer sees them")
            without = 0
            for name in sorted(names - rows["nccl"]):
                if any(fnmatch.fnmatchcase(name, pattern) for pattern, _ in patterns):
                    without += 1
                else:
                    problems.append(f"{path}: {name} is no row, and no pattern of not_hooked.def says why")
            print(f"{path}: {len(names)} functions, {len(names & rows['nccl'])} rows, {without} need none")
            if outside:
                done = subprocess.run(
                    [args.compiler, "-std=c++20", "-fsyntax-only", "-w", "-DNCCL_OS_LINUX", "-DGORDIAN_PROTOTYPES_OF_NCCL",
                     f"-I{folder}", f"-I{args.source}", f"-isystem{args.include}",
                     os.path.join(args.source, "interpose/entry/prototypes.cc")], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    problems.append(f"{path}: the table's signatures are not the header's:\n{done.stderr[:4000]}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
