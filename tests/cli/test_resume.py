"""`python -m spinup_tf2.run resume`: what it starts, what it refuses, and one that is started."""

import json
import os
import re
import subprocess
import sys

import pytest
from spinup_tf2.training import checkpoints as checkpoint

from spinup_tf2 import run
from spinup_tf2.cli.ls import main as ls
from spinup_tf2.cli.plot import main as plot
from spinup_tf2.cli.resume import RESUME_KEYS, parse_resume
from spinup_tf2.cli.test_policy import main as watch
from spinup_tf2.errors import UserError
from tests.progress import rows_without_time

COMMAND = dict(
    **dict(env_name="CartPole-v1", env_kwargs=None, ac_kwargs={"hidden_sizes": [8]}, seed=3),
    **dict(steps_per_epoch=400, epochs=6, num_envs=2, gamma=0.9),
)


@pytest.fixture
def write_run(tmp_path):
    """Writes a directory with a checkpoint that says what its run is, and no more."""

    def write(**changes):
        saved = dict(algorithm="ppo", command=COMMAND, exp_name="exp", num_envs=4, num_procs=2)
        content = dict(
            format=checkpoint.FORMAT,
            counters=changes.pop("counters", {}),
            run=saved | changes,
            variables=[],
            num_ranks=1,
            files={
                name: dict(size=0, sha256="")
                for name in ("variables.index", "best.npz", "rank0.npz")
            },
            replay=[],
        )
        folder = tmp_path / "run" / "checkpoint" / "000007"
        folder.mkdir(parents=True, exist_ok=True)
        digest = checkpoint.digest_of(content)
        (folder / "manifest.json").write_text(json.dumps(dict(content, sha256=digest)))
        return str(tmp_path / "run")

    return write


def test_a_run_goes_on_as_it_was(write_run):
    run_dir = write_run()
    assert parse_resume([run_dir]) == (
        run_dir,
        "ppo",
        dict(exp_name="exp", quiet=False, num_cpu=2),
        COMMAND,
    )


def test_tuples_among_the_environments_arguments_stay_tuples(write_run):
    command = COMMAND | dict(env_kwargs={"size": {"__tuple__": [2, 3]}})
    _, _, _, kwargs = parse_resume([write_run(command=command)])
    assert kwargs["env_kwargs"] == {"size": (2, 3)}


def test_whole_numbers_may_be_written_as_powers_of_ten(write_run):
    _, _, _, kwargs = parse_resume([write_run(), "--epochs", "1e1"])
    assert (kwargs["epochs"], type(kwargs["epochs"])) == (10, int)


def test_a_run_does_not_go_back(write_run):
    run_dir = write_run(counters=dict(epoch=3))
    for epochs in (3, 4):
        parse_resume([run_dir, "--epochs", str(epochs)])
    message = rf"^epochs is 2, and the run in {run_dir} has 3 behind it; give more than 3"
    with pytest.raises(UserError, match=message):
        parse_resume([run_dir, "--epochs", "2"])


def test_of_a_directory_with_runs_these_are_listed(write_run):
    parent = os.path.dirname(write_run())
    with pytest.raises(UserError, match=r"give one of the runs in it: run\.$"):
        parse_resume([parent])


def test_what_may_change(write_run):
    flags = "--epochs 9 --save_freq 2 --checkpoint_freq 3 --keep_checkpoints 4 --env_retries 5"
    flags += " --stall_timeout None --vectorization async --quiet"
    _, _, options, arguments = parse_resume([write_run(), *flags.split()])
    assert options == dict(exp_name="exp", quiet=True, num_cpu=2)
    assert arguments == COMMAND | dict(
        **dict(epochs=9, save_freq=2, checkpoint_freq=3, keep_checkpoints=4, env_retries=5),
        **dict(stall_timeout=None, vectorization="async"),
    )


@pytest.mark.parametrize(("num_cpu", "num_envs"), [(1, 4), (2, 2), (4, 1)])
def test_environments_are_spread_over_other_processes(write_run, num_cpu, num_envs):
    _, _, options, arguments = parse_resume([write_run(), "--cpu", str(num_cpu)])
    assert options["num_cpu"] == num_cpu
    assert arguments == COMMAND | dict(num_envs=num_envs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "resume needs the directory of a run"),
        ("--epochs 9", "resume needs the directory of a run"),
        ("nowhere", "there is no directory nowhere"),
        ("{} --gamma 0.8", "--gamma cannot be given to resume.*of which these may change: epochs"),
        ("{} --env Pendulum-v1", "--env_name cannot be given to resume"),
        ("{} --epoch 9", "did you mean --epochs"),
        ("{} --epochs 9 10", "only provide one value for epochs"),
        ("{} --epochs 0", "epochs is 0; it must be a whole number of at least 1"),
        ("{} --stall_timeout never", "stall_timeout is 'never'"),
        ("{} --cpu 3", "has 4 environments, which 3 processes cannot share equally"),
        ("{} --cpu 0", "num_cpu is 0"),
        ("{} --quiet loud", "--quiet is a switch"),
        ("{} more", "resume goes on with one run, and 'more' is a second one; .*with --resume"),
        ("{} -epochs 9", r"-epochs has one dash; did you mean --epochs\?"),
    ],
)
def test_refused_arguments(write_run, arguments, message):
    with pytest.raises(UserError, match=message):
        parse_resume(arguments.format(write_run()).split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(algorithm="os"), "of no algorithm that is known here"),
        (dict(algorithm=None), "of no algorithm that is known here"),
        (dict(command="rm -r"), "of no algorithm that is known here"),
        (dict(command=None), r"started by a Python program.*call ppo\(..., resume=True\) there"),
        (dict(command=COMMAND | dict(colour="red")), "arguments that are none: colour"),
        (dict(command=COMMAND | dict(env_fn="f")), "arguments that are none: env_fn"),
        (dict(command=COMMAND | dict(gamma=2)), "gamma is 2; it must be a number between 0 and 1"),
        (dict(command=COMMAND | dict(ac_kwargs=[8])), "ac_kwargs is .*; it must be a dict"),
        (dict(exp_name="../../home"), "exp_name"),
        (dict(num_envs=0), "does not say how many processes it had"),
        (dict(num_procs="2"), "does not say how many processes it had"),
    ],
)
def test_refused_runs(write_run, changes, message):
    with pytest.raises(UserError, match=message):
        parse_resume([write_run(**changes)])


def test_a_directory_without_a_checkpoint(write_run, tmp_path):
    with pytest.raises(UserError, match="holds no checkpoint that can be read"):
        parse_resume([str(tmp_path)])
    run_dir = write_run()
    (manifest,) = (tmp_path / "run").rglob("manifest.json")
    manifest.write_text(manifest.read_text().replace("CartPole", "Pendulum"))
    with pytest.raises(UserError, match="holds no checkpoint that can be read"):
        parse_resume([run_dir])
    (tmp_path / "run" / "progress.txt").touch()
    with pytest.raises(UserError, match="its checkpoint_freq was 0, it was killed before the"):
        parse_resume([run_dir])


def test_what_a_crash_has_left_aside_is_named(tmp_path, capsys):
    aside = tmp_path / "ppo" / "ppo_s0" / ".replaced"
    aside.mkdir(parents=True)
    named = f"What was to be replaced there, and has not been, is in {aside}."
    for directory in (aside.parents[1], aside.parent):
        for looks, *more in ((parse_resume,), (plot, "--table"), (watch, "--norender"), (ls,)):
            try:
                looks([str(directory), *more])
                said = capsys.readouterr().out
            except UserError as error:
                said = str(error)
            assert named in said, looks


@pytest.mark.parametrize("word", ["--help", "help"])
def test_help(capsys, word):
    run.main(["resume", word])
    out = capsys.readouterr().out
    assert "resume RUN_DIR [--epochs N]" in out
    assert all(f"--{key}\n" in out for key in RESUME_KEYS)


# A run that asks itself to stop in its first epoch.
STOPS = """
import os
import signal
import sys
from spinup_tf2 import run
from spinup_tf2.core.vector_env import VectorEnv

begin, count = VectorEnv.begin, 0

def begin_and_stop(self, turn, act):
    global count
    count += 1
    if count == 250:
        os.kill(os.getpid(), signal.SIGUSR1)
    return begin(self, turn, act)

VectorEnv.begin = begin_and_stop
from spinup_tf2 import vpg
from spinup_tf2.utils.run_utils import EnvFn, setup_logger_kwargs

vpg(EnvFn("CartPole-v1"), steps_per_epoch=200, epochs=3, train_v_iters=3,
    logger_kwargs=setup_logger_kwargs("a run", 0, sys.argv[1]))
"""


@pytest.mark.slow
def test_the_command_that_is_printed_works(tmp_path):
    stopped = subprocess.run(
        [sys.executable, "-c", STOPS, str(tmp_path / "my data")], capture_output=True, text=True
    )
    assert stopped.returncode != 0
    (command,) = re.findall(r"python -m spinup_tf2.run resume .*", stopped.stdout)
    assert len(rows_without_time(next(tmp_path.rglob("progress.txt")))) == 2
    command = command.replace("python", sys.executable, 1) + " --epochs 4"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Resuming from" in done.stdout
    epochs = [row[0] for row in rows_without_time(next(tmp_path.rglob("progress.txt")))]
    assert epochs == ["Epoch", "0", "1", "2", "3"]
