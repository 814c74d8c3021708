#!/usr/bin/env python3
"""Packs what profiled.py left into the archive that tests read.

  pack_traces.py ARCHIVE.tar.xz JOB=FOLDER[:PART,PART...]...

PARTS are profiler, execution, dumps and ras (default: all). Of the profiler's and the execution traces only what tells of process groups, collectives and NCCL's kernels stays,
as PyTorch wrote it, and one event of each other kind; dumps and reports of RAS stay whole. Paths of the machine are
replaced by others of the same length, since a pickle holds lengths.
"""

import collections
import gzip
import io
import json
import os
import re
import sys
import tarfile

PATHS = [(b"/work/main/build/gpu_h/", b"/home/somebody/program/"), (b"/opt/torch/.venv/", b"/home/venv/torch/")]


def trim_profiler(data):
    trace = json.loads(data)
    seen = collections.Counter()

    def wanted(event):
        if event.get("name") == "record_param_comms" or event.get("name", "").startswith("ncclDevKernel"):
            return True
        kind = (event.get("ph"), event.get("cat"), event.get("name") if event.get("ph") == "M" else None)
        seen[kind] += 1
        return seen[kind] == 1
    trace["traceEvents"] = [event for event in trace["traceEvents"] if wanted(event)]
    return json.dumps(trace, indent=1).encode()


# Cuts nodes out of the text, so that a trace without an end stays one.
def trim_execution(data):
    text = data.decode()
    first = text.index('"nodes": [') + len('"nodes": [')
    parts = re.split(r"(?<=\n      \}),", text[first:])
    seen = collections.Counter()
    kept = []
    for number, part in enumerate(parts):
        name = re.search(r'"name": "([^"]*)"', part).group(1)
        seen[name.split("#")[0]] += 1
        if name in ("record_param_comms", "## process_group:init ##") or number == len(parts) - 1 or name.startswith("[pytorch"):
            kept.append(part)
    return (text[:first] + ",".join(kept)).encode()


def main():
    archive, jobs = sys.argv[1], sys.argv[2:]
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for job in jobs:
            name, folder = job.split("=")
            folder, _, parts = folder.partition(":")
            for file in sorted(os.listdir(folder)):
                with open(os.path.join(folder, file), "rb") as f:
                    data = f.read()
                if ".pt.trace.json" in file:
                    packed = file.endswith(".gz")
                    data = trim_profiler(gzip.decompress(data) if packed else data)
                    for old, new in PATHS:
                        data = data.replace(old, new)
                    where = "profiler"
                    data = gzip.compress(data, mtime=0) if packed else data
                elif file.startswith("pytorch_et"):
                    where, data = "execution", trim_execution(data)
                elif file.startswith("nccl_trace"):
                    where = "dumps"
                elif file.startswith("ras"):
                    where = "ras"
                else:
                    continue
                if parts and where not in parts.split(","):
                    continue
                for old, new in PATHS:
                    assert len(old) == len(new)
                    data = data.replace(old, new)
                entry = tarfile.TarInfo(f"{name}/{where}/{file}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
