#!/usr/bin/env python3
"""Jobs that hang for the order of their collectives, under `gordian run --emulator --on-verdict recover`.

  recover.py BUILD JOB [--ranks N] [--twin] [--kill | --abort] [--pool MB] [--count N] [--hardware]

A job that can be recovered must end by itself with code 0: it compares every output with what a serial program
computes. Its verdict stays a confirmed deadlock that was recovered, and the same job without the option must hang. One that
cannot be recovered must hang, and be told why not. A twin must end, with no word of a deadlock. --kill: a rank dies once the
recovery has begun; the rest must be told. --abort: its program aborts a communicator then.
--pool: MiB that no device has, for copies of inputs: the job runs on, and is refused.
--hardware: real GPUs and NCCL, one GPU a rank; it also prints what gordian says of the recovery.
"""

import argparse
import glob
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# By job: the condition that the refusal must name; "": it must be recovered.
JOBS = {
    "recover_inversion": "",
    "recover_default_stream": "",
    "recover_default_stream_in_place": "",
    "recover_large": "",
    "recover_late_member": "",
    "recover_three": "",
    "recover_subset": "",
    "recover_events": "",
    "recover_observed": "",
    "recover_goes_on": "",
    "recover_groups": "",
    "recover_twice": "",
    "recover_four_times": "",
    "recover_heavy": "",
    "recover_in_place": "",
    "recover_three_in_place": "",
    "recover_subset_in_place": "",
    "recover_group_in_place": "",
    "recover_sized": "",
    "recover_sized_in_place": "",
    "recover_reused": "",
    "recover_small_pool": "R3",
    "recover_aborted": "",
    "recover_feeds": "hard",
    "recover_work_between": "hard",
    "inversion_sync": "R1",
    "inversion_cold": "R1",
    "hybrid_recv_all_reduce": "R3",
    "graph_inversion": "R4",
}
# Recoveries, where one is not all.
TIMES = {"recover_twice": 2, "recover_four_times": 4}
# MiB, of jobs that are about the pool of copies.
POOLS = {"recover_reused": "1", "recover_small_pool": "1", "recover_sized_in_place": "600"}
# Conditions that a job's calls show before it hangs; others are of the cycle.
FORESEEN = ("R3", "R4")
# What the sentence of a refusal must hold.
SENTENCES = {"recover_small_pool": r"rank \d has no copy of the input of AllReduce #\d on dp, .*: its pool lacked 1200004 bytes"}
# Seconds: what a job that must end may take at most, on a busy machine; on GPUs, whose machines are not busy.
HANGS, HANGS_ON_GPUS = 60, 30


class Run:
    def __init__(self, options, what, twin=False):
        self.limit = HANGS_ON_GPUS if options.hardware else HANGS
        self.work = tempfile.mkdtemp(prefix="gordian-recover-")
        self.session = os.path.join(self.work, "session")
        self.command = [os.path.join(options.build, "bin", options.gordian), "run", "--session", self.session,
                        "--on-verdict", what, "--error-exitcode", "41"]
        if not options.hardware:
            self.command += ["--emulator"]
        self.command += ["--", os.path.join(options.build, "tests", "gordian_e2e_job"), options.job]
        if options.count:
            self.command += ["--count", options.count]
        if options.ranks:
            self.command += ["--ranks", str(options.ranks)]
        if twin:
            self.command += ["--twin"]
        self.output = os.path.join(self.work, "output")
        with open(self.output, "w", encoding="utf-8") as out:
            environment = dict(os.environ)
            environment.pop("GORDIAN_RECOVERY_POOL_MB", None)
            if options.pool or options.job in POOLS:
                environment["GORDIAN_RECOVERY_POOL_MB"] = options.pool or POOLS[options.job]
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, start_new_session=True, env=environment)

    def text(self):
        with open(self.output, encoding="utf-8", errors="replace") as f:
            return f.read()

    def verdict(self):
        try:
            with open(os.path.join(self.session, "verdict.json"), encoding="utf-8") as f:
                return json.load(f)
        except (OSError, ValueError):
            return {}

    def until(self, condition, what):
        end = time.monotonic() + self.limit
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail(f"not in {self.limit} s: {what}")

    def end(self):
        self.until(lambda: self.process.poll() is not None, "the job's end")
        return self.process.returncode

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.fail("it does not end by SIGTERM")

    def need(self, condition, what):
        if not condition:
            self.fail(what)

    def fail(self, what):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        sys.exit(f"{what}\n{self.text()}\n{json.dumps(self.verdict().get('recovery'))}\nsession: {self.session}\n"
                 f"repeat: {shlex.join(sys.argv)}")

    def remove(self):
        shutil.rmtree(self.work)


def recovered(options):
    run = Run(options, "recover")
    code = run.end()
    # A rank that sees a wrong result ends with 7.
    run.need(", recovered, job ended with 0;" in run.text(), "the job did not end well")
    verdict = run.verdict()
    recovery = verdict.get("recovery", {})
    run.need(code == 41, f"the job ended with {code}; with --error-exitcode 41 a verdict makes it 41")
    run.need(verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed",
             f"the verdict is {verdict['verdict']}")
    run.need(recovery.get("recovered") is True and recovery["refused"] == "" and recovery["ms"] > 0 and recovery["operations"],
             "the verdict does not say that it was recovered")
    run.need(not verdict.get("disproved"), "gordian takes back what it has recovered")
    # What hangs a second time on the same communicators, the runtime completes without a word.
    times = TIMES.get(options.job, 1)
    said = len(re.findall(r"gordian: recovered in [\d.]+ ms", run.text()))
    run.need(said == times, f"gordian says {said} times that it has recovered, not {times}")
    wrong = re.findall(r"gordian: this was the third recovery of a cycle at recoveries\.cc:\d+.*: the program is wrong; "
                       r"what to change: .+", " ".join(run.text().split("\n ")))
    run.need(len(wrong) == (1 if times >= 3 else 0), "gordian says of the third recovery that the program is wrong, and of no other")
    run.need(not glob.glob(os.path.join(run.session, "recovery.*")), "files are left behind")
    explain = subprocess.run([os.path.join(options.build, "bin", options.gordian), "explain", run.session], text=True,
                             capture_output=True, check=False)
    run.need("recovered:" in explain.stdout, f"explain does not say it:\n{explain.stdout}{explain.stderr}")
    if options.hardware:
        print(f"{options.job} {options.count or ''}: recovered in {recovery['ms']} ms, {recovery['operations']} operations, "
              f"confirmed after {verdict['detected_after_s']} s")
    run.remove()
    # Without the option it hangs.
    run = Run(options, "kill")
    code = run.end()
    run.need(code == 41 and run.verdict()["verdict"] == "deadlock", f"without recovery it ended with {code}")
    run.need(run.verdict().get("recovery", {}).get("refused") == "", "the verdict does not say that it could be recovered")
    run.remove()


def refused(options, condition):
    run = Run(options, "recover")
    run.until(lambda: "not recovered (" in run.text() or run.process.poll() is not None, "a line that says why not")
    run.need(run.process.poll() is None, "it ended")
    run.need(not options.pool or "gordian: operations in place cannot be recovered: device 0 has no " in run.text(),
             "it does not say that there is no pool")
    said = re.search(r"gordian: not recovered \((\w+)\): (.+)", run.text())
    run.need(said and said[1] == condition, f"not refused for {condition}")
    run.until(lambda: run.verdict().get("recovery", {}).get("refused") == condition, "the same in verdict.json")
    recovery = run.verdict()["recovery"]
    run.need(recovery["recovered"] is False and recovery["why"], "no reason is given")
    run.need(re.search(SENTENCES.get(options.job, ""), recovery["why"]), f"the reason is {recovery['why']}")
    if options.hardware:
        print(f"{options.job}: refused ({condition}): {recovery['why']}")
    if options.job in SENTENCES:
        run.need("recoveries.cc" in json.dumps(recovery["site"]), f"the line is {recovery['site']}")
    run.stop()
    run.remove()


def in_the_middle(run):
    """Waits until gordian has told both ranks to go on. Returns the last one's pid, or None if the recovery ended first."""
    header = struct.Struct("=QIIIIiIIIQ")  # of ring::RecoveryFile
    order = struct.Struct("=I")
    order_at = header.size + 32 * 16 + 4
    end = time.monotonic() + run.limit
    while True:
        paths = sorted(glob.glob(os.path.join(run.session, "recovery.*")))
        orders = []
        try:
            for path in paths:
                with open(path, "rb") as f:
                    f.seek(order_at)
                    orders.append(f.read(order.size))
        except FileNotFoundError:
            return None  # gordian removes the files when a recovery ends
        # A rank that has just made its file may not have given it its length.
        if orders == [order.pack(3)] * 2:
            return max(int(path.rsplit(".", 1)[1]) for path in paths)
        if "gordian: recovered in" in run.text():
            return None
        run.need(time.monotonic() < end and run.process.poll() is None, "no recovery begins")


def broken(options):
    """In the middle a rank dies, or its program aborts a communicator: all ends in a clear report, not in a wrong result or in
    silence."""
    run = Run(options, "recover")
    pid = in_the_middle(run)
    if pid:
        os.kill(pid, signal.SIGKILL if options.kill else signal.SIGUSR1)
    run.until(lambda: "gordian: the recovery failed (failed): " in run.text() or "gordian: recovered in" in run.text(),
              "a line that says what became of it")
    run.need(" must be" not in run.text(), "a rank saw a wrong result")
    if "gordian: recovered in" in run.text():
        run.stop()
        run.remove()
        print("the rank had done its part before", file=sys.stderr)
        sys.exit(77)
    run.until(lambda: run.verdict().get("recovery", {}).get("refused") == "failed", "the same in verdict.json")
    run.need(run.verdict()["recovery"]["recovered"] is False, "it was not recovered")
    if options.abort:
        run.need(re.search(r"the program of rank \d has aborted a communicator in the middle", run.text()), "it does not say who")
    run.need(" must be" not in run.text(), "a rank saw a wrong result")
    run.stop()
    run.remove()


def healthy(options):
    run = Run(options, "recover", twin=True)
    code = run.end()
    run.need(code == 0 and run.verdict()["verdict"] in ("finished", "healthy"), f"the twin ended with {code}")
    run.need(not re.search(r"gordian: (recovered|not recovered|the recovery)", run.text()), "gordian speaks of a recovery")
    # What doctor says of the twin must come true of the job that hangs.
    doctor = subprocess.run([os.path.join(options.build, "bin", options.gordian), "doctor", "--recover", run.session, "--json"],
                            text=True, capture_output=True, check=False)
    run.need(doctor.returncode in (0, 1), f"doctor: {doctor.stderr}")
    said = [one for comm in json.loads(doctor.stdout)["communicators"] for one in comm["hindrances"]]
    run.need(doctor.returncode == (1 if said else 0), f"doctor ends with {doctor.returncode}")
    condition = JOBS[options.job]
    if condition in FORESEEN and options.job not in POOLS:
        run.need([one for one in said if one["condition"] == condition and one["operations"] > 0 and ".cc:" in one["site"]],
                 f"doctor does not foresee {condition}: {said}")
    else:
        run.need(not said, f"doctor foresees what does not come: {said}")
    run.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--abort", action="store_true")
    parser.add_argument("--pool")
    parser.add_argument("--count", help="elements of what recover_sized reduces")
    parser.add_argument("--hardware", action="store_true")
    parser.add_argument("--gordian", default="gordian")
    options = parser.parse_args()
    if options.twin:
        healthy(options)
    elif options.kill or options.abort:
        broken(options)
    elif options.pool:
        refused(options, "R3")
    elif JOBS[options.job]:
        refused(options, JOBS[options.job])
    else:
        recovered(options)


if __name__ == "__main__":
    main()
