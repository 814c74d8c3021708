#!/usr/bin/env python3
"""Runs the job of shim_torture.cc alone and with the shim in front, and compares: what it prints and how it
ends must be the same, whatever happens to the shim's files.

  shim_torture.py --build build/release [--seconds 15] [--seed N] [--first N] [--rounds N] [--only CASE]

Each round draws the job and one case: rings of any size under `gordian run`, rings that nobody reads,
folders that are absent, taken away, or full, a session on a full disk, gordian killed, and jobs built with
a sanitizer. Afterwards every record that can be read must stand at its right place, the emulator's own count
of NCCL calls must be that of the shim, what is missing must be counted as lost, and neither a process nor a
file in /dev/shm may be left. The seed is printed; --seed with --first repeats a round.
"""
import argparse
import collections
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from cli_testing import alive, clean_environment, tree_below, wait_until  # noqa: E402
from crash import emulator_count  # noqa: E402

PROBLEMS = ("healthy", "finished", "inconclusive")
JOB_SECONDS = 120
RECORD_BYTES = 64
OPERATION_ROWS = ("ncclAllReduce", "ncclBroadcast", "ncclSend", "ncclRecv")


class Failure(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Failure(text)


def right_place(sequence, count):
    return count == 16 + sequence % 1000  # torture::CountOf


class Ring:
    """A ring file as it was left: proto/ring/layout.h."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        need(data[:8] == b"gdring01", f"{path} is no ring")
        threads_offset, self.threads_most = struct.unpack_from("<II", data, 88)
        self.order, self.threads = struct.unpack_from("<QI", data, 160)
        self.lost, = struct.unpack_from("<Q", data, 192)
        self.nccl_calls = 0
        need(self.threads <= self.threads_most, f"{path}: {self.threads} threads")
        self.orders = []
        self.operations = []
        for i in range(self.threads):
            at = threads_offset + 256 * i
            self.nccl_calls += struct.unpack_from("<Q", data, at + 248)[0]
            offset, slots, head, tail = struct.unpack_from("<QQQQ", data, at + 8)
            if offset == 0:
                continue
            need(slots & (slots - 1) == 0 and head - tail <= slots, f"{path}: ring of thread {i}")
            for number in range(tail, head):
                record = offset + (number & (slots - 1)) * RECORD_BYTES
                kind, _, call, _, order = struct.unpack_from("<BBHIQ", data, record)
                need(1 <= kind <= 5, f"{path}: a record of kind {kind} below the head")
                self.orders.append(order)
                if kind == 1 and call in Ring.operation_rows:
                    count, sequence = struct.unpack_from("<QQ", data, record + 40)
                    self.operations.append((sequence, count))
        need(len(set(self.orders)) == len(self.orders), f"{path}: a number was given twice")
        need(max(self.orders, default=0) <= self.order, f"{path}: a number that was never given")


def read_rows(source):
    """Numbers of the rows of the table that are operations: their order in the table, from 1."""
    rows, number = set(), 0
    with open(os.path.join(source, "proto", "ring", "hooked_calls.def")) as f:
        for line in f:
            if line.startswith("GORDIAN_HOOK("):
                number += 1
                if line.split(",")[1].strip() in OPERATION_ROWS:
                    rows.add(number)
    need(len(rows) == len(OPERATION_ROWS), "the table of hooked calls has changed its form")
    return rows


class Round:
    def __init__(self, args, number, work):
        self.args, self.number, self.work = args, number, work
        self.random = random.Random(args.seed * 1000003 + number)
        self.build = os.path.abspath(args.build)
        self.shim = os.path.join(self.build, "lib", "libgordian_interpose.so")
        self.emulator = os.path.join(self.build, "lib", "emulator")
        self.program = os.path.join(self.build, "tests", "gordian_shim_torture")
        cases = [args.only] if args.only else [name[5:] for name in dir(self) if name.startswith("case_")]
        self.case = cases[number % len(cases)]
        self.job = ["--seed", str(self.random.randrange(1 << 40)), "--ranks", str(self.random.choice((1, 2, 2, 3))),
                    "--lanes", str(self.random.choice((1, 2, 3))), "--steps", str(self.random.choice((8, 24, 60)))]
        self.slots = self.random.choice((None, 2, 16, 64, 64, 1024))
        self.notes = []
        self.skipped = False
        self.cleanups = []

    def __str__(self):
        return f"{self.case}, {' '.join(self.job)}, {self.slots or 'all'} slots" + "".join(f"; {n}" for n in self.notes)

    # --- running -----------------------------------------------------------------------------------

    def environment(self, stats, **more):
        env = clean_environment(LD_LIBRARY_PATH=self.emulator, CUDA_DEVICE_MAX_CONNECTIONS="32",
                                TORTURE_SECOND_NCCL=os.path.join(self.emulator, "second", "libnccl.so.2"),
                                GORDIAN_EMU_STATS=os.path.join(self.work, stats), TORTURE_ROUND=self.work)
        if self.slots:
            env["GORDIAN_RING_SLOTS"] = str(self.slots)
        env.update(more)
        return env

    def start(self, command, env):
        out = open(os.path.join(self.work, "out"), "w+")
        err = open(os.path.join(self.work, "err"), "w+")
        process = subprocess.Popen(command, env=env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        process.texts = out, err
        return process

    def finish(self, process):
        try:
            process.wait(JOB_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"the job hangs: {self.stacks(process.pid)}")
        texts = []
        for file in process.texts:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return process.returncode, *texts

    def stacks(self, pid):
        found = []
        for one in [pid, *tree_below(pid)]:
            try:
                with open(f"/proc/{one}/wchan") as w, open(f"/proc/{one}/cmdline") as c:
                    found.append(f"{one} {c.read().replace(chr(0), ' ')[:60]} ({w.read()})")
            except OSError:
                pass
        return "; ".join(found)

    def alone(self, program=None, **more):
        done = self.finish(self.start([program or self.program, *self.job], self.environment("alone", **more)))
        need(done[0] == 0, f"the job fails without the shim: {done}")
        return done[0], done[1]

    def preloaded(self, ring_dir, program=None, first=None, meanwhile=None, **more):
        preload = " ".join(filter(None, [first, self.shim]))
        env = self.environment("shimmed", LD_PRELOAD=preload, **more)
        if ring_dir is not None:
            env["GORDIAN_RING_DIR"] = ring_dir
        process = self.start([program or self.program, *self.job], env)
        if meanwhile is not None:
            meanwhile(process)
        code, out, err = self.finish(process)
        need(code == 0 and err == "", f"the job ended with {code}: {err[-2000:]}")
        return code, out

    def under_gordian(self, session, program=None, meanwhile=None, flags=()):
        env = self.environment("shimmed")
        del env["LD_LIBRARY_PATH"]
        gordian = os.path.join(self.build, "bin", "gordian")
        process = self.start([gordian, "run", "--emulator", "--quiet", "--session", session, *flags, "--",
                              program or self.program, *self.job], env)
        if meanwhile is not None:
            meanwhile(process)
        return self.finish(process)

    def folder(self):
        path = tempfile.mkdtemp(prefix="gordian-torture-", dir="/dev/shm")
        self.cleanups.append(lambda: shutil.rmtree(path, ignore_errors=True))
        return path

    def small_disk(self, kibibytes):
        """A file system of that size, or None where none may be mounted."""
        path = self.folder()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", path], capture_output=True)
        if done.returncode != 0:
            self.notes.append("no right to mount: skipped")
            self.skipped = True
            return None
        self.cleanups.append(lambda: subprocess.run(["umount", "-l", path], capture_output=True))
        return path

    # --- checks ------------------------------------------------------------------------------------

    def same(self, first, second):
        need(first == second, f"the job's output differs\nalone:  {first}\nwith us: {second}")

    def check_rings(self, folder, complete):
        rings = [Ring(path) for path in glob.glob(folder + "/*.ring")]
        for ring in rings:
            wrong = [o for o in ring.operations if not right_place(*o)]
            need(not wrong, f"operations at the wrong place: {wrong[:5]}")
            missing = ring.order - len(ring.orders)
            need(0 <= missing <= ring.lost, f"{missing} records are missing and {ring.lost} are said to be lost")
        counted = emulator_count(os.path.join(self.work, "shimmed"))
        seen = sum(ring.nccl_calls for ring in rings)
        need(seen == counted if complete else seen <= counted, f"the emulator counted {counted} NCCL calls, rings {seen}")
        self.notes.append(f"{len(rings)} rings, {counted} NCCL calls, {sum(r.lost for r in rings)} records lost")
        return rings

    def check_session(self, session):
        with open(os.path.join(session, "verdict.json")) as f:
            verdict = json.load(f)
        evidence = verdict["evidence"]
        need(verdict["verdict"] in PROBLEMS, f"an innocent job was called {verdict['verdict']}: {verdict['summary']}")
        counted = emulator_count(os.path.join(self.work, "shimmed"))
        need(evidence["nccl_calls"] == counted, f"the emulator counted {counted} NCCL calls, gordian {evidence['nccl_calls']}")
        done = subprocess.run([os.path.join(self.build, "tests", "trace_count"), os.path.join(session, "trace.gtrace"),
                               "operations"], capture_output=True, text=True, timeout=60)
        need(done.returncode == 0, f"the trace cannot be read: {done.stderr}")
        trace = json.loads(done.stdout)
        wrong = [o for o in trace["operations"] if not right_place(*o)]
        need(not wrong, f"operations at the wrong place: {wrong[:5]}")
        need(trace["repeated"] == 0, f"{trace['repeated']} records came twice")
        need(trace["missing"] <= evidence["records_lost"],
             f"{trace['missing']} records are missing and {evidence['records_lost']} are said to be lost")
        calls = collections.Counter()
        for path in glob.glob(os.path.join(self.work, "shimmed.*")):
            with open(path) as f:
                for line in f:
                    fields = line.split()
                    if len(fields) == 2 and fields[0] in OPERATION_ROWS:
                        calls[fields[0]] += int(fields[1])
        short = sum(calls[name] - trace["calls"].get(name, 0) for name in OPERATION_ROWS)
        need(all(trace["calls"].get(name, 0) <= calls[name] for name in OPERATION_ROWS), "calls that were not made")
        need(short <= evidence["records_lost"], f"{short} operations are missing, {evidence['records_lost']} lost")
        with open(os.path.join(session, "manifest.json")) as f:
            ring_dir = json.load(f)["ring_dir"]
        need(wait_until(lambda: not os.path.exists(ring_dir)), f"{ring_dir} is left")
        self.notes.append(f"{verdict['verdict']}, {counted} NCCL calls, {evidence['records_lost']} records lost")

    def nothing_left(self):
        def left():
            found = []
            for path in glob.glob("/proc/[0-9]*"):
                try:
                    with open(path + "/environ", "rb") as e:
                        if self.work.encode() in e.read() and alive(int(path[6:])):
                            found.append(int(path[6:]))
                except OSError:
                    pass
            return found
        need(wait_until(lambda: not left()), f"processes are left: {left()}")

    # --- cases -------------------------------------------------------------------------------------

    def case_collected(self):
        alone = self.alone()
        session = os.path.join(self.work, "session")
        code, out, err = self.under_gordian(session)
        need(err == "", err)
        self.same(alone, (code, out))
        self.check_session(session)

    def case_uncollected(self):
        alone, folder = self.alone(), self.folder()
        self.same(alone, self.preloaded(folder, GORDIAN_MARKERS=str(self.random.randrange(2))))
        rings = self.check_rings(folder, complete=True)
        if self.slots and self.slots <= 64:
            need(any(ring.lost for ring in rings), "no ring was overrun: nothing was tested")

    def case_nowhere(self):
        alone = self.alone()
        self.same(alone, self.preloaded(self.random.choice((None, "/nonexistent/folder", "/dev/null", "/proc"))))

    def case_taken_away(self):
        alone, folder = self.alone(), self.folder()
        when = self.random.uniform(0, 0.3)

        def take_away(process):
            begin = time.monotonic()
            wait_until(lambda: time.monotonic() - begin > when or process.poll() is not None, every=0.001)
            shutil.rmtree(folder, ignore_errors=True)  # rings are made meanwhile: some may stay
        self.same(alone, self.preloaded(folder, meanwhile=take_away))

    def case_full(self):
        folder = self.small_disk(self.random.choice((100, 600, 1500, 3000, 6000)))
        if folder is None:
            return
        alone = self.alone()
        self.same(alone, self.preloaded(folder))
        self.check_rings(folder, complete=False)

    def case_fills_up(self):
        folder = self.small_disk(16000)
        if folder is None:
            return
        alone = self.alone()

        def fill(process):
            wait_until(lambda: glob.glob(folder + "/*.ring") or process.poll() is not None, every=0.001)
            try:
                with open(folder + "/filler", "wb", buffering=0) as f:
                    while f.write(bytes(65536)):
                        pass
            except OSError:
                pass
        self.same(alone, self.preloaded(folder, meanwhile=fill))
        self.check_rings(folder, complete=False)

    def case_session_full(self):
        folder = self.small_disk(self.random.choice((64, 300, 2000)))
        if folder is None:
            return
        alone = self.alone()
        code, out, _ = self.under_gordian(folder + "/session")
        self.same(alone, (code, out))

    def case_gordian_killed(self):
        alone = self.alone()
        session = os.path.join(self.work, "session")
        when = self.random.uniform(0, 0.4)

        def end(process):
            begin = time.monotonic()
            wait_until(lambda: time.monotonic() - begin > when or process.poll() is not None, every=0.001)
            process.kill()
        code, out, _ = self.under_gordian(session, meanwhile=end)
        if code != 0:  # killed: the job ends by itself, and what it prints comes later
            self.nothing_left()
            with open(os.path.join(self.work, "out")) as f:
                out = f.read()
        if out or code == 0:  # the job had been started
            self.same(alone, (0, out))
        # Empty: gordian had claimed the session, and was killed before it wrote what the session is.
        if os.path.exists(session + "/manifest.json") and os.path.getsize(session + "/manifest.json") > 0:
            with open(session + "/manifest.json") as f:
                ring_dir = json.load(f)["ring_dir"]
            need(wait_until(lambda: not os.path.exists(ring_dir)), f"{ring_dir} is left")

    def library(self, name):
        return subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()

    def case_asan(self):
        # GCC 12's ASan does not hold its allocator's locks across fork: a child of a thread may spin on one.
        self.job += ["--tame", "--no-forks"]
        program, folder = self.program + "_asan", self.folder()
        options = {"ASAN_OPTIONS": "detect_leaks=0", "program": program}
        alone = self.alone(**options)
        self.same(alone, self.preloaded(folder, first=self.library("libasan.so"), **options))
        self.check_rings(folder, complete=True)

    def case_tsan(self):
        self.job += ["--no-forks"]
        program, folder = self.program + "_tsan", self.folder()
        options = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1", "program": program}
        alone = self.alone(**options)
        self.same(alone, self.preloaded(folder, **options))
        self.check_rings(folder, complete=True)

    def run(self):
        try:
            getattr(self, "case_" + self.case)()
            self.nothing_left()
        finally:
            for path in glob.glob("/proc/[0-9]*"):  # of a failed round
                try:
                    with open(path + "/environ", "rb") as e:
                        ours = f"TORTURE_ROUND={self.work}".encode() in e.read()
                    if ours and int(path[6:]) != os.getpid():
                        os.kill(int(path[6:]), signal.SIGKILL)
                except OSError:
                    pass
            for cleanup in reversed(self.cleanups):
                cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds, however long they take")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0, help="begin with this round: repeats one of a longer run")
    parser.add_argument("--only", metavar="CASE")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args.seed}", flush=True)
    Ring.operation_rows = read_rows(os.path.dirname(os.path.dirname(HERE)))
    begin, number, cases, skipped = time.monotonic(), args.first, collections.Counter(), 0
    while number - args.first < args.rounds if args.rounds else time.monotonic() - begin < args.seconds:
        work = tempfile.mkdtemp(prefix="gordian-torture-")
        one = Round(args, number, work)
        try:
            one.run()
        except (Failure, OSError, ValueError, KeyError, struct.error, subprocess.SubprocessError) as e:
            only = f" --only {args.only}" if args.only else ""
            print(f"FAILED {number}: {one}: {type(e).__name__}: {e}\nevidence: {work}\nrepeat: {sys.argv[0]} "
                  f"--build {args.build} --seed {args.seed} --first {number} --rounds 1{only}")
            return 1
        print(f"{number}: {one}", flush=True)
        cases[one.case] += 1
        skipped += one.skipped
        shutil.rmtree(work, ignore_errors=True)
        number += 1
    print(f"{number - args.first} rounds in {time.monotonic() - begin:.0f} s, seed {args.seed}: "
          + ", ".join(f"{n} {c}" for c, n in sorted(cases.items())))
    if skipped:
        print(f"OK (skipped={skipped})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
