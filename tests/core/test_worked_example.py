"""The worked examples of the docs: an algorithm is one file and a line in the registry."""

import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import algos, ppo, run, user_config, vpg
from spinup_tf2.utils.test_policy import load_policy_and_env
from tests.progress import rows_without_time

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "reinforce.py"


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Adds the algorithm to the package, as its page says; returns it."""
    folder = tmp_path / "algos"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder)
    monkeypatch.setattr(algos, "__path__", [*algos.__path__, str(folder)])
    monkeypatch.setitem(algos.ALGORITHMS, "reinforce", "action_spec")
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0)
    yield algos.load("reinforce")
    sys.modules.pop("spinup_tf2.algos.reinforce", None)
    importlib.invalidate_caches()


def train(algorithm, directory, epochs, **kwargs):
    algorithm(
        lambda: gym.make("CartPole-v1"),
        ac_kwargs=dict(hidden_sizes=(8,)),
        steps_per_epoch=120,
        epochs=epochs,
        logger_kwargs=dict(output_dir=str(directory), quiet=True),
        **kwargs,
    )
    return rows_without_time(directory / "progress.txt")


def test_it_is_short():
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) < 60


def test_the_command_line_knows_it(added, capsys):
    run.main(["reinforce", "--help", "--full"])
    text = capsys.readouterr().out
    assert "How much of the baseline b stays in an update" in text
    assert "deterministic_resume" in text  # what all algorithms share
    with pytest.raises(SystemExit):
        run.main(["reinforce", "--env", "CartPole-v1", "--deca", "0.5"])
    assert "did you mean --decay?" in capsys.readouterr().err


def test_it_trains_and_its_policy_is_loaded(added, tmp_path):
    header, *rows = train(added, tmp_path / "run", 2, num_envs=2)
    baselines = [float(row[header.index("Baseline")]) for row in rows]
    assert 0 < baselines[0] < baselines[1]  # from 0 towards the mean return
    env, act = load_policy_and_env(tmp_path / "run")
    assert act(env.reset(seed=0)[0]) in env.action_space


def test_its_own_state_survives_a_resume(added, tmp_path):
    """The loss of the third epoch depends on the baseline that the second has left."""
    whole = train(added, tmp_path / "whole", 4, deterministic_resume=True)
    train(added, tmp_path / "parts", 2, deterministic_resume=True)
    parts = train(added, tmp_path / "parts", 4, deterministic_resume=True, resume=True)
    assert parts == whole
    assert len(np.unique([row[whole[0].index("LossPi")] for row in whole[1:]])) == 4


def patched(text, diff):
    """What `patch` makes of a text."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        assert text.count(before) == 1
        text = text.replace(before, "".join(line[1:] for line in lines if line[0] in " +"))
    return text


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """changed(ppo, "x.diff") makes the module my_ppo of the function's file, and imports it."""

    def make(algorithm, diff):
        name = f"my_{algorithm.__name__}"
        text = Path(inspect.getfile(inspect.unwrap(algorithm))).read_text(encoding="utf-8")
        text = patched(text, (EXAMPLE.parent / diff).read_text(encoding="utf-8"))
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(name)

    yield make
    for name in ("my_vpg", "my_ppo"):
        sys.modules.pop(name, None)


def test_a_changed_copy_of_ppo_has_another_term(changed, tmp_path):
    """Without its weight it is PPO with a column more; with a large one the policy stays."""
    my_ppo = changed(ppo, "reverse_kl.diff")
    plain = train(ppo, tmp_path / "plain", 2)
    header, *rows = train(my_ppo.ppo, tmp_path / "zero", 2)
    column = header.index("ReverseKL")
    assert [row[:column] + row[column + 1 :] for row in [header, *rows]] == plain
    header, *held = train(my_ppo.ppo, tmp_path / "large", 2, reverse_coef=100.0)
    for free, row in zip(rows, held, strict=True):
        assert 0 < float(row[column]) < 0.5 * float(free[column])


def test_a_changed_copy_of_vpg_has_three_baselines(changed, tmp_path, monkeypatch):
    my_vpg = changed(vpg, "baseline.diff")
    rew, val = np.ones((3, 1), np.float32), np.float32([[1], [2], [0]])
    ends = np.array([[False], [False], [True]])
    arrays = (rew, val, np.roll(val, -1), ends, ~ends & False, np.ones((3, 1), bool))

    def weights(baseline):
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(my_vpg, "train", lambda *args: found.append(args[3](*arrays)))
            logger_kwargs = dict(output_dir=str(tmp_path / baseline), quiet=True)
            my_vpg.vpg("CartPole-v1", logger_kwargs=logger_kwargs, gamma=1.0, baseline=baseline)
        ((weight, target),) = found
        np.testing.assert_allclose(target[:, 0], [3, 2, 1])
        return weight[:, 0]

    scaled = np.sqrt(1.5) * np.array([3, 2, 1])
    np.testing.assert_allclose(weights("none"), scaled, rtol=1e-5)
    np.testing.assert_allclose(weights("constant"), scaled - scaled.mean(), atol=1e-5)
    expected = np.array([2, 0, 1]) - 1
    np.testing.assert_allclose(weights("value"), expected * np.sqrt(1.5), atol=1e-5)
    assert len(train(my_vpg.vpg, tmp_path / "run", 1, baseline="none")) == 2
