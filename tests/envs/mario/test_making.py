"""Super Mario Bros as agents see it: made, recorded, and rebuilt from a run."""

import json

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.envs.mario import create_train_env, is_mario, make_mario
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import make_env, write_env_spec
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import emulator_marks

pytestmark = emulator_marks


def wrapper_names(env):
    return [wrapper.name for wrapper in env.spec.additional_wrappers]


def play(env, steps, seed=0):
    """Observations, rewards and ends of random play."""
    rng = np.random.default_rng(seed)
    rows = [env.reset(seed=seed, options={"noops": 0})[0].tobytes()]
    for _ in range(steps):
        obs, *rest, _ = env.step(int(rng.integers(env.action_space.n)))
        rows.append((obs.tobytes(), *rest))
    return rows


def test_ids():
    for name in ("SuperMarioBros-v0", "SuperMarioBros-8-4-v3", "SuperMarioBrosRandomStages-v0"):
        assert is_mario(name)
        assert is_mario(f"spinup_tf2:{name}")
    for name in ("SuperMarioBros-9-1-v0", "SuperMarioBros", "CartPole-v1", "other:CartPole-v1"):
        assert not is_mario(name)
    with pytest.raises(UserError, match="CartPole-v1 is not Super Mario Bros"):
        make_mario("CartPole-v1")
    with pytest.raises(UserError, match="SuperMarioBros-1-1 is not registered"):
        EnvFn("SuperMarioBros-1-1")()


def test_arguments_reach_the_game_and_the_wrappers():
    env = EnvFn("spinup_tf2:SuperMarioBros-1-1-v0", dict(actions="run", size=42, stack=2))()
    assert env.observation_space == gym.spaces.Box(0, 255, (42, 42, 2), np.uint8)
    assert env.action_space == gym.spaces.Discrete(2)
    assert wrapper_names(env) == ["MaxAndSkip", "ScoreReward", "StackFrames"]
    raw = make_mario("SuperMarioBros-1-1-v0", raw=True)
    assert wrapper_names(raw) == []
    assert raw.observation_space.shape == (240, 256, 3)


def test_what_only_helps_to_train_is_left_out_for_watching(tmp_path):
    path = tmp_path / "env_spec.json"
    training = dict(noop_max=30, no_progress=75)
    other = dict(
        actions=[["right", "B"], ["right", "A", "B"], []],
        stages=["1-2"],
        rom="pixel",
        frameskip=3,
        size=30,
        stack=3,
        score_scale=0.1,
        flag_bonus=5.0,
        death_penalty=7.0,
        reward_scale=0.5,
    )
    env_fn = EnvFn("SuperMarioBros-1-2-v1", training | other)
    write_env_spec(path, env_fn(), env_fn)
    saved = json.loads(path.read_text())["spec"]
    entry_points = " ".join(wrapper["entry_point"] for wrapper in saved["wrappers"])
    assert "NoopStarts" in entry_points
    assert "StopWithoutProgress" in entry_points
    env = make_env(path, render_mode="rgb_array")
    assert wrapper_names(env) == ["MaxAndSkip", "ScoreReward", "StackFrames"]
    assert env.unwrapped.render_mode == "rgb_array"
    assert play(env, 8) == play(make_mario("SuperMarioBros-1-2-v1", **other), 8)
    assert env.render().shape == (240, 256, 3)


@pytest.mark.parametrize("too_large", [dict(size=10**6), dict(stack=10**9)])
def test_sizes_of_files_that_may_come_from_anybody(too_large, tmp_path):
    path = tmp_path / "env_spec.json"
    env_fn = EnvFn("SuperMarioBros-1-1-v0")
    write_env_spec(path, env_fn(), env_fn)
    contents = json.loads(path.read_text())
    contents["spec"]["wrappers"][-1]["kwargs"] |= too_large
    path.write_text(json.dumps(contents))
    with pytest.raises(UserError, match="would keep more than"):
        make_env(path)


# ---------------------------------------------------------------- create_train_env


def test_videos_have_every_frame(tmp_path, capfd):
    """Two episodes of 6 and 3 steps: the first picture and 4 of each step, at 60 a second."""
    pytest.importorskip("imageio_ffmpeg", reason='needs: pip install ".[video]"')
    import cv2

    env = create_train_env(1, 1, "run", tmp_path / "videos")
    assert env.observation_space == gym.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    for steps in (6, 3):
        _, info = env.reset(seed=0)
        assert (info["world"], info["stage"]) == (1, 1)
        for _ in range(steps):
            env.step(0)
    env.close()
    for episode, frames in enumerate((1 + 6 * 4, 1 + 3 * 4)):
        video = cv2.VideoCapture(str(tmp_path / "videos" / f"1-1-episode-{episode}.mp4"))
        assert video.get(cv2.CAP_PROP_FPS) == 60
        pictures = []
        while (read := video.read())[0]:
            pictures.append(read[1])
        assert len(pictures) == frames
        assert pictures[0].shape == (240, 256, 3)
        assert (pictures[0] != pictures[-1]).any()
    assert capfd.readouterr().out == ""
