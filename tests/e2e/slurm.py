#!/usr/bin/env python3
"""Slurm itself, of two nodes: srun, sbatch, other launchers below Slurm and the scripts of
deploy/slurm start jobs that hang, and their twins.

  slurm.py BUILD_FOLDER [CASE...]

On failure the evidence stays in a folder that is named. slurm_cluster.py says what this needs.
"""

import glob
import json
import os
import pwd
import re
import shutil
import subprocess
import sys

import fleet_testing
import slurm_cluster
from fleet_testing import BUILD, PATIENCE, expect, read_json, skip, wait_for
from slurm_cluster import DEPLOY, ask, begin, environment

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHER = os.path.join(HERE, "launcher.py")
RANKS = 4  # two on each node
NODES = [(0, "n0"), (1, "n1")]  # number and name of each gordian that is around a node's ranks

# What train.sbatch starts on each node in place of PyTorch's. It takes no option that PyTorch 1.13
# does not take.
TORCHRUN = """#!/bin/bash
for option in "$@"; do
  case $option in
    --nnodes=*) nodes=${option#*=} ;;
    --nproc_per_node=*) ranks=${option#*=} ;;
    --rdzv_endpoint=*) endpoint=${option#*=} ;;
    --rdzv_backend=c10d | --rdzv_id=*) ;;
    --*) echo "unknown: $option" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
getent hosts "${endpoint%:*}" > /dev/null || { echo "no such host: $endpoint" >&2; exit 1; }
mkdir -p "$SESSIONS/meet"
exec python3 "$LAUNCHER" --nodes "$nodes" --node "$SLURM_NODEID" --ranks $((nodes * ranks)) \\
  --meet "$SESSIONS/meet" --max-restarts 0 -- "$@"
"""

# Three ranks that SIGTERM does not end: Slurm kills them a while later, with their gordian and its
# guardian.
DEAF_RANKS = """trap "" TERM
for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 "$0" "$@" & done
wait
"""


def rank():
    return os.path.join(BUILD.folder, "tests", "gordian_launched_rank")


def gordian_run(address):
    server = ["--analyzer", address, "--trust-analyzer"] if address else []
    return [BUILD.gordian, "run", "--emulator", *server, "--on-verdict", "kill", "--"]


def closed(folder):
    return (read_json(os.path.join(folder, "manifest.json")) or {}).get("closed")


def jobs_of(sessions):
    """The folders of a server's jobs. train.sbatch puts the nodes' own sessions beside them."""
    return [*glob.glob(sessions + "/slurm-*"), *glob.glob(sessions + "/mpi-*")]


def only_job(sessions):
    """The folder of the one job that a server knew, once it is closed."""
    folders = jobs_of(sessions)
    expect(len(folders) == 1, "jobs of the server:", folders)
    wait_for(lambda: closed(folders[0]), "the job is closed")
    return folders[0]


def let_hang(sessions, address, until, **more):
    """Lets the ranks go on to where they hang, once the server sees all of them. A deadlock that is
    proven before of some is proven all the same, but who began it is then open."""
    def all_seen():
        done = [subprocess.run([BUILD.gordian, "status", "--analyzer", address, "--job",
                                os.path.basename(folder), "--json"], capture_output=True,
                               text=True, timeout=PATIENCE, env=environment(**more))
                for folder in jobs_of(sessions)]
        ranks = [rank for status in done if status.stdout
                 for rank in json.loads(status.stdout)["ranks"]]
        return len([rank for rank in ranks if rank["nccl_calls"] > 10]) == RANKS
    wait_for(all_seen, "the server sees all ranks")
    with open(until, "w"):
        pass


def check_job(folder, twin, code, nodes, name):
    """One verdict about the ranks of both nodes, and who the nodes were."""
    verdict = read_json(folder + "/verdict.json")
    manifest = read_json(folder + "/manifest.json")
    seen = sorted((node["number"], node["node"]) for node in manifest["nodes"])
    expect(seen == nodes, "the nodes are", seen, "not", nodes)
    expect(re.fullmatch(name, manifest["job"]), "the job's name is", manifest["job"])
    evidence = verdict["evidence"]
    expect((evidence["ranks_seen"], evidence["ranks_expected"]) == (RANKS, RANKS), evidence)
    said = (verdict["verdict"], verdict["confidence"], verdict["culprit_ranks"])
    if twin:
        expect(said == ("finished", "confirmed", []) and code == 0, verdict["summary"], code)
        return
    expect(said == ("deadlock", "confirmed", [RANKS - 1]), verdict["summary"])
    expect(evidence["not_visible"] == [], evidence)
    expect(code != 0, "exit code", code)


def hang_and_twin(function):
    """The case twice: with a job that hangs, and with its twin."""
    def both(case):
        for twin in ([], ["--twin"]):
            os.mkdir(case.path("meet"))
            function(case, twin)
            shutil.rmtree(case.path("meet"))
    both.__name__ = function.__name__
    both.__doc__ = function.__doc__
    return both


def job(case, twin):
    """The command of a rank. The ranks step until they may hang."""
    return [rank(), case.path("meet"), *twin, "--until", case.path("meet/until")]


def beside_server(case, twin, nodes, start, name=r"slurm-\d+\.0"):
    """Has `start(address)` start a job beside a `gordian serve`, and checks what that knows."""
    shutil.rmtree(case.path("sessions"), ignore_errors=True)
    server = case.server()
    process = start(f"head:{server.port}")
    let_hang(server.sessions, f"127.0.0.1:{server.port}", case.path("meet/until"))
    code = process.wait(PATIENCE)
    folder = only_job(server.sessions)
    server.stop()
    check_job(folder, twin, code, nodes, name)


# ---- srun

@hang_and_twin
def srun_around_launchers(case, twin):
    """`srun ... gordian run --analyzer ... -- torchrun ...`: one gordian on each node."""
    launcher = ["bash", "-c", 'exec python3 "$0" --nodes 2 --node "$SLURM_NODEID" "$@"', LAUNCHER,
                "--ranks", str(RANKS), "--meet", case.path("meet"), "--max-restarts", "0", "--"]

    def start(address):
        return begin(case, "srun", "srun", "--nodes=2", "--ntasks-per-node=1",
                   *gordian_run(address), *launcher, *job(case, twin))
    beside_server(case, twin, NODES, start)


@hang_and_twin
def gordian_around_srun(case, twin):
    """`gordian run -- srun ./train` on one node: the ranks are below slurmd, not below gordian,
    whose SIGTERM has srun end them."""
    process = begin(case, "srun", BUILD.gordian, "run", "--emulator", "--session",
                    case.path("around"), "--on-verdict", "kill", "--", "srun", "--nodes=1",
                    "--ntasks-per-node", str(RANKS), "--job-name=around", rank(),
                    case.path("meet"), *twin)
    code = process.wait(PATIENCE)
    verdict = read_json(case.path("around/verdict.json"))
    said = (verdict["verdict"], verdict["confidence"], verdict["evidence"]["ranks_seen"], code)
    kind, exit_code = ("finished", 0) if twin else ("deadlock", 137)
    expect(said == (kind, "confirmed", RANKS, exit_code), said, verdict["summary"])
    # gordian returns once the ranks have ended; what is left is Slurm's own.
    def states():
        return ask("squeue", "--noheader", "--name=around", "--states=all", "--format=%T").split()
    expect("RUNNING" not in states(), states())
    with open(case.path("srun.err")) as f:
        text = f.read()
    expect("did not end" not in text, text)
    # The epilog, which has a folder of its own for a moment, belongs to the job's completion.
    wait_for(lambda: "COMPLETING" not in states(), "the epilog has run")
    expect(not glob.glob("/dev/shm/gordian-0-*"), os.listdir("/dev/shm"))
    shutil.rmtree(case.path("around"))


def of_tasks(host=None):
    """Number and name of each gordian that is around one rank."""
    return [(r, f"{host or f'n{r // 2}'}:{r}") for r in range(RANKS)]


@hang_and_twin
def srun_around_ranks(case, twin):
    """`srun gordian run ... -- ./train`: a gordian in each of two tasks on each node."""
    def start(address):
        return begin(case, "srun", "srun", "--nodes=2", "--ntasks-per-node=2",
                   *gordian_run(address), *job(case, twin))
    beside_server(case, twin, of_tasks(), start)


@hang_and_twin
def task_prolog(case, twin):
    """With task_prolog.sh a site names its server: `srun gordian run -- ...` alone. The twin's user
    names another one, which counts."""
    def start(address):
        nowhere = "head:9"  # no server listens there
        named = {"GORDIAN_SITE_ANALYZER": address}
        if twin:
            named = {"GORDIAN_SITE_ANALYZER": nowhere, "GORDIAN_ANALYZER": address}
        # Without --analyzer there is nothing to trust on the command line.
        command = [*gordian_run("")[:-1], "--trust-analyzer", "--"]
        return begin(case, "srun", "srun", "--nodes=2", "--ntasks-per-node=2", *command,
                   *job(case, twin), **named)
    beside_server(case, twin, of_tasks(), start)


# ---- Launchers that start themselves on the nodes by srun, with a gordian in each rank

@hang_and_twin
def mpiexec_of_mpich(case, twin):
    mpiexec = shutil.which("mpiexec.mpich")
    if mpiexec is None:
        return skip("mpiexec_of_mpich: no mpiexec.mpich (apt-get install mpich)")

    def start(address):
        return begin(case, "salloc", "salloc", "--nodes=2", "--ntasks-per-node=2", mpiexec, "-n",
                   str(RANKS), *gordian_run(address), *job(case, twin))
    return beside_server(case, twin, of_tasks("head"), start)


@hang_and_twin
def mpirun_of_open_mpi(case, twin):
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None:
        return skip("mpirun_of_open_mpi: no mpirun.openmpi (apt-get install openmpi-bin)")

    def start(address):
        # Open MPI talks over loopback only when told so.
        return begin(case, "salloc", "salloc", "--nodes=2", "--ntasks-per-node=2", mpirun,
                   "--allow-run-as-root", "-np", str(RANKS), *gordian_run(address),
                   *job(case, twin), OMPI_MCA_oob_tcp_if_include="lo", TMPDIR=case.work)
    return beside_server(case, twin, of_tasks("head"), start, r"mpi-\d+")


# ---- deploy/slurm/train.sbatch

class Batch:
    """train.sbatch as it is, on two nodes without GPUs."""

    # A start's ranks meet in a folder of its own. A start after the first is of the twin.
    PROGRAM = """meet=$MEET/${SLURM_RESTART_COUNT:-0}
mkdir -p "$meet"
exec "$0" "$meet" --until "$meet/until" ${SLURM_RESTART_COUNT:+--twin} "$@"
"""

    def __init__(self, case, name, on_verdict, twin=()):
        for folder in (name, f"{name}/bin", f"{name}/meet"):
            os.mkdir(case.path(folder))
        self.meet = case.path(f"{name}/meet")
        with open(case.path(f"{name}/bin/torchrun"), "w") as f:
            f.write(TORCHRUN)
        os.chmod(case.path(f"{name}/bin/torchrun"), 0o755)
        with open(case.path(f"{name}/gordian.toml"), "w") as f:
            f.write(f'[run]\nemulator = true\non-verdict = "{on_verdict}"\n'
                    'trust-analyzer = true\n')
        env = environment(GORDIAN_CONFIG=case.path(f"{name}/gordian.toml"), LAUNCHER=LAUNCHER,
                          SLURM_GPUS_ON_NODE=str(RANKS // 2), MEET=self.meet)
        env["PATH"] = f"{case.path(name)}/bin:{env['PATH']}"
        self.said = case.path(f"{name}.err")
        options = ["--nodes=2", "--gpus-per-node=0", "--cpus-per-task=1", "--open-mode=append"]
        done = subprocess.run(["sbatch", "--parsable", *options, "--output", self.said,
                               os.path.join(DEPLOY, "train.sbatch"), "bash", "-c",
                               self.PROGRAM, rank(), *twin], env=env, cwd=case.path(name),
                              capture_output=True, text=True, timeout=PATIENCE)
        expect(done.returncode == 0, done.stderr)
        self.number = done.stdout.strip()
        self.folder = case.path(f"{name}/gordian-{self.number}")

    def sessions(self, start):
        return f"{self.folder}.{start}"

    def let_hang(self, start):
        sessions = self.sessions(start)
        wait_for(lambda: jobs_of(sessions), "the server has a job")
        with open(f"{sessions}/serve.jsonl") as f:
            port = json.loads(f.readline())["listening"].rsplit(":", 1)[1]
        let_hang(sessions, f"127.0.0.1:{port}", f"{self.meet}/{start}/until",
                 GORDIAN_TOKEN_FILE=f"{sessions}/nodes.token")

    def field(self, name):
        shown = ask("scontrol", "--oneliner", "show", "job", self.number)
        return re.search(rf" {name}=(\S+)", shown)[1]

    def end(self):
        """Waits for it, and returns its exit code."""
        wait_for(lambda: self.field("JobState") not in ("PENDING", "RUNNING", "COMPLETING"),
                 "the batch job ends")
        return int(self.field("ExitCode").split(":")[0])


def batch_job(case):
    """The first node runs the server, with tokens; gordian and a torchrun run on each node."""
    for twin in ([], ["--twin"]):
        batch = Batch(case, "batch" + "".join(twin), "kill", twin)
        batch.let_hang(0)
        code = batch.end()
        check_job(only_job(batch.sessions(0)), twin, code, NODES, rf"slurm-{batch.number}\.0")
        with open(batch.said) as f:
            said = f.read()
        report = re.search(r"verdict is in (\S+)$", said, re.MULTILINE)
        expect(report and len(glob.glob(report[1])) == 1, said)


def requeued(case):
    """With `--on-verdict restart` a job that hung goes into the queue again, and ends well."""
    batch = Batch(case, "batch", "restart")
    batch.let_hang(0)
    wait_for(lambda: batch.field("Restarts") == "1" and batch.field("JobState") == "PENDING",
             "the job is in the queue again")
    # A job that is requeued waits for two minutes unless told otherwise; and a node does not start
    # it again within the second in which it ended it.
    ask("scontrol", "update", f"JobId={batch.number}", "StartTime=now+2")
    batch.let_hang(1)
    code = batch.end()
    check_job(only_job(batch.sessions(0)), [], 75, NODES, rf"slurm-{batch.number}\.0")
    check_job(only_job(batch.sessions(1)), ["--twin"], code, NODES,
              rf"slurm-{batch.number}\.0-1")


# ---- deploy/slurm/epilog.sh

def other_user():
    """The command that makes a process one of the user nobody, and that user's number, if that user
    can run gordian from this build; else root."""
    nobody = pwd.getpwnam("nobody")
    become = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    done = subprocess.run([*become, BUILD.gordian, "--version"], capture_output=True)
    return (become, nobody.pw_uid) if done.returncode == 0 else ([], 0)


class WatchedJob:
    """srun, on one node, of a gordian without a server, around three ranks."""

    def __init__(self, case, name, node, *more):
        become, uid = other_user()
        self.case, self.name = case, name
        os.mkdir(case.path(f"{name}.meet"))
        os.chown(case.path(f"{name}.meet"), uid, -1)
        with open(case.path(f"{name}.err"), "wb") as err:
            self.process = subprocess.Popen(
                [*become, "srun", "--nodelist", node, "--ntasks=1", "--job-name", name,
                 BUILD.gordian, "run", "--emulator", "--session", case.path(name), "--", "bash",
                 "-c", DEAF_RANKS, rank(), case.path(f"{name}.meet"), *more],
                stdin=subprocess.DEVNULL, stdout=err, stderr=err, cwd=case.work,
                env=environment(HOME=case.work))
        wait_for(self.verdict, f"{name} is watched")
        self.number = ask("squeue", "--noheader", "--name", name, "--format=%A")

    def verdict(self):
        return (read_json(self.case.path(f"{self.name}/verdict.json")) or {}).get("verdict")

    def kill(self, node):
        """As at the end of its time. Returns what the epilog found, and its exit code."""
        wait_for(lambda: self.verdict() == "deadlock", f"{self.name} hangs")
        ask("scancel", self.number)
        note = slurm_cluster.path(f"epilog.{self.number}.{node}")
        wait_for(lambda: os.path.exists(note), "the epilog has run")
        with open(note) as f:
            return f.read().splitlines()


def epilog(case):
    """After a job that was killed together with its gordian: its rings are in its session. Those
    of a job of the same user that runs on stay."""
    _, uid = other_user()
    os.chown(case.work, uid, -1)

    def rings():
        return sorted(glob.glob(f"/dev/shm/gordian-{uid}-*"))
    other = WatchedJob(case, "other", "n1", "--twin", "--until", case.path("until"))
    of_other = rings()
    killed = WatchedJob(case, "killed", "n0")
    of_both = rings()
    expect((len(of_other), len(of_both)) == (1, 2), "folders of rings:", of_other, of_both)
    metrics = [slurm_cluster.path(f"textfiles/gordian-{job.number}.prom")
               for job in (killed, other)]
    for path in metrics:
        with open(path, "w"):
            pass
    # Slurm's SIGKILL left the rings of both, and the epilog those of one.
    expect(killed.kill("n0") == [*of_both, "code 0"], "the epilog did something else")
    expect(rings() == of_other, "folders of rings:", rings(), of_other)
    expect([os.path.exists(path) for path in metrics] == [False, True], "metrics:", metrics)
    kept = glob.glob(case.path("killed/rings/*.ring"))
    expect([os.stat(path).st_uid for path in kept] == [uid] * 3, "rings in the session:", kept)
    again = subprocess.run([BUILD.gordian, "analyze", case.path("killed"), "--json"],
                           capture_output=True, text=True, timeout=PATIENCE, env=environment())
    expect(json.loads(again.stdout)["culprit_ranks"] == [2], again.stdout, again.stderr)
    with open(case.path("until"), "w"):
        pass
    expect((other.process.wait(PATIENCE), other.verdict()) == (0, "finished"), "the other job")
    expect(not rings(), "folders of rings:", rings())


CASES = [srun_around_launchers, srun_around_ranks, gordian_around_srun, task_prolog,
         mpiexec_of_mpich, mpirun_of_open_mpi, batch_job, requeued, epilog]

if __name__ == "__main__":
    sys.exit(slurm_cluster.main(__file__, lambda: fleet_testing.main(__doc__, CASES)))
