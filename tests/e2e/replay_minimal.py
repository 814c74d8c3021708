#!/usr/bin/env python3
"""A minimized replay has no statement too many: without any one of them it ends, or hangs in another way.

  replay_minimal.py BUILD JOB ... [--jobs N]

Each job is recorded, minimized and run. Then the program is written anew without one statement, once for each, compiled,
and run under the emulator. A statement is a call in a rank's function after its streams and communicators are made, and
used once where the job had used them before (Connect); the calls of one collective, or of one transfer, at all its
members are one statement, since a member alone that leaves its call out is another hang. Calls that the job did not
reach stay: they let the program end.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

import replay
from replay import Failure, expect

# Jobs that hang in another way without a statement. In most a rank is gone: without the call of the others it stays gone,
# and without its going the others still wait.
OTHERWISE = ("missing_rank", "spinning_rank", "exited_rank", "killed_rank", "stopped_rank", "missing_send", "aborted_rank")

OPERATION = re.compile(r"NCCL\(nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|AlltoAll|Gather|Scatter|Send|Recv)\((.*)\)\);")
MAKES = re.compile(r"NCCL\((?:MakeComm\(&(\w+), \"[^\"]*\", \d+, (\d+), ([\w.]+)|SplitComm\((\w+), ([^,]+), ([^,]+), &(\w+))")
NOT_REACHED = "// not reached; "


class Program:
    def __init__(self, text):
        self.lines = text.splitlines()
        table = re.search(r"kRankFunctions\[kRanks\]\)\(Thread&\) = \{(.*)\};", text).group(1)
        self.functions = table.split(", ")  # by rank
        self.units = {}  # what is left out together: a key, and line numbers
        bodies = {}
        for number, line in enumerate(self.lines):
            begins = re.match(r"void (Rank\d+)\(Thread& me\) \{", line)
            if begins:
                end = self.lines.index("}", number)
                bodies[begins.group(1)] = range(number + 1, end)
        for rank, function in enumerate(self.functions):
            self.read(rank, bodies[function])
        self.join()

    # Of one rank. Two ranks may share the lines.
    def read(self, rank, body):
        places, counts = {}, {}
        made = False  # its streams and communicators
        skipped = False  # calls that were not reached
        group, captures = None, False
        for number in body:
            line = self.lines[number].strip()
            if not line:
                made = True
                continue
            makes = MAKES.search(line)
            if makes and makes.group(1):
                places[makes.group(1)] = rank if makes.group(3) == "me.rank" else int(makes.group(3))
            if line.startswith("std::thread"):
                group, skipped = None, False
            if line.startswith("//"):
                skipped = line.startswith(NOT_REACHED)
                continue
            if not made or not line.endswith(";") or line.startswith(("std::thread", "thread", "Thread me", "});", "CUDA(cudaSetDevice(rank))", "(void)")):
                continue
            if line.startswith("ncclWindow_t"):
                continue
            if line == "NCCL(ncclGroupStart());":
                following = self.lines[number + 1].strip()
                skipped = skipped or following.startswith(NOT_REACHED)
                group = number
            if line == "NCCL(ncclGroupEnd());" and group is not None:
                if not skipped:
                    self.add(("group", group), group, number)
                group = None
                continue
            if line == "NCCL(ncclGroupStart());":
                continue
            if line.startswith("Capture(me,"):
                captures = True
            if "= EndCapture(me," in line:
                captures = False
                continue
            operation = OPERATION.search(line)
            if operation:
                self.add(self.key(operation, places, counts), number, reached=not skipped)
                continue
            if makes:
                self.add(("make", makes.group(1) or (makes.group(4), makes.group(7))), number)
                continue
            # A graph without its operations is launched for nothing; what forks its streams goes with them.
            if not skipped and not captures and "cudaGraphLaunch(" not in line:
                self.add(("call", number), number)

    def key(self, operation, places, counts):
        words = operation.group(2).split(", ")
        comm = words[-2]
        kind = operation.group(1)
        if kind not in ("Send", "Recv"):
            key = (comm, "collective")
        else:
            me, peer = places[comm], int(words[-3])
            key = (comm, me, peer) if kind == "Send" else (comm, peer, me)
        number = counts[key, kind in ("Recv",)] = counts.get((key, kind in ("Recv",)), -1) + 1
        return key + (number,)

    def add(self, key, *numbers, reached=True):
        unit = self.units.setdefault(key, (set(), []))
        unit[0].update(numbers)
        unit[1].append(reached)

    # Units with a line in common are one: ranks that share a function leave it out together. What was reached nowhere
    # is none.
    def join(self):
        joined = []
        for lines, reached in self.units.values():
            if not any(reached):
                continue
            for other in [other for other in joined if other & lines]:
                joined.remove(other)
                lines = lines | other
            joined.append(set(lines))
        self.left_out = sorted(joined, key=min)

    def without(self, unit):
        kept = [line for number, line in enumerate(self.lines) if number not in unit]
        # A communicator that is never made cannot be called.
        for number in unit:
            makes = MAKES.search(self.lines[number])
            name = makes and (makes.group(1) or makes.group(7))
            if name:
                kept = [line for line in kept if not re.search(rf"[(, ]&?{name}[,)]", line) or " = nullptr;" in line]
        return "\n".join(kept) + "\n"


class Minimal(replay.Case):
    def __init__(self, build, name):
        super().__init__(build, name, 1)

    def compile(self, source, binary):
        headers = [os.path.join(os.environ[v], "include") for v in ("CUDA_HOME", "NCCL_HOME") if v in os.environ]
        with open(os.path.join(self.build, "CMakeCache.txt")) as f:
            headers += [line.split("=", 1)[1].strip() for line in f if line.startswith(("GORDIAN_CUDA_INCLUDE:", "GORDIAN_NCCL_INCLUDE:"))]
        emulator = os.path.join(self.build, "lib", "emulator")
        done = self.command("g++", "-std=c++17", "-O0", "-pthread", source, "-o", binary,
                            *[word for folder in headers for word in ("-isystem", folder)],
                            "-L" + emulator, "-lnccl", "-lcudart", "-Wl,-rpath-link," + emulator)
        expect(done.returncode == 0, done.stderr)

    def run(self):
        session = self.record(self.name)
        code, document, err, _ = self.replay(session, "--minimize", "--verify", "1")
        expect(code == 0, f"exit code {code}: {json.dumps(document)} {err}")
        expect(not any("no smaller program" in note for note in document["notes"]), f"not minimized: {document['notes']}")
        with open(document["program"]) as f:
            program = Program(f.read())
        expect(program.left_out, "there is no statement")
        emulator = os.path.join(self.build, "lib", "emulator")
        for number, unit in enumerate(program.left_out):
            source = os.path.join(self.work, f"without_{number}.cc")
            with open(source, "w") as f:
                f.write(program.without(unit))
            binary = source[:-3]
            self.compile(source, binary)
            what = "; ".join(program.lines[line].strip() for line in sorted(unit))
            done = self.command(binary, "--patience", "10", LD_LIBRARY_PATH=emulator)
            if done.returncode == 0:
                continue
            expect(self.name in OTHERWISE, f"it hangs without {what} as well: {done.stderr}\n  {source}")
            if done.returncode == 3:  # a rank was to be killed, and ends by itself
                continue
            own = os.path.join(self.work, f"session_{number}")
            self.command(self.gordian, "run", "--emulator", "--quiet", "--session", own, "--suspect-after", "1", "--", binary, "--patience", "4")
            _, told, err, _ = self.replay(own)
            expect(told.get("signature") != document["signature"], f"without {what} it is {told} as well: {err}\n  {source}")
        return len(program.left_out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("jobs_to_run", nargs="+", metavar="JOB")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()

    def one(name):
        case = Minimal(args.build, name)
        try:
            statements = case.run()
            case.forget()
            return name, f"ok {name}: {statements} statements", True
        except (Failure, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            return name, f"FAILED {name}: {type(error).__name__}: {error}\n  its folder: {case.work}", False

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for _, text, good in pool.map(one, args.jobs_to_run):
            print(text, flush=True)
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
