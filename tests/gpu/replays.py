#!/usr/bin/env python3
"""Replays of the end-to-end jobs, with real NCCL on real GPUs.

  replays.py make BUILD FOLDER [--jobs N] [--only NAME,...]     where gordian is built: records the jobs, writes the programs
  replays.py run FOLDER OUT [--jobs N] [--only NAME,...]        where the GPUs are: compiles and runs them, prints the table

A program must hang (exit code 42), its fixed variants must end (0), and so for the script that torchrun runs. Programs of
more ranks than there are GPUs are named and left out. Settings of `run`: CXX, NCCL_HOME (include/, lib/), CUDA_HOME, and
TORCHRUN (a command; empty: no scripts).
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import replay  # noqa: E402

PATIENCE = 10  # seconds without a step that count as a hang; making a communicator is one step
LIMIT = 100   # seconds of one program; NCCL takes its time to begin


def make(args):
    def one(name):
        case = replay.Case(args.build, name, 1)
        try:
            _, document, err, _ = case.replay(case.record(name), "--minimize", "--fix", "--format", "torch")
            if document is None or not document["replayed"]:
                return f"FAILED {name}: {err}"
            target = os.path.join(args.folder, name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(os.path.join(case.work, "replay"), target)
            with open(os.path.join(target, "replay.json"), "w") as f:
                json.dump(document, f)
            return f"{name}: {' '.join(sorted(os.listdir(target)))}"
        finally:
            case.forget()

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        lines = list(pool.map(one, args.names or replay.HANGING))
    print("\n".join(lines))
    return 1 if any(line.startswith("FAILED") for line in lines) else 0


def gpus():
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def execute(command, out, **variables):
    """Exit code, or None for one that outlasted LIMIT; all that was said goes to `out`."""
    with open(out, "wb") as f:
        process = subprocess.Popen(command, stdout=f, stderr=subprocess.STDOUT, env={**os.environ, **variables}, start_new_session=True)
        try:
            return process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()


def program(source, out):
    """What one program of C++ did: its exit code as a word."""
    binary = os.path.join(out, os.path.basename(source)[:-3])
    cuda, nccl = os.environ.get("CUDA_HOME", "/usr/local/cuda"), os.environ.get("NCCL_HOME", "/usr")
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o", binary,
               "-isystem", cuda + "/include", "-isystem", nccl + "/include", "-L" + cuda + "/lib64"]
    library = os.path.join(nccl, "lib", "libnccl.so.2")
    command += [library, "-Wl,-rpath," + os.path.dirname(library)] if os.path.exists(library) else ["-lnccl"]
    if execute(command + ["-lcudart"], binary + ".build.txt") != 0:
        return "not compiled"
    code = execute([binary, "--patience", str(PATIENCE)], binary + ".txt")
    return {42: "hangs", 0: "ends", None: "neither"}.get(code, f"exit code {code}")


def script(source, ranks, out):
    text = os.path.join(out, "torch.txt")
    command = shlex.split(os.environ["TORCHRUN"]) + ["--standalone", f"--nproc-per-node={ranks}", source, "--patience", str(PATIENCE)]
    code = execute(command, text)
    with open(text, errors="replace") as f:
        reproduced = "reproduced" in f.read()
    if code is None:
        return "neither"
    return "hangs" if reproduced and code != 0 else "ends" if code == 0 else f"exit code {code}"


def run(args):
    there = gpus()

    def one(name):
        folder, out = os.path.join(args.folder, name), os.path.join(args.out, name)
        with open(os.path.join(folder, "replay.json")) as f:
            document = json.load(f)
        ranks = document["ranks"]["replay"]
        if ranks > there:
            return name, document, None
        os.makedirs(out, exist_ok=True)
        done = {"replay": program(os.path.join(folder, "replay.cc"), out)}
        for fix in sorted(f for f in os.listdir(folder) if f.startswith("fix-") and f.endswith(".cc")):
            done[fix[:-3]] = program(os.path.join(folder, fix), out)
        if os.environ.get("TORCHRUN") and os.path.exists(os.path.join(folder, "replay.py")):
            done["torch"] = script(os.path.join(folder, "replay.py"), ranks, out)
        return name, document, done

    began, wrong = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, document, done in pool.map(one, args.names or sorted(os.listdir(args.folder))):
            ranks, operations = document["ranks"], document["operations"]
            row = f"| `{name}` | {ranks['recorded']} → {ranks['replay']} | {operations['recorded']} → {operations['replay']} | "
            if done is None:
                print(row + f"more than {there} GPUs | | |", flush=True)
                continue
            fixes = [f"`{key}` {what}" for key, what in done.items() if key.startswith("fix-")]
            good = all(what == ("ends" if key.startswith("fix-") else "hangs") for key, what in done.items())
            wrong += not good
            print(row + f"{done['replay']} | {done.get('torch', '')} | {', '.join(fixes)} |{'' if good else ' <--'}", flush=True)
    print(f"{there} GPUs, {time.monotonic() - began:.0f} s, {wrong} not as expected")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, places in (("make", ("build", "folder")), ("run", ("folder", "out"))):
        sub = verbs.add_parser(verb)
        for place in places:
            sub.add_argument(place, type=os.path.abspath)
        sub.add_argument("--only", dest="names", type=lambda names: names.split(","))
        sub.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    return make(args) if args.verb == "make" else run(args)


if __name__ == "__main__":
    sys.exit(main())
