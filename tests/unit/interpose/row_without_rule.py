#!/usr/bin/env python3
"""A row of proto/ring/hooked_calls.def that no rule fits does not compile.

  row_without_rule.py --source ROOT --compiler CXX --include CUDA_INCLUDE_FOLDER

Compiles the table with more rows at its end: the compiler must name every one that fits nothing, and
none that fits.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

COMM = "(ncclComm_t comm), (comm)"
STREAM = "(ncclComm_t comm, cudaStream_t stream), (comm, stream)"
FIT = [
    ("Silent()", COMM),
    ("Poll()", STREAM),
    ("Wait(kDevice) | kResetsDevice", COMM),
    ("Wait(kStream) | kPerThread", STREAM),
    ("Work(kKernels)", STREAM),
    ("Work(kKernels) | kDefaultStream", COMM),
    ("CommCall(kCommOther)", COMM),
]
# Whose arguments lack what the effect is about.
LACK_ARGUMENTS = [
    ("Operation(kAllReduce)", STREAM),
    ("Signal(kSignal)", STREAM),
    ("CommInit(kCommSplit)", COMM),
    ("CommCall(kCommOther) | kRegistersMemory", COMM),
    ("CommQuery()", COMM),
    ("Work(kKernels)", COMM),
    ("Work(kKernels) | kDefaultStream", STREAM),
    ("Work(kKernels) | kLaunch", STREAM),
    ("Work(kEventRecord)", STREAM),
    ("Work(kEventForgotten) | kMakesEvent", STREAM),
    ("Work(kGraphLaunch)", STREAM),
    ("Work(kMemoryWait)", STREAM),
    ("Wait(kStream)", COMM),
    ("Wait(kCopy)", STREAM),
    ("Wait(kEvent)", STREAM),
    ("Poll()", COMM),
    ("StreamCreate()", STREAM),
    ("StreamDestroy()", COMM),
    ("Graph(kInstantiate)", STREAM),
]
# Words that are none, or that do not go together, and what the compiler says of them.
NO_WORDS = [
    ("Collective(kAllReduce)", "Collective"),
    ("Operation(kCommSplit)", "ThisWordDoesNotGoWithThisKind"),
    ("CommCall(kAllReduce)", "ThisWordDoesNotGoWithThisKind"),
    ("Wait(kStream) | kLaunch", "ThisWordDoesNotGoWithThisKind"),
    ("Work(kKernels) | kToHost", "ThisWordDoesNotGoWithThisKind"),
]


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "compiler", "include"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "proto/ring"))
        with open(os.path.join(folder, "calls.cc"), "w") as f:
            f.write('#include "proto/ring/calls.h"\n')

        def compile_with(rows, file):
            with open(os.path.join(folder, "proto/ring/hooked_calls.def"), "w") as f:
                f.write(f'#include "{args.source}/proto/ring/hooked_calls.def"\n')
                for i, (effect, signature) in enumerate(rows):
                    f.write(f'GORDIAN_HOOK(nccl, ncclRow{i}, {effect}, "-", ncclResult_t, {signature})\n')
            return subprocess.run(
                [args.compiler, "-std=c++20", "-fsyntax-only", "-w", "-DGORDIAN_ENTRY_POINTS_OF_nccl",
                 "-I", folder, "-I", args.source, "-I", args.source + "/runtime/include",
                 "-isystem", args.include, file],
                env=dict(os.environ, LC_ALL="C"), capture_output=True, text=True, timeout=240).stderr

        rows = FIT + LACK_ARGUMENTS
        said = compile_with(rows, args.source + "/interpose/entry/entry_points.cc")
        named = {int(number) for number in re.findall(r"kCall_ncclRow(\d+)\b", said)}
        for i, row in enumerate(rows):
            if (i in named) != (i >= len(FIT)):
                problems.append(f"{row} {'was refused' if i in named else 'was taken'}")
        for effect, word in NO_WORDS:
            if word not in compile_with([(effect, COMM)], os.path.join(folder, "calls.cc")):
                problems.append(f"{effect} was taken")
        if problems:
            print(said[:20000])
    for problem in problems:
        print(problem)
    print(f"{len(rows) + len(NO_WORDS)} rows tried, {len(problems)} not as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
