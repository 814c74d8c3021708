#!/usr/bin/env python3
"""Runs the ordering programs and notes what became of each.

  run.py --emulator BUILD_DIR --out FILE [--check]
  run.py --hardware --binary PATH --out FILE [--nccl DIR] [--gpus N] [--per-gpu N] [--budget SECONDS]
         [--gordian PATH] [--only REGEX]

One line of JSON a row goes to FILE as soon as it is known; rows that FILE has already are not run
again, so that a run which was cut off can be taken up. --gordian runs every program under
`gordian run` and notes its verdict beside the outcome. --check compares afterwards with h200.jsonl,
or, where that is missing, with what rows.py knows.
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402
import rows as table  # noqa: E402

# Not inherited: each row has its own.
CLEARED = ["CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "NCCL_CUMEM_ENABLE", "NCCL_P2P_DISABLE",
           "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_RUNTIME_CONNECT",
           "CUDA_MODULE_LOADING", "NCCL_DEBUG", "NCCL_LAUNCH_MODE", "GORDIAN_EMU_CONNECTIONS", "GORDIAN_EMU_P2P_BUFFER"]
TRANSIENT = ("timeout", "unclear")  # worth another try


def read_verdict(session):
    try:
        with open(os.path.join(session, "verdict.json")) as f:
            verdict = json.load(f)
    except (OSError, ValueError):
        return None
    return {key: verdict.get(key) for key in ("verdict", "confidence", "culprit_ranks", "summary")}


class Runner:
    def __init__(self, args):
        self.args = args
        self.lock = threading.Lock()
        self.binary = args.binary or os.path.join(args.emulator, "tests", "gordian_truth")
        self.libraries = os.path.join(args.emulator, "lib", "emulator") if args.emulator else args.nccl
        self.started = time.monotonic()

    def environment(self, env, devices):
        out = {k: v for k, v in os.environ.items() if k not in CLEARED}
        if self.libraries:
            out["LD_LIBRARY_PATH"] = ":".join(
                [os.path.abspath(self.libraries)] + [p for p in [out.get("LD_LIBRARY_PATH")] if p])
        if devices is not None:
            out["CUDA_VISIBLE_DEVICES"] = devices
        out.update(env)
        return out

    def programs(self):
        text = subprocess.run([self.binary, "--list"], env=self.environment({}, None), check=True,
                              stdout=subprocess.PIPE, timeout=60).stdout.decode()
        return [(name, int(least)) for name, least in (line.split() for line in text.splitlines())]

    def run_row(self, row, devices):
        name, ranks, size, env = row
        work = tempfile.mkdtemp(prefix="gordian-truth-")
        session = os.path.join(work, "session")
        hold = os.path.join(work, "go-on")
        command = [self.binary, "--program", name, "--ranks", str(ranks), "--size", str(size)]
        patience = self.args.patience
        if self.args.gordian:
            # A suspicion takes two seconds: the judge must not be faster.
            patience = max(patience, 0 if self.args.hardware else 3.5)
            command += ["--hold", hold]
            command = ([self.args.gordian, "run"] + ([] if self.args.hardware else ["--emulator"])
                       + ["--quiet", "--session", session, "--on-verdict", "report", "--suspect-after", "2",
                          "--"] + command)
        if not self.args.hardware:
            command += ["--limit", "100"]  # a machine that others use, too, may be slow
        if patience:
            command += ["--patience", str(patience)]
        record = {"program": name, "ranks": ranks, "size": size, "env": env, "outcome": "timeout",
                  "ranks_at": [], "data": None}
        errors = tempfile.TemporaryFile()
        process = subprocess.Popen(command, env=self.environment(env, devices), stdout=subprocess.PIPE,
                                   stderr=errors, stdin=subprocess.DEVNULL)
        killer = threading.Timer(58 if self.args.hardware else 118, process.kill)  # the ranks die with their judge
        killer.start()
        try:
            for line in process.stdout:  # a library may have something to say first
                if line.startswith(b'{"program"'):
                    record = json.loads(line)
                    break
            verdict = read_verdict(session) if self.args.gordian else None
            with open(hold, "w"):
                pass
            process.stdout.read()
            code = process.wait()
            if self.args.gordian:
                # Of a hang counts what was said before the judge ended it.
                if record["outcome"] != "hangs":
                    verdict = read_verdict(session)
                record["gordian"] = verdict
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            if said and record["outcome"] not in ("completes", "hangs"):
                record["stderr"] = said[-600:]
            if code != 0:
                record["exit_code"] = code
        except ValueError as e:
            record["outcome"], record["stderr"] = "timeout", f"unreadable line: {e}"
        finally:
            killer.cancel()
            errors.close()
            process.stdout.close()
            shutil.rmtree(work, ignore_errors=True)
        return record

    def note(self, record, out):
        with self.lock:
            out.write(json.dumps(record) + "\n")
            out.flush()
            if not self.args.quiet:
                gordian = record.get("gordian")
                print(f"{table.id_of(record)}: {compare.describe(record)}"
                      + (f"; gordian: {gordian['verdict']} ({gordian['confidence']}) {gordian['culprit_ranks']}"
                         if gordian else ""), flush=True)

    def over_budget(self):
        return self.args.budget and time.monotonic() - self.started > self.args.budget

    # pools: [(rows, slots)]. One thread a slot; a slot is a set of devices, or None on the emulator.
    def run_all(self, pools, out):
        failures = []

        def work(queue, devices):
            while not self.over_budget() and not failures:
                try:
                    row = queue.popleft()
                except IndexError:
                    return
                try:
                    self.note(self.run_row(row, devices), out)
                except Exception as e:  # a thread must not take its row along in silence
                    failures.append(f"{row}: {e!r}")

        queues = [(collections.deque(rows), slots) for rows, slots in pools]
        threads = [threading.Thread(target=work, args=(q, d)) for q, slots in queues for d in slots]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise SystemExit("\n".join(failures))
        return sum(len(q) for q, _ in queues)


def gpu_count():
    text = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return len(text.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulator", metavar="BUILD_DIR")
    parser.add_argument("--hardware", action="store_true")
    parser.add_argument("--binary", help="gordian_truth (default with --emulator: that of BUILD_DIR)")
    parser.add_argument("--nccl", metavar="DIR", help="folder of the libnccl.so.2 to use")
    parser.add_argument("--out", default="results.jsonl")
    parser.add_argument("--gordian", metavar="PATH")
    parser.add_argument("--gpus", type=int, default=0, help="default: as many as nvidia-smi lists")
    parser.add_argument("--per-gpu", type=int, default=3, help="programs that share a GPU; it takes turns")
    parser.add_argument("--jobs", type=int, default=0, help="at a time on the emulator (default: 4 a core)")
    parser.add_argument("--budget", type=float, default=0, help="after so many seconds start nothing more")
    parser.add_argument("--patience", type=float, default=0, help="seconds without progress that are a hang")
    parser.add_argument("--only", metavar="REGEX", help="rows whose id matches")
    parser.add_argument("--again", action="store_true", help="run rows that FILE has already")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if bool(args.emulator) == args.hardware or (args.hardware and not args.binary):
        parser.error("either --emulator BUILD_DIR or --hardware --binary PATH")

    runner = Runner(args)
    rows = table.all_rows(runner.programs())
    if args.only:
        rows = [r for r in rows if re.search(args.only, table.row_id(*r))]
    known = compare.load(args.out) if os.path.exists(args.out) else {}
    if not args.again:
        rows = [r for r in rows
                if known.get(table.row_id(*r), {"outcome": "timeout"})["outcome"] in TRANSIENT]
    # What is known to hang costs most: first, so that the last seconds are not spent on one of them.
    rows.sort(key=lambda r: (table.expected(table.row_id(*r)) or {"outcome": ""})["outcome"] != "hangs")
    left = 0
    # A line that was cut off must not swallow the next one.
    torn = False
    if os.path.exists(args.out):
        with open(args.out, "rb") as f:
            torn = f.read()[-1:] not in (b"", b"\n")
    with open(args.out, "a") as out:
        if torn:
            out.write("\n")
        if args.emulator:
            jobs = args.jobs or 4 * (os.cpu_count() or 2)
            # Large messages beside each other fill the memory of a small machine.
            large = [r for r in rows if r[2] >= 64 * table.MI]
            left += runner.run_all([([r for r in rows if r not in large], [None] * jobs), (large, [None] * 2)], out)
        else:
            gpus = args.gpus or gpu_count()
            for ranks in sorted({r[1] for r in rows}):
                wanted = [r for r in rows if r[1] == ranks]
                sets = [",".join(str(i) for i in range(k, k + ranks)) for k in range(0, gpus - ranks + 1, ranks)]
                if not sets:
                    print(f"{len(wanted)} rows of {ranks} ranks are left out: {gpus} GPUs", flush=True)
                    left += len(wanted)
                    continue
                left += runner.run_all([(wanted, sets * args.per_gpu)], out)
        if args.emulator and not runner.over_budget():
            now = compare.load(args.out)
            again = [r for r in rows if now.get(table.row_id(*r), {}).get("outcome") in TRANSIENT]
            runner.run_all([(again, [None])], out)
    print(f"{len(rows) - left} rows run in {time.monotonic() - runner.started:.0f} s, {left} left, "
          f"{len(compare.load(args.out))} in {args.out}", flush=True)
    if args.check:
        return compare.check(compare.load(args.out))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
