"""`--env_kwargs:NAME VALUE` of the commands that show a trained agent."""

import gymnasium as gym
import pytest
from spinup_tf2.files.env_spec import write_env_spec

from spinup_tf2.cli import evaluate, test_policy
from spinup_tf2.cli.env_kwargs import split_env_kwargs
from spinup_tf2.errors import UserError
from spinup_tf2.utils.test_policy import load_env


@pytest.mark.parametrize(
    "line",
    [
        "RUN -n 3 --env_kwargs:num_levels 0 --env_kwargs:distribution_mode hard",
        "--env_kwargs:num_levels 0 RUN --env_kwargs:distribution_mode hard -n 3",
        "-n 3 --env_kwargs {'num_levels':0,'distribution_mode':'hard'} RUN",
    ],
)
def test_they_may_stand_anywhere(line):
    others, env_kwargs = split_env_kwargs(line.split())
    assert sorted(others) == ["-n", "3", "RUN"]
    assert env_kwargs == dict(num_levels=0, distribution_mode="hard")
    assert split_env_kwargs(others) == (others, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RUN --env_kwargs:num_levels", "--env_kwargs:num_levels was given without a value"),
        ("RUN --env_kwargs:raw --norender", "--env_kwargs:raw was given without a value"),
        ("RUN --env_kwargs 3", "env_kwargs is 3; it must be a dict"),
        ("RUN --env_kwargs:render_mode human", "render_mode follows from --norender"),
    ],
)
def test_mistakes(line, message):
    for command in (evaluate, test_policy):
        with pytest.raises(UserError, match=message):
            command.main(line.split())


def test_they_replace_those_of_the_run(tmp_path):
    (tmp_path / "tf2_save").mkdir()
    write_env_spec(tmp_path / "env_spec.json", gym.make("Pendulum-v1", g=9.0), None)
    assert load_env(tmp_path / "tf2_save").unwrapped.g == 9.0
    assert load_env(tmp_path / "tf2_save", env_kwargs={"g": 3.0}).unwrapped.g == 3.0
    for allow_pickle in (False, True):  # a pickled environment would not have them
        with pytest.raises(UserError, match=r"env_spec.json cannot be built.*colour"):
            load_env(tmp_path / "tf2_save", None, allow_pickle, {"colour": "red"})
