"""`spinup_tf2 presets`: the list of what there is, and where each number is from."""

import re

import pytest

from spinup_tf2 import run
from spinup_tf2.algos import ALGORITHMS


def listed(capsys, line):
    run.main(["presets", *line.split()])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "algorithms", "names"),
    [
        ("", {*ALGORITHMS}, {"classic", "mujoco", "atari", "mario"}),
        ("ppo a2c", {"ppo", "a2c"}, {"classic", "mujoco", "atari", "mario"}),
        ("--env Pendulum-v1", {*ALGORITHMS} - {"dqn"}, {"classic"}),
        ("--env Hopper-v5", {*ALGORITHMS} - {"vpg", "ppg", "dqn"}, {"mujoco"}),
    ],
)
def test_presets_are_listed(capsys, line, algorithms, names):
    rows = [row.split() for row in listed(capsys, line).splitlines()]
    assert {row[0] for row in rows} == algorithms
    assert {*names} <= {row[2] for row in rows}
    assert names != {"classic"} or {row[2] for row in rows} == names


def test_a_preset_is_listed_in_full_with_origins(capsys):
    out = listed(capsys, "ppo mujoco --env Swimmer-v5")
    assert out.startswith("ppo --preset mujoco --env Swimmer-v5\n  MuJoCo's tasks")
    assert re.search(r"    --gamma +0\.9999 +RL Baselines3 Zoo, ppo\.yml, ", out)
    assert re.search(r"    --clip_ratio +0\.2 +Tianshou, ", out)
    assert "--env_kwargs:actions" in listed(capsys, "--full --env SuperMarioBros-1-1-v0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ppa", r"'ppa' is neither an algorithm nor a preset; did you mean ppo\?"),
        ("vpg mario", "there is no such preset; leave a filter out"),
        ("mario --env CartPole-v1", "there is no such preset that fits CartPole-v1"),
    ],
)
def test_what_is_not_there_is_not_listed(capsys, line, message):
    with pytest.raises(SystemExit):
        listed(capsys, line)
    assert re.search(message, capsys.readouterr().err)
