#!/usr/bin/env python3
"""What a peer on the network may do to a node and to `gordian serve`:

  peers.py BUILD_FOLDER [CASE...]
"""
import contextlib
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from raw_peer import Stream, streams_for
from wire import field, number, varint
from fleet_testing import BUILD, NODES, Job, clean_environment, expect, main, steps_go_on, wait_for


def stranger(case):
    """A client that joins a job by its name, and hangs, ends none of the job's processes."""
    server = case.server()
    address = f"127.0.0.1:{server.port}"
    job = Job(case, "a", address, "steady_then_inversion", twin=True)
    steps_go_on(server, job)
    strangers = []
    for rank in range(NODES):
        env = clean_environment(JOB_PROGRESS=case.path("stranger.progress"))
        command = [BUILD.gordian, "run", "--emulator", "--analyzer", address, "--job", "a", "--node", f"x{rank}",
                   "--session", case.path(f"stranger{rank}"), "--on-verdict", "report", "--quiet", "--", BUILD.job,
                   "inversion_one_stream", "--ranks", str(NODES), "--rank", str(rank)]
        strangers.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL))
    try:
        wait_for(lambda: "deadlock" in (server.verdict("a") or {}).get("verdict", ""), "the stranger's deadlock is proven")
        steps_go_on(server, job)
        expect(all(node.poll() is None for node in job.nodes), "a node ended its job:", job.said(0))
    finally:
        for process in strangers:
            process.terminate()
        for process in strangers:
            process.wait()
    job.tell()
    codes = job.wait()
    expect(codes == [0] * NODES, "exit codes", codes)


def elsewhere(case):
    """A verdict that comes over a network ends a job only where that is asked for by name."""
    server = case.server(listen="0.0.0.0:0", more=["--insecure"])
    address = f"{own_address()}:{server.port}"
    job = Job(case, "a", address, "inversion_one_stream")
    wait_for(lambda: (server.verdict("a") or {}).get("verdict") == "deadlock", "the deadlock is proven")
    wait_for(lambda: all("DEADLOCK" in job.said(rank) for rank in range(NODES)), "every node says so")
    expect(all(node.poll() is None for node in job.nodes), "a node ended its job for a verdict from elsewhere")
    expect("--trust-analyzer" in job.said(0), job.said(0))
    job.kill()
    trusting = Job(case, "b", address, "inversion_one_stream", more=["--trust-analyzer"])
    codes = trusting.wait()
    expect(codes == [137] * NODES, "exit codes", codes, trusting.said(0))


def own_address():
    """One of this machine's that is not its loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return socket.gethostname()


def hello(job, node):
    version = subprocess.run([BUILD.gordian, "version"], capture_output=True, text=True).stdout.split()[1]
    return field(1, number(1, PROTOCOL) + field(2, version.encode()) + field(9, job.encode()) + field(10, node.encode()) +
                 varint(11 << 3 | 1) + struct.pack("<Q", random.getrandbits(64) | 1))


def most_memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def beside(case, attack, more=()):
    """A job of three nodes goes on, and its deadlock is proven, while `attack` is made on the server."""
    server = case.server(more=more)
    job = Job(case, "a", f"127.0.0.1:{server.port}", "steady_then_inversion")
    steps_go_on(server, job)
    with contextlib.ExitStack() as at_end:
        attack(server, at_end)
        expect(server.process.poll() is None, "the server ended:", server.said())
        steps_go_on(server, job)
        job.tell()
        codes = job.wait()
        expect(codes == [137] * NODES, "exit codes", codes)
        verdict = server.verdict("a")
        expect((verdict["verdict"], verdict["confidence"]) == ("deadlock", "confirmed"), verdict["summary"])
    most = most_memory(server.process.pid)
    print(f"the server took {most >> 20} MiB at the most")
    expect(most < MOST_BYTES, f"the server took {most >> 20} MiB")


def garbage(case):
    """Bytes that are no HTTP/2, no gRPC or no message of ours, on many connections, some of which stay open."""
    def attack(server, at_end):
        random.seed(29)
        openings = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Stream.PREFACE]
        for i in range(400 if BUILD.long else 120):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.settimeout(5)
            try:
                s.sendall(openings[i % 4] + random.randbytes(random.randrange(1, 20_000)))
            except OSError:
                pass  # refused in the middle
            if i % 3 == 0:
                at_end.callback(s.close)
            else:
                s.close()
        streams = [Stream(server.port) for _ in range(40)]
        for i, stream in enumerate(streams):
            at_end.callback(stream.close)
            if i % 4 == 0:
                stream.message(random.randbytes(10_000))
            elif i % 4 == 1:  # longer than any message may be, and never all there
                stream.frame(Stream.DATA, 0, b"\0\xff\xff\xff\xff" + random.randbytes(1000))
            elif i % 4 == 2:
                stream.message(hello("a", f"g{i}"))
                stream.message(field(2, random.randbytes(10_000)))
            else:
                stream.frame(random.randrange(256), random.randrange(256), random.randbytes(500), stream=random.randrange(5))
        streams_for(streams, 3)
        with open(os.path.join(server.folder("a"), "manifest.json")) as f:
            expect('"g2"' in f.read(), "no peer joined the job")
    beside(case, attack)


def greedy(case):
    """48 peers of 8 other jobs send batches as fast as the server takes them; a quarter of them never read its answers."""
    def attack(server, at_end):
        streams = [Stream(server.port, reads=i % 4 != 0) for i in range(48)]
        sent = [0] * len(streams)
        for i, stream in enumerate(streams):
            at_end.callback(stream.close)
            stream.message(hello(f"greedy{i % 8}", f"g{i}"))
        state = field(10, number(1, 1) + number(2, 4))  # NodeState

        def more():
            for i, stream in enumerate(streams):
                if len(stream.to_send) < 1 << 16:
                    sent[i] += 1
                    events = b"".join(field(2, state) for _ in range(20_000))
                    stream.message(field(2, number(1, sent[i]) + events))
        streams_for(streams, 10 if BUILD.long else 4, more)
        joined = sum(os.path.isdir(server.folder(f"greedy{job}")) for job in range(8))
        expect(joined == 8, f"the server knows {joined} of the peers' 8 jobs:", server.said())
        print(f"{sum(sent)} batches")
    beside(case, attack)


def slow(case):
    """Peers that open a connection and say their first word one byte at a time, or nothing."""
    def attack(server, at_end):
        streams = []
        for i in range(300):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.setblocking(False)
            at_end.callback(s.close)
            streams.append(s)
        word = Stream.PREFACE
        for at in range(0, len(word) - 2):
            for s in streams[::2]:
                try:
                    s.send(word[at:at + 1])
                except OSError:
                    pass
            time.sleep(0.05)  # what makes them slow
    beside(case, attack)


def http_port(server):
    return int(server.hello["page"].rsplit(":", 1)[1].strip("/"))


def ask(port, path="/healthz", patience=10):
    """The status line of an answer; "" if none comes."""
    try:
        with socket.create_connection(("127.0.0.1", port), patience) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return s.recv(4096).split(b"\r\n", 1)[0].decode()
    except OSError:
        return ""


def acknowledge(body, headers=b""):
    return (b"POST /api/v1/incidents/5f0c27a91e44/acknowledge HTTP/1.1\r\nHost: localhost\r\n" + headers +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def http_garbage(case):
    """Malformed, oversized and forbidden requests: each is refused by a status or cut off, and tells nothing."""
    long = b"A" * 200_000
    requests = [b"GET / HTTP/1.1\r\n\r\n", b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /api/v1/jobs/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /%2e%2e/access.key HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /" + long + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + long + b"\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + long,
                b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFF\r\n" + long,
                b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 5000,
                b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                b"DELETE /api/v1/jobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n", acknowledge(b'{"by":"x"}'),
                acknowledge(b'{"by":"x"}', b"Authorization: Bearer admin-0123456789abcdef0123456789abcdef\r\n"),
                acknowledge(b"[" * 4000, b"Authorization: Bearer \r\n"), acknowledge(long)]

    def attack(server, at_end):
        random.seed(24)
        port = http_port(server)
        tried = leaked = 0
        for i in range(4000 if BUILD.long else 600):
            request = requests[i % len(requests)]
            if i >= 2 * len(requests):  # and with a few bytes of it changed
                request = bytearray(request[:20_000])
                for _ in range(random.randrange(1, 6)):
                    request[random.randrange(len(request))] = random.randrange(256)
            s = socket.create_connection(("127.0.0.1", port))
            s.settimeout(5)
            tried += 1
            try:
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(1 << 16)
            except OSError:
                answer = b""  # cut off
            s.close()
            leaked += b"root:" in answer
            first = answer.split(b"\r\n", 1)[0]
            expect(not answer or first.startswith(b"HTTP/1."), "an answer that is no HTTP:", first, bytes(request[:80]))
            expect(b" 500 " not in first, bytes(request[:80]))
            expect(b'"acknowledged"' not in answer, "an incident was acknowledged:", bytes(request[:200]))
        expect(leaked == 0, "a file was read")
        expect(" 200 " in ask(port), "the server does not answer any more")
        print(f"{tried} requests")
    beside(case, attack, more=["--http", "127.0.0.1:0"])


def http_crowd(case):
    """10,000 connections, of which most say nothing: others are served again as soon as their patience allows."""
    def attack(server, at_end):
        port = http_port(server)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        want = 10_000
        if hard != resource.RLIM_INFINITY and hard < want + 100:
            print(f"only {hard} descriptors are allowed here")
            want = hard - 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want + 100), hard))
        crowd = []
        for i in range(want):
            s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            s.connect_ex(("127.0.0.1", port))
            at_end.callback(s.close)
            crowd.append(s)
            if i % 200 == 0:
                time.sleep(0.01)  # as many as the queue of the listening socket holds
        for s in crowd[::3]:
            try:
                s.send(b"GET / HT")
            except OSError:
                pass
        # Those that hold all places lose them within 10 s.
        wait_for(lambda: " 200 " in ask(port, patience=2), "others are served", 60)
        print(f"{len(crowd)} connections")
    beside(case, attack, more=["--http", "127.0.0.1:0"])


def http_slow_readers(case):
    """Viewers that never read their events, and readers that take an answer byte by byte."""
    def attack(server, at_end):
        port = http_port(server)
        for i in range(250):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", port))
            path = "/api/v1/events" if i % 2 else "/app.js"
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            at_end.callback(s.close)
        wait_for(lambda: " 200 " in ask(port), "others are served", 30)
        time.sleep(3)  # events go out meanwhile
        expect(" 200 " in ask(port), "others are not served any more")
    beside(case, attack, more=["--http", "127.0.0.1:0"])


PROTOCOL = 0  # of the hello; read from common/version.h by main's folder of sources
MOST_BYTES = 512 << 20
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common", "version.h")) as source:
    for text in source:
        if "kIngestProtocol" in text and "=" in text:
            PROTOCOL = int(text.split("=")[1].strip(" ;\n"))
CASES = [stranger, elsewhere, garbage, greedy, slow, http_garbage, http_crowd, http_slow_readers]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
