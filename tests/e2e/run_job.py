#!/usr/bin/env python3
"""Runs one end-to-end job under `gordian run --emulator` and holds the verdict against the truth.

  run_job.py --build build/release --job inversion_one_stream [--ranks 4] [--twin]
             [--perturb late|busy|load] [--ring-slots 0|64 [--flood N | --flood-each N]]
             [--repeat 20] [--hardware] [--keep]

The time to the verdict is taken from outside: from the last step that any rank noted in shared memory
to the moment when verdict.json appears with the final verdict. On failure the evidence stays in a
folder that is named, with the command that repeats the run.
"""

import argparse
import glob
import json
import mmap
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ALL = "all"      # every rank
LAST = "last"    # the highest rank


class Expect:
    def __init__(self, verdicts, culprits, confirmed=None, fast=False, hangs=True, assumes=None, hole=None, signs=None,
                 code=0, check=None, says=None, no_stack=None, advice=None):
        self.verdicts = verdicts      # accepted values of "verdict"
        self.culprits = culprits      # accepted culprit sets: lists of rank lists, ALL, LAST
        self.confirmed = confirmed    # True: confidence must be "confirmed"
        self.fast = fast              # True: by proof, before a suspicion can be (docs/performance.md has the times)
        self.hangs = hangs            # False: the job ends by itself
        self.signs = signs or []      # checks of the signs that must stand beside it
        self.code = code              # of a job that ends by itself
        self.assumes = assumes        # part of what evidence.assumes must say; then a suspicion at most
        self.hole = hole              # the same of evidence.not_visible
        self.check = check            # the check that must say it
        self.says = says              # part of the summary, of two ranks
        self.no_stack = no_stack      # a function that must be in no stack shown
        self.advice = advice          # part of the advice


def deadlock(*culprits, advice=None):
    return Expect(["deadlock"], list(culprits), confirmed=True, fast=True, advice=advice)


DEPARTS = [ALL, LAST]  # two ranks: both; more: the one that departs (checked below)

JOBS = {
    "inversion_one_stream": deadlock(*DEPARTS),
    "inversion_two_pairs": deadlock(*DEPARTS),
    "inversion_half_named": deadlock(*DEPARTS),
    "configured_inversion": deadlock(*DEPARTS),
    "inversion_subset": deadlock([0, 1]),
    "inversion_sync": deadlock(*DEPARTS),
    "inversion_free": deadlock(*DEPARTS),
    "inversion_cold": deadlock(*DEPARTS),
    "inversion_pageable_copy": deadlock(*DEPARTS),
    "devices_without_a_group": Expect(["deadlock"], [[0, 1]], confirmed=True, fast=True, check="group-missing",
                                      advice="ncclGroupStart"),
    "devices_one_after_the_other": Expect(["deadlock"], [[0, 1]], confirmed=True, fast=True, check="group-missing",
                                          advice="ncclGroupStart"),
    "three_comm_cycle": deadlock([0, 1, 2]),
    "event_cycle": deadlock(*DEPARTS),
    "hybrid_recv_all_reduce": deadlock([0, 1], [1], advice="the transfer and the collective in one order"),
    "pipeline_swapped": deadlock([1, 2], [1]),
    "pipeline_swapped_apart": deadlock([1, 2], [1]),
    "missing_rank": Expect(["rank_not_joined", "host_blocked"], [LAST]),
    "spinning_rank": Expect(["rank_not_joined", "host_blocked"], [LAST]),
    "one_too_many": Expect(["rank_not_joined", "host_blocked"], ["all but 0"]),
    "one_too_many_others_go_on": Expect(["mismatch", "rank_not_joined", "host_blocked"],
                                        [[0], ALL, "all but 0"]),
    "exited_rank": Expect(["rank_exited"], [LAST]),
    "killed_rank": Expect(["rank_exited"], [LAST]),
    "stopped_rank": Expect(["rank_stopped"], [LAST]),
    "aborted_rank": Expect(["rank_aborted"], [LAST]),
    "mismatch_count_hangs": Expect(["mismatch"], [[0], "tie"], says="has completed it"),
    "mismatch_count_ends": Expect(["mismatch"], [[0], "tie"], hangs=False),
    "mismatch_type_hangs": Expect(["mismatch"], [[0], "tie"]),
    "mismatch_two_roots_ends": Expect(["mismatch"], [[0], "tie"], hangs=False),
    "mismatch_no_root_hangs": Expect(["mismatch"], [[0], "tie"]),
    "mismatch_operator_ends": Expect(["mismatch"], [[0], "tie"], hangs=False),
    "mismatch_kind_hangs": Expect(["mismatch"], [[0], "tie"]),
    "mismatch_p2p_count": Expect(["mismatch"], [[0, 1]], hangs=None),
    # Silent, and followed by more operations than a state block remembers, or by few.
    "mismatch_long_past": Expect(["mismatch"], [[0], "tie"], hangs=False),
    "mismatch_just_past": Expect(["mismatch"], [[0], "tie"], hangs=False),
    "missing_send": Expect(["rank_not_joined", "host_blocked"], [LAST]),
    "init_missing": Expect(["init_hang"], [LAST]),
    "exited_before_init": Expect(["init_hang"], [LAST]),
    "init_order": Expect(["init_hang", "deadlock"], [ALL]),
    "init_same_rank": Expect(["init_hang"], [[1, 2]], check="communicator-init-mismatch"),
    "init_other_size": Expect(["init_hang"], [LAST], check="communicator-init-mismatch"),
    "init_stale_id": Expect(["init_hang"], [[1]], check="communicator-init-mismatch"),
    # Rank 2 (3, 1) departs; its partner, whom it waits for, does what all others do.
    "all_to_all_skipped": deadlock([2]),
    "all_reduce_skipped": deadlock([2]),
    "pair_skipped": deadlock([3]),
    "one_microbatch_more": deadlock([1], advice="Equal calls"),
    "one_microbatch_less": deadlock([1]),
    "wrong_colour": deadlock([3]),
    "init_pairs_in_circle": Expect(["init_hang"], [ALL], check="communicator-init-order"),
    "split_divergent": Expect(["init_hang"], [LAST]),
    "split_against_all_reduce": Expect(["init_hang", "deadlock"], [LAST, ALL]),
    "grow_missing": Expect(["init_hang"], [LAST]),
    "grow_member_missing": Expect(["init_hang"], [[1]]),
    "grow_holder_missing": Expect(["init_hang"], [[0]]),
    "grow_inversion": deadlock([0, 1], [1]),
    "windows_opposite": deadlock(ALL),
    "destroy_opposite": Expect(["deadlock"], [ALL], assumes="ncclCommDestroy waits"),
    "graph_inversion": deadlock(ALL),
    "graph_first_use": deadlock(ALL),
    "graph_missing_replay": Expect(["rank_not_joined", "host_blocked"], [LAST]),
    "graph_against_sync": deadlock(ALL),
    "memory_gate": Expect(["deadlock"], [ALL], assumes="writes to the memory"),
    "memory_gate_batch": Expect(["deadlock"], [ALL], assumes="writes to the memory"),
    "signals_crossed": Expect(["deadlock"], [ALL], assumes="no kernel sends"),
    "signal_missing": Expect(["deadlock"], [ALL], assumes="no kernel sends"),
    "signal_missing_later": Expect(["deadlock"], [ALL], assumes="uses up the signals"),
    "signal_in_group": Expect(["deadlock"], [ALL], assumes="no kernel sends"),
    "launch_order": deadlock(ALL),
    "queue_behind": Expect(["deadlock"], [ALL], assumes="hardware queues"),
    "no_processors": Expect(["deadlock"], [ALL], assumes="multiprocessors"),
    "memory_gate_host": Expect(["stuck_kernel"], [[0]]),
    "graph_stuck_inside": Expect(["stuck_kernel"], [[]]),
    "flag_reduced_to_one": Expect(["host_blocked"], [LAST], signs=["reduced-to-one", "waits-for-input"]),
    "group_left_open": Expect(["host_blocked"], [LAST], signs=["group-left-open", "waits-for-input"]),
    "branch_taken_alone": Expect(["mismatch"], [LAST], hangs=None, signs=["divergent-calls"]),
    "fused_differently": Expect(["mismatch"], [LAST, ALL]),
    "grouped_by_one": Expect(["mismatch"], [LAST]),
    "one_step_less": Expect(["host_blocked"], [LAST], signs=["waits-for-input"]),
    "batch_asymmetric": deadlock([0, 1], [1]),
    "wrong_peer": Expect(["deadlock"], [[0, 1]], confirmed=True, fast=True, signs=["wrong-peer"],
                         advice="Compare the peers first"),
    "send_never_received": Expect(["host_blocked"], [LAST]),
    "destroyed_with_pending": Expect(["rank_not_joined", "deadlock"], [LAST]),
    "loader_stalls": Expect(["host_blocked"], [LAST], signs=["waits-for-input"]),
    "launch_race": deadlock(*DEPARTS),
    "blocked_in_teardown": Expect(["host_blocked"], [LAST], signs=["in-teardown"]),
    "endless_kernel": Expect(["stuck_kernel"], [LAST]),
    "blocking_launches": Expect(["rank_not_joined"], [ALL], signs=["blocking-launches"]),
    "same_device": Expect(["finished"], [[]], hangs=False, signs=["call-failed"], code=8),
    "settings_differ": Expect(["deadlock"], [ALL], confirmed=True, fast=True, signs=["settings-differ"]),
    # What may still resolve the circle is named, and keeps it from being called proven.
    "late_call_sleeps": Expect(["deadlock"], [ALL], hole="time or the outside may end"),
    "late_call_reads": Expect(["deadlock"], [ALL], hole="time or the outside may end"),
    "late_call_waits": Expect(["deadlock"], [ALL], hole="time or the outside may end"),
    "late_call_alarm": Expect(["deadlock"], [ALL], hole="signal of a timer"),
    "late_call_host_function": Expect(["stuck_kernel"], [[]]),
    "late_call_polls": Expect(["deadlock"], [ALL], hole="polling loop"),
    "late_call_thread": deadlock(ALL),
    "main_thread_joins": deadlock(*DEPARTS),
    "non_blocking_init_missing": Expect(["init_hang"], [LAST]),
    "non_blocking_init_behind": Expect(["init_hang"], [LAST]),
    "non_blocking_init_order": Expect(["init_hang"], [ALL]),
    "non_blocking_inversion": Expect(["deadlock"], [ALL], hole="non-blocking communicator"),
    "non_blocking_cold_inversion": Expect(["deadlock"], [ALL], hole="polling loop"),
    "finalize_between": deadlock(ALL),
    "finalize_waits_for_absent": Expect(["rank_not_joined", "host_blocked"], [LAST]),
    "inversion_beside_poller": Expect(["deadlock"], [ALL]),
    "inversion_beside_async_errors": Expect(["deadlock"], [ALL]),
    "inversion_beside_watchdog": Expect(["deadlock"], [ALL], confirmed=True, fast=True, no_stack="Watchdog"),
    "inversion_beside_copier": Expect(["deadlock"], [ALL]),
    "inversion_behind_flag": deadlock(ALL),
    "inversion_behind_polled_flag": Expect(["deadlock"], [ALL]),
    "inversion_behind_spun_flag": Expect(["deadlock"], [ALL]),
    "inversion_many_communicators": Expect(["deadlock"], [ALL], hole="found no room"),
    "graphs_share_communicator": Expect(["mismatch"], [[0, 1]], hangs=None),
}
JOBS.update({name: deadlock(*DEPARTS) for name in
             ("inversion_loaders", "inversion_dying_threads", "inversion_without_main_thread", "inversion_300_threads")})
JOBS["inversion_beside_sleeper"] = Expect(["deadlock"], DEPARTS)  # a suspicion: the sleeper may call
JOBS.update({name: deadlock(*DEPARTS) for name in ("inversion_reopened", "inversion_two_copies", "inversion")})
# The check that the main finding of these must have: docs/checks cites them for it (tests/checks/check_pages.py).
CHECKS = {
    "communicator-call-order": ["destroy_opposite"],
    "communicator-init-missing": ["init_missing", "split_divergent"],
    "communicator-init-order": ["init_order"],
    "communicator-order-cycle": ["inversion_one_stream", "launch_race"],
    "event-cycle": ["event_cycle"],
    "first-use-order-cycle": ["inversion_cold"],
    "host-blocked": ["blocked_in_teardown", "flag_reduced_to_one", "group_left_open", "loader_stalls", "missing_rank", "one_step_less", "one_too_many", "send_never_received"],
    "host-wait-cycle": ["graph_against_sync", "inversion_free", "inversion_sync", "settings_differ"],
    "kernel-in-front": ["endless_kernel"],
    "mismatch-count": ["branch_taken_alone", "fused_differently", "graphs_share_communicator", "mismatch_count_hangs"],
    "mismatch-grouping": ["grouped_by_one"],
    "mismatch-kind": ["mismatch_kind_hangs"],
    "mismatch-operator": ["mismatch_operator_ends"],
    "mismatch-root": ["mismatch_no_root_hangs"],
    "mismatch-type": ["mismatch_type_hangs"],
    "point-to-point-order-cycle": ["batch_asymmetric", "hybrid_recv_all_reduce", "pipeline_swapped", "wrong_peer"],
    "rank-exited": ["killed_rank"],
    "rank-left": ["destroyed_with_pending"],
    "rank-not-joined": ["blocking_launches", "spinning_rank"],
    "resource-cycle": ["no_processors"],
    "stuck-kernel": ["graph_stuck_inside"],
}
for check_id, job_names in CHECKS.items():
    for job_name in job_names:
        JOBS[job_name].check = check_id
# How a job comes by the libraries, other than by being linked to them: its command.
WAYS = {
    "link": ["gordian_e2e_job"],
    "static_cudart": ["gordian_e2e_static_cudart"],  # on GPUs only
    "dlopen": ["gordian_e2e_dlopen"],
    "driver": ["gordian_e2e_driver"],
    "private": ["gordian_e2e_private"],  # with --cupti: what CUPTI makes of it
    "trampoline": ["gordian_e2e_trampolined"],
    "plugin": ["gordian_e2e_plugin_host", "libgordian_e2e_plugin.so", "local"],
    "static": ["gordian_e2e_plugin_host", "libgordian_e2e_plugin.so", "deepbind"],  # with --nccl-profiler
    "ctypes": [os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "ctypes_job.py")],
}
BY_OTHER_WAYS = {"inversion_reopened": "dlopen", "inversion_two_copies": "dlopen", "inversion": "ctypes"}
# What NCCL's profiler interface tells of.
TOLD_BY_PROFILER = re.compile("nccl(CommInitRank|All|Reduce|Broadcast|Gather|Scatter|Send|Recv|GroupStart|GroupEnd)")
# With --flood: hang before there are records enough to overrun a ring.
HANG_BEFORE_FLOODS = ("init_missing", "init_order", "exited_before_init", "same_device")
# With --flood: hang because of what neither the rings hold then nor the state block (docs/limits.md), and get no verdict.
LOST_WITH_RECORDS = ("graph_missing_replay", "graph_stuck_inside", "memory_gate", "memory_gate_batch", "memory_gate_host",
                     "grouped_by_one", "endless_kernel", "blocking_launches")
# What makes a job hang is a setting, without which its twin runs.
SETTINGS = {
    "launch_order": {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"},
    "queue_behind": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    "no_processors": {"GORDIAN_EMU_SMS": "1"},
    "blocking_launches": {"CUDA_LAUNCH_BLOCKING": "1"},
}
# Each rank is started by itself, the last one with another setting.
APART = {"settings_differ": "NCCL_LAUNCH_ORDER_IMPLICIT=1"}
# A kernel may be long: ten times as much goes by before one is suspected.
SUSPECT_AFTER = {"endless_kernel": "1"}
# Nothing but the emulator takes the setting.
EMULATED_ONLY = ["no_processors", "grow_missing", "grow_member_missing", "grow_holder_missing", "grow_inversion",
                 "signals_crossed", "signal_missing", "signal_missing_later", "signal_in_group",  # of NCCL 2.30
                 "configured_inversion"]  # of NCCL 2.31
# Innocent with and without --twin.
INNOCENT = ["inversion_two_streams_warm", "send_send_buffered", "leaves_early", "long_capture", "split_shares", "shrink_shares",
            "non_blocking_sync_early", "finalized_by_one"]
# With no rings: what the state block knows of such a mismatch.
ALONE = {"mismatch_long_past": "mismatch-unlocated", "mismatch_just_past": "mismatch-operator"}
PROBLEMS_NEVER = "no problem verdict"


def culprit_sets(expect, ranks):
    out = []
    for c in expect.culprits:
        if c == ALL:
            # For an inversion of more than two ranks, "all" would blame the innocent.
            if expect.culprits is not DEPARTS and expect.culprits != DEPARTS or ranks == 2:
                out.append(list(range(ranks)))
        elif c == LAST:
            if expect.culprits != DEPARTS or ranks > 2:
                out.append([ranks - 1])
        elif c == "tie":
            if ranks == 2:
                out.append([0, 1])
        elif c == "all but 0":
            out.append(list(range(1, ranks)))
        else:
            if c == [0] and "tie" in expect.culprits and ranks == 2:
                continue
            out.append(c)
    return out


def last_step(path, ranks):
    """(seconds since the epoch, what) of the last step that any rank noted."""
    best = (0, "")
    with open(path, "rb") as f:
        data = mmap.mmap(f.fileno(), 64 * ranks, access=mmap.ACCESS_READ)
        for r in range(ranks):
            (ns,) = struct.unpack_from("<q", data, 64 * r)
            what = data[64 * r + 8:64 * r + 64].split(b"\0")[0].decode()
            best = max(best, (ns, f"rank {r}: {what}"))
        data.close()
    return best


def children_alive(session):
    out = []
    for environ in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(environ, "rb") as f:
                if session.encode() in f.read():
                    pid = environ.split("/")[2]
                    with open(f"/proc/{pid}/stat") as s:
                        if s.read().rsplit(")", 1)[1].split()[0] != "Z":
                            out.append(pid)
        except OSError:
            continue
    return out


class Failure(Exception):
    pass


def check_said(work, verdict):
    """What stands on the screen last names the ranks that verdict.json names."""
    with open(os.path.join(work, "stderr"), errors="replace") as f:
        said = re.sub(r"\x1b\[[0-9;]*m", "", f.read())
    heads = [m.start() for m in re.finditer(r"^gordian: [A-Z ]+ \(", said, re.M)]
    causes = list(re.finditer(r"^cause: look at (ranks? .*?) first", said, re.M))
    if not causes or heads[-1] > causes[-1].start():
        return  # the last is one line, without the ranks to look at
    ranges = re.findall(r"(\d+)(?:-(\d+))?", causes[-1][1])
    named = sorted(n for first, last in ranges for n in range(int(first), int(last or first) + 1))
    if named != sorted(verdict["culprit_ranks"]):
        raise Failure(f"the screen says '{causes[-1][0]}', verdict.json {verdict['culprit_ranks']}")


def run_once(args, work):
    build = os.path.abspath(args.build)
    session = os.path.join(work, "session")
    progress = os.path.join(work, "progress")
    stats = os.path.join(work, "stats")
    way = [word if word in ("local", "deepbind") else os.path.join(build, "tests", word) for word in WAYS[args.by]]
    job = ([sys.executable] if way[0].endswith(".py") else []) + way + [args.job, "--ranks", str(args.ranks)]
    if args.twin:
        job.append("--twin")
    if args.perturb == "late":
        job += ["--late", f"{args.ranks - 1}:2"]
    elif args.perturb == "busy":
        job += ["--busy", "0:8"]
    if args.flood:
        job += ["--flood", str(args.flood)]
    if args.flood_each:
        job += ["--flood-each", str(args.flood_each)]
    if args.job in APART:
        start = [f"{APART[args.job] if rank == args.ranks - 1 and not args.twin else ''} {shlex.join(job)} --rank {rank} & pids=\"$pids $!\""
                 for rank in range(args.ranks)]
        job = ["sh", "-c", "\n".join(start) + "\nfor pid in $pids; do wait $pid || exit $?; done"]
    suspect_after = SUSPECT_AFTER.get(args.job, "3")
    command = [os.path.join(build, "bin", "gordian"), "run"]
    if not args.hardware:
        command.append("--emulator")
    if args.cupti not in (None, "off"):
        command.append("--cupti")
    if args.profiler or args.by == "static":
        command.append("--nccl-profiler")
    command += ["--session", session, "--on-verdict", "kill-suspected", "--suspect-after", suspect_after, "--"] + job
    env = dict(os.environ, JOB_PROGRESS=progress, GORDIAN_EMU_STATS=stats)
    if args.by == "private":
        lookalike = os.path.join(build, "tests", "cupti", "libcupti.so.13")
        env.update(JOB_CUPTI=lookalike, CUPTI_LOOKALIKE=args.cupti,
                   GORDIAN_CUPTI_LIBRARY="/no/such/libcupti.so" if args.cupti == "missing" else lookalike)
    if not args.twin:
        env.update(SETTINGS.get(args.job, {}))
    if args.job == "inversion_two_copies":  # another file: the loader takes it for another library
        env["JOB_SECOND_NCCL"] = os.path.join(build, "lib", "emulator", "second", "libnccl.so.2")
    if args.profiler_version:
        env["GORDIAN_EMU_NCCL_PROFILER"] = args.profiler_version
    if args.ring_slots is not None:
        env["GORDIAN_RING_SLOTS"] = str(args.ring_slots)
    load = []
    if args.perturb == "load":
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range(os.cpu_count() or 2)]
    verdict_path = os.path.join(session, "verdict.json")
    seen_at, seen = None, None
    try:
        with open(os.path.join(work, "stdout"), "wb") as out, open(os.path.join(work, "stderr"), "wb") as err:
            process = subprocess.Popen(command, env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            deadline = time.monotonic() + 90
            while process.poll() is None:
                try:
                    with open(verdict_path) as f:
                        standing = json.load(f)
                    now = standing["verdict"]
                    if now not in ("healthy", "finished", "inconclusive") and seen != now:
                        seen, seen_at = now, time.time_ns()
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    process.send_signal(signal.SIGTERM)  # which gordian hands on: no job is left behind
                    try:
                        process.wait(60)
                    except subprocess.TimeoutExpired:
                        process.kill()
                    raise Failure("still running after 90 s")
                time.sleep(0.003)
    finally:
        for p in load:
            p.kill()
            p.wait()
    with open(verdict_path) as f:
        verdict = json.load(f)
    result = {"code": process.returncode, "verdict": verdict, "seconds": None}
    if seen_at:
        ns, what = last_step(progress, args.ranks)
        result["seconds"] = (seen_at - ns) / 1e9
        result["last_step"] = what

    for _ in range(40):  # the guardian and killed ranks may need a moment to be gone
        left = children_alive(session)
        if not left:
            break
        time.sleep(0.05)
    if left:
        raise Failure(f"processes left over: {left}")
    with open(os.path.join(session, "manifest.json")) as f:
        ring_dir = json.load(f).get("ring_dir")
    if ring_dir and os.path.exists(ring_dir):
        raise Failure(f"left over: {ring_dir}")

    evidence = verdict["evidence"]
    if args.ring_slots is not None:
        check_losses(args, evidence)
    elif evidence["records_lost"] != 0:
        raise Failure(f"{evidence['records_lost']} records lost")
    told = any("profiler interface" in text for text in evidence["not_visible"])
    # One that ends soon may have been asked for its state never.
    if told != (args.by == "static") and not (args.by == "static" and args.twin):
        raise Failure(f"which source told of the calls is said wrongly: {evidence['not_visible']}")
    if args.hardware:  # real libraries keep no account of their own
        return result
    counted = 0
    for name in glob.glob(stats + ".*"):
        with open(name) as f:
            for line in f:
                fields = line.split()
                if args.by == "static" and not TOLD_BY_PROFILER.match(fields[0]):
                    continue
                if args.by == "static" and args.profiler_version == "4" and fields[0].startswith("ncclGroup"):
                    continue
                if len(fields) == 2 and fields[0].startswith("nccl"):
                    counted += int(fields[1])
    # The shim records a call before the emulator counts it (a profiler: after), and a kill ends a rank
    # between the two: a killed job may differ by one call a rank, a job that ends by itself by none.
    more = evidence["nccl_calls"] - counted
    if args.by == "static":
        more = -more
    if not 0 <= more <= (0 if args.twin else args.ranks):
        raise Failure(f"the emulator counted {counted} NCCL calls, gordian saw {evidence['nccl_calls']}")
    return result


def check_losses(args, evidence):
    lost = evidence["records_lost"]
    if (args.flood or args.flood_each or args.ring_slots == 0) and lost == 0 and args.job not in HANG_BEFORE_FLOODS:
        raise Failure("the rings were not overrun: nothing was tested")
    named = any("records of" in text for text in evidence["not_visible"])
    if named != (lost > 0):
        raise Failure(f"{lost} records lost, and not_visible says {evidence['not_visible']}")


def check(args, result):
    verdict = result["verdict"]
    name, confidence = verdict["verdict"], verdict["confidence"]
    innocent = args.twin or args.job in INNOCENT
    if innocent:
        if name not in ("healthy", "finished") or verdict["findings"] or verdict["signs"]:
            raise Failure(f"an innocent job was called {name} ({confidence}): {verdict['summary']}")
        if result["code"] != 0:
            raise Failure(f"the job's exit code became {result['code']}")
        return
    expect = JOBS[args.job]
    if args.by == "private" and args.cupti != "tells":
        # Where the ranks wait is out of sight: that they hang is seen, and not proven.
        if confidence == "confirmed" or result["code"] != 137:
            raise Failure(f"{name} ({confidence}), exit code {result['code']}: what proves it cannot have been seen")
        said = any("--cupti" in text for text in verdict["evidence"]["not_visible"])
        if said != (args.cupti != "off"):
            raise Failure(f"what came of --cupti is said wrongly: {verdict['evidence']['not_visible']}")
        return
    if name not in expect.verdicts:
        raise Failure(f"verdict {name} ({verdict['summary']}), expected one of {expect.verdicts}")
    culprits = sorted(verdict["culprit_ranks"])
    accepted = culprit_sets(expect, args.ranks)
    if culprits not in accepted:
        raise Failure(f"culprits {culprits}, expected one of {accepted}: {verdict['summary']}")
    if expect.confirmed and args.ring_slots is None and confidence != "confirmed":
        raise Failure(f"confidence {confidence}, expected confirmed")
    if expect.assumes:
        if confidence != "suspected":  # not even with whole rings
            raise Failure(f"confidence {confidence}, expected suspected")
        if not any(expect.assumes in text for text in verdict["evidence"]["assumes"]):
            raise Failure(f"assumes {verdict['evidence']['assumes']}, expected {expect.assumes}")
    if expect.hole:
        if confidence != "suspected":
            raise Failure(f"confidence {confidence}, expected suspected")
        if not any(expect.hole in text for text in verdict["evidence"]["not_visible"]):
            raise Failure(f"not_visible {verdict['evidence']['not_visible']}, expected {expect.hole}")
    # NCCL's profiler interface says nothing of what is done.
    if expect.says and args.ranks == 2 and args.ring_slots is None and args.by == "link" and expect.says not in verdict["summary"]:
        raise Failure(f"the summary is '{verdict['summary']}', expected '{expect.says}'")
    if expect.advice and args.ring_slots is None and args.by == "link" and expect.advice not in verdict["advice"]:
        raise Failure(f"the advice is '{verdict['advice']}', expected '{expect.advice}'")
    if expect.no_stack and any(expect.no_stack in frame["function"] for stack in verdict["stacks"] for frame in stack["frames"]):
        raise Failure(f"a stack with {expect.no_stack} is shown")
    if expect.check and args.ring_slots is None and args.by == "link" and verdict["check"] != expect.check:
        raise Failure(f"check {verdict['check']}, expected {expect.check}: {verdict['summary']}")
    if args.ring_slots == 0 and args.job in ALONE and verdict["check"] != ALONE[args.job]:
        raise Failure(f"check {verdict['check']}, expected {ALONE[args.job]}: {verdict['summary']}")
    if args.by == "ctypes":
        elsewhere = [edge["site"] for edge in verdict["cycle"] if not edge["site"].startswith("ctypes_job.py:")]
        if elsewhere:
            raise Failure(f"calls of the job are placed at {elsewhere}")
    if name == "deadlock" and not verdict["cycle"]:
        raise Failure("a deadlock without a cycle")
    if expect.hangs and result["code"] != 137:
        raise Failure(f"exit code {result['code']}, expected 137 after the kill")
    if expect.hangs is False and result["code"] != expect.code:
        raise Failure(f"exit code {result['code']}, expected the job's own {expect.code}")
    # Those made of records and of stacks: neither is there for certain when rings are lost.
    signs = [sign["check"] for sign in verdict["signs"]]
    if args.ring_slots is None and not set(expect.signs) <= set(signs):
        raise Failure(f"signs {signs}, expected {expect.signs}")
    if expect.fast and result["seconds"] is None:
        raise Failure("verdict.json appeared only after the job had ended")
    threshold = float(SUSPECT_AFTER.get(args.job, "3"))
    if expect.fast and args.ring_slots is None and result["seconds"] >= threshold:
        raise Failure(f"told {result['seconds']:.3f} s after {result['last_step']}: no sooner than a suspicion ({threshold} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--job", required=True)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--by", choices=sorted(WAYS), default="link", help="how the job comes by the libraries")
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--cupti", choices=["off", "tells", "taken", "missing"], help="`gordian run --cupti` and what comes of it; "
                        "off: without it")
    parser.add_argument("--profiler", action="store_true", help="the shim is NCCL's profiler plugin as well")
    parser.add_argument("--profiler-version", help="that the emulated NCCL asks for")
    parser.add_argument("--perturb", choices=["late", "busy", "load"])
    parser.add_argument("--ring-slots", type=int, help="records that a thread's ring holds, 0 for no rings at all; losses "
                        "are then allowed, if they are named, and so is a verdict of less confidence")
    parser.add_argument("--flood", type=int, default=0, metavar="N", help="each rank makes N records before its first step")
    parser.add_argument("--flood-each", type=int, default=0, metavar="N", help="and N before each of its all-reduces")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--hardware", action="store_true", help="real GPUs and libraries, not the emulated ones")
    parser.add_argument("--keep", action="store_true", help="keep the evidence of a success too")
    args = parser.parse_args()
    if not args.ranks:
        args.ranks = {"inversion_subset": 3, "branch_taken_alone": 3, "three_comm_cycle": 3, "pipeline_swapped": 4, "pipeline_swapped_apart": 4,
                      "exited_rank": 3, "killed_rank": 3, "grouped_by_one": 3, "stopped_rank": 3, "aborted_rank": 3, "init_missing": 3,
                      "exited_before_init": 3, "graph_missing_replay": 3, "non_blocking_init_missing": 3, "non_blocking_init_behind": 4,
                      "finalize_waits_for_absent": 3,
                      "split_divergent": 3, "shrink_shares": 3, "split_against_all_reduce": 3,
                      "leaves_early": 3, "grow_missing": 3, "grow_member_missing": 3, "grow_holder_missing": 3, "grow_inversion": 3, "wrong_peer": 3,
                      "init_same_rank": 4, "init_other_size": 4, "init_stale_id": 4, "init_pairs_in_circle": 4,
                      "all_to_all_skipped": 4, "all_reduce_skipped": 4, "pair_skipped": 4, "one_microbatch_more": 4,
                      "one_microbatch_less": 4, "wrong_colour": 6}.get(args.job, 2)
    times = []
    for i in range(args.repeat):
        work = tempfile.mkdtemp(prefix=f"gordian-e2e-{args.job}-")
        try:
            result = run_once(args, work)
            check(args, result)
            check_said(work, result["verdict"])
        except (Failure, OSError, KeyError, ValueError) as e:
            print(f"FAILED {args.job} (run {i + 1} of {args.repeat}): {e}")
            for name in ("stderr", "session/verdict.json"):
                path = os.path.join(work, name)
                if os.path.exists(path):
                    with open(path, errors="replace") as f:
                        print(f"--- {name}\n{f.read()[:6000]}")
            print(f"evidence: {work}\nrepeat: {' '.join(sys.argv)}")
            return 1
        if result["seconds"] is not None:
            times.append(result["seconds"])
        verdict = result["verdict"]
        print(f"{args.job}{' (twin)' if args.twin else ''}, {args.ranks} ranks: {verdict['verdict']} "
              f"({verdict['confidence']}), culprits {verdict['culprit_ranks']}"
              + (f", {result['seconds']:.3f} s after {result['last_step']}" if result["seconds"] is not None else ""))
        if args.keep:
            print(f"evidence: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    if times:
        times.sort()
        print(f"time to the verdict: median {times[len(times) // 2]:.3f} s, most {times[-1]:.3f} s of {len(times)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
