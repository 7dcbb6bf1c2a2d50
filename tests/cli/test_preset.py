"""`--preset`: what it stands for, what wins over it, what is refused, what is recorded."""

import json

import pytest

from spinup_tf2 import user_config
from spinup_tf2.cli.resume import parse_resume
from spinup_tf2.envs.mario import is_mario
from spinup_tf2.experiments.presets import Part, Table, presets_for, tables
from spinup_tf2.parallel import mpi
from tests.cli.test_run import execute
from tests.progress import rows_without_time

HIDDEN, REWARD = dict(hidden_sizes=(8,)), dict(sutton_barto_reward=True)
SETTINGS = dict(gamma=0.9, num_envs=2, epochs=7, ac_kwargs=HIDDEN)
POLE = Table(
    doc="Poles on carts.",
    env="CartPole-v1",
    fits=("CartPole*",),
    parts=(Part("a test", None, dict(SETTINGS, env_kwargs=REWARD)),),
)
ARGUMENTS = dict(env_name=POLE.env, env_kwargs=REWARD, **SETTINGS)


@pytest.fixture(autouse=True)
def pole(monkeypatch):
    monkeypatch.setitem(tables("ppo"), "pole", POLE)


def arguments_of(experiment):
    """What an experiment would call its algorithm with; and the name of its preset."""
    _, _, arguments = experiment
    assert (arguments.pop("seed"), arguments.pop("num_cpu")) == (0, 1)
    return arguments, arguments.pop("preset", None)


def shown(out):
    """The lines of the block that is printed first."""
    return out.partition("\n====")[0].rstrip("\n").splitlines()


# ---------------------------------------------------------------- what is run


def test_a_preset_alone(experiments, capsys):
    execute("ppo --preset pole")
    [(exp_name, where, _)] = experiments
    assert (exp_name, where) == ("cmd_ppo", "cmd_ppo/cmd_ppo_s0")
    assert arguments_of(experiments[0]) == (ARGUMENTS, "pole")
    assert shown(capsys.readouterr().out) == [
        "preset pole: Poles on carts.",
        "",
        "    --env_name                 'CartPole-v1'",
        "    --env_kwargs:sutton_barto_reward True",
        "    --gamma                    0.9",
        "    --num_envs                 2",
        "    --epochs                   7",
        "    --ac_kwargs:hidden_sizes   (8,)",
    ]


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ("--gamma 0.8", dict(gamma=0.8)),
        ("--env CartPole-v0", dict(env_name="CartPole-v0")),
        ("--hid [4]", dict(ac_kwargs=dict(hidden_sizes=[4]))),
        ("--ac_kwargs {'activation':'relu'}", dict(ac_kwargs=HIDDEN | dict(activation="relu"))),
        ("--ac_kwargs None", dict(ac_kwargs=None)),
        ("--env_kwargs:sutton_barto_reward False", dict(env_kwargs={"sutton_barto_reward": False})),
    ],
)
def test_flags_win_over_the_preset(experiments, flags, changes):
    execute(f"ppo {flags} --preset pole")
    execute(f"ppo --preset pole {flags}")
    assert [arguments_of(each) for each in experiments] == [(ARGUMENTS | changes, "pole")] * 2


def test_a_grid_with_a_preset(experiments, capsys):
    execute("ppo --preset pole --gamma 0.9 0.8 --hid[h] [4] [8,8] --epochs 7")
    assert [exp_name for exp_name, _, _ in experiments] == [
        f"cmd_ppo_gam0-{gamma}_h{hid}" for gamma in (9, 8) for hid in ("4", "8-8")
    ]
    assert [arguments_of(each) for each in experiments] == [
        (ARGUMENTS | dict(gamma=gamma, ac_kwargs=dict(hidden_sizes=sizes)), "pole")
        for gamma in (0.9, 0.8)
        for sizes in ([4], [8, 8])
    ]
    lines = shown(capsys.readouterr().out)
    assert "    --gamma                    0.9 0.8    (given, instead of 0.9)" in lines
    assert "    --ac_kwargs:hidden_sizes   [4] [8, 8]    (given, instead of (8,))" in lines
    assert "    --epochs                   7" in lines


# ---------------------------------------------------------------- hints


def test_a_hint_where_a_preset_fits(experiments, capsys):
    execute("ppo --env CartPole-v0")
    assert shown(capsys.readouterr().out) == [
        "Hint: there are tuned hyperparameters for CartPole-v0: --preset classic or --preset pole"
    ]
    assert arguments_of(experiments[0]) == (dict(env_name="CartPole-v0"), None)


@pytest.mark.parametrize(
    "line",
    [
        "ppo --env CartPole-v1 FrozenLake-v1",  # does not fit both
        "vpg --env HalfCheetah-v5",
        "ppo --env CartPole-v1 --quiet",
    ],
)
def test_no_hint_otherwise(experiments, capsys, line):
    execute(line)
    out = capsys.readouterr().out
    assert "Hint" not in out
    assert out == "" or "--quiet" not in line


def test_what_is_taken_away_is_shown_and_cpu_multiplies(experiments, capsys):
    execute("ppo --preset pole --ac_kwargs None --cpu 2")
    line = "    --ac_kwargs:hidden_sizes   -    (given, instead of (8,))"
    assert line in shown(capsys.readouterr().out)
    _, _, arguments = experiments[0]
    assert (arguments["num_cpu"], arguments["num_envs"]) == (2, 2)


def test_only_the_first_rank_prints(experiments, capsys, monkeypatch):
    monkeypatch.setattr(mpi, "proc_id", lambda: 1)
    execute("ppo --preset pole")
    execute("ppo --env CartPole-v1 --exp_name other")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("env_name", ["SuperMarioBros-v0", "SuperMarioBros-8-4-v3"])
def test_the_presets_of_super_mario_fit_all_of_its_levels(env_name):
    assert is_mario(env_name)
    assert [*presets_for("ppo", env_name)] == ["mario", "mario-finish", "mario-simple"]
    assert not presets_for("a2c", env_name)


# ---------------------------------------------------------------- runs


def config_of(path):
    [file] = path.rglob("config.json")
    return json.loads(file.read_text())


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    """A run of one epoch with the preset."""
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", str(tmp_path))
    small = "--steps_per_epoch 20 --train_pi_iters 1 --train_v_iters 1 --epochs 1 --quiet"
    execute(f"ppo --preset pole {small}")
    # What the preset means by now does not matter.
    changed = Table("", "Acrobot-v1", ("*",), (Part("", None, dict(gamma=0.5)),))
    monkeypatch.setitem(tables("ppo"), "pole", changed)
    return tmp_path / "cmd_ppo" / "cmd_ppo_s0"


def test_a_run_is_recorded_with_its_preset(run_dir):
    config = config_of(run_dir)
    assert (config["preset"], config["gamma"], config["epochs"]) == ("pole", 0.9, 1)
    assert config["ac_kwargs"] == {"hidden_sizes": [8]}
    _, algorithm, options, arguments = parse_resume([str(run_dir)])
    assert (algorithm, options["preset"]) == ("ppo", "pole")
    assert (arguments["gamma"], arguments["env_name"]) == (0.9, "CartPole-v1")
    assert arguments["env_kwargs"] == {"sutton_barto_reward": True}
    assert "preset" not in arguments


@pytest.mark.slow
def test_a_run_goes_on_with_its_preset(run_dir):
    execute(f"resume {run_dir} --epochs 2 --quiet")
    config = config_of(run_dir)
    assert (config["preset"], config["gamma"], config["epochs"]) == ("pole", 0.9, 2)
    assert [row[0] for row in rows_without_time(run_dir / "progress.txt")] == ["Epoch", "0", "1"]
