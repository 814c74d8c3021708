"""Launchers: whose variables name the ranks, `gordian run` around mpirun and inside it, one session
for several nodes. Each with a job that hangs and its twin."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from cli_testing import BUILD, GORDIAN, CliTest, clean_environment, end_with_job, main, wait_until

RANK = os.path.join(BUILD, "tests", "gordian_launched_rank")
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "MV2_",
             "JSM_")


def environment(**more):
    env = {k: v for k, v in clean_environment().items() if not k.startswith(LAUNCHERS)}
    env.update(more)
    return env


# What a launcher sets for rank r of n; by the order of discovery.
VARIABLES = {
    "torchrun": lambda r, n: {"RANK": r, "LOCAL_RANK": r, "WORLD_SIZE": n, "TORCHELASTIC_RUN_ID": "none"},
    "openmpi": lambda r, n: {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_LOCAL_RANK": r, "OMPI_COMM_WORLD_SIZE": n,
                             "PMIX_RANK": r},
    "mpich": lambda r, n: {"PMI_RANK": r, "PMI_SIZE": n, "MPI_LOCALRANKID": r},
    "srun": lambda r, n: {"SLURM_PROCID": r, "SLURM_LOCALID": r, "SLURM_NTASKS": n, "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0},
    "openmpi_in_slurm": lambda r, n: {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": n, "PMIX_RANK": 9, "SLURM_PROCID": 0},
    # torchrun in an allocation: the batch step's own number is not the rank.
    "torchrun_in_slurm": lambda r, n: {"RANK": r, "WORLD_SIZE": n, "SLURM_PROCID": 0, "SLURM_NTASKS": 1},
    # Plain fork there: what all have in common names nobody, NCCL's own ranks do.
    "fork_in_slurm": lambda r, n: {"SLURM_PROCID": 0, "SLURM_NTASKS": 1},
    "fork": lambda r, n: {},
}

LAUNCHER = """import json, os, subprocess, sys
program, folder, ranks, twin = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
started = [subprocess.Popen([program, folder, *twin, "--rank", str(r), "--ranks", str(len(ranks))],
                            env={**os.environ, **{k: str(v) for k, v in variables.items()}}) for r, variables in ranks]
sys.exit(max(p.wait() for p in started))
"""


# A launcher whose daemon starts the ranks, as srun's does: the daemon ends them when the launcher has
# got SIGTERM, unless the launcher is deaf to it.
DAEMON = """import json, os, subprocess, sys, time
folder, ranks = sys.argv[1], 3
while not os.path.exists(folder + "/asked"): time.sleep(0.01)
with open(folder + "/asked") as f: command, env = json.load(f)
started = [subprocess.Popen(command, env={**env, "RANK": str(r), "WORLD_SIZE": str(ranks)})
           for r in range(ranks)]
while None in [p.poll() for p in started]:
    if os.path.exists(folder + "/stop"):
        for p in started: p.terminate()
    time.sleep(0.01)
open(folder + "/done", "w").close()
"""
ITS_LAUNCHER = """import json, os, signal, sys, time
folder, deaf, command = sys.argv[1], sys.argv[2] == "deaf", sys.argv[3:]
def stop(*_): open(folder + "/stop", "w").close()
signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else stop)
with open(folder + "/new", "w") as f: json.dump([command, dict(os.environ)], f)
os.rename(folder + "/new", folder + "/asked")
while not os.path.exists(folder + "/done"): time.sleep(0.01)
"""


# Several jobs at once, each a command.
JOBS = """import json, subprocess, sys
started = [subprocess.Popen(job) for job in json.loads(sys.argv[1])]
sys.exit(max(p.wait() for p in started))
"""


class LaunchTest(CliTest):
    def setUp(self):
        super().setUp()
        self.need(RANK)
        os.mkdir(self.path("meet"))
        self.processes = []

    def check(self, verdict, done, twin, ranks=3, stacks=True):
        self.assertEqual(verdict["evidence"]["ranks_seen"], ranks, done.stderr)
        self.assertEqual(verdict["evidence"]["ranks_expected"], ranks, done.stderr)
        if twin:
            self.assertEqual((verdict["verdict"], done.returncode), ("finished", 0), done.stderr)
            return
        self.assertEqual((verdict["verdict"], verdict["confidence"]), ("deadlock", "confirmed"), done.stderr)
        self.assertEqual(verdict["culprit_ranks"], [ranks - 1], done.stderr)
        self.assertNotEqual(done.returncode, 0)
        if stacks:
            self.assertEqual(sorted(r for s in verdict["stacks"] for r in s["ranks"]), list(range(ranks)), done.stderr)

    def ranks_of(self, session):
        with open(os.path.join(session, "manifest.json")) as f:
            return sorted(p["rank"] for p in json.load(f)["processes"])

    def serve(self):
        server = self.start("serve", "--listen", "127.0.0.1:0", "--sessions", self.path("jobs"), "--json")
        address = json.loads(server.stdout.readline())["listening"]
        return server, address

    def only_job(self):
        jobs = glob.glob(self.path("jobs/*/manifest.json"))
        self.assertEqual(len(jobs), 1, jobs)
        with open(jobs[0]) as f:
            return os.path.dirname(jobs[0]), json.load(f)

    def rank(self, twin):
        """The command of a rank that steps until let_hang_once_seen."""
        return [RANK, self.path("meet"), *twin, "--until", self.path("meet/until")]

    def launch(self, address, *command, env, ranks=3):
        """Runs a launcher beside a server, which sees all ranks before they may hang."""
        started = subprocess.Popen(command, env=env, cwd=self.work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end_with_job, started)
        self.let_hang_once_seen(address, ranks)
        out, err = started.communicate(timeout=100)
        return subprocess.CompletedProcess(command, started.returncode, out, err)

    def let_hang_once_seen(self, address, ranks=3):
        """Lets the ranks go on to where they hang, once the server sees all of them. A deadlock
        that is proven before of some is proven all the same, but who began it is then open."""
        def all_seen():
            seen = []
            for folder in glob.glob(self.path("jobs/*/")):
                done = self.gordian("status", "--analyzer", address, "--job",
                                    os.path.basename(folder[:-1]), "--json")
                seen += json.loads(done.stdout)["ranks"] if done.stdout else []
            return len([rank for rank in seen if rank["nccl_calls"] > 10]) == ranks
        self.assertTrue(wait_until(all_seen, every=0.1), "the server does not see all ranks")
        with open(self.path("meet/until"), "w"):
            pass


class Launch(LaunchTest):
    def test_variables(self):
        for name, variables in VARIABLES.items():
            for twin in ([], ["--twin"]):
                with self.subTest(name, twin=bool(twin)):
                    shutil.rmtree(self.path("meet"))
                    os.mkdir(self.path("meet"))
                    session = self.path(name + "".join(twin))
                    ranks = json.dumps([(r, variables(r, 3)) for r in range(3)])
                    done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", sys.executable,
                                        "-c", LAUNCHER, RANK, self.path("meet"), ranks, *twin, env=environment())
                    self.check(self.verdict(session), done, twin)
                    named = {"fork": [-1, -1, -1], "fork_in_slurm": [0, 0, 0]}.get(name, [0, 1, 2])
                    self.assertEqual(self.ranks_of(session), named)

    def test_a_rank_without_the_shim_is_said_while_the_job_is_healthy(self):
        for alone in (0, 1):
            with self.subTest(ranks_without=alone):
                folder, session, until = (self.path(f"{what}{alone}") for what in ("meet", "s", "until"))
                os.mkdir(folder)
                variables = [{"RANK": r, "WORLD_SIZE": 2, **({"LD_PRELOAD": ""} if r < alone else {})} for r in range(2)]
                run = self.start("run", "--emulator", "--suspect-after", "0.5", "--session", session, "--", sys.executable, "-c",
                                 LAUNCHER, RANK, folder, json.dumps(list(enumerate(variables))), "--twin", "--until", until,
                                 env=environment(), stdout=subprocess.DEVNULL)
                if alone:
                    line = run.stderr.readline()
                    self.assertIn("gordian: 1 of 2 ranks seen; ", line)
                else:
                    self.assertTrue(wait_until(lambda: os.path.exists(session + "/verdict.json")))
                    time.sleep(4)  # the line would come from 2 s on
                with open(until, "w"):
                    pass
                self.assertEqual(run.wait(60), 0)
                self.assertEqual(run.stderr.read().count("ranks seen"), 0)

    def run_jobs(self, *jobs):
        """One `gordian run` around several jobs whose launchers number their ranks alike: (name, arguments). Each
        steps until a file of its name with .until is there. Returns once gordian sees all ranks."""
        ranks = json.dumps([(r, {"RANK": r, "LOCAL_RANK": r, "WORLD_SIZE": 3}) for r in range(3)])
        for name, _ in jobs:
            os.mkdir(self.path(name))
        commands = [[sys.executable, "-c", LAUNCHER, RANK, self.path(name), ranks, "--until", self.path(name + ".until"),
                     *arguments] for name, arguments in jobs]
        run = self.start("run", "--emulator", "--session", self.path("s"), "--suspect-after", "3", "--", sys.executable, "-c",
                         JOBS, json.dumps(commands), env=environment(), stdout=subprocess.DEVNULL)

        def all_step():
            return len([rank for rank in self.ranks_in_status() if rank["nccl_calls"] > 10]) == 3 * len(jobs)
        self.assertTrue(wait_until(all_step, every=0.1), "not all ranks step")
        return run

    def ranks_in_status(self):
        done = self.gordian("status", self.path("s"), "--json")
        return json.loads(done.stdout)["ranks"] if done.stdout else []

    def let_hang(self, *names):
        for name in names:
            with open(self.path(name + ".until"), "w"):
                pass

    def test_a_hang_beside_another_job_is_of_its_own_ranks(self):
        run = self.run_jobs(("healthy", ["--twin"]), ("stuck", []))
        self.let_hang("stuck")
        verdict = {}

        def found():
            if os.path.exists(self.path("s/verdict.json")):
                verdict.update(self.verdict(self.path("s")))
            return (verdict.get("verdict"), verdict.get("confidence")) == ("deadlock", "confirmed")
        self.assertTrue(wait_until(found, every=0.1), verdict)
        self.assertEqual(verdict["culprit_ranks"], [2], verdict["summary"])
        said = re.search(r"It is the job of pids ([0-9, ]+); gordian has seen another one", verdict["summary"])
        self.assertTrue(said, verdict["summary"])
        for pid in said[1].split(", "):
            with open(f"/proc/{pid}/cmdline") as f:
                self.assertIn(self.path("stuck"), f.read())
        self.let_hang("healthy")  # it ends
        states = lambda: [rank["state"] for rank in self.ranks_in_status()]
        self.assertTrue(wait_until(lambda: states().count("ended") == 3, every=0.1), states())
        self.assertEqual(self.verdict(self.path("s"))["culprit_ranks"], [2])
        for pid in said[1].split(", "):
            os.kill(int(pid), signal.SIGKILL)
        run.wait(60)

    def test_two_hangs_are_both_in_the_report(self):
        run = self.run_jobs(("one", []), ("other", []))
        self.let_hang("one", "other")

        def both():
            verdict = self.verdict(self.path("s"))
            return [f["verdict"] for f in (verdict, *verdict["findings"])].count("deadlock") == 2
        self.assertTrue(wait_until(both, every=0.1), self.verdict(self.path("s")))
        with open(self.path("s/report.txt")) as f:
            text = f.read()
        first = text[:text.index("what to change:")]
        self.assertEqual(first.count("gordian: DEADLOCK (confirmed"), 1, text)
        self.assertRegex(first, r"also: deadlock \(confirmed\): Ranks? [012]", text)
        pids = re.findall(r"job\s+of\s+pids\s+([0-9]+),\s+([0-9]+),\s+([0-9]+)", first)
        self.assertEqual(len(pids), 2, text)
        for pid in pids[0] + pids[1]:
            os.kill(int(pid), signal.SIGKILL)
        run.wait(60)

    def mpirun(self):
        found = shutil.which("mpirun")
        if found is None:
            self.skipTest("mpirun is not installed (openmpi-bin)")
        return [found, "--allow-run-as-root", "--oversubscribe", "-np", "3"]

    def mpi_environment(self):
        # Of one machine without a network.
        return environment(OMPI_MCA_btl="self,vader", OMPI_MCA_plm="isolated", OMPI_MCA_rmaps_base_oversubscribe="1")

    def test_run_around_mpirun(self):
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                shutil.rmtree(self.path("meet"))
                os.mkdir(self.path("meet"))
                session = self.path("around" + "".join(twin))
                done = self.gordian("run", "--emulator", "--session", session, "--on-verdict", "kill", "--", *self.mpirun(),
                                    RANK, self.path("meet"), *twin, env=self.mpi_environment())
                self.check(self.verdict(session), done, twin)
                self.assertEqual(self.ranks_of(session), [0, 1, 2])

    def test_run_inside_mpirun_is_one_job(self):
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                shutil.rmtree(self.path("meet"))
                os.mkdir(self.path("meet"))
                shutil.rmtree(self.path("jobs"), ignore_errors=True)
                server, address = self.serve()
                done = self.launch(address, *self.mpirun(), GORDIAN, "run", "--emulator", "--analyzer", address, "--on-verdict",
                                   "kill", "--", *self.rank(twin), env=self.mpi_environment())

                def over():
                    return self.only_job()[1]["job_ended"]
                self.assertTrue(wait_until(over, seconds=60), done.stderr)
                folder, manifest = self.only_job()
                self.assertTrue(manifest["job"].startswith("mpi-"), manifest)
                self.assertEqual(sorted(n["number"] for n in manifest["nodes"]), [0, 1, 2])
                self.assertEqual(len({n["node"] for n in manifest["nodes"]}), 3, "each has a name of its own")
                # Once one has ended its rank, mpirun ends the others, whatever they are at.
                self.check(self.verdict(folder), done, twin, stacks=False)
                server.send_signal(signal.SIGTERM)
                server.wait(60)

    def test_tasks_of_srun_are_one_job(self):
        # Without Slurm: three tasks with its variables, two on one node.
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                shutil.rmtree(self.path("meet"))
                os.mkdir(self.path("meet"))
                shutil.rmtree(self.path("jobs"), ignore_errors=True)
                server, address = self.serve()
                tasks = []
                for task, node in ((0, 0), (1, 0), (2, 1)):
                    env = environment(SLURM_JOB_ID="7", SLURM_STEP_ID="3", SLURM_PROCID=str(task), SLURM_NTASKS="3",
                                      SLURM_STEP_NUM_TASKS="3", SLURM_NNODES="2", SLURM_NODEID=str(node))
                    tasks.append(self.start("run", "--emulator", "--session", self.path(f"task{task}{len(twin)}"), "--analyzer",
                                            address, "--on-verdict", "kill", "--", *self.rank(twin), env=env))
                self.let_hang_once_seen(address)
                said = [task.communicate(timeout=100)[1] for task in tasks]

                def over():
                    return self.only_job()[1]["job_ended"]
                self.assertTrue(wait_until(over, seconds=60), said)
                folder, manifest = self.only_job()
                self.assertEqual(manifest["job"], "slurm-7.3")
                self.assertEqual(sorted(n["number"] for n in manifest["nodes"]), [0, 1, 2])
                done = subprocess.CompletedProcess([], max(t.returncode for t in tasks), "", "\n".join(said))
                self.check(self.verdict(folder), done, twin)
                server.send_signal(signal.SIGTERM)
                server.wait(60)


class Elsewhere(LaunchTest):
    def test_kill_where_a_daemon_has_started_the_ranks(self):
        for how, twin in (("hears", []), ("hears", ["--twin"]), ("deaf", [])):
            with self.subTest(how, twin=bool(twin)):
                folder = self.path(how + "".join(twin))
                session = folder + ".session"
                os.mkdir(folder)
                daemon = subprocess.Popen([sys.executable, "-c", DAEMON, folder], env=environment())
                done = self.gordian("run", "--emulator", "--session", session, "--on-verdict",
                                    "kill", "--", sys.executable, "-c", ITS_LAUNCHER, folder, how,
                                    RANK, folder, *twin, env=environment())
                verdict = self.verdict(session)
                self.assertEqual(verdict["evidence"]["ranks_seen"], 3, done.stderr)
                self.assertEqual((verdict["verdict"], done.returncode),
                                 ("finished", 0) if twin else ("deadlock", 137), done.stderr)
                said = "3 ranks that are not below gordian" in done.stderr
                self.assertEqual(said, how == "deaf", done.stderr)
                if how == "deaf":
                    self.assertIsNone(daemon.poll(), "gordian killed a process that is not below it")
                    with open(folder + "/stop", "w"):
                        pass
                self.assertEqual(daemon.wait(60), 0)


class Mpich(LaunchTest):
    def mpiexec(self):
        found = shutil.which("mpiexec.mpich")
        if found is None:
            self.skipTest("mpiexec.mpich is not installed (apt-get install mpich)")
        return [found, "-localhost", "localhost"]

    def meet(self):
        shutil.rmtree(self.path("meet"))
        os.mkdir(self.path("meet"))
        return self.path("meet")

    def test_run_around_mpiexec(self):
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                session = self.path("mpich" + "".join(twin))
                done = self.gordian("run", "--emulator", "--session", session, "--on-verdict",
                                    "kill", "--", *self.mpiexec(), "-n", "4", RANK, self.meet(),
                                    *twin, env=environment())
                self.check(self.verdict(session), done, twin, ranks=4)
                self.assertEqual(self.ranks_of(session), [0, 1, 2, 3])

    def two_hosts(self):
        """Options for MPICH's launcher to start two ranks on each of two hosts, by what stands in
        for ssh: it passes no variable of the caller's on."""
        ssh = self.write("ssh", f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
shift
exec env -i PATH="$PATH" HOME="$HOME" sh -c "cd {self.work} && $*"
""", 0o755)
        return ["-hosts", "alpha,beta", "-ppn", "2", "-launcher", "ssh", "-launcher-exec", ssh]

    def test_run_inside_mpiexec_is_one_job(self):
        for twin in ([], ["--twin"]):
            with self.subTest(twin=bool(twin)):
                shutil.rmtree(self.path("jobs"), ignore_errors=True)
                server, address = self.serve()
                self.meet()
                done = self.launch(address, *self.mpiexec(), *self.two_hosts(), "-n", "4", GORDIAN,
                                   "run", "--emulator", "--analyzer", address, "--job", "mpich",
                                   "--on-verdict", "kill", "--", *self.rank(twin), ranks=4,
                                   env=environment())

                def over():
                    return self.only_job()[1]["job_ended"]
                self.assertTrue(wait_until(over, seconds=60), done.stderr)
                folder, manifest = self.only_job()
                self.assertEqual(manifest["job"], "mpich")
                nodes = sorted((n["number"], n["node"].split(":")[1]) for n in manifest["nodes"])
                self.assertEqual(nodes, [(0, "0"), (1, "1"), (2, "2"), (3, "3")])
                # Once one has ended its rank, mpiexec ends the others, whatever they are at.
                self.check(self.verdict(folder), done, twin, ranks=4, stacks=False)
                server.send_signal(signal.SIGTERM)
                server.wait(60)

    def test_tasks_without_a_job_name_are_told_so_once(self):
        for named in ("", "--job x"):
            with self.subTest(named):
                server, address = self.serve()
                task = self.write("task", f"#!/bin/sh\nexec {GORDIAN} run --emulator --analyzer "
                                  f"{address} {named} -- {RANK} {self.meet()} --twin\n", 0o755)
                ranks = json.dumps([(r, VARIABLES["mpich"](r, 3)) for r in range(3)])
                done = subprocess.run([sys.executable, "-c", LAUNCHER, task, "", ranks],
                                      env=environment(), cwd=self.work, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = [line for line in done.stderr.splitlines() if "--job NAME" in line]
                self.assertEqual(len(said), 0 if named else 1, done.stderr)
                self.assertTrue(named or "started 3 tasks" in said[0], said)
                server.send_signal(signal.SIGTERM)
                server.wait(60)


if __name__ == "__main__":
    main()
