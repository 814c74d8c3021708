#!/usr/bin/env python3
"""A job that the shim cannot see must not be judged.

  deepbind.py BUILD

A library opened with RTLD_DEEPBIND is bound to its own NCCL and CUDA, past the shim. Whether such a job ends
or hangs, gordian says that it saw nothing, and neither "finished" nor "healthy" nor anything worse.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def last_steps(progress, ranks):
    try:
        with open(progress, "rb") as f:
            data = f.read(64 * ranks)
    except OSError:
        return []
    return [data[64 * r + 8:64 * r + 64].split(b"\0")[0].decode() for r in range(ranks)]


def run(build, twin):
    work = tempfile.mkdtemp(prefix="gordian-deepbind-")
    session = os.path.join(work, "session")
    progress = os.path.join(work, "progress")
    tests = os.path.join(build, "tests")
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--session", session, "--suspect-after", "1",
               "--", os.path.join(tests, "gordian_e2e_plugin_host"), os.path.join(tests, "libgordian_e2e_plugin.so"),
               "deepbind", "inversion_one_stream"] + (["--twin"] if twin else [])
    env = dict(os.environ, JOB_PROGRESS=progress, GORDIAN_EMU_STATS=os.path.join(work, "stats"))
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        if not twin:
            deadline = time.monotonic() + 60
            while last_steps(progress, 2) != ["synchronise", "synchronise"]:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the job did not come to hang: {last_steps(progress, 2)}")
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGTERM)  # the ranks too: their parent does not pass it on
        code = process.wait(timeout=60)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of them have ended
        process.wait()
    with open(os.path.join(session, "verdict.json")) as f:
        verdict = json.load(f)
    counted = 0
    for name in os.listdir(work):
        if name.startswith("stats."):
            with open(os.path.join(work, name)) as f:
                counted += sum(int(n) for call, n in (line.split() for line in f) if call.startswith("nccl"))
    if counted == 0:
        sys.exit("the job made no NCCL call at all")
    if verdict["evidence"]["nccl_calls"] != 0:
        sys.exit("the shim saw the calls: then docs/limits.md is wrong")
    if verdict["verdict"] != "inconclusive" or verdict["findings"]:
        sys.exit(f"a job that was not seen was called {verdict['verdict']}: {verdict['summary']}")
    if twin and code != 0:
        sys.exit(f"the job's exit code became {code}")
    print(f"{'twin' if twin else 'hanging job'}: {counted} NCCL calls made, none seen: {verdict['summary']}")
    shutil.rmtree(work)


if __name__ == "__main__":
    for twin_too in (True, False):
        run(os.path.abspath(sys.argv[1]), twin_too)
