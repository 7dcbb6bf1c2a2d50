"""Atari: each wrapper on a scripted game, then the whole chain on the emulator."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.atari import (
    ClipReward,
    EpisodicLife,
    FireReset,
    NoopReset,
    is_atari,
    make_atari,
)
from spinup_tf2.envs.wrappers import AreaScaling, MaxAndSkip, StackFrames
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import make_env, write_env_spec
from spinup_tf2.utils.run_utils import EnvFn

NOOP, FIRE, RIGHT = range(3)


class Game(gym.Env):
    """A game that follows a script: frame t of a game is `frames[t]`, or shows the number t.

    lives[t], rewards[t]: after frame t; the last of the lives stays for all later frames.
    over, cut: the frame after which the game is over, or cut off.
    """

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Box(0, 255, (2, 2), np.uint8)

    def __init__(self, lives=(0,), rewards=None, over=None, cut=None, frames=None):
        self.lives, self.rewards, self.over, self.cut = lives, rewards or {}, over, cut
        self.frames = frames
        self.actions, self.games = [], 0

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT"]

    def _see(self):
        obs = np.full((2, 2), self.t, np.uint8) if self.frames is None else self.frames[self.t]
        return obs, {"lives": self.lives[min(self.t, len(self.lives) - 1)]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.games += 1
        return self._see()

    def step(self, action):
        self.t += 1
        self.actions.append(action)
        obs, info = self._see()
        return obs, self.rewards.get(self.t, 0.0), self.t == self.over, self.t == self.cut, info


# ---------------------------------------------------------------- the wrappers


def test_noop_reset_draws_one_to_noop_max_from_the_environments_seed():
    def number(seed):
        game = Game()
        obs, _ = NoopReset(game, 5).reset(seed=seed)
        assert set(game.actions) == {NOOP}
        assert obs[0, 0] == game.t == len(game.actions)
        return game.t

    numbers = [number(seed) for seed in range(60)]
    assert set(numbers) == {1, 2, 3, 4, 5}
    assert numbers == [number(seed) for seed in range(60)]


def test_max_and_skip():
    """The first two of four frames are brighter everywhere, and must not be seen."""
    frames = np.zeros((9, 2, 2), np.uint8)
    frames[1] = frames[2] = 200
    frames[3] = [[10, 0], [7, 0]]
    frames[4] = [[0, 20], [7, 1]]
    game = Game(rewards={1: 1.0, 2: 0.5, 3: -4.0, 4: 10.0, 5: 100.0}, frames=frames)
    env = MaxAndSkip(game, 4)
    env.reset(seed=0)
    obs, rew, terminated, truncated, _ = env.step(RIGHT)
    np.testing.assert_array_equal(obs, [[10, 20], [7, 1]])
    assert rew == 1.0 + 0.5 - 4.0 + 10.0
    assert not terminated
    assert not truncated
    assert game.actions == [RIGHT] * 4
    kept = obs.copy()
    env.step(RIGHT)
    np.testing.assert_array_equal(obs, kept)


@pytest.mark.parametrize("last", [1, 2, 3])
def test_max_and_skip_stops_at_the_end(last):
    game = Game(rewards=dict.fromkeys(range(9), 1.0), over=last, cut=2)
    env = MaxAndSkip(game, 4)
    env.reset(seed=0)
    obs, rew, terminated, truncated, _ = env.step(NOOP)
    end = min(last, 2)
    assert (obs == end).all()  # frames grow brighter
    assert rew == end == game.t
    assert (terminated, truncated) == (last <= 2, last >= 2)


@pytest.mark.parametrize("frameskip", [0, 2.5, True, "4", (4, 4), (0, 3), (1, 2, 3)])
def test_bad_frameskip(frameskip):
    with pytest.raises(UserError, match="frameskip is"):
        MaxAndSkip(Game(), frameskip)


def test_lost_lives_end_episodes_but_not_the_game():
    """Lives by frame: 3 3 2 2 2 1 1 0 0, and the game is over at frame 8."""
    game = Game(lives=[3, 3, 2, 2, 2, 1, 1, 0, 0], over=8)
    env = EpisodicLife(game)
    env.reset(seed=0)
    assert [env.step(RIGHT)[2] for _ in range(2)] == [False, True]
    obs, info = env.reset()
    assert (obs == 3).all()  # after one frame without a button
    assert info["lives"] == 2
    assert game.actions[-1] == NOOP
    assert [env.step(RIGHT)[2] for _ in range(2)] == [False, True]
    env.reset()
    # No lives at frame 7 are no end yet.
    assert [env.step(RIGHT)[2] for _ in range(2)] == [False, True]
    assert game.games == 1
    obs, info = env.reset()
    assert game.games == 2
    assert (obs == 0).all()
    assert info["lives"] == 3
    assert not env.step(RIGHT)[2]


def test_a_new_game_begins_unless_a_life_has_been_lost():
    game = Game(lives=[3, 3, 2], cut=4)
    env = EpisodicLife(game)
    env.reset(seed=0)
    env.step(RIGHT)
    env.reset()  # in the middle of a life, as where a time limit around this wrapper ends it
    assert (game.games, game.t) == (2, 0)
    env.step(RIGHT)
    assert env.step(RIGHT)[2]
    env.reset()
    assert (game.games, game.t) == (2, 3)
    *_, terminated, truncated, _ = env.step(RIGHT)
    assert (terminated, truncated) == (False, True)
    env.reset()
    assert (game.games, game.t) == (3, 0)
    env.step(RIGHT)
    assert env.step(RIGHT)[2]
    env.reset(seed=5)  # asks for a game that depends on nothing but the seed
    assert (game.games, game.t) == (4, 0)
    game.over = 3  # before the next life begins
    env.step(RIGHT)
    assert env.step(RIGHT)[2]
    env.reset()
    assert (game.games, game.t) == (5, 0)


def test_fire_is_pressed_where_a_game_or_a_life_begins():
    game = Game(lives=[3, 3, 3, 2, 2, 2], rewards={3: 1.0, 4: 10.0})
    env = FireReset(game)
    obs, _ = env.reset(seed=0)
    assert (obs == 1).all()
    _, rew, *_ = env.step(RIGHT)
    assert rew == 0
    obs, rew, *_ = env.step(RIGHT)  # loses a life in frame 3
    assert (obs == 4).all()
    assert rew == 11.0
    env.step(RIGHT)
    assert game.actions == [FIRE, RIGHT, RIGHT, FIRE, RIGHT]
    env.reset()
    assert game.actions[5:] == [FIRE]


def test_rewards_become_their_sign():
    env = ClipReward(Game(rewards={1: -7.5, 2: 0.0, 3: 0.25, 4: 400.0}))
    env.reset(seed=0)
    assert [env.step(NOOP)[1] for _ in range(4)] == [-1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [(210, 160), (250, 160), (31, 17)])
@pytest.mark.parametrize("size", [84, 64, 37])
def test_scaled_pixels_are_averages_over_their_areas(shape, size):
    """Rows, then columns: repeat each pixel `size` times, and each new one covers whole ones."""
    height, width = shape
    picture = np.random.default_rng(size).integers(0, 256, shape, dtype=np.uint8)
    picture[: height // 2, : width // 2] = 255
    low = picture.repeat(size, axis=0).reshape(size, height, width).mean(axis=1)
    expected = low.repeat(size, axis=1).reshape(size, size, width).mean(axis=2)
    scaled = AreaScaling(shape, size)(picture)
    assert scaled.dtype == np.uint8
    assert np.abs(scaled - expected).max() < 0.5 + 1e-3  # nothing but rounding


def test_stack_of_frames():
    """The newest frame is the last; an episode begins with its first frame repeated."""
    env = StackFrames(Game(), size=2, stack=3)
    first, _ = env.reset(seed=0)
    assert first.shape == (2, 2, 3)
    observations = [first] + [env.step(NOOP)[0] for _ in range(4)]
    expected = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [obs[1, 0].tolist() for obs in observations] == expected
    again, _ = env.reset()
    assert again[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(size=0), "size is 0"),
        (dict(stack=1.5), r"stack is 1\.5"),
        (dict(noop_max=-1), "noop_max is -1"),
        (dict(clip_reward="no"), "clip_reward is 'no'; it must be True or False"),
        (dict(raw="no"), "raw is 'no'"),
        (dict(obs_type="ram"), "needs grayscale frames"),
        (dict(env_id="CartPole-v1"), "CartPole-v1 is not a game of ale-py"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(UserError, match=message):
        make_atari(**{"env_id": "PongNoFrameskip-v4"} | kwargs)


# ---------------------------------------------------------------- scores


def scripted_game():
    """Two lives, frames worth 5, -3 and 7, over after 6 of them; preprocessed for learning."""
    game = Game(lives=[2, 2, 2, 1], rewards={1: 5.0, 2: -3.0, 5: 7.0}, over=6)
    return ClipReward(EpisodicLife(RecordEpisodeStatistics(game)))


def test_statistics_are_of_whole_games_and_their_rewards():
    """Lives end at frame 3 and frame 6 (the third step after a reset that takes frame 4)."""
    with VectorEnv(scripted_game, 2, max_ep_len=100) as envs:
        envs.reset()
        steps = [envs.step(np.full(2, RIGHT)) for _ in range(5)]
        assert [step[1].tolist() for step in steps] == [[rew] * 2 for rew in (1, -1, 0, 1, 0)]
        assert [step[2].tolist() for step in steps] == [[end] * 2 for end in (0, 0, 1, 0, 1)]
        assert envs.episodes.recorded == [(9.0, 6, 0), (9.0, 6, 1)]


# ---------------------------------------------------------------- the emulator


def play(env, steps, seed):
    """Observations, which are not overwritten, and rewards of random play."""
    rng = np.random.default_rng(seed)
    obs, _ = env.reset(seed=seed)
    observations, rewards = [obs], []
    for _ in range(steps):
        obs, rew, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        if terminated or truncated:
            obs, _ = env.reset()
        observations.append(obs)
        rewards.append(rew)
    assert all(each.flags.c_contiguous for each in observations)
    assert not np.shares_memory(*observations[-2:])
    return np.array(observations), rewards


def test_games_depend_on_their_seed_alone():
    env = EnvFn("ALE/Breakout-v5")()
    assert env.observation_space == gym.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    observations, rewards = play(env, 80, seed=3)
    assert len(np.unique(observations)) > 2  # there is something to see
    assert set(rewards) <= {-1.0, 0.0, 1.0}
    again, rewards_again = play(env, 80, seed=3)
    np.testing.assert_array_equal(observations, again)
    assert rewards == rewards_again
    assert (observations != play(env, 80, seed=4)[0]).any()


@pytest.mark.parametrize(
    ("env_id", "kwargs", "frames", "sticky"),
    [
        ("PongNoFrameskip-v4", {}, {4}, 0.0),
        ("ale_py:ALE/Pong-v5", {"repeat_action_probability": 0.5}, {4}, 0.5),
        ("Pong-v4", {}, {2, 3, 4}, 0.0),
        ("ALE/Pong-v5", {"frameskip": 3}, {3}, 0.25),
    ],
)
def test_frames_of_a_step_and_sticky_actions(env_id, kwargs, frames, sticky):
    env = EnvFn(env_id, kwargs)()
    ale = env.unwrapped.ale
    env.reset(seed=0)
    times = [ale.getEpisodeFrameNumber()]
    for _ in range(20):
        env.step(0)
        times.append(ale.getEpisodeFrameNumber())
    assert set(np.diff(times)) == frames
    assert ale.getFloat("repeat_action_probability") == pytest.approx(sticky)
    env.close()


def wrapper_names(env):
    return [wrapper.name for wrapper in env.spec.additional_wrappers]


OFF = dict(noop_max=0, episodic_life=False, fire_reset=False, clip_reward=False, size=42, stack=2)


def test_parts_can_be_switched_off():
    every = ["NoopReset", "MaxAndSkip", "RecordEpisodeStatistics", "EpisodicLife", "FireReset"]
    every += ["StackFrames", "ClipReward"]
    assert wrapper_names(make_atari("BreakoutNoFrameskip-v4")) == every
    # Freeway has no such button.
    assert "FireReset" not in wrapper_names(make_atari("FreewayNoFrameskip-v4"))
    env = make_atari("BreakoutNoFrameskip-v4", **OFF)
    assert wrapper_names(env) == ["MaxAndSkip", "RecordEpisodeStatistics", "StackFrames"]
    assert env.reset(seed=0)[0].shape == (42, 42, 2)
    raw = make_atari("BreakoutNoFrameskip-v4", raw=True)
    assert wrapper_names(raw) == []
    assert raw.reset(seed=0)[0].shape == (210, 160, 3)
    continuous = make_atari("ALE/Breakout-v5", continuous=True)
    assert continuous.reset(seed=0)[1]["lives"] == 5
    assert continuous.step(continuous.action_space.sample())[0].shape == (84, 84, 4)


def test_what_only_helps_to_train_is_left_out_for_watching(tmp_path):
    path, env_fn = tmp_path / "env_spec.json", EnvFn("BreakoutNoFrameskip-v4", {"stack": 2})
    write_env_spec(path, env_fn(), env_fn)
    env = make_env(path, render_mode="rgb_array")
    same = make_atari("BreakoutNoFrameskip-v4", stack=2, episodic_life=False, clip_reward=False)
    assert wrapper_names(env) == wrapper_names(same)
    for ours, theirs in zip(play(env, 60, seed=0), play(same, 60, seed=0), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert env.render().shape == (210, 160, 3)


# ---------------------------------------------------------------- with and without the extra


@pytest.fixture
def no_emulator(monkeypatch):
    """As if ale-py were not installed."""
    monkeypatch.setitem(sys.modules, "ale_py", None)
    games = [env_id for env_id in gym.registry if is_atari(env_id)]
    for env_id in games:
        monkeypatch.delitem(gym.registry, env_id)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("ale_py:ALE/Pong-v5", r'is an Atari game.*pip install "spinup_tf2\[atari\]"'),
        ("PongNoFrameskip-v4", r'is an Atari game.*pip install "spinup_tf2\[atari\]"'),
        ("CartPole-v3", r"^((?!Atari).)*$"),
    ],
)
@pytest.mark.usefixtures("no_emulator")
def test_what_to_install(env_id, message):
    with pytest.raises(UserError, match=message):
        EnvFn(env_id)()


def test_the_emulator_is_loaded_when_it_is_needed_and_says_nothing():
    program = (
        "import sys, spinup_tf2\n"
        "from spinup_tf2.utils.run_utils import EnvFn\n"
        "EnvFn('CartPole-v1')()\n"
        "assert 'ale_py' not in sys.modules\n"
        "EnvFn('PongNoFrameskip-v4')().reset(seed=0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
