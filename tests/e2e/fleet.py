#!/usr/bin/env python3
"""Many nodes on one machine: three `gordian run --analyzer` are three nodes of one job, and what lies
between them and `gordian serve` is cut, killed and swapped.

  fleet.py BUILD_FOLDER [CASE...]                           the short form, as CTest runs it
  fleet.py BUILD_FOLDER --long [--repeat N] [--seed N]      cuts of 10 s at random times, 20 times

Exactly once is held against two witnesses: the emulator's own count of calls, and the numbers that
every record and every batch carries. On failure the evidence stays in a folder that is named.
"""

import base64
import glob
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from fleet_testing import (BUILD, NODES, PATIENCE, Job, check_deadlock, check_exactly_once, check_finished,
                           clean_environment, expect, main, read_json, steps_go_on, trace, wait_for, skip)


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
    again = subprocess.run([BUILD.gordian, "analyze", server.folder("a"), "--json"], capture_output=True, text=True,
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
    for freeze in ([True, False] if BUILD.long else [False]):
        case.at(3)
        proxy.freeze() if freeze else proxy.cut()
        # The spool is what shows that nodes noticed; a frozen connection takes some seconds.
        wait_for(lambda: all(glob.glob(job.session(r) + "/spool/*.gspool") for r in range(NODES)),
                 "every node spools")
        time.sleep(BUILD.cut)  # not to wait for something: the cut has a length
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
    proxy = case.proxy(server)
    job = Job(case, "a", f"127.0.0.1:{proxy.port}", "steady_then_inversion", twin=True)
    for _ in range(3 if BUILD.long else 1):
        steps_go_on(server, job)
        case.at(3)
        server.kill()
        wait_for(lambda: all(glob.glob(job.session(r) + "/spool/*.gspool") for r in range(NODES)),
                 "every node spools")
        server.start()
        proxy.target = server.port
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
    with subprocess.Popen([BUILD.other, "9.8.7", case.path("other")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            port = int(other.stdout.readline())
            own = subprocess.run([BUILD.gordian, "--version"], capture_output=True, text=True, timeout=60).stdout.split()[-1]
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
    counts = json.loads(subprocess.run([BUILD.count, job.session(0) + "/trace.gtrace"], capture_output=True, text=True,
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
    end = time.monotonic() + BUILD.cut
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
        out = subprocess.run([BUILD.gordian, "run", "--emulator", "--session", case.path("session"), "--", BUILD.job,
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
        skip("other_clock: no time namespaces here")
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
    again = subprocess.run([BUILD.gordian, "analyze", server.folder("a"), "--json"], capture_output=True, text=True,
                           timeout=60, env=clean_environment())
    expect(json.loads(again.stdout)["stalled_at_ns"] == verdict["stalled_at_ns"], again.stdout)


def slow_reader(case):
    """Nobody reads what the server prints: jobs do not wait for that, nor does its end."""
    server = case.server(blocked=True)
    for name in ("a", "b"):
        job = Job(case, name, f"127.0.0.1:{server.port}", "inversion_one_stream", twin=True, ranks=2)
        check_finished(server, job, job.wait())
        check_exactly_once(server, job)
    server.process.send_signal(signal.SIGTERM)
    expect(server.process.wait(60) == 0, "exit code", server.process.returncode)


def unreadable_folder(case):
    """A folder of sessions that cannot be read: said, and new jobs are analyzed."""
    os.mkdir(case.path("sessions"))
    os.chmod(case.path("sessions"), 0o300)
    # Root may read everything, unless it gives that up.
    prefix = [] if os.geteuid() != 0 else ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                                           "--inh-caps=-dac_override,-dac_read_search"]
    if prefix and subprocess.run([*prefix, "ls", case.path("sessions")], capture_output=True).returncode == 0:
        skip("unreadable_folder: nothing is unreadable here")
        return
    server = case.server(prefix=prefix)
    wait_for(lambda: "cannot read the folder" in server.said(), "the folder is named")
    for number in ("a", "a.2"):  # the second of a name is found without a list
        job = Job(case, "a", f"127.0.0.1:{server.port}", "inversion_one_stream", twin=True, ranks=2)
        expect(job.wait() == [0, 0], "exit codes")
        manifest = os.path.join(server.folder(number), "manifest.json")
        wait_for(lambda: (read_json(manifest) or {}).get("closed"), f"{number} is closed by the server")
        verdict = server.verdict(number)
        expect(verdict["verdict"] == "finished", verdict["verdict"], verdict["summary"])
        for rank in range(2):
            shutil.rmtree(job.session(rank))


def sources(case):
    """Source lines come from the nodes: the server has neither the program nor the job's files, but others of those
    names, which it does not show."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")
    os.mkdir(case.path("others"))
    for name in os.listdir(here):
        with open(case.path(f"others/{name}"), "w") as f:
            f.write("not the node's\n" * 5000)
    blind = ["unshare", "--mount", "sh", "-ec",
             f"mount --bind '{case.path('others')}' '{here}'; mount --bind /dev/null '{BUILD.job}'; exec \"$@\"", "sh"]
    if subprocess.run([*blind, "true"], capture_output=True).returncode != 0:
        return skip("sources: no mount namespaces here")
    server = case.server(prefix=blind, more=["--http", "127.0.0.1:0"])
    job = Job(case, "a", f"127.0.0.1:{server.port}", "inversion_one_stream", on_verdict="report", deliver="1")

    def live_page():
        with urllib.request.urlopen(server.hello["page"] + "api/v1/jobs/a", timeout=60) as answer:
            return json.load(answer)

    def written_page(path):
        with open(path) as f:
            data = re.search(r'<script type="text/plain" id="gordian-data">([^<]*)</script>', f.read()).group(1)
        return json.loads(gzip.decompress(base64.b64decode(data)))

    def has_lines(page):
        found = {source["site"]: source for source in page["sources"]}
        circle = page["verdict"]["cycle"]
        return len(circle) > 1 and all(edge["site"] in found for edge in circle)

    def check(page):
        expect(has_lines(page), "sites without lines:", page["verdict"]["cycle"], page["sources"])
        found = {source["site"]: source for source in page["sources"]}
        for edge in page["verdict"]["cycle"]:
            source = found[edge["site"]]
            expect(re.match(r"job\.cc:\d+ ", edge["site"]), "the site is not named:", edge["site"])
            with open(source["path"]) as f:
                own = f.read().splitlines()[source["first_line"] - 1:][:len(source["lines"])]
            expect(source["lines"] == own, "other lines than the node's:", source, own)
            expect("ncclAllReduce" in own[source["line"] - source["first_line"]], source)

    wait_for(lambda: (server.verdict("a") or {}).get("confidence") == "confirmed", "the deadlock is proven")
    wait_for(lambda: has_lines(live_page()), "the page has the lines of both calls")
    check(live_page())
    html = os.path.join(server.folder("a"), "report.html")
    wait_for(lambda: has_lines(written_page(html)), "report.html has the lines")
    check(written_page(html))
    server.kill()
    server.start()
    expect(server.hello["jobs_resumed"] == 1, server.hello)
    check(live_page())  # from the trace: no node is connected
    job.kill()
    server.stop()
    again = case.path("again.html")
    out = subprocess.run([*blind, BUILD.gordian, "report", server.folder("a"), "-o", again], capture_output=True, text=True,
                         timeout=60, env=clean_environment())
    expect(out.returncode == 0, out)
    check(written_page(again))


class Namespaces:
    """A bridge, and a network namespace for each node, whose cable can be pulled. Needs root."""

    def __init__(self):
        self.tag = f"g{os.getpid() % 100000}"
        self.net = f"10.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"
        self.server = f"{self.net}.1"
        self.names = [f"{self.tag}n{node}" for node in range(NODES)]
        self.cables = [f"{self.tag}v{node}" for node in range(NODES)]

    @staticmethod
    def ip(*words, check=True):
        return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).returncode == 0

    def make(self):
        if os.geteuid() != 0 or shutil.which("ip") is None or not self.ip("link", "add", self.tag, "type", "bridge",
                                                                          check=False):
            return False
        self.ip("addr", "add", f"{self.server}/24", "dev", self.tag)
        self.ip("link", "set", self.tag, "up")
        for node, (name, cable) in enumerate(zip(self.names, self.cables)):
            self.ip("netns", "add", name)
            self.ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("link", "set", cable, "master", self.tag, "up")
            for words in (["addr", "add", f"{self.net}.{node + 2}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                          ["link", "set", "lo", "up"]):
                self.ip("-n", name, *words)
        return True

    def pull(self, node, out):
        self.ip("link", "set", self.cables[node], "down" if out else "up")

    def remove(self):
        for name in self.names:
            self.ip("netns", "del", name, check=False)
        self.ip("link", "del", self.tag, check=False)


def namespaces(case):
    """Three hosts with TLS and tokens between them; one is cut off for a while, and the server killed meanwhile."""
    hosts = Namespaces()
    if not hosts.make():
        return skip("network namespaces need root, `ip` and a kernel that has them")
    try:
        cert, key, token = case.path("cert.pem"), case.path("key.pem"), case.path("token")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "1", "-subj", "/CN=head", "-addext", f"subjectAltName=IP:{hosts.server}", "-keyout", key,
                        "-out", cert], check=True, capture_output=True)
        # The address is this test's alone, so the port is free, and the same after the kill.
        alerts = case.path("alerts")
        server = case.server(listen=f"{hosts.server}:7411", more=["--tls-cert", cert, "--tls-key", key, "--alert",
                                                                  f"exec:echo $GORDIAN_JOB >> {alerts}"])
        expect(server.hello["nodes_need_token"], server.hello)
        with open(token, "w") as f:
            subprocess.run([BUILD.gordian, "token", server.sessions, "--job", "a"], check=True, stdout=f)
        job = Job(case, "a", f"{hosts.server}:7411", "steady_then_inversion",
                  more=["--tls-ca", cert, "--token-file", token],
                  prefix={node: ["ip", "netns", "exec", name] for node, name in enumerate(hosts.names)})
        steps_go_on(server, job)
        hosts.pull(1, out=True)
        wait_for(lambda: glob.glob(job.session(1) + "/spool/*.gspool"), "the node that is cut off spools")
        server.kill()
        wait_for(lambda: glob.glob(job.session(0) + "/spool/*.gspool"), "the others spool")
        server.start()
        expect(server.hello["jobs_resumed"] == 1, server.hello)
        time.sleep(BUILD.cut)  # not to wait for something: the cut has a length
        hosts.pull(1, out=False)
        steps_go_on(server, job)
        # A proof from before the node is back names its ranks as unknown, and so both ends of the circle.
        wait_for(lambda: not server.verdict("a")["evidence"]["not_visible"], "the server has all that the node kept")
        job.tell()
        # The verdict ends the job although it comes from another machine: TLS proves whose it is.
        check_deadlock(server, job, job.wait())
        counts, _ = check_exactly_once(server, job)
        expect(counts["analyzer_started"] >= 1 and counts["nodes"] == NODES, counts)
        wait_for(lambda: os.path.exists(alerts), "somebody is alerted")
        server.stop()
        with open(alerts) as f:
            expect(f.read() == "a\n", "there was not one alert")
        print(f"{counts['records']} records, {counts['nccl_calls']} calls, 1 alert")
    finally:
        hosts.remove()


CASES = [deadlock, twin, cut, server_killed, two_jobs, other_version, hang_while_cut, unreachable, spool_full,
         other_clock, slow_reader, unreadable_folder, sources, namespaces]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
