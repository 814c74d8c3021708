#!/usr/bin/env python3
"""Kills ranks and `gordian run` itself (SIGKILL) at random moments of jobs that run, hang or finish, and
holds what is left against what must be left.

  crash.py --build build/release [--kills 12] [--seed N] [--only rank|gordian]

After each kill: no process and no ring folder is left; `gordian analyze` reads the session and reaches
every record that was published, by the shim's own counters in the kept rings; where gordian was
killed, the job goes on to its own end, with its own exit code; the calls are those that the emulator
counted. A moment is drawn as a number of NCCL calls by the emulator's count, or as a delay from the
moment when the job is there. The seed is printed; --seed repeats the same draws.
"""
import argparse
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

from cli_testing import alive, children_of, clean_environment, tree_below, wait_until

JOBS = {  # name: (arguments, hangs)
    "runs": (["inversion_sync", "--twin", "--busy", "0:1.5"], False),
    "hangs": (["inversion_one_stream"], True),
    "finishes": (["three_comm_cycle", "--twin"], False),
}


class Failure(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Failure(text)


def emulator_count(stats):
    calls = 0
    for path in glob.glob(stats + ".*"):
        with open(path) as f:
            for line in f:
                fields = line.split()
                if len(fields) == 2 and fields[0].startswith("nccl"):
                    calls += int(fields[1])
    return calls


def ring_counters(path):
    """(order, threads, lost records, NCCL calls) of a ring file: proto/ring/layout.h."""
    with open(path, "rb") as f:
        header = f.read(4096)
        (threads_offset,) = struct.unpack_from("<I", header, 88)
        (threads,) = struct.unpack_from("<I", header, 168)
        f.seek(threads_offset)
        slots = f.read(256 * threads)
    need(header[:8] == b"gdring01", f"{path} is no ring")
    (order,) = struct.unpack_from("<Q", header, 160)
    (lost,) = struct.unpack_from("<Q", header, 192)
    calls = sum(struct.unpack_from("<Q", slots, 256 * i + 248)[0] for i in range(threads))
    return order, threads, lost, calls


def left_over(session):
    """Processes that carry this session in their environment, or are its guardian or gordian."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/environ", "rb") as e, open(path + "/cmdline", "rb") as c:
                text = e.read() + c.read()
            if session.encode() in text and alive(int(path[6:])):
                found.append(int(path[6:]))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


class Kill:
    def __init__(self, args, number, work):
        self.random = random.Random(args.seed * 1000003 + number)
        self.build = os.path.abspath(args.build)
        self.gordian = os.path.join(self.build, "bin", "gordian")
        self.session = os.path.join(work, "session")
        self.stats = os.path.join(work, "stats")
        self.work = work
        self.what = args.only or ("gordian" if number % 2 else "rank")
        self.job = self.random.choice(sorted(JOBS))
        self.arguments, self.hangs = JOBS[self.job]
        self.by_calls = self.random.random() < 0.5
        self.calls = self.random.randint(1, 12)
        self.delay = self.random.uniform(0, 0.6)

    def __str__(self):
        moment = f"after {self.calls} NCCL calls" if self.by_calls else f"{self.delay:.3f} s after its first process"
        return f"{self.what} of a job that {self.job}, {moment}"

    def manifest(self):
        with open(os.path.join(self.session, "manifest.json")) as f:
            return json.load(f)

    def run(self):
        code_file = os.path.join(self.work, "code")
        job = [os.path.join(self.build, "tests", "gordian_e2e_job"), *self.arguments]
        env = clean_environment(GORDIAN_EMU_STATS=self.stats)
        # The launcher tells the job's own code, which nobody else can once gordian is gone.
        launcher = ["sh", "-c", '"$@"; code=$?; echo $code > "$0.part"; mv "$0.part" "$0"; exit $code', code_file]
        process = subprocess.Popen([self.gordian, "run", "--emulator", "--quiet", "--session", self.session,
                                    "--", *launcher, *job], env=env, cwd=self.work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.kill_and_check(process, code_file)
        finally:
            for pid in [*tree_below(process.pid), process.pid, *left_over(self.session)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()

    def ranks(self, process):
        """Below gordian and the launcher: the job, and below that its ranks."""
        for launcher in children_of(process.pid):
            for job in children_of(launcher):
                ranks = children_of(job)
                if ranks:
                    return ranks
        return []

    def wait_for_the_moment(self, process):
        # The manifest is rewritten in place of an empty one: with it gordian and its guardian stand.
        need(wait_until(lambda: self.ranks(process) or process.poll() is not None, every=0.002), "the job did not start")
        if self.by_calls:
            wait_until(lambda: emulator_count(self.stats) >= self.calls or process.poll() is not None,
                       seconds=5, every=0.001)
        else:
            deadline = time.monotonic() + self.delay
            wait_until(lambda: time.monotonic() >= deadline or process.poll() is not None, every=0.001)

    def kill_and_check(self, process, code_file):
        self.wait_for_the_moment(process)
        manifest = self.manifest()
        ring_dir = manifest["ring_dir"]
        ranks = self.ranks(process)
        job = [j for launcher in children_of(process.pid) for j in children_of(launcher)]
        if self.what == "rank" and ranks:
            try:
                os.kill(self.random.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended between the look and the kill
        killed_gordian = False
        if self.what == "gordian" and process.poll() is None:
            process.kill()
            killed_gordian = True
            process.wait(60)
        if self.what == "rank" or self.hangs:
            # Others may wait for the killed one for ever, as they would alone. Their end is ours to
            # make, once nothing moves.
            calls = [-1]

            def still():
                before, calls[0] = calls[0], emulator_count(self.stats)
                return before == calls[0] or os.path.exists(code_file)
            wait_until(still, seconds=10, every=0.5)
            if not os.path.exists(code_file):
                for j in job:
                    for pid in children_of(j):
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
        need(wait_until(lambda: os.path.exists(code_file), seconds=60), "the job did not reach its end")
        with open(code_file) as f:
            code = int(f.read())
        if killed_gordian and not self.hangs:
            need(code == 0, f"the job ended with {code} once gordian was killed")
        if not killed_gordian:
            process.wait(60)
            need(process.returncode == code, f"run ended with {process.returncode}, the job with {code}")
        need(wait_until(lambda: not os.path.exists(ring_dir)), f"{ring_dir} is left")
        need(wait_until(lambda: not left_over(self.session)), f"processes are left: {left_over(self.session)}")
        self.check_analysis(killed_gordian)

    def check_analysis(self, killed_gordian):
        done = subprocess.run([self.gordian, "analyze", self.session, "--json"], capture_output=True, text=True,
                              timeout=60, env=clean_environment())
        need(done.returncode in (0, 1, 3), f"analyze ended with {done.returncode}: {done.stderr}")
        verdict = json.loads(done.stdout)
        evidence = verdict["evidence"]
        rings = glob.glob(self.session + "/rings/*.ring")
        order = threads = lost = calls = 0
        for path in rings:
            need(not os.path.islink(path), f"{path} was not kept")
            counters = ring_counters(path)
            order, threads, lost, calls = (a + b for a, b in zip((order, threads, lost, calls), counters))
        # A thread that was killed may have taken a number and not published under it.
        ended_by_kill = self.what == "rank" or self.hangs
        slack = threads if ended_by_kill else 0
        reached = evidence["records"]
        need(order - lost - slack <= reached <= order,
             f"{reached} records reached of {order} published ({lost} lost, {threads} threads): {done.stderr}")
        counted = emulator_count(self.stats)
        need(abs(calls - counted) <= slack, f"the emulator counted {counted} NCCL calls, the rings have {calls}")
        need(evidence["nccl_calls"] == calls, f"analyze says {evidence['nccl_calls']} NCCL calls, the rings have {calls}")
        # Silence says that the trace was closed in order: the kill came after that.
        if killed_gordian and rings and done.stderr:
            need("ring files" in done.stderr, f"analyze does not say what it read: {done.stderr}")
        if not killed_gordian:
            need(done.stderr == "", f"a whole trace is complained of: {done.stderr}")
        if not self.hangs:
            need(verdict["verdict"] in ("healthy", "finished", "inconclusive", "rank_exited", "init_hang"),
                 f"an innocent job was called {verdict['verdict']}: {verdict['summary']}")
        if not self.hangs and self.what == "gordian":
            need(verdict["verdict"] in ("healthy", "finished", "inconclusive"),
                 f"an innocent job was called {verdict['verdict']}: {verdict['summary']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0, help="begin with this kill: repeats one of a longer run")
    parser.add_argument("--only", choices=["rank", "gordian"])
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args.seed}", flush=True)
    begin = time.monotonic()
    for number in range(args.first, args.first + args.kills):
        work = tempfile.mkdtemp(prefix="gordian-crash-")
        kill = Kill(args, number, work)
        try:
            kill.run()
        except (Failure, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
            print(f"FAILED {number}: {kill}: {type(e).__name__}: {e}\nevidence: {work}\n"
                  f"repeat: {sys.argv[0]} --build {args.build} --seed {args.seed} --first {number} --kills 1"
                  + (f" --only {args.only}" if args.only else ""))
            return 1
        print(f"{number}: {kill}", flush=True)
        shutil.rmtree(work, ignore_errors=True)
    print(f"{args.kills} kills in {time.monotonic() - begin:.0f} s, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
