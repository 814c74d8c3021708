#!/usr/bin/env python3
"""What PyTorch's own watchdog, its Flight Recorder and NCCL's RAS say of the jobs of tests/torch that
hang, beside gordian. Needs two GPUs and PyTorch 2.5 or later.

  others.py --build BUILD --out FOLDER [--timeout 15] [--jobs NAME,...] [--at-once 4]

Runs each job once under gordian, and once alone: with the groups' timeout set to --timeout (PyTorch's
own is 600 s), the Flight Recorder on, and RAS asked every second. FOLDER gets all that they printed,
JOB.watchdog, JOB.fr_trace, JOB.ras, JOB.gordian, and others.json. Whether an answer names the culprit
is for the reader to say.
"""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "torch")
sys.path.insert(0, TESTS)
from expectations import culprit_sets, jobs_of  # noqa: E402
from run_torch import Failure, command_of, watched  # noqa: E402

SETTLE_S = 40  # after the timeout, for the dumps
FIRST_RAS_PORT = 28100
CAUGHT = re.compile(r"Watchdog caught collective operation timeout: (.*?) ran for (\d+) milliseconds")


def by_gordian(args, name, ranks):
    work = os.path.join(args.out, f"{name}.watched")  # its session is in it
    os.makedirs(work)
    try:
        _, verdict = watched(args, name, ranks, False, work)
    except Failure as failure:
        sys.exit(f"{name} under gordian: {failure}")
    with open(os.path.join(args.out, f"{name}.gordian"), "w", encoding="utf-8") as out:
        for printed in ("stdout", "stderr"):
            with open(os.path.join(work, printed), encoding="utf-8", errors="replace") as f:
                out.write(f.read())
    return {key: verdict[key] for key in ("verdict", "confidence", "detected_after_s", "culprit_ranks", "summary")}


def ask_ras(port):
    """RAS's report, as its client ncclras gets it; None while no process of NCCL listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as ras:
            ras.settimeout(6)
            file = ras.makefile("rwb")
            file.write(b"CLIENT PROTOCOL 2\n")
            file.flush()
            if not file.readline().startswith(b"SERVER PROTOCOL"):
                return None
            file.write(b"TIMEOUT 2\n")
            file.flush()
            file.readline()
            file.write(b"VERBOSE STATUS\n")
            file.flush()
            return file.read().decode(errors="replace")
    except OSError:
        return None


class Alone:
    """One job without gordian, until the watchdog has spoken and the recorders have written, or it has ended."""

    def __init__(self, args, name, ranks, port):
        self.args, self.name, self.ranks, self.port = args, name, ranks, port
        self.began = time.monotonic()
        self.dumps = os.path.join(args.out, f"{name}.dumps")
        os.makedirs(self.dumps)
        self.printed = os.path.join(args.out, f"{name}.watchdog")

    def now(self):
        return time.monotonic() - self.began

    def run(self):
        env = dict(os.environ, JOB_TIMEOUT_S=str(self.args.timeout), NCCL_RAS_ENABLE="1",
                   NCCL_RAS_ADDR=f"localhost:{self.port}", TORCH_FR_BUFFER_SIZE="2000",
                   TORCH_NCCL_TRACE_BUFFER_SIZE="2000", TORCH_NCCL_DUMP_ON_TIMEOUT="1",
                   TORCH_NCCL_DEBUG_INFO_TEMP_FILE=os.path.join(self.dumps, "rank_"),
                   TORCH_FR_DUMP_TEMP_FILE=os.path.join(self.dumps, "rank_"))
        with open(self.printed, "wb") as out:
            process = subprocess.Popen(command_of(self.args, self.name, self.ranks, False), stdout=out, stderr=out, env=env,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            result = self.watch(process)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        with open(self.printed, encoding="utf-8", errors="replace") as f:
            caught = [f"{work} ran for {ms} ms" for work, ms in CAUGHT.findall(f.read())]
        result["watchdog"] = sorted(set(caught))
        return result

    def watch(self, process):
        """Seconds are since the start of the job."""
        result = {"ended_s": None, "caught_s": None, "ran_ms": None, "dumped_s": None, "dumps": 0}
        reports = []
        last_ask = 0
        while self.now() < self.args.timeout + SETTLE_S + 25:
            code = process.poll()
            with open(self.printed, encoding="utf-8", errors="replace") as f:
                match = CAUGHT.search(f.read())
            if match and result["caught_s"] is None:
                result["caught_s"], result["ran_ms"] = round(self.now(), 1), int(match.group(2))
            result["dumps"] = len(os.listdir(self.dumps))
            if result["dumps"] == self.ranks and result["dumped_s"] is None:
                result["dumped_s"] = round(self.now(), 1)
            if code is not None:
                result["ended_s"] = round(self.now(), 1)
                break
            if self.now() - last_ask > 1:
                last_ask = self.now()
                report = ask_ras(self.port)
                if report is not None:
                    reports.append((round(last_ask, 1), report))
            if result["dumped_s"] is not None and self.now() > result["dumped_s"] + 5:
                break
            time.sleep(0.1)
        with open(os.path.join(self.args.out, f"{self.name}.ras"), "w", encoding="utf-8") as f:
            for at, report in reports:
                f.write(f"==== {at} s\n{report}\n")
        return result


def by_flight_recorder(args, name):
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace",
                           os.path.join(args.out, f"{name}.dumps")],
                          capture_output=True, text=True, check=False, timeout=120)
    with open(os.path.join(args.out, f"{name}.fr_trace"), "w", encoding="utf-8") as f:
        f.write(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")


def compare(args, name, port):
    expect = jobs_of("nccl")[name]
    result = {"job": name, "culprits": culprit_sets(expect)}
    result["gordian"] = by_gordian(args, name, expect.ranks)
    result["alone"] = Alone(args, name, expect.ranks, port).run()
    by_flight_recorder(args, name)
    print(json.dumps(result), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--out", required=True)
    parser.add_argument("--timeout", type=int, default=15, help="of the groups, in seconds")
    parser.add_argument("--jobs", help="comma-separated (all that run over NCCL)")
    parser.add_argument("--at-once", type=int, default=4, help="jobs side by side")
    args = parser.parse_args()
    args.out, args.python, args.backend = os.path.abspath(args.out), sys.executable, "nccl"
    os.makedirs(args.out, exist_ok=True)
    names = args.jobs.split(",") if args.jobs else list(jobs_of("nccl"))
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        results = list(pool.map(lambda numbered: compare(args, numbered[1], FIRST_RAS_PORT + numbered[0]),
                                enumerate(names)))
    with open(os.path.join(args.out, "others.json"), "w", encoding="utf-8") as f:
        json.dump({"timeout_s": args.timeout, "results": results}, f, indent=1)


if __name__ == "__main__":
    main()
