#!/usr/bin/env python3
"""The verdicts of end-to-end jobs, on this machine or beside those of another.

  verdicts.py run BUILD [JOB...]     runs each job and its healthy twin; a line of JSON for each
  verdicts.py compare ONE OTHER      two such outputs as a table; exit code 1 where they differ

Without names: one job of each kind. A name that ends in `.twin` means the twin alone.
"""

import json
import os
import re
import subprocess
import sys

JOBS = ["inversion_one_stream", "inversion_sync", "inversion_two_pairs", "three_comm_cycle", "event_cycle",
        "hybrid_recv_all_reduce", "pipeline_swapped", "missing_rank", "spinning_rank", "one_too_many", "exited_rank",
        "killed_rank", "stopped_rank", "aborted_rank", "mismatch_count_hangs", "mismatch_kind_hangs", "init_missing",
        "split_divergent", "graph_inversion", "inversion_loaders", "memory_gate_host", "signals_crossed", "launch_order",
        "loader_stalls", "endless_kernel", "late_call_sleeps", "late_call_polls", "main_thread_joins",
        "non_blocking_inversion", "inversion_behind_flag"]
LINE = re.compile(r"^\S+(?: \(twin\))?, (\d+) ranks: (\S+) \((\S+)\), culprits (\[[^\]]*\])", re.MULTILINE)


def run(build, names):
    run_job = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "run_job.py")
    failed = False
    for name in names or [n for job in JOBS for n in (job, job + ".twin")]:
        job = name.removesuffix(".twin")
        command = [sys.executable, run_job, "--build", build, "--job", job] + (["--twin"] if job != name else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said = LINE.search(done.stdout)
        row = {"job": name, "as_expected": done.returncode == 0}
        if said:
            row |= {"ranks": int(said[1]), "verdict": said[2], "confidence": said[3], "culprits": json.loads(said[4])}
        if done.returncode != 0:
            failed = True
            row["output"] = done.stdout[:1000]
        print(json.dumps(row), flush=True)
    return 1 if failed else 0


def read(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.startswith("{")]
    return {row["job"]: row for row in rows}


def words(row):
    if row is None:
        return "not run"
    if "verdict" not in row:
        return "failed"
    text = f"{row['verdict']} ({row['confidence']})"
    if row["culprits"]:
        text += " " + ", ".join(map(str, row["culprits"]))
    return text if row["as_expected"] else text + ", not as expected"


def compare(one, other):
    first, second = read(one), read(other)
    names = list(first) + [name for name in second if name not in first]
    different = [name for name in names if words(first.get(name)) != words(second.get(name))]
    for name in names:
        mark = "  <-- differs" if name in different else ""
        print(f"{name:40} {words(first.get(name)):45} {words(second.get(name))}{mark}")
    print(f"{len(names) - len(different)} of {len(names)} are equal")
    return 1 if different or not names else 0


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "run":
        return run(sys.argv[2], sys.argv[3:])
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        return compare(sys.argv[2], sys.argv[3])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
