"""reducectl under a real Slurm: a controller and one node on this machine, with a munge of their own, on loopback. Without them the
tests skip (Debian: slurm-wlm, munge)."""
import getpass
import os
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest

import gens
import oracle
from conftest import BIN, ROOT, select_a_moment
from test_mpi import NAMES, built, environment  # noqa: F401

MISSING = [p for p in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin")]
pytestmark = [pytest.mark.unsanitized, pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: make deps installs no Slurm")]
PMI = {"openmpi": "pmix", "mpich": "pmi2"}
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
NodeName=here NodeAddr=127.0.0.1 NodeHostname=localhost CPUs=8 State=UNKNOWN
PartitionName=all Nodes=here Default=YES State=UP
"""


def free_ports(n):
    """Slurm takes numbers only. All are open at once, so they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def wait_for(ready, process, folder):
    end = time.monotonic() + 30
    while not ready():
        logs = "".join(p.read_text() for p in folder.glob("*.log"))
        assert process.poll() is None and time.monotonic() < end, logs
        select_a_moment(process)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of jobs. The folder is the user's alone, and so is the key."""
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "key").write_bytes(os.urandom(64))
    (folder / "key").chmod(0o400)
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, user=getpass.getuser(), ports=free_ports(2)))
    env = {**environment(), "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin", "SLURM_CONF": str(folder / "slurm.conf")}
    files = [f"--{what}={folder}/{name}" for what, name in (("key-file", "key"), ("socket", "munge"), ("log-file", "munge.log"), ("pid-file", "pid"),
                                                            ("seed-file", "seed"))]
    running = []

    def run(command, ready):
        with open(folder / f"{command[0]}.out.log", "wb") as log:
            running.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
        wait_for(ready, running[-1], folder)

    def says(want, *command):
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        return done.returncode == 0 and want in done.stdout

    try:
        run(["munged", "--foreground", "--force", *files], lambda: says("MUNGE", "munge", "-n", "-S", folder / "munge"))
        run(["slurmctld", "-D"], lambda: says("UP", "scontrol", "ping"))
        run(["slurmd", "-D", "-N", "here"], lambda: says("idle", "sinfo", "-h", "-o", "%t"))
        yield env
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)


@pytest.fixture
def parts(scratch):
    """part-*.npy, one of them empty; all elements."""
    rng = np.random.default_rng(11)
    bits = [gens.full_range(rng, "f64", n) for n in (1000, 0, 1, 2500)]
    for i, b in enumerate(bits):
        np.save(scratch / f"part-{i}.npy", b.view("<f8"))
    return np.concatenate(bits)


def shell(command, env, folder, **more):
    done = subprocess.run(["sh", "-c", command], env={**env, **more}, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lines_of_the_manual(slurm, shared, scratch, parts):
    """One process or many, as reduce_mpi(7) has it: the same bits."""
    page = (ROOT / "client/man/reduce_mpi.7").read_text().replace("\\-", "-").replace("\\e", "\\")
    [line] = [line for line in page.splitlines() if line.startswith("srun")]
    for tasks in (1, 3, 8):
        out = shell(line.replace("srun", f"srun -n {tasks}").replace("--merge", "--merge --hex"), slurm, scratch, REDUCED_URL=shared.url)
        assert float.fromhex(out) == oracle.float_value(oracle.reduce("sum", "f64", parts), "f64"), tasks
        states = list(scratch.glob("s.*"))
        assert len(states) == tasks
        for s in states:
            s.unlink()


def test_a_process_that_fails_fails_the_step(slurm, shared, scratch, parts):
    done = subprocess.run(["srun", "-n", "3", "reducectl", "sum", "--shard", "auto", "none.npy"], env={**slurm, "REDUCED_URL": shared.url}, cwd=scratch,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.count("none.npy") == 3, done.stderr


@pytest.mark.parametrize("mpi", NAMES)
def test_reducectl_mpi_as_a_step(slurm, scratch, parts, built, mpi):  # noqa: F811
    """The ranks find each other by Slurm's own means. The first starts a daemon, which ends with the step."""
    program = built(mpi, ROOT / "client/examples/reducectl_mpi.c")
    out = shell(f"srun --mpi={PMI[mpi]} -n 2 {program} sum --hex part-*.npy", slurm, scratch, XDG_RUNTIME_DIR=str(scratch))
    assert float.fromhex(out) == oracle.float_value(oracle.reduce("sum", "f64", parts), "f64")
