"""A Slurm of one machine and two nodes for tests: munged, slurmctld and two slurmd in namespaces.

The network there has loopback alone; processes, ports, host names and /dev/shm are the test's own,
and end with it. It takes Debian's slurm-wlm and munge, root, and a machine that allows namespaces.
"""

import os
import shutil
import subprocess
import sys
import tempfile

from fleet_testing import BUILD, PATIENCE, clean_environment, expect, skip, wait_for

DEPLOY = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../deploy/slurm"))
INSIDE = "GORDIAN_TEST_SLURM"  # the cluster's folder, in the process that is inside the namespaces
NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol", "scancel")
NAMESPACES = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc",
              "--kill-child"]
NODES = ("n0", "n1")

CONFIGURATION = """
ClusterName=gordian
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
# A node has as many processors here as the tests need.
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
KillWait=1
Epilog={folder}/epilog
TaskProlog={deploy}/task_prolog.sh
NodeName=n0 NodeHostname=head NodeAddr=127.0.0.1 Port=17001 CPUs=4
NodeName=n1 NodeHostname=head NodeAddr=127.0.0.1 Port=17002 CPUs=4
PartitionName=all Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP
"""

# Slurm gives an epilog no PATH, so this one names the folder of the build's gordian. It notes which
# folders of rings there were before.
EPILOG = """#!/bin/bash
note={folder}/epilog.$SLURM_JOB_ID.$SLURMD_NODENAME
LC_ALL=C ls -d /dev/shm/gordian-* > $note.new
export PATH={build}/bin:$PATH GORDIAN_TEXTFILES={folder}/textfiles
{deploy}/epilog.sh >> {folder}/epilog.log 2>&1
echo "code $?" >> $note.new
mv $note.new $note
"""


def path(name):
    """A file of the cluster's."""
    return os.path.join(os.environ[INSIDE], name)


def environment(**more):
    """For a command of Slurm's: with no launcher's variables, and with gordian in the PATH."""
    launchers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_", "PMI")
    env = {k: v for k, v in clean_environment().items() if not k.startswith(launchers)}
    env.update(SLURM_CONF=path("slurm.conf"), PATH=f"{BUILD.folder}/bin:{env['PATH']}")
    return {**env, **more}


def ask(*command):
    """What a command of Slurm's prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE,
                          env=environment())
    expect(done.returncode == 0, *command, "failed:", done.stderr)
    return done.stdout.strip()


def begin(case, name, *command, **more):
    """Starts a command, with its words in the evidence."""
    with open(case.path(f"{name}.err"), "wb") as err:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                cwd=case.work, env=environment(**more))


def _start(name, *command):
    with open(path(f"{name}.err"), "wb") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                         env=environment())


def _prepare_namespaces():
    with open(path("hosts"), "w") as f:
        f.write("127.0.0.1 localhost head n0 n1\n")
    for command in (["mount", "--bind", path("hosts"), "/etc/hosts"],
                    ["mount", "-t", "tmpfs", "-o", "size=512m,mode=1777", "tmpfs", "/dev/shm"],
                    ["hostname", "head"], ["ip", "link", "set", "lo", "up"],
                    # The resolver gives no IPv4 where 127.0.0.1 is a machine's only address.
                    ["ip", "address", "add", "127.0.0.2/8", "dev", "lo"]):
        subprocess.run(command, check=True)


def _states():
    # sinfo fails while the controller does not answer yet.
    done = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"], capture_output=True,
                          text=True, timeout=PATIENCE, env=environment())
    return done.stdout.split()


def start():
    """Starts the daemons. They and their jobs end with the namespaces."""
    _prepare_namespaces()
    for name in ("munge", "state", "textfiles", *(f"spool.{node}" for node in NODES)):
        os.mkdir(path(name), 0o755)
    with open(os.open(path("munge/key"), os.O_WRONLY | os.O_CREAT, 0o400), "wb") as key:
        key.write(os.urandom(128))
    for name, text in (("slurm.conf", CONFIGURATION), ("epilog", EPILOG)):
        with open(path(name), "w") as f:
            f.write(text.format(folder=os.environ[INSIDE], build=BUILD.folder, deploy=DEPLOY))
        os.chmod(path(name), 0o755)
    # --force: whoever owns the folders above.
    _start("munged", "munged", "--foreground", "--force", f"--socket={path('munge/socket')}",
           *(f"--{name}-file={path(f'munge/{name}')}" for name in ("key", "pid", "log", "seed")))
    wait_for(lambda: os.path.exists(path("munge/socket")), "munged listens")
    _start("slurmctld", "slurmctld", "-D")
    for node in NODES:
        _start(f"slurmd.{node}", "slurmd", "-D", "-N", node)
    wait_for(lambda: _states() == ["idle"] * len(NODES), "both nodes are idle")


def _missing():
    """Why Slurm cannot run here; empty: it can."""
    for program in NEEDED:
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "slurmd starts jobs as root alone"
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True)
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else ""


def main(script, inside):
    """Runs `script` again in namespaces, where `inside` then runs beside the cluster. Returns the
    exit code."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if INSIDE in os.environ:
        BUILD.folder = os.path.abspath(sys.argv[1])
        start()
        return inside()
    why = _missing()
    if why:
        skip(f"slurm: {why}")
        print("OK (skipped=1)")
        return 0
    folder = tempfile.mkdtemp(prefix="gordian-slurm-")
    os.chmod(folder, 0o755)
    # The shell is the namespace's first process, and reaps what daemons leave.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, os.path.abspath(script)]
    code = subprocess.run([*NAMESPACES, *command, *sys.argv[1:]],
                          env={**os.environ, INSIDE: folder}).returncode
    if code == 0:
        shutil.rmtree(folder)
    else:
        print(f"Slurm's own logs: {folder}\nagain: python3 {' '.join(sys.argv)}")
    return code
