#!/usr/bin/env python3
"""Corpora of jobs with the truth from running them: docs/corpus.md.

  corpus.py --build build/release [--only FAMILY]... [--jobs N] [--seed S] [--resume] [--out FOLDER]
  corpus.py --build build/release --only FAMILY --sample K     K jobs spread over the family; fails on any mistake
  corpus.py --build build/release --job FAMILY.INDEX [--seed S] one job, its evidence kept
  corpus.py --out FOLDER --table                                the tables of what was run
  corpus.py --out FOLDER --publish MACHINE                      bench/results/corpus.json and the pages, from all seeds
"""

import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import execute  # noqa: E402
import judge  # noqa: E402
import table  # noqa: E402
from families import FAMILIES  # noqa: E402
from program import Program  # noqa: E402

SEED = 20260
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOTES = ["Seed 20260 is the one that gordian was developed on.",
         "\"Verdict after\" is from the moment when the emulator said that nothing can move to the first verdict of "
         "trouble; suspicions come after the threshold."]


def make(family, index, seed):
    return FAMILIES[family].job(index, random.Random(f"{seed}/{family}/{index}"))


def run_one(args, family, index):
    folder = os.path.join(args.work, f"{family}.{index}")
    begin = time.monotonic()
    job = make(family, index, args.seed)
    pauses = random.Random(f"{args.seed}/{family}/{index}/pauses")
    result = judge.judge(job, args.build, folder, pauses)
    result.update(seed=args.seed, wall=round(time.monotonic() - begin, 2), revision=args.revision)
    if table.is_mistake(result) or args.keep:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "original"), "w") as f:
            f.write(job.original.text())
        with open(os.path.join(folder, "mutated"), "w") as f:
            f.write(job.mutated.text())
        with open(os.path.join(folder, "result.json"), "w") as f:
            json.dump(result, f, indent=1)
        result["evidence"] = folder
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def wanted(args):
    names = args.only or sorted(FAMILIES)
    unknown = [name for name in names if name not in FAMILIES and not any(f.startswith(name) for f in FAMILIES)]
    if unknown:
        raise SystemExit(f"no family {unknown[0]}: {' '.join(sorted(FAMILIES))}")
    chosen = [f for f in sorted(FAMILIES) if any(f == name or f.startswith(name) for name in names)]
    out = []
    for family in chosen:
        count = FAMILIES[family].COUNT
        step = 1 if not args.sample else max(1, count // args.sample)
        indices = list(range(0, count, step))[:args.sample or count]
        out += [(family, index) for index in indices]
    # Families side by side, so that a run that is broken off has seen all of them.
    return sorted(out, key=lambda each: (each[1] / FAMILIES[each[0]].COUNT, each[0]))


def path_of(out, seed):
    return os.path.join(out, f"results.{seed}.jsonl")


def load(path):
    done = {}
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                try:
                    result = json.loads(line)
                except ValueError:
                    continue  # cut off when the run was killed
                done[result["job"]] = result
    return done


def revision():
    """Of the tree that is run, with a plus where something is not committed."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT] + list(words), capture_output=True, text=True, timeout=60).stdout.strip()
    return (git("rev-parse", "--short", "HEAD") or "not recorded") + ("+" if git("status", "--porcelain", "-uno") else "")


def publish(args):
    """Writes bench/results/corpus.json from what was run, and the pages that show it."""
    by_seed = {}
    for path in glob.glob(path_of(args.out, "*")):
        results = list(load(path).values())
        if results:
            by_seed[results[0]["seed"]] = results
    if not by_seed:
        raise SystemExit(f"{args.out} has no results: run corpus.py first")
    everything = [r for results in by_seed.values() for r in results]
    revisions = {r["revision"] for r in everything}
    whole = sum(family.COUNT for family in FAMILIES.values())
    sampled = any(len(results) < whole for results in by_seed.values())
    data = {"title": "The corpus: what gordian says against what jobs do", "machine": args.publish,
            "revision": "not recorded" if any("+" in name for name in revisions) else ", ".join(sorted(revisions)),
            "date": datetime.date.today().isoformat(),
            "command": "tests/corpus/corpus.py --seed SEED" + (" --sample K --out FOLDER" if sampled else ""),
            "notes": NOTES, "tables": table.tables(by_seed, SEED, execute.SUSPECT_AFTER_S)}
    if sampled:
        data["tables"][0]["notes"] = [f"A sample, spread over all families, of the {whole:,} jobs of each seed."]
    with open(os.path.join(ROOT, "bench", "results", "corpus.json"), "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1, ensure_ascii=False)
        f.write("\n")
    return subprocess.run([os.path.join(ROOT, "bench", "results", "pages.py"), "--update"], check=False).returncode


def known_mistakes():
    """Jobs of the default seed whose mistake is known, with why (known.txt). They count in the table as any other."""
    known = {}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "known.txt")) as f:
        for line in f:
            words = line.split(maxsplit=1)
            if words and not line.startswith("#"):
                known[words[0]] = words[1].strip()
    return known


def repeat_command(result):
    return f"tests/corpus/corpus.py --build build/release --seed {result['seed']} --job {result['job']}"


def sweep(args):
    """A job that ends: it takes away what those that were killed left in /dev/shm."""
    program = Program(1)
    program.add(0, "sync", "device_sync")
    folder = os.path.join(args.work, "sweep")
    execute.run_alone(args.build, program, folder)
    shutil.rmtree(folder, ignore_errors=True)


def run_all(args, jobs, run, mistake, short):
    """Runs, side by side, those of `jobs` (by name: what `run` takes behind args) that the results in args.out lack.
    `mistake(result)`: what to print of it, or None; `short(results)`: of all so far, in a line."""
    os.makedirs(args.out, exist_ok=True)
    path = path_of(args.out, args.seed)
    if not args.resume and os.path.exists(path):
        os.replace(path, path + ".old")
    done = load(path)
    todo = [what for name, what in jobs.items() if name not in done]
    results = list(done.values())
    begin, count = time.monotonic(), 0
    with open(path, "a") as out, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(run, args, *what) for what in todo]
        try:
            for future in concurrent.futures.as_completed(futures):
                result = future.result()
                out.write(json.dumps(result) + "\n")
                out.flush()
                results.append(result)
                count += 1
                wrong = mistake(result)
                if wrong is not None:
                    print(wrong, flush=True)
                if count % 20 == 0 or count == len(todo):
                    left = (time.monotonic() - begin) / count * (len(todo) - count)
                    print(f"{count} of {len(todo)}, {left / 60:.0f} min left; {short(results)}", flush=True)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    sweep(args)
    return results


def mistake(result):
    if table.is_mistake(result):
        return f"{table.one_line(result)}\n    repeat: {repeat_command(result)}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", action="append", help="a family, or how the names of several begin")
    parser.add_argument("--jobs", type=int, default=3, help="side by side")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--resume", action="store_true", help="leave out what the results in the folder have")
    parser.add_argument("--out", help="where results and evidence go (build/corpus; of a sample a folder of its own, which "
                        "goes when nothing is wrong)")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--job")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--publish", metavar="MACHINE", help="in words, as the pages say where it ran")
    parser.add_argument("--list", action="store_true", help="families and how many jobs they have")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    args.revision = revision()
    temporary = None
    if args.out is None and args.sample:
        args.out = temporary = tempfile.mkdtemp(prefix="gordian-corpus-")
    args.out = args.out or os.path.join("build", "corpus")
    if args.list:
        for name in sorted(FAMILIES):
            print(name, FAMILIES[name].COUNT)
        return 0
    if args.table:
        print(table.render(list(load(path_of(args.out, args.seed)).values()), execute.SUSPECT_AFTER_S))
        return 0
    if args.publish:
        return publish(args)
    if args.job:
        args.keep = True
        args.work = tempfile.mkdtemp(prefix="gordian-corpus-")
        family, index = args.job.rsplit(".", 1)
        result = run_one(args, family, int(index))
        sweep(args)
        print(json.dumps(result, indent=1))
        return 1 if table.is_mistake(result) else 0
    args.work = os.path.join(os.path.abspath(args.out), "jobs")
    results = run_all(args, {f"{family}.{index}": (family, index) for family, index in wanted(args)}, run_one, mistake,
                      table.short)
    print(table.render(results, execute.SUSPECT_AFTER_S))
    known = known_mistakes() if args.sample and args.seed == SEED else {}
    # Only about whom gordian names, and about the kind that is known to be wrong; never about whether it says anything.
    excused = [r["job"] for r in results if r["job"] in known and r["score"] == "tp" and not r["left"]
               and (r["kind"] == "right" or known[r["job"]].startswith(r["verdict"] + " "))]
    mistakes = [r for r in results if table.is_mistake(r) and r["job"] not in excused]
    if temporary and not mistakes:
        shutil.rmtree(temporary)
    if mistakes and temporary:
        for result in mistakes:
            print(f"\n=== {table.one_line(result)}\nrepeat: {repeat_command(result)}\nevidence: {result['evidence']}")
            with open(os.path.join(result["evidence"], "mutated")) as f:
                print(f.read())
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
