"""Runs corpus jobs: alone, where what they did is the truth, and watched by gordian, where what it says is judged.

Nobody asks gordian for the truth. The emulator, which knows nothing of it, writes a report when nothing in the job
can move any more (docs/emulator.md); a job whose processes have all ended has ended.
"""

import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

POLL_S = 0.01
LIMIT_S = 60         # nobody knows what a job does that neither ends nor stands still for so long
SUSPECT_AFTER_S = 1.0
# A job that ends is watched for longer than the threshold, three times as long where a rank makes other calls: one
# rank pauses before several of its operations, never so long that a suspicion would be right.
PAUSES_S = 3.2 * SUSPECT_AFTER_S
PAUSE_MS = (150 * SUSPECT_AFTER_S, 500 * SUSPECT_AFTER_S)
PATIENCE_S = 20 * SUSPECT_AFTER_S  # on a busy machine a suspicion comes later; only a silent gordian costs it
SETTLE_S = 0.4       # a verdict may be followed by a better one,
SETTLE_OF_SEVERAL_S = 2.5  # and of several mistakes in one job by further findings
# Whoever kills us ends what we started.
WITH_US = ["setpriv", "--pdeathsig", "TERM", "--"]
QUIET = ("healthy", "finished", "inconclusive")


class Outcome:
    """What a run did: `ended`, `error` (ended, but some rank with a code), `stuck`, `unclear`."""

    def __init__(self, state, code=None, results=None, seconds=0.0, waits=None, calls=None):
        self.state, self.code, self.results, self.seconds = state, code, results, seconds
        self.waits = waits or []  # the emulator's reports
        self.calls = calls or []  # of each rank: (pid, operations begun by each thread)


def reports(path):
    return [name for name in glob.glob(path + ".*") if name.rsplit(".", 1)[1].isdigit()]


def read_results(path, ranks):
    results = {}
    for rank in range(ranks):
        try:
            with open(f"{path}.{rank}") as f:
                results[rank] = dict(line.split() for line in f)
        except OSError:
            results[rank] = None
    return results


def read_calls(path, ranks):
    with open(path + ".calls", "rb") as f:
        words = list(struct.iter_unpack("<17I", f.read()))
    return [(each[0], each[1:16]) for each in words[:ranks]]


def turns_given_up(path, ranks):
    """How often an operation did not come to its turn (`after`)."""
    with open(path + ".calls", "rb") as f:
        return sum(each[16] for each in list(struct.iter_unpack("<17I", f.read()))[:ranks])


def environment(program, path):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GORDIAN_", "NCCL_", "CUDA_", "LD_")) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    env.update(program.environment)
    env.update(GORDIAN_EMU_QUIESCENCE=path, GORDIAN_EMU_PROCESSES=str(program.ranks))
    return env


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_alone(build, program, folder):
    """The truth about `program`: an Outcome. No shim, no gordian."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text, results, quiescence = (os.path.join(folder, name) for name in ("program", "results", "still"))
    with open(text, "w") as f:
        f.write(program.text())
    env = environment(program, quiescence)
    env["LD_LIBRARY_PATH"] = os.path.join(build, "lib", "emulator")
    start = time.monotonic()
    with open(os.path.join(folder, "stderr"), "wb") as err:
        process = subprocess.Popen(WITH_US + [os.path.join(build, "tests", "gordian_corpus_job"), text, results],
                                   env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                   start_new_session=True)
        try:
            while True:
                code = process.poll()
                taken = time.monotonic() - start
                if code is not None:
                    return Outcome("ended" if code == 0 else "error", code, read_results(results, program.ranks), taken)
                found = reports(quiescence)
                if found:
                    time.sleep(POLL_S)
                    # Ended meanwhile, or moving again: looked at once more.
                    if process.poll() is None and any(os.path.exists(name) for name in found):
                        return Outcome("stuck", None, None, taken, read_waits(found),
                                       read_calls(results, program.ranks))
                if taken > LIMIT_S:
                    return Outcome("unclear", None, None, taken)
                time.sleep(POLL_S)
        finally:
            end_group(process)


def read_waits(names):
    waits = []
    for name in names:
        try:
            with open(name) as f:
                waits.append(json.load(f))
        except (OSError, ValueError):
            continue  # just removed
    return waits


class Watched:
    def __init__(self):
        self.outcome = None
        self.verdict = None       # the last one before the job ended or was ended
        self.confirmed = []       # every trouble that was ever said to be confirmed,
        self.suspected = []       # or suspected
        self.seconds = None       # from standing still to the first verdict; below 0: before
        self.left = []            # processes and files that were left over


def read_verdict(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def accuses(main):
    """What is only possible says that a job is slow, and accuses no rank: more may follow."""
    verdict, confidence, _ = main
    return verdict not in QUIET and confidence != "possible"


def remove_ring_folder(path):
    """Only a folder that bears such a name and is no link, and in it only what gordian puts there."""
    if not re.fullmatch(rf"/dev/shm/gordian-{os.getuid()}-\w{{6}}", path):
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in os.listdir(folder):
            if re.fullmatch(r"\d+\.\d+(\.\d+)?\.ring(\.tmp)?|\.session", name):
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(path)  # of a link it would be an error


def run_watched(build, program, folder, settle_s=SETTLE_S):
    """`gordian run` leaves the job alone; we end it once it stands still and gordian has had its time."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text, results, quiescence, session = (os.path.join(folder, name)
                                          for name in ("program", "results", "still", "session"))
    with open(text, "w") as f:
        f.write(program.text())
    env = environment(program, quiescence)
    env["GORDIAN_EMU_IGNORE_THREADS"] = "gordian-watch"  # the shim's own, which polls
    verdict_path = os.path.join(session, "verdict.json")
    watched = Watched()
    stamp = first_trouble = changed = still_since = None
    still_at = 0.0
    said = ""
    start = time.monotonic()
    with open(os.path.join(folder, "stderr"), "wb") as err:
        process = subprocess.Popen(
            WITH_US + [os.path.join(build, "bin", "gordian"), "run", "--emulator", "--quiet", "--suspect-after",
             str(SUSPECT_AFTER_S), "--session", session, "--", os.path.join(build, "tests", "gordian_corpus_job"),
             text, results],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
        try:
            while True:
                code = process.poll()
                now = time.monotonic()
                try:
                    stat = os.stat(verdict_path)
                    if stamp != (stat.st_mtime_ns, stat.st_ino):
                        stamp = (stat.st_mtime_ns, stat.st_ino)
                        verdict = read_verdict(verdict_path)
                        if verdict is not None:
                            watched.verdict = verdict
                            main = (verdict["verdict"], verdict["confidence"], tuple(verdict["culprit_ranks"]))
                            if main != said:
                                said, changed = main, now
                            if accuses(main):
                                first_trouble = first_trouble or stat.st_mtime
                                ever = watched.confirmed if verdict["confidence"] == "confirmed" else watched.suspected
                                if main not in ever:
                                    ever.append(main)
                except OSError:
                    pass
                if code is not None:
                    watched.outcome = Outcome("ended" if code == 0 else "error", code,
                                              read_results(results, program.ranks), now - start)
                    return finish(watched, first_trouble, None)
                found = reports(quiescence)
                if not found:
                    still_since = None
                elif still_since is None:
                    still_since = now
                    try:
                        still_at = min(os.stat(name).st_mtime for name in found)
                    except OSError:
                        still_since = None  # moving again
                elif (now - still_since > PATIENCE_S
                      or (said and accuses(said) and now - max(changed, still_since) > settle_s)):
                    watched.outcome = Outcome("stuck", None, None, now - start, read_waits(found),
                                              read_calls(results, program.ranks))
                    end_job(found, process)
                    return finish(watched, first_trouble, still_at)
                if now - start > LIMIT_S:
                    watched.outcome = Outcome("unclear", None, None, now - start)
                    return finish(watched, first_trouble, None)
                time.sleep(POLL_S)
        finally:
            end_group(process)
            watched.left = left_over(session)


def finish(watched, first_trouble, still_at):
    if first_trouble is not None and still_at is not None:
        watched.seconds = round(first_trouble - still_at, 3)
    return watched


def end_job(found, process):
    """Ends the ranks, by the numbers in their reports; then gordian ends by itself, and tidies up."""
    for name in found:
        try:
            os.kill(int(name.rsplit(".", 1)[1]), signal.SIGKILL)
        except ProcessLookupError:
            continue
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass  # the caller ends the whole group


def left_over(session):
    """Processes that have `session` in their environment or arguments, after a moment; they are ended."""
    deadline = time.monotonic() + 3
    while True:
        pids = []
        for folder in glob.glob("/proc/[0-9]*"):
            pid = int(folder.rsplit("/", 1)[1])
            if pid == os.getpid():
                continue
            for name in ("environ", "cmdline"):
                try:
                    with open(f"{folder}/{name}", "rb") as f:
                        if session.encode() in f.read():
                            pids.append(pid)
                            break
                except OSError:
                    break
        if not pids:
            break
        if time.monotonic() > deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            break
        time.sleep(0.02)
    left = [f"process {pid}" for pid in pids]
    try:
        with open(os.path.join(session, "manifest.json")) as f:
            rings = json.load(f).get("ring_dir")
        if rings and os.path.exists(rings):
            left.append(rings)
            remove_ring_folder(rings)
    except (OSError, ValueError):
        pass
    return left
