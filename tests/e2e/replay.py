#!/usr/bin/env python3
"""gordian replay from outside: jobs are recorded, replayed as programs of their own, and these must hang and be told alike.

  replay.py BUILD CASE ... [--runs K] [--jobs N]    cases: names of end-to-end jobs; JOB.twin, fix.JOB, golden.NAME, steps, hung_steps, graph_steps, wrong_result, interrupted, unreadable, all
  replay.py BUILD --table [--runs K]                 every end-to-end job that hangs, those that are refused too, as a
                                                     table (docs/replay.md)

A job that hangs must be replayed with exit code 0: gordian itself has run the program, and wants exit code 42 and the
same signature K times out of K. Its innocent twin must be refused with exit code 3 and a reason. A failure leaves its
folder behind and names it.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import run_job

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 100  # seconds; for one command

HANGING = [
    "inversion_one_stream", "inversion_subset", "inversion_sync", "inversion_free", "inversion_cold",
    "inversion_pageable_copy", "three_comm_cycle", "event_cycle", "hybrid_recv_all_reduce", "pipeline_swapped",
    "missing_rank", "spinning_rank", "one_too_many", "exited_rank", "killed_rank", "stopped_rank", "aborted_rank",
    "missing_send", "mismatch_count_hangs", "mismatch_type_hangs", "mismatch_no_root_hangs", "mismatch_kind_hangs",
    "init_missing", "init_order", "split_divergent", "split_against_all_reduce", "windows_opposite", "destroy_opposite",
    "graph_inversion", "graph_missing_replay", "graph_against_sync", "inversion_loaders", "inversion_dying_threads",
    "inversion_beside_sleeper", "launch_order", "queue_behind", "flag_reduced_to_one", "fused_differently",
    "one_step_less", "batch_asymmetric", "wrong_peer", "send_never_received", "destroyed_with_pending",
    "blocked_in_teardown",
]
# Hang, and cannot be replayed: part of the reason.
REFUSED = {
    "memory_gate": "waits for a value in memory",
    "graph_stuck_inside": "a kernel of the program hangs",
    "endless_kernel": "a kernel of the program hangs",
    "init_same_rank": "several callers of ncclCommInitRank pass rank 1 of ",
    "init_other_size": "callers of ncclCommInitRank pass different numbers of ranks for ",
}
# Ends in spite of its mismatch.
ENDS = ["mismatch_count_ends"]
# A change after which it ends.
FIXES = {"inversion_sync": "order", "inversion_one_stream": "order", "pipeline_swapped": "order", "hybrid_recv_all_reduce": "order"}


# Every end-to-end job that hangs, and links the libraries.
ALL_HANGING = [job for job, wanted in run_job.JOBS.items()
               if wanted.hangs and job not in run_job.BY_OTHER_WAYS and job not in run_job.APART]


class Failure(Exception):
    pass


class Refused(Failure):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))}
    env.update({k: v for k, v in os.environ.items() if k == "CUDA_HOME"})
    env.update(more)
    return env


class Case:
    def __init__(self, build, name, runs):
        self.build, self.name, self.runs = os.path.abspath(build), name, runs
        self.gordian = os.path.join(self.build, "bin", "gordian")
        self.work = tempfile.mkdtemp(prefix="gordian-replay-")
        self.row = None

    def command(self, *words, **variables):
        return subprocess.run(list(words), capture_output=True, text=True, timeout=LIMIT, cwd=self.work,
                              env=environment(**variables))

    def record(self, job, *arguments):
        session = os.path.join(self.work, "session")
        self.command(self.gordian, "run", "--emulator", "--session", session, "--on-verdict", "kill-suspected",
                     "--suspect-after", "2", "--", os.path.join(self.build, "tests", "gordian_e2e_job"), job, *arguments,
                     **({} if "--twin" in arguments else run_job.SETTINGS.get(job, {})))
        expect(os.path.exists(os.path.join(session, "trace.gtrace")), "nothing was recorded")
        return session

    def replay(self, path, *options):
        began = time.monotonic()
        done = self.command(self.gordian, "replay", path, "-o", os.path.join(self.work, "replay"), "--json", *options)
        try:
            return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr, time.monotonic() - began
        except ValueError:
            raise Failure(f"no JSON: {done.stdout}{done.stderr}")

    def refused(self, path, reason):
        code, document, err, _ = self.replay(path, "--minimize", "--verify", "1")
        expect(code == 3, f"exit code {code} instead of 3: {document} {err}")
        expect(document["replayed"] is False, "it says that it was replayed")
        expect(any(reason in text for text in document["refused"]), f"not the reason: {document['refused']}")
        expect(reason in err, f"the reason is not told to people: {err}")
        expect(not os.path.exists(os.path.join(self.work, "replay", "replay.cc")), "a program was written all the same")

    def hangs(self, job):
        session = self.record(job)
        with open(os.path.join(session, "verdict.json")) as f:
            verdict = json.load(f)["verdict"]
        code, document, err, seconds = self.replay(session, "--minimize", "--verify", str(self.runs))
        if code == 3:
            raise Refused("; ".join(document["refused"]))
        expect(code == 0, f"exit code {code}: {json.dumps(document)} {err}")
        verified = document["verified"]
        expect(verified["runs"] == verified["hung"] == verified["same"] == self.runs, f"{verified}")
        expect(all(run["exit_code"] == 42 and run["signature"] == document["signature"] for run in verified["told"]),
               f"{verified}")
        expect(document["signature"]["verdict"] == verdict, f"{document['signature']} of a job that is {verdict}")
        with open(document["program"]) as f:
            text = f.read()
        expect(f"{self.runs} of {self.runs} runs" in text, "the header does not say how it was verified")
        self.row = (job, document["signature"], document["ranks"], document["operations"], seconds)

    # A replay with one change ends, by itself too; and the script for torchrun lies beside it.
    def fixed(self, job):
        code, document, err, _ = self.replay(self.record(job), "--minimize", "--verify", str(self.runs), "--fix", "--format", "torch")
        expect(code == 0, f"exit code {code}: {json.dumps(document)} {err}")
        fixes = {fix["name"]: fix for fix in document["fixes"]}
        expect(FIXES[job] in fixes, f"{list(fixes)} without {FIXES[job]}")
        fix = fixes[FIXES[job]]
        expect(fix["ended"] == fix["runs"] == self.runs, f"{fix}")
        for other in fixes.values():
            expect((other["program"] is not None) == (other["ended"] == other["runs"]), f"{other}")
        with open(fix["program"]) as f:
            text = f.read()
        expect(f"{self.runs} of {self.runs} runs under the emulator ended" in text and fix["what"] in text, text[:600])
        expect(document["no_script"] == [] and self.command(sys.executable, "-m", "py_compile", document["script"]).returncode == 0,
               f"{document['no_script']}")

    # Against the emulator, without gordian.
    def compiled(self, source, *arguments):
        headers = [os.path.join(os.environ[v], "include") for v in ("CUDA_HOME", "NCCL_HOME") if v in os.environ]
        with open(os.path.join(self.build, "CMakeCache.txt")) as f:
            headers += [line.split("=", 1)[1].strip() for line in f if line.startswith(("GORDIAN_CUDA_INCLUDE:", "GORDIAN_NCCL_INCLUDE:"))]
        emulator = os.path.join(self.build, "lib", "emulator")
        binary = os.path.join(self.work, "compiled")
        done = self.command("g++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o", binary,
                            *[word for folder in headers for word in ("-isystem", folder)],
                            "-L" + emulator, "-lnccl", "-lcudart", "-Wl,-rpath-link," + emulator)
        expect(done.returncode == 0, done.stderr)
        return self.command(binary, *arguments, LD_LIBRARY_PATH=emulator)

    # The golden programs: they compile without a warning and hang, or are timed, by themselves, without gordian too.
    def golden(self, name):
        ends = name == "benchmark"
        done = self.compiled(os.path.join(ROOT, "tests", "golden", "replays", name + ".cc"), "--patience", "10" if ends else "1.5")
        if ends:
            expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
            expect("checks of results passed" in done.stdout and "graph g1" in done.stdout, done.stdout)
            return
        expect(done.returncode == 42, f"exit code {done.returncode}: {done.stderr}")
        expect("reproduced" in done.stderr and ": is in " in done.stderr, done.stderr)

    def record_example(self, *arguments):
        session = os.path.join(self.work, "session")
        done = self.command(self.gordian, "run", "--emulator", "--quiet", "--session", session, "--",
                            os.path.join(self.build, "lib", "demo", "hybrid_training"), *arguments)
        expect(done.returncode == 0, done.stderr)
        return session

    # Steps of a job that ends, as a benchmark: whole, some, with fewer ranks; and what there is no benchmark of.
    def steps(self):
        session = self.record_example("--steps", "6")
        sizes = []
        for options, ranks in ((["--all-steps"], 4), (["--all-steps", "2..3"], 4), (["--all-steps", "2", "--fold", "tp=1"], 2)):
            code, document, err, _ = self.replay(session, *options, "--verify", str(self.runs))
            expect(code == 0, f"{options}: exit code {code}: {json.dumps(document)} {err}")
            expect(document["verified"] == {"runs": self.runs, "ended": self.runs}, f"{document}")
            expect(document["ranks"] == {"recorded": 4, "replay": ranks}, f"{document}")
            done = self.command(self.gordian, "run", "--emulator", "--quiet", "--", os.path.join(self.work, "replay", "bench"), "--repeat", "3")
            expect(done.returncode == 0 and "checks of results passed" in done.stdout, f"{done.stdout} {done.stderr}")
            rows = [line for line in done.stdout.splitlines() if line.startswith(("AllReduce on ", "group:", "AllGather on "))]
            expect(rows and all(float(row.split()[-3]) > 0 for row in rows), done.stdout)
            sizes.append(document["operations"]["replay"])
        done = self.command(self.gordian, "replay", session, "-o", "here", "--all-steps", "1", "--verify", "1")  # from where one stands
        expect(done.returncode == 0 and os.path.exists(os.path.join(self.work, "here", "bench.cc")), f"{done.stdout} {done.stderr}")
        whole, two, folded = sizes
        expect(0 < folded < two < whole, f"{sizes}")
        code, document, err, _ = self.replay(session, "--all-steps", "7..99")
        expect(code == 3 and "there are no steps 7..99" in err, f"{code} {err}")
        for wrong, said in ((["--fold", "xp=1"], "there are "), (["--fold", "tp=7"], "a number from 1 to 1"), (["--fold", "tp"], "NAME=MEMBERS")):
            code, document, err, _ = self.replay(session, "--all-steps", *wrong)
            expect(code == 2 and said in err, f"{wrong}: {code} {err}")
        code, document, err, _ = self.replay(session, "--all-steps", "x..3")
        expect(code == 2 and "not x..3" in err, f"{code} {err}")

    # Steps of a job that hung: what did not finish is no part of the benchmark, and that is said.
    def hung_steps(self):
        session = self.record("steady_then_inversion")
        code, document, err, _ = self.replay(session, "--all-steps", "--verify", str(self.runs))
        expect(code == 0 and document["verified"] == {"runs": self.runs, "ended": self.runs}, f"{document} {err}")
        expect(any(note.startswith("left out: 4 operations") for note in document["notes"]), f"{document}")
        expect(document["operations"]["replay"] > 0, f"{document}")

    # A graph that holds a group: both ends of the group are captured.
    def graph_steps(self):
        session = self.record("graph_stuck_inside", "--twin")
        code, document, err, _ = self.replay(session, "--all-steps", "2", "--verify", str(self.runs))
        expect(code == 0 and document["verified"] == {"runs": self.runs, "ended": self.runs}, f"{document} {err}")
        with open(document["benchmark"]) as f:
            rank = f.read().split(" Rank0(")[1].split("EndCapture(")[0]
        calls = [word for word in ("ncclGroupStart", "ncclGroupEnd", "Capture(") if rank.count(word) == 1]
        expect(len(calls) == 3, f"{rank}")

    # A wrong result is found: the benchmark, with another operator in its calls than in its table.
    def wrong_result(self):
        session = self.record_example("--steps", "3")
        code, document, err, _ = self.replay(session, "--all-steps")
        expect(code == 0, err)
        with open(document["benchmark"]) as f:
            text = f.read()
        changed = text.replace("return ncclAllReduce(in, out, check.count, check.type, check.op,", "return ncclAllReduce(in, out, check.count, check.type, ncclMax,")
        expect(changed != text, "nothing to change in the program")
        done = self.run_by_hand("wrong", changed)
        expect(done.returncode == 3 and "a result is wrong" in done.stderr, f"exit code {done.returncode}: {done.stderr}")

    # Compiles a program against the emulator and runs it without gordian.
    def run_by_hand(self, name, text):
        source = os.path.join(self.work, name + ".cc")
        with open(source, "w") as f:
            f.write(text)
        return self.compiled(source, "--patience", "10")

    # Ctrl-C leaves no process and no folder behind.
    def interrupted(self):
        session = self.record("inversion_sync")
        folder = os.path.join(self.work, "tmp")
        os.mkdir(folder)
        process = subprocess.Popen([self.gordian, "replay", session, "-o", os.path.join(self.work, "replay"), "--verify", "200"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work, env=environment(TMPDIR=folder))
        began = time.monotonic()
        while not any(name.endswith(".session") for _, names, _ in os.walk(folder) for name in names):
            expect(process.poll() is None and time.monotonic() - began < LIMIT, "no run has begun")
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
        expect(process.returncode == 128 + signal.SIGINT and "interrupted" in err, f"exit code {process.returncode}: {err}")
        expect(os.listdir(folder) == [], f"it leaves {os.listdir(folder)}")
        began = time.monotonic()
        while left := self.processes():
            expect(time.monotonic() - began < LIMIT, f"it leaves {left}")
            time.sleep(0.05)

    # Whose command names the folder.
    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    command = f.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if self.work in command and int(pid) != os.getpid():
                found.append(command)
        return found

    def unreadable(self):
        path = os.path.join(self.work, "none.gtrace")
        with open(path, "w") as f:
            f.write("this is no trace")
        code, document, err, _ = self.replay(path)
        expect(code == 2 and document is None and "none.gtrace" in err, f"{code} {document} {err}")

    def run(self):
        if self.name == "unreadable":
            self.unreadable()
        elif self.name.startswith("golden."):
            self.golden(self.name[7:])
        elif self.name == "steps":
            self.steps()
        elif self.name == "interrupted":
            self.interrupted()
        elif self.name == "hung_steps":
            self.hung_steps()
        elif self.name == "graph_steps":
            self.graph_steps()
        elif self.name == "wrong_result":
            self.wrong_result()
        elif self.name.startswith("fix."):
            self.fixed(self.name[4:])
        elif self.name.endswith(".twin"):
            self.refused(self.record(self.name[:-5], "--twin"), "the recorded job does not hang")
        elif self.name in REFUSED:
            self.refused(self.record(self.name), REFUSED[self.name])
        elif self.name in ENDS:
            self.refused(self.record(self.name), "the job ended by itself")
        else:
            self.hangs(self.name)

    def forget(self):
        shutil.rmtree(self.work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    names = args.cases
    if args.table:
        names = args.cases or ALL_HANGING
    elif names == ["all"]:
        names = HANGING + list(REFUSED) + ENDS + ["unreadable", "interrupted", "steps", "hung_steps", "graph_steps", "wrong_result"] + [f"{name}.twin" for name in HANGING[:12]]
    failed, refused, same = 0, 0, 0

    def one(name):
        case = Case(args.build, name, args.runs)
        try:
            if args.table:
                case.hangs(name)
            else:
                case.run()
            case.forget()
            return case, ""
        except Refused as error:
            if args.table:
                case.forget()
            return case, f"Refused: {error}"
        except (Failure, OSError, subprocess.TimeoutExpired, KeyError) as error:
            return case, f"{type(error).__name__}: {error}\n  its folder: {case.work}"

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, error in pool.map(one, names):
            if args.table and error.startswith("Refused: "):
                refused += 1
                print(f"| `{case.name}` | refused: {error[9:]} |", flush=True)
            elif error:
                failed += 1
                print(f"FAILED {case.name}: {error}", flush=True)
            elif args.table and case.row:
                job, signature, ranks, operations, seconds = case.row
                same += 1
                edges = f" ({', '.join(signature['edges'])})" if signature["edges"] else ""
                print(f"| `{job}` | {signature['verdict']}{edges} | {ranks['recorded']} → {ranks['replay']} | "
                      f"{operations['recorded']} → {operations['replay']} | {args.runs} of {args.runs} | {seconds:.1f} s |", flush=True)
            else:
                print(f"ok {case.name}", flush=True)
    if args.table:
        print(f"{same} of {len(names)} replayed and hung as recorded {args.runs} of {args.runs} times, {refused} refused, {failed} otherwise")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
