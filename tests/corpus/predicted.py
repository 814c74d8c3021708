#!/usr/bin/env python3
"""Healthy runs of generated jobs, what `gordian predict` says of them, and what is true: docs/prediction.md.

  predicted.py --build build/release [--count N] [--jobs N] [--seed S] [--resume] [--out FOLDER] [--verify K]
  predicted.py --build build/release --job NAME [--seed S]      one job, its evidence kept
  predicted.py --build build/release --sample                   a few jobs; fails on anything that is wrong
  predicted.py --out FOLDER --table                             the tables of what was run
  predicted.py --out FOLDER --publish MACHINE                   the table of bench/results/prediction.json, and the page

A job and its twin (orders.py) are NAMES 17.open and 17.fixed. Each is known twice: by construction, and by forced runs
without gordian, whose end is the emulator's word. In a forced run the calls come in an order that would deadlock; of
the twin such orders are tried, too, and it ends, since its threads do not let them happen or they do no harm.
"""

import argparse
import concurrent.futures
import datetime
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
SAMPLE = [0, 1, 3, 6, 8, 11]  # pairs
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
        result = {"job": name, "guilty": name.endswith(".open"), "kind": "thrown_out", "why": repr(error), "what": "", "rests_on": "",
                  "unseen": False}
    result.update(seed=args.seed, seconds=round(time.monotonic() - begin, 1), revision=args.revision)
    if is_wrong(result) or args.keep:
        with open(os.path.join(folder, "result.json"), "w") as f:
            json.dump(result, f, indent=1)
        result["evidence"] = folder
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def share(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"


def tables(results):
    scored = [r for r in results if r["kind"] != "thrown_out"]
    rows = []

    def row(title, jobs):
        guilty, innocent = [r for r in jobs if r["guilty"]], [r for r in jobs if not r["guilty"]]
        verified = [true for r in jobs for true in r["verified"]]
        said = verified + [true for r in jobs for true in r["listed"]]
        rows.append([title, len(guilty), sum(r["kind"] in ("found", "listed") for r in guilty),
                     sum(r["kind"] == "found" for r in guilty), len(innocent), sum(r["kind"] == "doubted" for r in innocent),
                     sum(r["kind"] == "accused" for r in innocent), share(sum(verified), len(verified)),
                     share(sum(said), len(said))])
    seen = [r for r in scored if not r["unseen"]]
    row("all but the last row", seen)
    names = {"stream": "one stream", "device_sync": "waits for the device", "free": "frees memory", "events": "streams and events",
             "legacy": "the legacy stream", "apart": "streams of their own", "fused": "fused gradients"}
    for shape, title in names.items():
        jobs = [r for r in seen if r["shape"] == shape]
        if jobs:
            row(title, jobs)
    unseen = [r for r in scored if r["unseen"]]
    if unseen:
        row("ordered by what leaves no trace", unseen)
    return {"id": "corpus", "caption": "Healthy runs of generated jobs: what `gordian predict` says of them",
            "columns": ["What the threads share", "Some order deadlocks", "Predicted or listed", "Predicted", "No order does",
                        "Listed", "Predicted there", "True of the predicted", "True of predicted and listed"],
            "rows": rows}


def summary(results):
    table = tables(results)
    widths = [max(len(str(row[i])) for row in [table["columns"]] + table["rows"]) for i in range(len(table["columns"]))]
    lines = ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) for row in [table["columns"]] + table["rows"]]
    thrown = [r for r in results if r["kind"] == "thrown_out"]
    again = sum((r.get("recorded") or 1) > 1 for r in results)
    lines.append(f"{len(results)} jobs, thrown out {len(thrown)}, recorded more than once {again}, "
                 f"not judged {sum(r['kind'] == 'not_judged' for r in results)}")
    return "\n".join(lines)


def publish(args):
    results = [r for r in corpus.load(corpus.path_of(args.out, args.seed)).values()]
    path = os.path.join(ROOT, "bench", "results", "prediction.json")
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    table = tables(results)
    thrown = sum(r["kind"] == "thrown_out" for r in results)
    given_up = sum(r["forced_runs"] - r["turns_came"] for r in results if not r["guilty"] and "forced_runs" in r)
    runs = sum(r["forced_runs"] for r in results if not r["guilty"] and "forced_runs" in r)
    table["notes"] = [
        f"{len(results)} jobs, {thrown} thrown out since a forced run contradicted the construction. A job counts as predicted "
        f"if one of its predictions is true and its program hung in {args.verify} of {args.verify} runs. Each job of the first column hung "
        f"when its order was forced; of the others {runs} runs were forced to such orders: all ended, {given_up} since "
        "the order could not come."]
    revisions = sorted({r["revision"] for r in results})
    table.update(machine=args.publish, date=datetime.date.today().isoformat(),
                 revision="not recorded" if any("+" in name for name in revisions) else ", ".join(revisions),
                 command=f"tests/corpus/predicted.py --seed {args.seed} --count {len(results)}")
    places = [i for i, each in enumerate(data["tables"]) if each["id"] == "corpus"]
    if places:
        data["tables"][places[0]] = table
    else:
        data["tables"].append(table)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1, ensure_ascii=False)
        f.write("\n")
    return subprocess.run([os.path.join(ROOT, "bench", "results", "pages.py"), "--update"], check=False).returncode


def repeat_command(result):
    return f"tests/corpus/predicted.py --build build/release --seed {result['seed']} --job {result['job']}"


def run_all(args, names):
    os.makedirs(args.out, exist_ok=True)
    path = corpus.path_of(args.out, args.seed)
    if not args.resume and os.path.exists(path):
        os.replace(path, path + ".old")
    done = corpus.load(path)
    todo = [name for name in names if name not in done]
    results = list(done.values())
    begin, count = time.monotonic(), 0
    with open(path, "a") as out, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(run_one, args, name) for name in todo]
        try:
            for future in concurrent.futures.as_completed(futures):
                result = future.result()
                out.write(json.dumps(result) + "\n")
                out.flush()
                results.append(result)
                count += 1
                if is_wrong(result):
                    print(f"{one_line(result)}\n    repeat: {repeat_command(result)}", flush=True)
                if count % 20 == 0 or count == len(todo):
                    left = (time.monotonic() - begin) / count * (len(todo) - count)
                    print(f"{count} of {len(todo)}, {left / 60:.0f} min left; "
                          + ", ".join(f"{kind} {sum(r['kind'] == kind for r in results)}"
                                      for kind in ("found", "listed", "missed", "silent", "doubted", "accused", "thrown_out")),
                          flush=True)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    corpus.sweep(args)
    return results


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
    results = run_all(args, [f"{index}.{which}" for index in pairs for which in ("open", "fixed")])
    print(summary(results))
    wrong = [r for r in results if is_wrong(r)]
    if args.sample and not wrong:
        shutil.rmtree(args.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
