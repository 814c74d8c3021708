#!/usr/bin/env python3
"""Kernels that are not run, with `gordian run --stub-compute`.

  stub_compute.py BUILD

Rank 0's stream of a healthy job first runs a kernel of an hour. With the option the job ends, and gordian says that one
kernel was not run; without it, with the kernel among those to keep, or not among those to skip, the job does not
end: the kernel is told as what it hangs in.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HOUR = "0:3600"


def run(build, *options, threshold="0.5"):
    work = tempfile.mkdtemp(prefix="gordian-stub-")
    session = os.path.join(work, "session")
    command = [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--session", session, "--on-verdict",
               "kill-suspected", "--suspect-after", threshold, *options,
               "--", os.path.join(build, "tests", "gordian_e2e_job"), "inversion_sync", "--twin", "--ranks", "2", "--busy", HOUR]
    done = subprocess.run(command, env=dict(os.environ, JOB_PROGRESS=os.path.join(work, "progress")), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    verdict = None
    if os.path.exists(os.path.join(session, "verdict.json")):
        with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
            verdict = json.load(f)
    shutil.rmtree(work)
    return done.returncode, verdict, done.stderr


def need(condition, what):
    if not condition:
        sys.exit(what)


def main():
    build = os.path.abspath(sys.argv[1])
    ends = {"all": [], "named": ["--stub-skip", "other*", "--stub-skip", "*busy*"], "another is kept": ["--stub-keep", "other*"]}
    for name, options in ends.items():
        code, verdict, err = run(build, "--stub-compute", *options, threshold="60")
        need(code == 0 and verdict["verdict"] == "finished", f"{name}: exit code {code}, {verdict}, {err}")
        need(", 1 kernel not run" in err, f"{name}: not said: {err}")
    hangs = {"off": [], "kept": ["--stub-compute", "--stub-keep", "other*", "--stub-keep", "gordian_busy*"],
             "not skipped": ["--stub-compute", "--stub-skip", "other*"]}
    for name, options in hangs.items():
        code, verdict, err = run(build, *options)
        need(code == 137 and verdict["verdict"] == "stuck_kernel", f"{name}: exit code {code}, {verdict}, {err}")
        need("not run" not in err, f"{name}: said: {err}")
    for options in (["--stub-keep", "x"], ["--stub-skip", "x"], ["--stub-compute", "--stub-keep", "x" * 1200], ["--stub-compute", "--stub-skip", ""]):
        code, _, err = run(build, *options)
        need(code == 2 and options[-2] in err, f"{options}: exit code {code}, {err}")


if __name__ == "__main__":
    main()
