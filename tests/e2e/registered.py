#!/usr/bin/env python3
"""What a job registers with NCCL, the preemptive runtime is told: `gordian run --emulator --collectives=preemptive`.

  registered.py BUILD

With a runtime that writes down what it is told: every registration of the job with the right memory, each ended once and
with the communicator that it began with, but for those that a communicator's end ended; none for what was refused. The twin,
which registers nothing, and the host's own runtime, which refuses all: results are right, and nothing is said of it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

BYTES = 2 * 4 * 3 * 2**20


def need(condition, what, output):
    if not condition:
        sys.exit(f"{what}\n{output}")


def run(build, twin, library):
    work = tempfile.mkdtemp(prefix="gordian-registered-")
    record = os.path.join(work, "record")
    job = [os.path.join(build, "tests", "gordian_e2e_job"), "registered_memory"] + (["--twin"] if twin else [])
    if library:
        job = ["env", f"GORDIAN_COLLECTIVES_LIBRARY={library}"] + job
    done = subprocess.run(
        [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--collectives", "preemptive", "--session",
         os.path.join(work, "session"), "--on-verdict", "kill", "--"] + job,
        env=dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress"), REGISTRATIONS_FILE=record), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, check=False)
    need(done.returncode == 0, f"it ended with {done.returncode}", done.stderr)
    line = re.search(r"gordian: [\d,]+ operations by the preemptive runtime.*", done.stderr)
    need(line and "none by NCCL" in line[0], "not all went to the runtime", done.stderr)
    lines = []
    if os.path.exists(record):
        with open(record, encoding="utf-8") as f:
            lines = [row.split() for row in f]
    shutil.rmtree(work)
    return lines, line[0]


def main():
    build = sys.argv[1]
    recording = os.path.join(build, "tests", "libgordian_e2e_recording_runtime.so")
    lines, told = run(build, False, recording)
    text = "\n".join(" ".join(row) for row in lines)
    ranks = {row[0] for row in lines}
    need(len(ranks) == 2, f"{len(ranks)} ranks have registered memory", text)
    for rank in ranks:
        own = [row[1:] for row in lines if row[0] == rank]
        begun = {row[4]: row for row in own if row[0] == "registered"}
        ended = [row for row in own if row[0] == "deregistered"]
        refused = [row for row in own if row[0] == "refused"]
        need(len(begun) == 6 and len(refused) == 1, "6 are registered, and one is refused", text)
        need(all(int(row[3]) == BYTES for row in begun.values()), "with all their bytes", text)
        first, second = begun["1"][2], begun["3"][2]
        need([begun[n][2] for n in "123456"] == [first, first, second, first, first, second], "the job's memory", text)
        need(first != second and refused[0][2] not in (first, second), "three pieces of memory", text)
        a, b = begun["1"][1], begun["3"][1]
        need([begun[n][1] for n in "123456"] == [a, a, b, b, a, a] and a != b, "the communicators", text)
        need(sorted(row[2] for row in ended) == ["1", "2", "3", "5", "6"], "all but the last of b are ended once", text)
        need(all(begun[row[2]][1] == row[1] for row in ended), "with the communicator that it began with", text)
        # NCCL's one handle stands for two; windows are ended in the order of the job.
        order = [row[2] for row in ended]
        need(set(order[:2]) == {"1", "2"} and order[2:] == ["3", "5", "6"], "in the job's order", text)
    need("12 buffers registered" in told, "it is said", told)
    lines, told = run(build, True, recording)
    need(not lines and "registered" not in told, "the twin has registered something", f"{lines} {told}")
    lines, told = run(build, False, None)
    need(not lines and "registered" not in told, "the host's runtime has no use for it", f"{lines} {told}")


if __name__ == "__main__":
    main()
