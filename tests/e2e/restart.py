#!/usr/bin/env python3
"""`gordian run --on-verdict restart`: under gordian a launcher that starts ranks again (launcher.py, torchrun),
around it one that starts gordian again. Jobs that hang once, that hang each time, that crash by themselves, and twins.

  restart.py BUILD_FOLDER [CASE...]
"""

import json
import os
import shlex
import subprocess
import sys

from fleet_testing import (BUILD, PATIENCE, Job, clean_environment, expect, main, read_json, skip)

RANKS = 2
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")
AGAIN = 75
BECAUSE = "gordian ended the ranks for its verdict"
CAUSE = "communicator-order-cycle of ranks 0 and 1 at "


def launcher(restarts, *command, ranks=RANKS):
    return [sys.executable, LAUNCHER, "--ranks", str(ranks), "--max-restarts", str(restarts), "--", *command]


def torch():
    """An interpreter with torchrun; None: there is none."""
    asks = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    for python in dict.fromkeys(filter(None, [os.environ.get("GORDIAN_TEST_TORCH_PYTHON"), sys.executable,
                                              "/usr/bin/python3"])):
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", asks], capture_output=True,
                                                         check=False).returncode == 0:
            return python
    return None


def torchrun(case, restarts, *command, ranks=RANKS):
    # PyTorch 1.13 starts nothing with Python 3.11 unless what is redirected and what is shown is said.
    return [torch(), "-m", "torch.distributed.run", "--nproc_per_node", str(ranks), "--max_restarts", str(restarts),
            "--monitor_interval", "0.1", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "-r", "1", "-t", "1",
            "--log_dir", case.path("torchrun"), "--no_python", *command]


def ranks_of(*more):
    return [BUILD.job, "hangs_once", "--elastic", *more]


def gordian(case, *command, policy="restart", session="s"):
    return [BUILD.gordian, "run", "--emulator", "--session", case.path(session), "--suspect-after", "2", "--on-verdict",
            policy, "--", *command]


def run(case, command, **environment):
    """The exit code, and what was said."""
    shared = case.path("progress")
    if os.path.exists(shared):
        os.unlink(shared)
    environment.setdefault("JOB_PROGRESS", shared)
    env = clean_environment(**environment)
    env = {k: v for k, v in env.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK") and v}
    try:
        done = subprocess.run(command, env=env, cwd=case.work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as late:
        expect(False, f"still running after {PATIENCE} s:", shlex.join(command), late.stderr)
    return done.returncode, done.stdout + done.stderr


def verdict_of(case, name="verdict.json", session="s"):
    return read_json(os.path.join(case.path(session), name))


def restarts_of(case, session="s"):
    return read_json(os.path.join(case.path(session), "manifest.json")).get("restarts")


def is_deadlock(verdict):
    return (verdict["verdict"], verdict["confidence"]) == ("deadlock", "confirmed")


def check_kept(case, number):
    """The verdict of an earlier start is in the session, with stacks, and as text."""
    kept = verdict_of(case, f"verdict.{number}.json")
    expect(kept and is_deadlock(kept), f"verdict.{number}.json:", kept)
    expect(kept["stacks"], "no stacks were kept")
    with open(os.path.join(case.path("s"), f"report.{number}.txt"), encoding="utf-8") as f:
        expect("DEADLOCK (confirmed" in f.read(), "the report was not kept")


def check_passed(case, code, said):
    expect(code == 0, "exit code", code, said)
    verdict = verdict_of(case)
    expect(verdict["verdict"] == "finished" and not verdict["findings"], verdict["verdict"], verdict["findings"], said)
    expect(verdict["restarts"] == {"times": 1, "ranks": list(range(RANKS)), "because": BECAUSE}, verdict["restarts"])
    check_kept(case, 1)
    expect("ended the ranks of start 1 for this verdict" in said and "(1 of 3 for this cause)" in said, said)
    expect("launcher restarted the ranks" in said and "RANK EXITED" not in said, said)
    told = restarts_of(case)
    expect(told["starts"] == 2 and not told["asked"] and list(told["causes"].values()) == [1], told)
    expect(list(told["causes"])[0].startswith(CAUSE), told)
    status = subprocess.run([BUILD.gordian, "status", case.path("s"), "--json"], capture_output=True, text=True,
                            timeout=PATIENCE, env=clean_environment(), check=False)
    ranks = json.loads(status.stdout)["ranks"]
    expect([(r["rank"], r["incarnation"]) for r in ranks] == [(r, 2) for r in range(RANKS)], ranks)
    with open(os.path.join(case.path("s"), "report.txt"), encoding="utf-8") as f:
        expect(f"once, after {BECAUSE}" in " ".join(f.read().split()), "report.txt does not tell of the restart")


def check_stopped(case, code, said):
    expect(code == 137, "exit code", code, said)
    expect(is_deadlock(verdict_of(case)), verdict_of(case)["verdict"])
    check_kept(case, 1)
    expect(not os.path.exists(os.path.join(case.path("s"), "verdict.2.json")), "a third start?")
    expect("started again 1 time for the same cause, not again: " + CAUSE in said and "job killed" in said, said)


def launcher_restarts(case):
    """The ranks hang; their launcher starts them again, and they end."""
    check_passed(case, *run(case, gordian(case, *launcher(1, *ranks_of())), JOB_PASSED=case.path("passed")))


def hangs_each_time(case):
    """Once for one cause, then the job is killed, although the launcher would go on."""
    check_stopped(case, *run(case, gordian(case, *launcher(5, *ranks_of()), policy="restart:1")))


def launcher_does_not(case):
    """It ends: who started gordian is told to start the job again."""
    code, said = run(case, gordian(case, *launcher(0, *ranks_of())))
    expect(code == AGAIN, "exit code", code, said)
    expect(is_deadlock(verdict_of(case)) and verdict_of(case)["stacks"], verdict_of(case)["verdict"])
    expect("deadlock (confirmed), ended to be started again" in said and "RANK EXITED" not in said, said)
    expect(restarts_of(case)["asked"], restarts_of(case))


def outer_launcher_restarts(case):
    """gordian itself is what the launcher starts again; sessions follow one another."""
    own = ["env", "-u", "RANK", "-u", "WORLD_SIZE", "-u", "LOCAL_RANK", BUILD.job, "hangs_once", "--ranks", "2"]
    code, said = run(case, launcher(1, *gordian(case, *own), ranks=1), JOB_PASSED=case.path("passed"), JOB_PROGRESS="")
    expect(code == 0, "exit code", code, said)
    expect(is_deadlock(verdict_of(case)), verdict_of(case)["verdict"], said)
    expect(verdict_of(case, session="s.2")["verdict"] == "finished", said)
    expect("start 2 of this job; the one before is in " + case.path("s") in said, said)


def counts_over_sessions(case):
    """A cause counts from session to session, until a job was not ended to be started again."""
    command = gordian(case, BUILD.job, "hangs_once", "--ranks", "2", policy="restart:1")
    code, said = run(case, command, JOB_PROGRESS="")
    expect(code == AGAIN, "exit code", code, said)
    code, said = run(case, command, JOB_PROGRESS="")
    expect(code == 137 and "not again: " + CAUSE in said, "exit code", code, said)
    expect(is_deadlock(verdict_of(case)) and is_deadlock(verdict_of(case, session="s.2")), "both are kept")
    code, said = run(case, command, JOB_PROGRESS="")
    expect(code == AGAIN and "start 2 of" not in said, "exit code", code, said)


def twins(case):
    """Healthy jobs: nothing is ended, started or counted."""
    for number, command in enumerate((launcher(3, *ranks_of("--twin")), [BUILD.job, "hangs_once", "--twin"])):
        more = {} if number == 0 else {"JOB_PROGRESS": ""}
        code, said = run(case, gordian(case, *command, session=f"s{number}"), **more)
        expect(code == 0, "exit code", code, said)
        verdict = verdict_of(case, session=f"s{number}")
        expect(verdict["verdict"] == "finished" and "restarts" not in verdict, verdict["verdict"], said)
        expect(restarts_of(case, session=f"s{number}") is None and "start" not in said, said)


def crashes(case):
    """A rank ends by itself: its launcher's business alone."""
    command = [BUILD.job, "elastic", "--elastic", "--twin"]
    for number, restarts in enumerate((0, 1)):
        code, said = run(case, gordian(case, *launcher(restarts, *command, ranks=3), session=f"s{number}"), JOB_DIES="2",
                         JOB_EXIT="3")
        expect(code == (1 if restarts == 0 else 0), "exit code", code, said)
        expect(restarts_of(case, session=f"s{number}") is None and "ended the ranks" not in said, said)
    because = verdict_of(case, session="s1")["restarts"]["because"]
    expect(because == "rank 2 exited with code 3", because)


def nodes_restart(case):
    """Two nodes with a launcher each, one job at a server: every node ends its own ranks.

    Five times, since which node acts first, and how far the other has come by then, is another each time.
    """
    server = case.server()
    for name in "abcde":
        meet = case.path("meet." + name)
        os.mkdir(meet)
        job = Job(case, name, f"127.0.0.1:{server.port}", "hangs_once", on_verdict="restart", ranks=2,
                  environment={"JOB_PASSED": case.path("passed." + name)},
                  program=lambda node: [sys.executable, LAUNCHER, "--ranks", "4", "--nodes", "2", "--node", str(node),
                                        "--meet", meet, "--max-restarts", "1", "--", *ranks_of()])
        codes = job.wait()
        said = [job.said(node) for node in range(2)]
        expect(codes == [0, 0], "job", name, "exit codes", codes, *said)
        expect(any("ended the ranks of start 1" in one for one in said), *said)
        verdict = server.verdict(name)
        expect(verdict["verdict"] == "finished" and verdict["restarts"]["because"] == BECAUSE, verdict["summary"],
               verdict.get("restarts"))


def with_torchrun(case):
    """The real one, under gordian: as launcher_restarts."""
    if torch() is None:
        skip("no python3 has torch")
        return
    check_passed(case, *run(case, gordian(case, *torchrun(case, 1, *ranks_of())), JOB_PASSED=case.path("passed")))


def with_torchrun_each_time(case):
    """The real one, under gordian: as hangs_each_time."""
    if torch() is None:
        skip("no python3 has torch")
        return
    check_stopped(case, *run(case, gordian(case, *torchrun(case, 5, *ranks_of()), policy="restart:1")))


def with_torchrun_outside(case):
    """torchrun starts gordian again: as outer_launcher_restarts."""
    if torch() is None:
        skip("no python3 has torch")
        return
    own = ["env", "-u", "RANK", "-u", "WORLD_SIZE", "-u", "LOCAL_RANK", BUILD.job, "hangs_once", "--ranks", "2"]
    code, said = run(case, torchrun(case, 1, *gordian(case, *own), ranks=1), JOB_PASSED=case.path("passed"),
                     JOB_PROGRESS="")
    expect(code == 0, "exit code", code, said)
    expect(is_deadlock(verdict_of(case)) and restarts_of(case)["asked"], said)
    expect(verdict_of(case, session="s.2")["verdict"] == "finished", said)


CASES = [launcher_restarts, hangs_each_time, launcher_does_not, outer_launcher_restarts, counts_over_sessions, twins,
         crashes, nodes_restart, with_torchrun, with_torchrun_each_time, with_torchrun_outside]

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
