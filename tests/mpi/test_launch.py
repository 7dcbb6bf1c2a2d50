"""Real mpirun: how jobs start, and how they end when something goes wrong. No TensorFlow."""

import subprocess
import sys
import time

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import launch

try:
    MPIRUN = launch.find_mpirun()
except UserError:
    MPIRUN = None

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun (the extra `mpi` has it)"),
]


def execute(command, **options):
    """Run a command; return what it printed and how many seconds it took."""
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    return done, time.monotonic() - begin


def mpirun(n, *arguments, **options):
    command = [MPIRUN, "-np", str(n), sys.executable, *map(str, arguments)]
    return execute(command, env=launch.mpirun_environment(n), **options)


@pytest.fixture
def script(tmp_path):
    """Write a program that has mpi_tools; return its path."""

    def write(text):
        path = tmp_path / "script.py"
        path.write_text(f"import sys, time\nfrom spinup_tf2.utils import mpi_tools\n{text}\n")
        return path

    return write


def test_the_verbs_and_mpi_fork(script):
    """A script starts itself on three ranks, with its arguments; its status is theirs."""
    path = script(
        "mpi_tools.mpi_fork(3)\n"
        "import numpy as np\n"
        "rank = mpi_tools.proc_id()\n"
        "x = np.full(2, rank, np.float32)\n"
        "mpi_tools.broadcast(x, root=2)\n"
        "result = [mpi_tools.num_procs(), mpi_tools.mpi_avg(rank), *mpi_tools.mpi_sum(x),\n"
        "    *mpi_tools.mpi_statistics_scalar([rank] * rank, True),\n"
        "    mpi_tools.broadcast_object({'rank': rank}, root=1)['rank']]\n"
        "print(*(f'{value:.4g}' for value in result), *sys.argv[1:])\n"
        "sys.exit(5)"
    )
    done, _ = execute([sys.executable, path, "an argument"])
    assert done.returncode == 5, done.stderr
    # the numbers are 1, 2 and 2
    assert done.stdout.split("\n") == ["3 1 6 6 1.667 0.4714 1 2 1 an argument"] * 3 + [""]


@pytest.mark.parametrize("ranks", ["[0]", "[0, 1, 2]"])
def test_an_exception_ends_the_job_and_is_reported_once(script, ranks):
    """On one rank, for which the others would wait for ever, and on all."""
    path = script(
        f"if mpi_tools.proc_id() in {ranks}:\n    raise RuntimeError('lost')\nmpi_tools.mpi_sum(1)"
    )
    done, seconds = mpirun(3, path)
    assert done.returncode != 0
    assert seconds < 5
    assert done.stderr.count("RuntimeError: lost") == 1


def test_processes_that_do_not_find_each_other_are_refused(script):
    # As when mpirun is of another MPI than mpi4py: each process would run the whole job.
    path = script("print(mpi_tools.num_procs())")
    environment = launch.mpirun_environment(2) | {"PMI_SIZE": "2", "PMI_RANK": "0"}
    done, _ = execute([sys.executable, str(path)], env=environment)
    assert done.returncode != 0
    assert "the launcher started 2 processes, but each of them is alone" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("leave", "inside", "status", "message"),
    [
        ("sys.exit(0)", True, 1, "on rank 1 of 2, host "),
        ("sys.exit(3)", True, 3, ""),
        ("sys.exit('lost')", True, 1, "lost\n"),
        ("subprocess.run('exit 4', shell=True, check=True)", True, 1, "CalledProcessError: "),
        ("sys.exit(0)", False, 1, "on rank 1 of 2, host "),
        ("sys.exit(3)", False, 3, ""),
    ],
)
def test_an_experiment_that_leaves_on_one_rank_ends_the_job(
    script, tmp_path, leave, inside, status, message
):
    path = script(
        "import subprocess\n"
        "from spinup_tf2 import run\n"
        "from spinup_tf2.utils.run_utils import call_experiment\n"
        "def experiment(**_):\n"
        "    if mpi_tools.proc_id() == 1:\n"
        f"        {leave}\n"
        "    mpi_tools.mpi_sum(1)\n"  # where the other rank would wait for ever
        "options = dict(num_cpu=int(sys.argv[1]), data_dir='data', quiet=True)\n"
        "run._run_command = lambda _: call_experiment('name', experiment, **options)\n"
        "run.main([])"
    )
    if inside:
        done, seconds = mpirun(2, path, "1", cwd=tmp_path)
    else:
        done, seconds = execute([sys.executable, path, "2"], cwd=tmp_path)
    assert done.returncode == status
    assert seconds < 5
    assert done.stderr.count(message) == 1 or not message


@pytest.mark.parametrize(("code", "status", "message"), [("'lost'", 1, "lost\n"), ("0", 0, "")])
def test_an_experiment_that_leaves_on_all_ranks_says_so_once(script, code, status, message):
    path = script(f"with mpi_tools.exit_together():\n    mpi_tools.comm()\n    sys.exit({code})")
    done, _ = mpirun(3, path)
    assert done.returncode == status
    assert message in done.stderr
    assert done.stderr.count("lost") == len(message) // 5


# ---------------------------------------------------------------- the command line under mpirun


def run(n, line, tmp_path):
    return mpirun(n, "-m", "spinup_tf2.run", *line.split(), cwd=tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ppo --env CartPole-v1 --gama 1", "did you mean --gamma?"),
        ("ppo --env CartPole-v1 --cpu 3", "the MPI launcher started 2 processes"),
        ("ppo --env CartPol-v1", "CartPol-v1 is not registered"),
    ],
)
def test_errors_are_reported_once(tmp_path, line, message):
    done, seconds = run(2, line, tmp_path)
    assert done.returncode == 2
    assert seconds < 10
    assert done.stdout == ""
    assert done.stderr.count("spinup_tf2: error: ") == 1
    assert message in done.stderr
    assert not [*tmp_path.iterdir()]


def test_experiments_start_mpirun_themselves_and_run_inside_a_world(script, tmp_path):
    path = script(
        "from spinup_tf2.errors import UserError\n"
        "from spinup_tf2.utils.run_utils import ExperimentGrid\n"
        "def experiment(x, seed, logger_kwargs):\n"
        "    print(f'rank {mpi_tools.proc_id()} of {mpi_tools.num_procs()} x {x}')\n"
        "    if x == 2 and mpi_tools.proc_id() == 1:\n"
        "        raise UserError('x is 2')\n"
        "    mpi_tools.mpi_sum(1)\n"
        "grid = ExperimentGrid('grid')\n"
        "grid.add('x', [1, 2, 3])\n"
        "grid.run(experiment, num_cpu=2, data_dir=sys.argv[1])"
    )
    alone, _ = execute([sys.executable, str(path), str(tmp_path)])
    inside, _ = mpirun(2, path, tmp_path)
    for done in (alone, inside):
        ranks = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
        xs = (1, 2, 3) if done is alone else (1, 2)  # in a world of its own, each fails alone
        assert ranks == [f"rank {rank} of 2 x {x}" for rank in (0, 1) for x in xs]
        assert done.stdout.count("Preparing to run") == 1
        assert done.returncode != 0
    assert "1 of 3 experiments failed: " in alone.stderr
    assert alone.stderr.endswith("(x is 2)\n")
    assert inside.stderr.count("UserError: x is 2\n") == 1
