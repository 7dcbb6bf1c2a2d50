"""`python -m spinup_tf2.run resume`: what it starts, what it refuses, and one that is started."""

import json
import os
import sys

import pytest

from spinup_tf2 import run
from spinup_tf2.cli.resume import RESUME_KEYS, parse_resume
from spinup_tf2.errors import UserError
from spinup_tf2.training import checkpoints as checkpoint
from spinup_tf2.utils.run_utils import EnvFn
from tests.cli import own, own_vpg  # noqa: F401  (their modules are imported)
from tests.on_policy_runs import train

COMMAND = dict(
    **dict(env_name="CartPole-v1", env_kwargs=None, ac_kwargs={"hidden_sizes": [8]}, seed=3),
    **dict(steps_per_epoch=400, epochs=6, num_envs=2, gamma=0.9),
)


@pytest.fixture
def write_run(tmp_path):
    """Writes a directory with a checkpoint that says what its run is, and no more."""

    def write(**changes):
        saved = dict(algorithm="ppo", function="ppo", command=COMMAND, exp_name="exp")
        saved |= dict(num_envs=4, num_procs=2)
        content = dict(
            format=checkpoint.FORMAT,
            serial=7,
            counters=dict(epoch=0, step=0) | changes.pop("counters", {}),
            run=saved | changes,
            files={"rank0.npz": dict(size=0, sha256="")},
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
        dict(exp_name="exp", preset=None, quiet=False, num_cpu=2, launcher=None),
        COMMAND,
    )


def test_values_keep_their_types(write_run):
    command = COMMAND | dict(env_kwargs={"size": {"__tuple__": [2, 3]}})
    _, _, _, kwargs = parse_resume([write_run(command=command), "--epochs=1e1"])
    assert kwargs["env_kwargs"] == {"size": (2, 3)}
    assert (kwargs["epochs"], type(kwargs["epochs"])) == (10, int)


def test_what_may_change(write_run):
    flags = "--epochs 9 --save_freq 2 --checkpoint_freq 3 --keep_checkpoints 4 --env_retries 5"
    flags += " --stall_timeout None --vectorization async --quiet --cpu 1"
    _, _, options, arguments = parse_resume([write_run(), *flags.split()])
    assert (options["quiet"], options["num_cpu"]) == (True, 1)
    assert arguments == COMMAND | dict(
        **dict(epochs=9, save_freq=2, checkpoint_freq=3, keep_checkpoints=4, env_retries=5),
        **dict(stall_timeout=None, vectorization="async"),
        num_envs=4,  # of the one process, instead of two in each of two
    )


def test_trackers_that_are_confirmed(write_run):
    run_dir = write_run(command=COMMAND | dict(track=["mlflow"]))
    for flags, names in (("--track mlflow", ["mlflow"]), ("--track None", None)):
        assert parse_resume([run_dir, *flags.split()])[3]["track"] == names
    run_dir = write_run(command=COMMAND | dict(track=["tensorboard"]))  # on this machine alone
    assert parse_resume([run_dir])[3]["track"] == ["tensorboard"]


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
        ("{} more", "'more' stands before any flag"),
    ],
)
def test_refused_arguments(write_run, arguments, message):
    with pytest.raises(UserError, match=message):
        parse_resume(arguments.format(write_run()).split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(function=None), "does not describe a run"),
        (dict(command="rm -r"), "does not describe a run"),
        (dict(function="os"), "has the algorithm os: it is none"),
        (dict(function="os:system"), "has the algorithm os:system: it is none"),
        (dict(function="antigravity:fly"), "it asks to import antigravity.*--import antigravity"),
        (dict(function="spinup_tf2.algos.ppo:ppo"), "algos.ppo:ppo: it is none"),
        (dict(function="tests.cli.own:climber"), "tests.cli.own:climber: it is none"),
        (dict(function="tests.cli.own_vpg:vpg"), "tests.cli.own_vpg:vpg: it is none"),
        (dict(function="tests.cli.own_vpg:algorithm"), "own_vpg:algorithm: it is none"),
        (dict(command=None), r"started by a Python program.*call ppo\(..., resume=True\) there"),
        (dict(command=COMMAND | dict(colour="red")), "arguments that are none: colour"),
        (dict(command=COMMAND | dict(env_fn="f")), "arguments that are none: env_fn"),
        (dict(command=COMMAND | dict(gamma=2)), "gamma is 2; it must be a number between 0 and 1"),
        (dict(command=COMMAND | dict(ac_kwargs=[8])), "ac_kwargs is .*; it must be a dict"),
        (dict(exp_name="../../home"), "exp_name"),
        (dict(num_envs=0), "does not describe a run"),
        (dict(num_procs="2"), "does not describe a run"),
        (
            dict(command=COMMAND | dict(vectorization="async", num_envs=200), num_envs=400),
            "400 environments that run at the same time.*give --vectorization",
        ),
        (
            dict(command=COMMAND | dict(track=["tensorboard", "wandb"])),
            r"sends what it logs to tensorboard, wandb; if you want that, say so: --track",
        ),
    ],
)
def test_refused_runs(write_run, changes, message):
    with pytest.raises(UserError, match=message):
        parse_resume([write_run(**changes)])


def test_a_directory_without_a_checkpoint(write_run, tmp_path):
    with pytest.raises(UserError, match=r"give one of the runs in it: run\.$"):
        parse_resume([os.path.dirname(write_run())])
    run_dir = write_run()
    (manifest,) = (tmp_path / "run").rglob("manifest.json")
    manifest.write_text(manifest.read_text().replace("CartPole", "Pendulum"))
    with pytest.raises(UserError, match="holds no checkpoint that can be read"):
        parse_resume([run_dir])


def test_ones_own_algorithm_goes_on_once_its_module_is_named(tmp_path, monkeypatch, capsys):
    ac_kwargs = dict(hidden_sizes=(4,))
    train(own_vpg.copied, tmp_path, EnvFn("CartPole-v1"), ac_kwargs=ac_kwargs, my_arg=3.0)
    run_dir, algorithm, _, kwargs = parse_resume([str(tmp_path), "--epochs", "3"])
    assert (run_dir, algorithm) == (str(tmp_path), "tests.cli.own_vpg:copied")
    assert (kwargs["my_arg"], kwargs["epochs"]) == (3.0, 3)
    assert kwargs["ac_kwargs"] == {"hidden_sizes": [4]}
    monkeypatch.delitem(sys.modules, "tests.cli.own_vpg")
    with pytest.raises(UserError, match=r"copied: it asks to import .* --import tests.cli.own_vpg"):
        parse_resume([str(tmp_path)])
    assert "tests.cli.own_vpg" not in sys.modules


def test_help(capsys):
    run.main(["resume", "--help"])
    out = capsys.readouterr().out
    assert "resume RUN_DIR [--epochs N]" in out
    assert all(f"--{key}\n" in out for key in RESUME_KEYS)


def test_wrappers_go_on_with_the_run_and_are_imported_only_if_they_may(write_run):
    wrappers = ["FlattenObservation", "gymnasium.wrappers:TimeLimit(max_episode_steps=9)"]
    run_dir = write_run(command=COMMAND | dict(wrapper=wrappers))
    assert parse_resume([run_dir])[-1]["wrapper"] == wrappers
    for wrapper, message in {
        "antigravity:Wrapper": "it asks to import antigravity",
        "TimeLimit(max_episode_steps='antigravity:x')": "asks to import antigravity",
        "RecordVideo(video_folder='/')": "wraps no environment of a run",
    }.items():
        run_dir = write_run(command=COMMAND | dict(wrapper=[wrapper]))
        with pytest.raises(UserError, match=message):
            parse_resume([run_dir])
