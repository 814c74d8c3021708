#!/usr/bin/env python3
"""Many nodes on one machine: three `gordian run --analyzer` are three nodes of one job, and what lies
between them and `gordian serve` is cut, killed and swapped.

  fleet.py BUILD_FOLDER [CASE...]                           the short form, as CTest runs it
  fleet.py BUILD_FOLDER --long [--repeat N] [--seed N]      cuts of 10 s at random times, 20 times

Exactly once is held against two witnesses: the emulator's own count of calls, and the numbers that
every record and every batch carries. On failure the evidence stays in a folder that is named.
"""

import argparse
import glob
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

NODES = 3
GORDIAN = JOB = COUNT = OTHER = ""  # programs of the build, set by main
PATIENCE = 60  # seconds until a condition that must come is given up
CUT = 3.0      # seconds


class Failure(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Failure(" ".join(str(w) for w in what))


def wait_for(condition, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_", "SLURM_", "TORCHELASTIC_"))}
    env.update(more)
    return env


def read_json(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


class Proxy:
    """TCP in between. cut(): connections are reset and new ones refused. freeze(): nothing moves, and
    nobody is told."""

    def __init__(self, port):
        self.target = port
        self.listener = None
        self.pairs = []
        self.frozen = False
        self.stopping = False
        self.lock = threading.Lock()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.listen()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def listen(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.listener = listener

    def cut(self):
        with self.lock:
            self.listener.close()
            self.listener = None
            for pair in self.pairs:
                for s in pair:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    s.close()
            self.pairs = []

    def mend(self):
        with self.lock:
            self.frozen = False
            if self.listener is None:
                self.listen()

    def freeze(self):
        with self.lock:
            self.frozen = True

    def run(self):
        while not self.stopping:
            with self.lock:
                if not self.frozen:
                    self.step()
            time.sleep(0.002)

    def step(self):
        sockets = [s for pair in self.pairs for s in pair]
        if self.listener is not None:
            sockets.append(self.listener)
        if not sockets:
            return
        readable = select.select(sockets, [], [], 0)[0]
        if self.listener in readable:
            client = self.listener.accept()[0]
            server = socket.socket()
            try:
                server.connect(("127.0.0.1", self.target))
                self.pairs.append((client, server))
            except OSError:
                client.close()
        for pair in list(self.pairs):
            for a, b in (pair, pair[::-1]):
                if a not in readable:
                    continue
                try:
                    data = a.recv(1 << 16)
                    if not data:
                        raise OSError("end")
                    b.setblocking(True)
                    b.settimeout(5)
                    b.sendall(data)
                except OSError:
                    for s in pair:
                        s.close()
                    self.pairs.remove(pair)
                    break

    def close(self):
        self.stopping = True
        self.thread.join()
        with self.lock:
            for s in [x for pair in self.pairs for x in pair] + ([self.listener] if self.listener else []):
                s.close()


class Server:
    def __init__(self, case, port=0):
        self.case = case
        self.sessions = case.path("sessions")
        self.port = port
        self.err = open(case.path("server.err"), "ab")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [GORDIAN, "serve", "--listen", f"127.0.0.1:{self.port}", "--sessions", self.sessions, "--json",
             "--suspect-after", "3"],
            stdout=subprocess.PIPE, stderr=self.err, stdin=subprocess.DEVNULL, env=clean_environment())
        line = self.process.stdout.readline()
        expect(line, "the server printed no address:", open(self.case.path("server.err")).read())
        self.hello = json.loads(line)
        self.port = int(self.hello["listening"].rsplit(":", 1)[1])
        # Somebody must read the rest, or the server waits for a pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure("the server did not end within 20 s of SIGTERM")
            expect(code == 0, "the server's exit code is", code)

    def folder(self, job):
        return os.path.join(self.sessions, job)

    def verdict(self, job):
        return read_json(os.path.join(self.folder(job), "verdict.json"))


class Job:
    """One job: a rank on each node."""

    def __init__(self, case, name, address, job, twin=False, on_verdict="kill", ranks=NODES, more=(),
                 deliver="30", environment=None, prefix=None):
        self.case, self.name, self.ranks = case, name, ranks
        self.progress = case.path(f"{name}.progress")
        self.stats = case.path(f"{name}.stats")
        self.until = case.path(f"{name}.until")
        self.nodes = []
        addresses = address if isinstance(address, list) else [address] * ranks
        for rank in range(ranks):
            command = [*(prefix or {}).get(rank, []), GORDIAN, "run", "--emulator", "--analyzer", addresses[rank], "--job", name,
                       "--node", f"n{rank}", "--nodes", str(ranks), "--session", self.session(rank),
                       "--on-verdict", on_verdict, *more, "--", JOB, job, "--ranks", str(ranks), "--rank", str(rank)]
            if twin:
                command.append("--twin")
            env = clean_environment(JOB_PROGRESS=self.progress, GORDIAN_EMU_STATS=self.stats,
                                    JOB_UNTIL=self.until, GORDIAN_DELIVER_S=deliver, **(environment or {}))
            with open(case.path(f"{name}.{rank}.err"), "wb") as err:
                self.nodes.append(subprocess.Popen(command, env=env, stdout=err, stderr=err,
                                                   stdin=subprocess.DEVNULL, cwd=case.work))
        case.jobs.append(self)

    def session(self, rank):
        return self.case.path(f"{self.name}.session{rank}")

    def said(self, rank):
        with open(self.case.path(f"{self.name}.{rank}.err"), errors="replace") as f:
            return f.read()

    def last_step(self):
        """When any rank last noted a step, in ns."""
        with open(self.progress, "rb") as f:
            data = f.read(64 * self.ranks)
        return max(struct.unpack_from("<q", data, 64 * r)[0] for r in range(self.ranks))

    def tell(self):
        open(self.until, "w").close()

    def wait(self, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        for rank, node in enumerate(self.nodes):
            try:
                node.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failure(f"{self.name}: node {rank} did not end within {seconds} s")
        return [node.returncode for node in self.nodes]

    def kill(self):
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.wait(10)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()

    def emulated_calls(self):
        """What the emulator counted by itself: calls by symbol."""
        counted = {}
        for name in glob.glob(self.stats + ".*"):
            with open(name) as f:
                for line in f:
                    fields = line.split()
                    if len(fields) == 2 and fields[0].startswith("nccl") and int(fields[1]) > 0:
                        counted[fields[0]] = counted.get(fields[0], 0) + int(fields[1])
        return counted


def trace(server, job):
    out = subprocess.run([COUNT, os.path.join(server.folder(job), "trace.gtrace")], capture_output=True, text=True,
                         timeout=60)
    expect(out.returncode == 0, "trace_count:", out.stderr)
    return json.loads(out.stdout)


def check_exactly_once(server, job, complete=True):
    """Count in == count out, by the emulator's count and by the records' and batches' own numbers."""
    manifest = os.path.join(server.folder(job.name), "manifest.json")
    wait_for(lambda: (read_json(manifest) or {}).get("closed"), f"{job.name} is closed by the server")
    counts = trace(server, job.name)
    expect(counts["repeated"] == 0, "records twice in the trace:", counts)
    expect(counts["missing"] == 0, "records missing in the trace:", counts)
    expect(counts["mark_gaps"] == 0, "batches missing or twice:", counts)
    emulated = job.emulated_calls()
    total = sum(emulated.values())
    emulated.pop("ncclGetUniqueId", None)  # counted by the shim, without a record
    expect(emulated and counts["calls"] == emulated, f"the emulator counted {emulated}, the trace has {counts}")
    if complete:
        expect(counts["ending"].startswith("complete"), counts["ending"])
    verdict = server.verdict(job.name)
    expect(verdict["evidence"]["records_lost"] == 0, verdict["evidence"])
    expect(verdict["evidence"]["nccl_calls"] == total, verdict["evidence"], total)
    return counts, verdict


def check_deadlock(server, job, codes):
    verdict = server.verdict(job.name)
    expect(verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed",
           "verdict", verdict["verdict"], verdict["confidence"], verdict["summary"])
    expect(sorted(verdict["culprit_ranks"]) == [job.ranks - 1], "culprits", verdict["culprit_ranks"])
    expect(codes == [137] * job.ranks, "exit codes", codes)
    for rank in range(job.ranks):
        mine = read_json(os.path.join(job.session(rank), "verdict.json"))
        expect(mine is not None and mine["verdict"] == "deadlock", f"node {rank} has no verdict of its own")
        expect("DEADLOCK" in job.said(rank), f"node {rank} did not say it: {job.said(rank)}")
        expect(not os.path.exists(os.path.join(job.session(rank), "spool")), "a spool is left over")


def check_finished(server, job, codes):
    expect(codes == [0] * job.ranks, "exit codes", codes)
    verdict = server.verdict(job.name)
    expect(verdict["verdict"] == "finished" and not verdict["findings"], verdict["verdict"], verdict["summary"])
    for rank in range(job.ranks):
        mine = read_json(os.path.join(job.session(rank), "verdict.json"))
        expect(mine is not None and mine["verdict"] == "finished",
               f"node {rank} heard {mine and mine['verdict']}: {job.said(rank)}")


def steps_go_on(server, job, more=200):
    """The server sees the job go on."""
    def records():
        verdict_rounds = trace(server, job.name) if os.path.exists(
            os.path.join(server.folder(job.name), "trace.gtrace")) else {"nccl_calls": 0}
        return verdict_rounds["nccl_calls"]
    first = records()
    wait_for(lambda: records() >= first + more, "the server's trace grows")


class Case:
    def __init__(self, name, rng):
        self.work = tempfile.mkdtemp(prefix=f"gordian-fleet-{name}-")
        self.rng = rng
        self.jobs, self.servers, self.proxies = [], [], []

    def path(self, name):
        return os.path.join(self.work, name)

    def server(self):
        server = Server(self)
        self.servers.append(server)
        return server

    def proxy(self, server):
        proxy = Proxy(server.port)
        self.proxies.append(proxy)
        return proxy

    def at(self, seconds):
        """When something happens in the long form; at once in the short one."""
        if LONG:
            time.sleep(self.rng.uniform(0, seconds))

    def end(self):
        for job in self.jobs:
            job.kill()
        try:
            for server in self.servers:
                server.stop()
        finally:
            for proxy in self.proxies:
                proxy.close()


def deadlock(case):
    """A deadlock across nodes is proven within seconds, and every node hears of it."""
    server = case.server()
    job = Job(case, "a", f"127.0.0.1:{server.port}", "inversion_one_stream")
    check_deadlock(server, job, job.wait())
    counts, verdict = check_exactly_once(server, job)
    expect(counts["nodes"] == NODES, counts)
    expect(verdict["detected_after_s"] < 5, "detected after", verdict["detected_after_s"])
    manifest = read_json(os.path.join(server.folder("a"), "manifest.json"))
    for node in manifest["nodes"]:
        clock = node["clock"]
        # One machine, one clock: the offset is what the measurement is wrong by.
        expect(clock is not None and abs(clock["offset_ns"]) <= clock["bound_ns"], "clock", node)
    again = subprocess.run([GORDIAN, "analyze", server.folder("a"), "--json"], capture_output=True, text=True,
                           timeout=60, env=clean_environment())
    expect(again.returncode == 1 and json.loads(again.stdout)["culprit_ranks"] == [NODES - 1], again)
    print(f"detected {verdict['detected_after_s']:.3f} s after the last progress, "
          f"clock bounds {[n['clock']['bound_ns'] // 1000 for n in manifest['nodes']]} us")


def twin(case):
    """The innocent job ends as it would alone; nothing is said against it."""
    server = case.server()
    job = Job(case, "a", f"127.0.0.1:{server.port}", "inversion_one_stream", twin=True)
    check_finished(server, job, job.wait())
    check_exactly_once(server, job)


def cut(case):
    """The connections of all nodes break for a while; every record arrives, once."""
    server = case.server()
    proxy = case.proxy(server)
    job = Job(case, "a", f"127.0.0.1:{proxy.port}", "steady_then_inversion", twin=True)
    steps_go_on(server, job)
    for freeze in ([True, False] if LONG else [False]):
        case.at(3)
        proxy.freeze() if freeze else proxy.cut()
        # The spool is what shows that nodes noticed; a frozen connection takes some seconds.
        wait_for(lambda: all(glob.glob(job.session(r) + "/spool/*.gspool") for r in range(NODES)),
                 "every node spools")
        time.sleep(CUT)  # not to wait for something: the cut has a length
        if freeze:
            proxy.cut()
        proxy.mend()
        steps_go_on(server, job)
    job.tell()
    check_finished(server, job, job.wait())
    counts, _ = check_exactly_once(server, job)
    expect(counts["away"] >= NODES and counts["back"] >= NODES, "nobody was away:", counts)
    print(f"{counts['records']} records, {counts['nccl_calls']} calls, {counts['away']} times away")


def server_killed(case):
    """kill -9 of the server in the middle, and another one with the same folder."""
    server = case.server()
    job = Job(case, "a", f"127.0.0.1:{server.port}", "steady_then_inversion", twin=True)
    for _ in range(3 if LONG else 1):
        steps_go_on(server, job)
        case.at(3)
        server.kill()
        wait_for(lambda: all(glob.glob(job.session(r) + "/spool/*.gspool") for r in range(NODES)),
                 "every node spools")
        server.start()
        expect(server.hello["jobs_resumed"] == 1, server.hello)
        steps_go_on(server, job)
    job.tell()
    check_finished(server, job, job.wait())
    counts, _ = check_exactly_once(server, job)
    expect(counts["analyzer_started"] >= 1 and counts["nodes"] == NODES, counts)
    print(f"{counts['records']} records, {counts['nccl_calls']} calls")


def two_jobs(case):
    """Two jobs at once do not mix: one hangs, the other ends well."""
    server = case.server()
    address = f"127.0.0.1:{server.port}"
    good = Job(case, "good", address, "steady_then_inversion", twin=True, ranks=2)
    bad = Job(case, "bad", address, "inversion_one_stream", ranks=2)
    codes = bad.wait()
    verdict = server.verdict("bad")
    expect(verdict["verdict"] == "deadlock" and codes == [137, 137], verdict["verdict"], codes)
    steps_go_on(server, good, 50)
    good.tell()
    check_finished(server, good, good.wait())
    for job in (good, bad):
        counts, _ = check_exactly_once(server, job)
        expect(counts["nodes"] == 2, counts)


def other_version(case):
    """Another version is refused with one line that names both; the job runs on, recorded here."""
    with subprocess.Popen([OTHER, "9.8.7", case.path("other")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            port = int(other.stdout.readline())
            own = subprocess.run([GORDIAN, "--version"], capture_output=True, text=True, timeout=20).stdout.split()[-1]
            job = Job(case, "a", f"127.0.0.1:{port}", "inversion_one_stream", twin=True, ranks=2, on_verdict="report")
            wait_for(lambda: "refused" in job.said(0), "the refusal is said")
            for node in job.nodes:
                node.wait(PATIENCE)
        finally:
            other.stdin.close()
    lines = [line for line in job.said(0).splitlines() if "refused this collector" in line and "runs on" in line]
    expect(len(lines) == 1 and "9.8.7" in lines[0] and own in lines[0], job.said(0))
    expect([n.returncode for n in job.nodes] == [0, 0], [n.returncode for n in job.nodes])
    expect(not os.listdir(case.path("other")) or os.listdir(case.path("other")) == [".lock"], "the server filed it")
    # What this node saw is a trace of its own.
    counts = json.loads(subprocess.run([COUNT, job.session(0) + "/trace.gtrace"], capture_output=True, text=True,
                                       timeout=60).stdout)
    expect(counts["records"] > 0 and counts["missing"] == 0, counts)
    verdict = read_json(job.session(0) + "/verdict.json")
    expect(any("other nodes" in t for t in verdict["evidence"]["not_visible"]), verdict["evidence"])


def hang_while_cut(case):
    """A deadlock while a node is cut off: not proven while it is away, which is named; proven after."""
    server = case.server()
    proxy = case.proxy(server)
    direct, through = f"127.0.0.1:{server.port}", f"127.0.0.1:{proxy.port}"
    job = Job(case, "a", [direct, direct, through], "steady_then_inversion")
    steps_go_on(server, job)
    proxy.cut()
    wait_for(lambda: glob.glob(job.session(2) + "/spool/*.gspool"), "node 2 spools")
    job.tell()

    def away():
        verdict = server.verdict("a")
        return verdict and any("n2" in text for text in verdict["evidence"]["not_visible"]) and verdict
    wait_for(away, "the verdict names the node that is away")
    end = time.monotonic() + CUT
    while time.monotonic() < end:
        verdict = server.verdict("a")
        expect(not (verdict["verdict"] == "deadlock" and verdict["confidence"] == "confirmed"),
               "proven without the node that is away:", verdict["summary"])
        time.sleep(0.05)
    expect(all(node.poll() is None for node in job.nodes), "a node ended during the cut")
    proxy.mend()
    check_deadlock(server, job, job.wait())
    check_exactly_once(server, job)


def unreachable(case):
    """Nobody there: one line, the job runs to its end, and what was seen is kept and decided here."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        env = clean_environment(GORDIAN_ANALYZER=f"127.0.0.1:{port}", GORDIAN_DELIVER_S="0.5")
        out = subprocess.run([GORDIAN, "run", "--emulator", "--session", case.path("session"), "--", JOB,
                              "inversion_one_stream", "--twin"], capture_output=True, text=True, timeout=PATIENCE,
                             env=env, cwd=case.work)
    expect(out.returncode == 0, out)
    lines = [line for line in out.stderr.splitlines() if "cannot reach the analyzer" in line]
    expect(len(lines) == 1 and f"127.0.0.1:{port}" in lines[0], out.stderr)
    verdict = read_json(case.path("session/verdict.json"))
    expect(verdict and verdict["verdict"] == "finished", out.stderr)
    expect(glob.glob(case.path("session/spool/*.gspool")), "no spool is kept")


def spool_full(case):
    """A full spool stops the reading of rings, not the job; what is lost is counted and named."""
    server = case.server()
    proxy = case.proxy(server)
    job = Job(case, "a", f"127.0.0.1:{proxy.port}", "steady_then_inversion", twin=True, ranks=2,
              environment={"GORDIAN_SPOOL_MB": "1", "GORDIAN_RING_SLOTS": "256", "JOB_STEP_US": "0"})
    steps_go_on(server, job)
    proxy.cut()
    wait_for(lambda: all("is full" in job.said(r) for r in range(2)), "the full spool is said")
    size = sum(os.path.getsize(f) for f in glob.glob(job.session(0) + "/spool/*"))
    expect(size <= 1 << 20, "the spool has", size, "bytes")
    before = job.last_step()
    wait_for(lambda: job.last_step() > before + 500_000_000, "the job goes on")
    proxy.mend()
    wait_for(lambda: (server.verdict("a") or {}).get("evidence", {}).get("records_lost"), "the loss is counted")
    job.tell()
    codes = job.wait()
    expect(codes == [0, 0], "exit codes", codes)
    counts = trace(server, "a")
    expect(counts["repeated"] == 0 and counts["missing"] > 0 and counts["mark_gaps"] == 0, counts)
    verdict = server.verdict("a")
    expect(any("records of rank" in t for t in verdict["evidence"]["not_visible"]), verdict["evidence"])


def other_clock(case):
    """A node whose clock is a million seconds ahead: found, and nothing of it shows in the verdict."""
    ahead = ["unshare", "--time", "--monotonic", "1000000", "--fork"]
    if subprocess.run([*ahead, "true"], capture_output=True).returncode != 0:
        print("skipped other_clock: no time namespaces here")
        return
    server = case.server()
    job = Job(case, "a", f"127.0.0.1:{server.port}", "inversion_one_stream", prefix={1: ahead})
    check_deadlock(server, job, job.wait())
    _, verdict = check_exactly_once(server, job)
    nodes = read_json(os.path.join(server.folder("a"), "manifest.json"))["nodes"]
    offsets = {node["node"]: node["clock"]["offset_ns"] for node in nodes}
    bounds = {node["node"]: node["clock"]["bound_ns"] for node in nodes}
    expect(abs(offsets["n1"] + 10 ** 15) <= bounds["n1"], offsets, bounds)
    expect(abs(offsets["n0"]) <= bounds["n0"], offsets, bounds)
    expect(0 < verdict["detected_after_s"] < 5, "detected after", verdict["detected_after_s"])
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    expect(0 < now - verdict["stalled_at_ns"] < 60 * 10 ** 9, "stalled at", verdict["stalled_at_ns"], "now", now)
    again = subprocess.run([GORDIAN, "analyze", server.folder("a"), "--json"], capture_output=True, text=True,
                           timeout=60, env=clean_environment())
    expect(json.loads(again.stdout)["stalled_at_ns"] == verdict["stalled_at_ns"], again.stdout)


CASES = [deadlock, twin, cut, server_killed, two_jobs, other_version, hang_while_cut, unreachable, spool_full, other_clock]
LONG = False


def run(function, rng):
    case = Case(function.__name__, rng)
    begin = time.monotonic()
    try:
        try:
            function(case)
        finally:
            case.end()
    except (Failure, OSError, KeyError, ValueError, TypeError, subprocess.SubprocessError) as error:
        print(f"FAILED {function.__name__}: {error}")
        for path in sorted(glob.glob(case.work + "/*.err")):
            with open(path, errors="replace") as f:
                print(f"--- {os.path.basename(path)}\n{f.read()[:3000]}")
        print(f"evidence: {case.work}")
        return False
    shutil.rmtree(case.work, ignore_errors=True)
    print(f"passed {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
    return True


def main():
    global LONG, CUT, GORDIAN, JOB, COUNT, OTHER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder")
    parser.add_argument("cases", nargs="*", choices=[[], *(c.__name__ for c in CASES)], metavar="CASE",
                        help=" ".join(c.__name__ for c in CASES))
    parser.add_argument("--long", action="store_true", help="cuts of 10 s at random times")
    parser.add_argument("--repeat", type=int, help="times (20 with --long, else 1)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    GORDIAN = os.path.join(build, "bin", "gordian")
    JOB, COUNT, OTHER = (os.path.join(build, "tests", name)
                         for name in ("gordian_e2e_job", "trace_count", "other_version"))
    if args.long:
        LONG, CUT = True, 10.0
        print(f"seed {args.seed}")
    rng = random.Random(args.seed)
    chosen = [c for c in CASES if not args.cases or c.__name__ in args.cases]
    repeats = args.repeat or (20 if args.long else 1)
    failed = sum(not run(c, rng) for _ in range(repeats) for c in chosen)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
