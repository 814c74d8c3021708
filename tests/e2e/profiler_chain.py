#!/usr/bin/env python3
"""A user's own NCCL profiler plugin goes on working behind gordian's.

  profiler_chain.py BUILD

Each job runs with the user's plugin alone and with `gordian run --nccl-profiler`, linked dynamically and as if
NCCL were linked statically: what the plugin is told must be the same to the last event. An NCCL that asks for
another version than the plugin has leaves it out, and the job runs all the same.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

# configured_inversion: rank 0 makes six calls with the tag 5 and rank 1 eight, each told of as call and as task.
TAGS = 5 * (6 + 8) * 2

JOBS = {
    "dynamic": ["gordian_e2e_job"],
    "static": ["gordian_e2e_plugin_host", "libgordian_e2e_plugin.so", "deepbind"],
}


def run(build, way, ours, version, name="inversion_one_stream"):
    """What the user's plugin was told, added up over the ranks."""
    work = tempfile.mkdtemp(prefix="gordian-profiler-")
    session = os.path.join(work, "session")
    tests = os.path.join(build, "tests")
    job = [word if word == "deepbind" else os.path.join(tests, word) for word in JOBS[way]]
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--session", session] + \
              (["--nccl-profiler"] if ours else []) + ["--"] + job + [name, "--ranks", "2", "--twin"]
    env = dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress"), GORDIAN_EMU_NCCL_PROFILER=version,
               NCCL_PROFILER_PLUGIN=os.path.join(tests, "libgordian_e2e_user_profiler.so"),
               USER_PROFILER_OUT=os.path.join(work, "told"))
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"{way}, {'with' if ours else 'without'} ours: exit code {done.returncode}\n{done.stderr.decode()}")
    with open(os.path.join(session, "verdict.json")) as f:
        verdict = json.load(f)
    told = {}
    for path in glob.glob(os.path.join(work, "told.*")):
        with open(path) as f:
            words = f.read().split()
        for name, number in zip(words[::2], words[1::2]):
            told[name] = told.get(name, 0) + int(number)
    shutil.rmtree(work)
    return told, verdict


def main():
    build = os.path.abspath(sys.argv[1])
    for way in JOBS:
        alone, _ = run(build, way, False, "5")
        behind, verdict = run(build, way, True, "5")
        print(f"{way}: {alone}")
        if alone != behind:
            sys.exit(f"{way}: the plugin was told {behind} behind ours, and {alone} alone")
        if alone.get("call", 0) < 4 or alone["call"] != alone["coll"] or alone["broken"] or alone["unasked"]:
            sys.exit(f"{way}: the test's own plugin was not told what NCCL tells: {alone}")
        if verdict["evidence"]["nccl_calls"] == 0 or verdict["verdict"] != "finished":
            sys.exit(f"{way}: {verdict['verdict']} after {verdict['evidence']['nccl_calls']} calls")
        alone, _ = run(build, way, False, "7", "configured_inversion")
        behind, _ = run(build, way, True, "7", "configured_inversion")
        print(f"{way}, version 7: {alone}")
        if alone != behind or alone.get("tags") != TAGS or alone["broken"] or alone["unasked"]:
            sys.exit(f"{way}, version 7: the plugin was told {behind} behind ours, and {alone} alone")
        other, verdict = run(build, way, True, "6")
        if other:
            sys.exit(f"{way}: a plugin of version 5 was called by an NCCL that speaks 6: {other}")


if __name__ == "__main__":
    main()
