"""The games of procgen; the tests at the end play them and need the extra."""

import gymnasium as gym
import numpy as np
import pytest

import spinup_tf2  # noqa: F401  (registers its environments)
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.envpool import ProcgenEnv, is_procgen
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import make_env, write_env_spec

GAME = "procgen/bigfish"
GAMES = [name for name in gym.registry if is_procgen(name)]


def test_ids():
    assert len(GAMES) == 16
    assert is_procgen(f"spinup_tf2:{GAME}")
    assert not is_procgen("procgen/fish")
    assert EnvFn(GAME).shows_pictures


def test_spaces_pictures_and_success(stand_in):
    env = gym.make(GAME, render_mode="rgb_array")
    assert env.observation_space == gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    assert env.action_space.n == len(env.unwrapped.get_action_meanings()) == 15
    env.reset(seed=0)
    assert "is_success" not in env.step(4)[-1]
    assert env.render().shape == (512, 512, 3)
    assert (env.render() == 1).all()
    assert env.metadata["render_fps"] == 15
    assert env.step(1)[-1]["is_success"] is True  # which ends the episode


def test_levels(stand_in):
    env = ProcgenEnv("bigfish", num_levels=3, start_level=200)
    infos = [env.reset(seed=0 if i == 0 else None)[1] for i in range(40)]
    assert {int(info["level_seed"]) for info in infos} == {200, 201, 202}
    env = ProcgenEnv("bigfish")
    assert len({int(env.reset()[1]["level_seed"]) for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (GAME, dict(num_levels=-1), "num_levels is -1; it must be a whole number"),
        (GAME, dict(start_level=1.5), "start_level is 1.5"),
        (GAME, dict(distribution_mode="extreme"), "no environment 'BigfishExtreme-v0'"),
        (GAME, dict(levels=3), "levels=3 is not passed on"),
    ],
)
def test_mistakes(stand_in, name, arguments, message):
    with pytest.raises(UserError, match=message):
        EnvFn(name, arguments)()


# ---------------------------------------------------------------- with EnvPool


@pytest.fixture
def played():
    """Skips where EnvPool, or its Qt, is not installed."""
    pytest.importorskip("envpool")
    try:
        ProcgenEnv("bigfish")
    except UserError as error:
        pytest.skip(str(error))


def play(env, seed, steps=150):
    """All that an environment answers."""
    rng, answers = np.random.default_rng(0), [env.reset(seed=seed)[0]]
    for _ in range(steps):
        obs, rew, terminated, truncated, _ = env.step(int(rng.integers(15)))
        answers += [obs, np.array([rew, terminated, truncated])]
        if terminated or truncated:
            answers.append(env.reset()[0])
    return answers


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("game", GAMES)
def test_a_seed_and_actions_decide_what_happens(game, tmp_path):
    env_fn = EnvFn(game, dict(num_levels=20))
    env, path = env_fn(), tmp_path / "env_spec.json"
    write_env_spec(path, env, env_fn)
    before = play(env, 3)
    assert before[0].shape == (64, 64, 3)
    for again in (env, make_env(path)):
        for x, y in zip(before, play(again, 3), strict=True):
            np.testing.assert_array_equal(x, y)
    assert any((x != y).any() for x, y in zip(before, play(env, 4), strict=False))


@pytest.mark.usefixtures("played")
def test_an_action_is_held_for_some_frames():
    """Until the episode is over, in the middle of a step too."""
    env, frames = ProcgenEnv("bigfish", frameskip=3), ProcgenEnv("bigfish")
    assert env.metadata["render_fps"] == 5
    ends = set()
    for seed in range(20):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], frames.reset(seed=seed)[0])
        over, rng = False, np.random.default_rng(seed)
        while not over:
            action, total = int(rng.integers(15)), 0.0
            for number in range(3):
                obs, rew, terminated, truncated, info = frames.step(action)
                total += rew
                if over := terminated or truncated:
                    ends.add(number)
                    break
            ours = env.step(action)
            np.testing.assert_array_equal(ours[0], obs)
            assert ours[1:4] == (total, terminated, truncated)
            assert ours[4] == info
    assert ends == {0, 1, 2}


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("frameskip", [1, 3])
def test_layouts_and_a_shared_pool_give_the_same(frameskip):
    """One pool for four environments, two for two each, and one for each."""

    def steps(*layout, vectorization="sync"):
        env_fn = EnvFn("procgen/coinrun", dict(frameskip=frameskip))
        kwargs = dict(seed=1, max_ep_len=40, vectorization=vectorization)
        firsts = [sum(layout[:i]) for i in range(len(layout))]
        groups = [
            VectorEnv(env_fn, n, first_env=first, **kwargs)
            for n, first in zip(layout, firsts, strict=True)
        ]
        rng, rows = np.random.default_rng(0), [[envs.reset() for envs in groups]]
        for _ in range(100):
            act = rng.integers(15, size=4).astype(np.int32)
            parts = [envs.step(act[list(envs.indices)])[:4] for envs in groups]
            rows += zip(*parts, strict=True)
        for envs in groups:
            envs.close()
        return [np.concatenate(row) for row in rows]

    together = steps(4)
    for other in (steps(2, 2), steps(1, 1, 1, 1), steps(4, vectorization="threads")):
        for x, y in zip(together, other, strict=True):
            np.testing.assert_array_equal(x, y)
