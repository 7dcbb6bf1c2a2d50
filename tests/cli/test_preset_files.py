"""`--preset my.toml`: what a user's own file may hold, and what is refused."""

import re
from pathlib import Path

import pytest

from spinup_tf2.experiments.presets import load
from tests.cli.test_preset import arguments_of
from tests.cli.test_run import execute

OWN = """
algorithm = "ppo"
doc = "Short."
env = "CartPole-v1"
fits = ["CartPole-*"]
extends = "classic"

[[settings]]
gamma = 0.5
epochs = 1e2
ac_kwargs.hidden_sizes = [8]

[[settings]]
origin = "a guess"
fits = ["*-v0"]
target_kl = "None"
env_kwargs.sutton_barto_reward = true
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return str(path)


def test_a_file_of_ones_own(experiments, own):
    execute(f"ppo --preset {own} --lam 0.5")
    arguments, preset = arguments_of(experiments[0])
    changes = dict(gamma=0.5, epochs=100, ac_kwargs=dict(hidden_sizes=[8]), lam=0.5)
    assert arguments == load("ppo", "classic", "CartPole-v1").arguments | changes
    assert preset == own


def test_parts_of_a_preset_are_for_their_environments(own):
    for env in ("CartPole-v0", "some_module:CartPole-v0"):
        preset = load("ppo", own, env)
        assert (preset.env, preset.env_kwargs) == (env, dict(sutton_barto_reward=True))
        assert preset.settings["target_kl"] is None
        assert preset.origins["env_kwargs:sutton_barto_reward"] == "a guess"
        assert preset.origins["gamma"] == own
        assert preset.origins["lam"] == "RL Baselines3 Zoo, ppo.yml"
    assert load("ppo", own).env_kwargs == {}


BROKEN = {
    "gamma = 0.9": r"'gamma' is not known here \(.*own.toml\); there are algorithm, doc, env",
    "[settings]\ngama = 0.9": r"'gama' is not known here .*; did you mean gamma\?",
    "[settings]\nac_kwargs.hid = 8": "'hid' is not known here .*there are hidden_sizes",
    "[settings]\nenv_fn = 'x'": "'env_fn' is not known here",
    "algorithm = 'sac'\n[settings]\nlam=1": "own.toml is for sac, not for ppo",
    "extends = 'nothing'": "'nothing' is not known here .*mario",
    "doc = 'Nothing.'": "there are no settings",
    "[settings]\nlam=1": "own.toml names no environment; give --env",
    "env='CartPole-v1'\n[settings]\nlam=2": "lam is 2; it must be a number between 0 and 1",
    "env='CartPole-v1'\n[settings]\nlam=1\nfits=['Hopper-*']": "has no settings for CartPole-v1",
    "env='CartPole-v1'\nfits=['Hopper-*']\n[settings]\nlam=1": "does not fit CartPole-v1: it is "
    r"for Hopper-\*\. Choose",
    "[settings": "own.toml cannot be read: ",
    "x = " + 5000 * "[": "own.toml cannot be read: ",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_refused_before_anything_starts(text, own, experiments, capsys):
    Path(own).write_text(text)
    with pytest.raises(SystemExit) as left:
        execute(f"ppo --preset {own}")
    printed = capsys.readouterr()
    assert (left.value.code, printed.out, experiments) == (2, "", [])
    assert re.search(BROKEN[text], printed.err)


def test_a_file_may_begin_with_a_byte_order_mark(own):
    Path(own).write_text(OWN, encoding="utf-8-sig")
    assert load("ppo", own).settings["gamma"] == 0.5
