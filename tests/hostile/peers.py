#!/usr/bin/env python3
"""What a peer on the network may do to a node and to `gordian serve`:

  peers.py BUILD_FOLDER [CASE...]
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
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
    server = case.server(listen="0.0.0.0:0")
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
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return socket.gethostname()


CASES = [stranger, elsewhere]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
