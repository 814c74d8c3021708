#!/usr/bin/env python3
"""Runs jobs of PyTorch under `gordian run` and holds the verdicts against the truth.

  run_torch.py --build build/release --job opposite_groups [--twin] [--backend nccl] [--keep]
  run_torch.py --build build/release --pending      # what gordian cannot say yet: says how far it gets
  run_torch.py --truth                              # every job and its twin without gordian: who hangs, who ends
  run_torch.py --twins [--alone]                    # all twins in one job, watched: nothing may be found
  run_torch.py --examples                           # the repaired examples/torch-* end
  run_torch.py --table                              # the expectations

The interpreter is the first with torch of GORDIAN_TEST_TORCH_PYTHON, this one and /usr/bin/python3; with
none the test is skipped (exit code 77). On failure the evidence stays in a folder that is named, with the command
that repeats the run.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from expectations import JOBS, culprit_sets, jobs_of

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "job.py")
EXAMPLES = ["torch-ddp", "torch-experts", "torch-pipeline"]
SKIP = 77
LONGEST_S = 180   # of a run under gordian
SUSPECT_S = 10    # a circle is found without this threshold
PATIENT_S = 60    # the threshold for jobs that end: on busy processors ranks come many seconds apart
RANKS_OF_ALL = 3
PATIENCE_S = 15   # after which a job without gordian counts as hung: its twin needs a third of that


class Failure(Exception):
    pass


def interpreter():
    asks = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"  # an import takes seconds
    tried = [os.environ.get("GORDIAN_TEST_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"]
    for python in dict.fromkeys(filter(None, tried)):
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", asks], capture_output=True, check=False).returncode == 0:
            return python
    return None


def command_of(args, name, ranks, twin):
    return ([args.python, JOB, name, "--ranks", str(ranks), "--backend", args.backend] + (["--twin"] if twin else []))


def end(process):
    """Ends the process and all that it has started: they are a process group of their own."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def alone(args, name, ranks, twin, patience):
    """Without gordian: "hangs", or "ends with CODE", and what was printed."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command_of(args, name, ranks, twin), stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            ended = f"ends with {process.wait(patience)}"
        except subprocess.TimeoutExpired:
            ended = "hangs"
            end(process)
        out.seek(0)
        return ended, out.read()


def watched(args, name, ranks, twin, work):
    """Under gordian: the exit code and the verdict."""
    session = os.path.join(work, "session")
    # Where a proof must come, a suspicion on the way to it ends nothing.
    act = "kill" if not twin and JOBS[name].confirmed else "kill-suspected"
    command = [os.path.join(os.path.abspath(args.build), "bin", "gordian"), "run", "--session", session, "--on-verdict",
               act, "--suspect-after", str(PATIENT_S if twin else SUSPECT_S), "--"] + command_of(args, name, ranks, twin)
    with open(os.path.join(work, "stdout"), "wb") as out, open(os.path.join(work, "stderr"), "wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(LONGEST_S)
        except subprocess.TimeoutExpired as late:
            end(process)
            raise Failure(f"still running after {LONGEST_S} s") from late
    with open(os.path.join(session, "verdict.json"), encoding="utf-8") as f:
        return code, json.load(f)


def marked_lines(file, mark, name):
    """Of the lines that end with `# MARK: NAME, NAME, ...`, those with that name."""
    with open(os.path.join(HERE, "jobs", file), encoding="utf-8") as f:
        lines = f.read().splitlines()
    marks = [line.rpartition(f"# {mark}: ")[1:] for line in lines]
    return [i + 1 for i, (found, names) in enumerate(marks) if found and name in names.split(", ")]


def guilty_lines(file, name):
    """One, or one for each backend."""
    lines = marked_lines(file, "guilty", name)
    if not lines:
        raise Failure(f"no line of {file} is marked as guilty of {name}")
    return lines


def report_of(args, session):
    return subprocess.run([os.path.join(os.path.abspath(args.build), "bin", "gordian"), "explain", session],
                          capture_output=True, text=True, check=False, timeout=60).stdout


def check(args, name, code, verdict, session):
    expect = JOBS[name]
    if verdict["verdict"] not in expect.verdicts:
        raise Failure(f"verdict {verdict['verdict']} ({verdict['summary']}), expected one of {expect.verdicts}")
    if sorted(verdict["culprit_ranks"]) not in culprit_sets(expect):
        raise Failure(f"culprits {verdict['culprit_ranks']}, expected one of {culprit_sets(expect)}: {verdict['summary']}")
    if expect.confirmed is not None and expect.confirmed != (verdict["confidence"] == "confirmed"):
        raise Failure(f"confidence {verdict['confidence']}")
    groups = {operation["comm"] for operation in verdict["operations"]} | {edge["comm"] for edge in verdict["cycle"]}
    if len(groups) < expect.communicators:
        raise Failure(f"{len(groups)} communicators, expected {expect.communicators}: {verdict['summary']}")
    hangs = args.backend not in expect.ends
    if hangs != (code == 137):
        raise Failure(f"exit code {code}: " + ("it was not killed" if hangs else "it ends by itself"))
    report = report_of(args, session)
    wanted = [*expect.says]
    if expect.line:
        if not any(f"{expect.line}:{line}" in report for line in guilty_lines(expect.line, name)):
            raise Failure(f"the report names no line of {expect.line} that is guilty")
        # Where C++ has issued an operation within a call of Python: not only in a stack.
        for mark in ("also", f"also, {args.backend}"):
            wanted += [f"at {expect.line}:{line} " for line in marked_lines(expect.line, mark, name)]
    for text in wanted:
        if text not in report:
            raise Failure(f"the report does not name {text}")
    if expect.confirmed and verdict["verdict"] != "mismatch" and verdict["detected_after_s"] > SUSPECT_S:
        raise Failure(f"only after {verdict['detected_after_s']} s")


def check_innocent(code, verdict):
    if verdict["verdict"] not in ("healthy", "finished") or verdict["findings"] or verdict["signs"]:
        raise Failure(f"an innocent job was called {verdict['verdict']} ({verdict['confidence']}): {verdict['summary']}")
    if code != 0:
        raise Failure(f"the job's exit code became {code}")
    if verdict["evidence"]["records_lost"] != 0:
        raise Failure(f"{verdict['evidence']['records_lost']} records lost")


def run_once(args, name, twin):
    """One run under gordian; returns None, or what was wrong."""
    ranks = RANKS_OF_ALL if name == "all" else JOBS[name].ranks
    work = tempfile.mkdtemp(prefix=f"gordian-torch-{name}-")
    began = time.monotonic()
    try:
        code, verdict = watched(args, name, ranks, twin, work)
        if twin:
            check_innocent(code, verdict)
        else:
            check(args, name, code, verdict, os.path.join(work, "session"))
    except (Failure, OSError, KeyError, ValueError) as e:
        if not args.pending:
            for file in ("stderr", "stdout", "session/verdict.json"):
                path = os.path.join(work, file)
                if os.path.exists(path):
                    with open(path, encoding="utf-8", errors="replace") as f:
                        print(f"--- {file}\n{f.read()[-6000:]}")
            repeat = [sys.argv[0], "--build", args.build, "--backend", args.backend, "--job", name] + (["--twin"] if twin else [])
            print(f"evidence: {work}\nrepeat: {shlex.join(repeat)}")
        elif not args.keep:
            shutil.rmtree(work, ignore_errors=True)
        return str(e)
    print(f"{name}{' (twin)' if twin else ''}, {ranks} ranks: {verdict['verdict']} ({verdict['confidence']}), culprits "
          f"{verdict['culprit_ranks']}, {time.monotonic() - began:.1f} s in all", flush=True)
    if args.keep:
        print(f"evidence: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    return None


def run_truth(args, names):
    wrong = 0
    for name in names:
        for twin in (False, True):
            ended, printed = alone(args, name, JOBS[name].ranks, twin, PATIENCE_S)
            expected = (["ends with 0"] if twin else
                        ["ends with 1"] if args.backend in JOBS[name].ends else ["hangs"])
            right = ended in expected and (not twin or "done" in printed.split())
            wrong += not right
            print(f"{name}{' (twin)' if twin else ''}: {ended}{'' if right else f', expected {expected}: {printed[-500:]}'}",
                  flush=True)
    return 1 if wrong else 0


def run_twins_alone(args):
    ended, printed = alone(args, "all", RANKS_OF_ALL, True, LONGEST_S)
    if ended != "ends with 0" or "done" not in printed.split():
        print(f"FAILED twins: without gordian, they: {ended}\n{printed[-3000:]}\n"
              f"repeat: {shlex.join(command_of(args, 'all', RANKS_OF_ALL, True))}")
        return 1
    print(f"{len(jobs_of(args.backend))} twins end")
    return 0


def run_examples(args):
    """The examples, repaired and without gordian."""
    root = os.path.dirname(os.path.dirname(HERE))
    scripts = [os.path.join(root, "examples", name, "train.py") for name in EXAMPLES]
    runs = [(script, subprocess.Popen([args.python, os.path.join(HERE, "start.py"), "2", script, "--repaired"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      stdin=subprocess.DEVNULL, start_new_session=True)) for script in scripts]
    wrong = 0
    for script, process in runs:
        try:
            printed = process.communicate(timeout=LONGEST_S)[0]
        except subprocess.TimeoutExpired:
            end(process)
            printed = process.communicate()[0] + f"\nstill running after {LONGEST_S} s"
        if process.returncode != 0 or "done" not in printed.split():
            wrong += 1
            print(f"FAILED {script} --repaired: ended with {process.returncode}:\n{printed[-3000:]}\n"
                  f"repeat: {shlex.join([args.python, os.path.join(HERE, 'start.py'), '2', script, '--repaired'])}")
    return 1 if wrong else 0


def check_listed(listed):
    """CTest asserts the verdicts of those jobs that are not pending, and of no other."""
    asserted = {name for name, expect in jobs_of("gloo").items() if not expect.pending}
    for name in sorted(asserted ^ listed):
        print(f"FAILED {name}: it is {'pending' if name in listed else 'not pending'} in expectations.py, and "
              f"{'in' if name in listed else 'not in'} CMakeLists.txt")
    for name, expect in JOBS.items():
        if expect.line:
            guilty_lines(expect.line, name)
    return 1 if asserted ^ listed else 0


def run_pending(args):
    moved = 0
    for name, expect in jobs_of(args.backend).items():
        if not expect.pending:
            continue
        problem = run_once(args, name, False)
        moved += problem is None
        print(f"{name}: {'passes: take away its `pending`' if problem is None else f'pending, {expect.pending}: {problem}'}",
              flush=True)
    print(f"{sum(1 for e in JOBS.values() if e.pending)} pending, {moved} of them pass")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--job", choices=sorted(JOBS))
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without gordian")
    parser.add_argument("--pending", action="store_true")
    parser.add_argument("--listed", metavar="JOB,JOB", help="the jobs that CTest runs")
    parser.add_argument("--truth", action="store_true", help="with --job: of that one")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--keep", action="store_true", help="keep the evidence of a success too")
    args = parser.parse_args()
    if args.table:
        for name, expect in JOBS.items():
            print(f"{name}: {' or '.join(expect.verdicts)}, culprits {' or '.join(map(str, culprit_sets(expect)))}, "
                  f"{expect.ranks} ranks{f', {expect.backend}' if expect.backend else ''}{'' if not expect.pending else '; pending: ' + expect.pending}")
        return 0
    if args.listed is not None:
        return check_listed(set(filter(None, args.listed.split(","))))
    if args.job and JOBS[args.job].backend not in ("", args.backend):
        parser.error(f"{args.job} needs --backend {JOBS[args.job].backend}")
    args.python = interpreter()
    if args.python is None:
        print("skipped: no python3 here has torch (Debian: python3-torch; ./dev test installs it)")
        return SKIP
    if args.truth:
        return run_truth(args, [args.job] if args.job else list(jobs_of(args.backend)))
    if args.pending:
        return run_pending(args)
    if args.examples:
        return run_examples(args)
    if args.twins and args.alone:
        return run_twins_alone(args)
    if args.twins:
        problem = run_once(args, "all", True)
    elif args.job:
        problem = run_once(args, args.job, args.twin)
    else:
        parser.error("one of --job, --twins, --truth, --pending, --examples and --table says what to run")
    if problem is not None:
        print(f"FAILED {args.job or 'twins'}: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
