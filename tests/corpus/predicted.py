#!/usr/bin/env python3
"""Healthy runs of generated jobs, what `gordian predict` says of them, and what is true: docs/prediction.md.

  predicted.py --build build/release [--count N] [--jobs N] [--seed S] [--resume] [--out FOLDER] [--verify K]
  predicted.py --build build/release --job NAME [--seed S]      one job, its evidence kept
  predicted.py --build build/release --sample                   a few jobs; fails on anything that is wrong
  predicted.py --out FOLDER --table                             the tables of what was run
  predicted.py --out FOLDER --publish MACHINE                   the table of bench/results/prediction.json, and the page

The jobs 17.open and 17.fixed are a pair (orders.py). Each is known twice: by construction, and by forced runs without
gordian, whose end is the emulator's word. In a forced run the calls come in an order that deadlocks; of the twin such
orders are tried, too, and it ends, since its threads do not let them happen, or they do no harm.
"""

import argparse
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

import corpus  # noqa: E402
import execute  # noqa: E402
import orders  # noqa: E402

ROOT = corpus.ROOT
SEED = 23
COUNT = 420
VERIFY = 3
SAMPLE = [38, 53, 94, 118, 142, 191]  # pairs of the default seed, without a doubt
PATIENCE_MS = (1000, 4000, 15000)  # on a busy machine a thread comes late to its turn
TRIES_OF_TWIN = 3   # orders
TRIES_TO_RECORD = 3
LIMIT_S = 300


def ready_line():
    """Where the executor reduces: the line that the jobs with fused gradients name."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "executor", "communicate.cc")) as f:
        return next(f"communicate.cc:{number}" for number, line in enumerate(f, 1) if "ncclAllReduce" in line)


def make(name, seed):
    """(the job, the orders that deadlock where nothing prevents them, what prevents them)."""
    index, which = name.split(".")
    guilty, twin, rests_on = orders.pair(int(index), random.Random(f"{seed}/{index}"))
    dangerous = guilty.dangerous(getattr(guilty, "all_orders", None))
    return (guilty, guilty.deadlocks(), "") if which == "open" else (twin, dangerous, rests_on)


def force(build, name, job, wanted, folder, seed):
    """(what the forced runs did, in how many of them every call had its turn, how many runs)."""
    rng = random.Random(f"{seed}/{name}/forced")
    guilty = name.endswith(".open")
    tried = [rng.choice(wanted) for _ in PATIENCE_MS] if guilty else rng.sample(wanted, min(TRIES_OF_TWIN, len(wanted)))
    came, state = 0, "ended"
    for number, order in enumerate(tried):
        program = job.program(order, PATIENCE_MS[number] if guilty else PATIENCE_MS[0])
        at = os.path.join(folder, f"forced{number}")
        outcome = execute.run_alone(build, program, at)
        came += execute.turns_given_up(os.path.join(at, "results"), program.ranks) == 0
        if outcome.state != "ended":
            return outcome.state, came, number + 1
    return state, came, len(tried)


def record(build, job, folder):
    """Runs it under gordian. Returns how often it took, or None."""
    program = job.program()
    if "GORDIAN_READINESS_ORDERED" in program.environment:
        program.environment["GORDIAN_READINESS_ORDERED"] = ready_line()
    text, session = os.path.join(folder, "program"), os.path.join(folder, "session")
    with open(text, "w") as f:
        f.write(program.text())
    env = execute.environment(program, os.path.join(folder, "still"))
    for attempt in range(1, TRIES_TO_RECORD + 1):
        shutil.rmtree(session, ignore_errors=True)
        with open(os.path.join(folder, "record.out"), "wb") as out:
            process = subprocess.Popen(
                execute.WITH_US + [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--quiet", "--on-verdict", "kill",
                                   "--session", session, "--", os.path.join(build, "tests", "gordian_corpus_job"), text,
                                   os.path.join(folder, "results")],
                env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                execute.end_group(process)
        if code == 0:
            return attempt
    return None


def predict(build, folder, verify):
    done = subprocess.run(
        execute.WITH_US + [os.path.join(build, "bin", "gordian"), "predict", os.path.join(folder, "session"), "-o",
                           os.path.join(folder, "predicted"), "--verify", str(verify), "--json"],
        capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_"))})
    with open(os.path.join(folder, "predicted.json"), "w") as f:
        f.write(done.stdout)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def is_true(job, found):
    """By construction: an order that deadlocks has what this one needs."""
    if not job.deadlocks():
        return False
    said = [(order["first"]["rank"], order["first"]["communicator"], order["then"]["communicator"])
            for order in found["orders"]]
    return job.allows(said)


def judge(args, name, folder):
    job, wanted, rests_on = make(name, args.seed)
    guilty = name.endswith(".open")
    guards = sorted(set(job.guards.values()))
    result = {"job": name, "guilty": guilty, "ranks": job.ranks, "shape": job.shape, "rests_on": rests_on, "guards": guards,
              "unseen": not guilty and any(guard in orders.UNSEEN for guard in guards), "pool": getattr(job, "pool", False),
              "what": job.describe()}
    state, came, runs = force(args.build, name, job, wanted, folder, args.seed)
    result.update(forced=state, turns_came=came, forced_runs=runs)
    if state != ("stuck" if guilty else "ended"):
        return {**result, "kind": "thrown_out", "why": f"by construction it {'hangs' if guilty else 'ends'}; {state} when forced"}
    result["recorded"] = record(args.build, job, folder)
    if result["recorded"] is None:
        return {**result, "kind": "thrown_out", "why": f"{TRIES_TO_RECORD} runs did not end as recorded"}
    code, said, error = predict(args.build, folder, args.verify)
    result["code"] = code
    if said is None or code not in (0, 1):
        return {**result, "kind": "not_judged", "why": "; ".join(said["not_judged"]) if said else error[-400:],
                "verified": [], "listed": []}
    result["not_judged"] = said["not_judged"]
    result["complete"] = said["complete"]
    result["verified"] = [is_true(job, found) for found in said["predicted"]]
    result["listed"] = [is_true(job, found) for found in said["unconfirmed"]]
    result["whys"] = [found["why"] for found in said["unconfirmed"]]
    if guilty:
        result["kind"] = "found" if any(result["verified"]) else "listed" if any(result["listed"]) else "missed"
    else:
        result["kind"] = "accused" if result["verified"] else "doubted" if result["listed"] else "silent"
    return result


def is_wrong(result):
    """A miss, or something that is not true."""
    return (result["kind"] in ("thrown_out", "not_judged", "missed", "accused", "doubted")
            or not all(result["verified"] + result["listed"]))


def fails_sample(result):
    """The jobs of the sample are in no doubt, either."""
    return is_wrong(result) or result["kind"] not in ("found", "silent")


def one_line(result):
    why = result.get("why") or "; ".join(result.get("whys", []) + result.get("not_judged", []))
    return (f"{result['kind'].upper()} {result['job']}: {result['what']}"
            + (f" (twin by {result['rests_on']})" if result["rests_on"] else "") + (f": {why}" if why else ""))


def run_one(args, name):
    folder = os.path.join(args.work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    begin = time.monotonic()
    try:
        result = judge(args, name, folder)
    except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
        result = {"job": name, "guilty": name.endswith(".open"), "kind": "thrown_out", "why": repr(error), "what": "",
                  "rests_on": "", "unseen": False}
    result.update(seed=args.seed, seconds=round(time.monotonic() - begin, 1), revision=args.revision)
    if is_wrong(result) or args.keep:
        with open(os.path.join(folder, "result.json"), "w") as f:
            json.dump(result, f, indent=1)
        result["evidence"] = folder
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def share(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else ""


COLUMNS = ["Jobs", "An order deadlocks: predicted or listed", "... predicted", "No order does", "... listed", "... predicted",
           "True of what is predicted", "... and listed"]
SHAPES = {"stream": "one stream", "device_sync": "waits for the device", "free": "memory that is freed",
          "events": "events between streams", "legacy": "the legacy stream", "apart": "streams of their own",
          "fused": "fused gradients"}


def row_of(title, jobs):
    guilty, innocent = [r for r in jobs if r["guilty"]], [r for r in jobs if not r["guilty"]]
    verified = [true for r in jobs for true in r["verified"]]
    said = verified + [true for r in jobs for true in r["listed"]]
    return [title, share(sum(r["kind"] in ("found", "listed") for r in guilty), len(guilty)),
            share(sum(r["kind"] == "found" for r in guilty), len(guilty)), len(innocent),
            sum(r["kind"] == "doubted" for r in innocent), sum(r["kind"] == "accused" for r in innocent),
            share(sum(verified), len(verified)), share(sum(said), len(said))]


def rows_of(results, seed=""):
    """Jobs whose threads are ordered by what leaves no trace have a row of their own."""
    scored = [r for r in results if r["kind"] != "thrown_out"]
    seen, unseen = [r for r in scored if not r["unseen"]], [r for r in scored if r["unseen"]]
    rows = [row_of("**all below" + seed + "**", seen)]
    for shape, title in SHAPES.items():
        jobs = [r for r in seen if r["shape"] == shape]
        if jobs:
            rows.append(row_of(title, jobs))
    if unseen:
        rows.append(row_of("*beside these*: an order that leaves no trace", unseen))
    return rows


def summary(results):
    lines = [COLUMNS] + rows_of(results)
    widths = [max(len(str(row[i])) for row in lines) for i in range(len(COLUMNS))]
    lines = ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) for row in lines]
    thrown = sum(r["kind"] == "thrown_out" for r in results)
    again = sum((r.get("recorded") or 1) > 1 for r in results)
    lines.append(f"{len(results)} jobs, thrown out {thrown}, recorded more than once {again}, "
                 f"not judged {sum(r['kind'] == 'not_judged' for r in results)}")
    return "\n".join(lines)


def publish(args):
    """A row a kind of job of the default seed, and of each other seed that was run one row."""
    by_seed = {}
    for path in sorted(glob.glob(corpus.path_of(args.out, "*"))):
        results = list(corpus.load(path).values())
        by_seed[results[0]["seed"]] = results
    everything = [r for results in by_seed.values() for r in results]
    rows = rows_of(by_seed.pop(SEED), f", seed {SEED}")
    for seed, results in by_seed.items():
        others = rows_of(results)
        rows += [[f"**all, seed {seed}**"] + others[0][1:]]
        if "no trace" in others[-1][0]:
            rows += [[f"*beside these*, seed {seed}"] + others[-1][1:]]
    thrown = sum(r["kind"] == "thrown_out" for r in everything)
    forced = [r for r in everything if not r["guilty"] and "forced_runs" in r]
    runs, came = sum(r["forced_runs"] for r in forced), sum(r["turns_came"] for r in forced)
    note = (f"{len(everything):,} jobs, of which {thrown} were thrown out since forced runs contradicted their construction. "
            f"Where an order deadlocks, the job hung when one was forced. Where none does, jobs ended in {runs:,} runs that "
            f"were to be forced so; in {came:,} all calls had their turn, in the others the threads did not let it come. "
            f"Predicted: true, and its program hung in {args.verify} of {args.verify} runs.")
    revisions = sorted({r["revision"] for r in everything})
    table = {"id": "corpus", "caption": "Healthy runs of generated jobs: what `gordian predict` says of them",
             "columns": COLUMNS, "rows": rows, "notes": [note], "machine": args.publish,
             "revision": "not recorded" if any("+" in name for name in revisions) else ", ".join(revisions),
             "date": datetime.date.today().isoformat(), "command": "tests/corpus/predicted.py --seed SEED"}
    path = os.path.join(ROOT, "bench", "results", "prediction.json")
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    data["tables"] = [each for each in data["tables"] if each["id"] != "corpus"] + [table]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1, ensure_ascii=False)
        f.write("\n")
    return subprocess.run([os.path.join(ROOT, "bench", "results", "pages.py"), "--update"], check=False).returncode


def repeat_command(result):
    return f"tests/corpus/predicted.py --build build/release --seed {result['seed']} --job {result['job']}"


def mistake(result):
    return f"{one_line(result)}\n    repeat: {repeat_command(result)}" if is_wrong(result) else None


def short(results):
    return ", ".join(f"{kind} {sum(r['kind'] == kind for r in results)}"
                     for kind in ("found", "listed", "missed", "silent", "doubted", "accused", "thrown_out"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--count", type=int, default=COUNT, help="jobs, half of them twins")
    parser.add_argument("--jobs", type=int, default=6, help="side by side; they mostly wait")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--verify", type=int, default=VERIFY)
    parser.add_argument("--resume", action="store_true", help="leave out what the results in the folder have")
    parser.add_argument("--out", default=os.path.join("build", "predicted"), help="where results and evidence go")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--job")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--revision", help="of the build, where there is no git to say it")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--publish", metavar="MACHINE", help="in words, as the page says where it ran")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    args.revision = args.revision or corpus.revision()
    if args.table:
        print(summary(list(corpus.load(corpus.path_of(args.out, args.seed)).values())))
        return 0
    if args.publish:
        return publish(args)
    if args.job or args.sample:
        args.out = tempfile.mkdtemp(prefix="gordian-predicted-")
    args.keep |= args.job is not None
    args.work = os.path.join(os.path.abspath(args.out), "jobs")
    os.makedirs(args.work, exist_ok=True)
    if args.job:
        result = run_one(args, args.job)
        corpus.sweep(args)
        print(json.dumps(result, indent=1))
        return 1 if is_wrong(result) else 0
    pairs = SAMPLE if args.sample else range(args.count // 2)
    names = [f"{index}.{which}" for index in pairs for which in ("open", "fixed")]
    results = corpus.run_all(args, {name: (name,) for name in names}, run_one, mistake, short)
    print(summary(results))
    wrong = [r for r in results if (fails_sample(r) if args.sample else is_wrong(r))]
    if args.sample and not wrong:
        shutil.rmtree(args.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
