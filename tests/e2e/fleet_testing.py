"""What tests of many nodes on one machine share: a server, jobs with a node for each rank, what lies
between them, and how cases are run."""

import argparse
import fcntl
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

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "checks"))
import schemas  # noqa: E402

NODES = 3
PATIENCE = 60  # seconds until a condition that must come is given up


class Build:
    """Programs of the build and how long things take; set by main."""
    folder = gordian = job = count = other = ""
    long = False
    cut = 3.0  # seconds


BUILD = Build()


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
            text = f.read()
        document = json.loads(text)
    except (OSError, ValueError):
        return None
    schemas.check(text)
    return document


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
        # Bound for as long as the proxy lives, and never listening: while cut, the port is nobody else's.
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.port = self.holder.getsockname()[1]
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
            self.holder.close()


def fill(pipe):
    """Writes to a pipe until it takes no more, so that whoever else writes to it waits."""
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        while True:
            os.write(pipe, b"x" * 4096)
    except BlockingIOError:
        pass
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags)


class Server:
    def __init__(self, case, prefix=(), blocked=False, listen="127.0.0.1:0", more=()):
        """blocked: nobody reads a word of it after the first line. more: options."""
        self.case = case
        self.prefix = prefix
        self.listen = listen
        self.more = more
        self.sessions = case.path("sessions")
        self.err = open(case.path("server.err"), "ab")
        self.blocked = blocked
        self.ends = []
        self.start()

    def start(self):
        """On a port of its own each time; who is to find it again does so through a proxy."""
        err = self.err
        if self.blocked:
            self.ends = os.pipe()
            err = self.ends[1]
        self.process = subprocess.Popen(
            [*self.prefix, BUILD.gordian, "serve", "--listen", self.listen, "--sessions", self.sessions, "--json",
             "--suspect-after", "3", *self.more],
            stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL, env=clean_environment())
        line = self.process.stdout.readline()
        expect(line, "the server printed no address:", open(self.case.path("server.err")).read())
        self.hello = json.loads(line)
        self.port = int(self.hello["listening"].rsplit(":", 1)[1])
        if self.blocked:
            fill(self.ends[1])
            with open(f"/proc/{self.process.pid}/fd/1", "wb", buffering=0) as out:
                fill(out.fileno())
        else:
            threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        for end in self.ends:
            os.close(end)
        self.ends = []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure("the server did not end within 60 s of SIGTERM")
            expect(code == 0, "the server's exit code is", code)

    def said(self):
        with open(self.case.path("server.err"), errors="replace") as f:
            return f.read()

    def folder(self, job):
        return os.path.join(self.sessions, job)

    def verdict(self, job):
        return read_json(os.path.join(self.folder(job), "verdict.json"))


class Job:
    """One job: a rank on each node, or what `program(node)` says."""

    def __init__(self, case, name, address, job, twin=False, on_verdict="kill", ranks=NODES, more=(),
                 deliver="30", environment=None, prefix=None, program=None):
        self.case, self.name, self.ranks = case, name, ranks
        self.progress = case.path(f"{name}.progress")
        if os.path.exists(self.progress):  # of an earlier run of that name, with its unique ids
            os.unlink(self.progress)
        self.stats = case.path(f"{name}.stats")
        self.until = case.path(f"{name}.until")
        self.nodes = []
        addresses = address if isinstance(address, list) else [address] * ranks
        for rank in range(ranks):
            own = [BUILD.job, job, "--ranks", str(ranks), "--rank", str(rank), *(["--twin"] if twin else [])]
            command = [*(prefix or {}).get(rank, []), BUILD.gordian, "run", "--emulator", "--analyzer",
                       addresses[rank], "--job", name, "--node", f"n{rank}", "--nodes", str(ranks), "--session",
                       self.session(rank), "--on-verdict", on_verdict, *more, "--", *(program(rank) if program else own)]
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


def trace(server, job, begun=True):
    """What the server's trace holds. `begun`: it must hold something."""
    path = os.path.join(server.folder(job), "trace.gtrace")
    if not begun and not os.path.exists(path):
        return {"nccl_calls": 0}
    out = subprocess.run([BUILD.count, path], capture_output=True, text=True, timeout=60)
    if not begun and out.returncode != 0 and out.stderr.endswith("nothing to read\n"):
        return {"nccl_calls": 0}
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
        return trace(server, job.name, begun=False)["nccl_calls"]
    first = records()
    wait_for(lambda: records() >= first + more, "the server's trace grows")


class Case:
    def __init__(self, name, rng):
        self.work = tempfile.mkdtemp(prefix=f"gordian-fleet-{name}-")
        self.rng = rng
        self.jobs, self.servers, self.proxies = [], [], []

    def path(self, name):
        return os.path.join(self.work, name)

    def server(self, **options):
        server = Server(self, **options)
        self.servers.append(server)
        return server

    def proxy(self, server):
        proxy = Proxy(server.port)
        self.proxies.append(proxy)
        return proxy

    def at(self, seconds):
        """When something happens in the long form; at once in the short one."""
        if BUILD.long:
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
        print(f"evidence: {case.work}\nagain: python3 {sys.argv[0]} {BUILD.folder} {function.__name__}")
        return False
    shutil.rmtree(case.work, ignore_errors=True)
    print(f"passed {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
    return True


SKIPPED = []


def skip(why):
    """Notes that a case cannot run here; main then says so in the words that CTest looks for."""
    print(f"skipped {why}")
    SKIPPED.append(why)


def main(description, cases):
    """Of a file of cases: runs those that are named, or all."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder")
    parser.add_argument("cases", nargs="*", choices=[[], *(c.__name__ for c in cases)], metavar="CASE",
                        help=" ".join(c.__name__ for c in cases))
    parser.add_argument("--long", action="store_true", help="cuts of 10 s at random times")
    parser.add_argument("--repeat", type=int, help="times (20 with --long, else 1)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    BUILD.folder = os.path.abspath(args.build)
    BUILD.gordian = os.path.join(BUILD.folder, "bin", "gordian")
    BUILD.job, BUILD.count, BUILD.other = (os.path.join(BUILD.folder, "tests", name)
                                           for name in ("gordian_e2e_job", "trace_count", "other_version"))
    if args.long:
        BUILD.long, BUILD.cut = True, 10.0
        print(f"seed {args.seed}")
    rng = random.Random(args.seed)
    chosen = [c for c in cases if not args.cases or c.__name__ in args.cases]
    repeats = args.repeat or (20 if args.long else 1)
    failed = sum(not run(c, rng) for _ in range(repeats) for c in chosen)
    if SKIPPED and not failed:
        print(f"OK (skipped={len(SKIPPED)})")
    return 1 if failed else 0
