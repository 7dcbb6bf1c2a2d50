"""Atari games of ale-py, preprocessed as in the DQN paper (Mnih et al. 2015) and its successors.

    env = make_atari("PongNoFrameskip-v4")  # observations uint8 [84, 84, 4], the newest frame last

Each step of the preprocessing is a separate wrapper; `preprocess` applies them all. gymnasium's
`AtariPreprocessing` is not used: it needs OpenCV, holds actions for a fixed number of frames only,
and shows an old frame where an episode ends. This module can be imported without ale-py, which
comes with the `atari` extra.
"""

import inspect
import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import RecordEpisodeStatistics

from spinup_tf2.arguments.rules import POSITIVE_INTEGER, SWITCH, check
from spinup_tf2.envs.modules import import_installed
from spinup_tf2.envs.wrappers import MaxAndSkip, StackFrames
from spinup_tf2.errors import UserError

INSTALL = 'pip install "spinup_tf2[atari]"'

# ---------------------------------------------------------------- making


def is_atari(env_id: str) -> bool:
    """Return whether `env_id`, with or without the prefix `ale_py:`, is a game of ale-py.

    Registers the games with gymnasium if the id looks like one of theirs.

    Raises:
        UserError: The id can only be a game of ale-py, and ale-py is not installed.
    """
    env_id = env_id.removeprefix("ale_py:")
    certain = re.fullmatch(r"ALE/.*|\w+NoFrameskip.*", env_id)
    if env_id not in gym.registry and (certain or re.fullmatch(r"\w+-v[04]", env_id)):
        try:
            ale_py = import_installed("ale_py")  # not a file next to a run that has named the id
        except ImportError as error:
            if not certain:
                return False
            raise UserError(
                f"{env_id} is an Atari game, and the emulator cannot be loaded ({error}); install "
                f"it with: {INSTALL}"
            ) from error
        # Otherwise the emulator prints a banner on stderr in every process.
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gym.register_envs(ale_py)
    return env_id in gym.registry and gym.registry[env_id].entry_point == "ale_py.env:AtariEnv"


def make_atari(env_id: str, *, raw: bool = False, **kwargs) -> gym.Env:
    """Make an Atari game and preprocess it.

    Args:
        env_id: Id of the game, such as `PongNoFrameskip-v4`, or `ALE/Pong-v5`, which has sticky
            actions.
        raw: Whether to leave out the preprocessing, and return the result of `gymnasium.make`.
        **kwargs: Arguments of `preprocess`; all others are passed to `gymnasium.make`. The default
            of `frameskip` is that of the id, or 4 if that is 1 (NoFrameskip).
    """
    env_id = env_id.removeprefix("ale_py:")
    if not is_atari(env_id):
        raise UserError(f"{env_id} is not a game of ale-py.")
    check(SWITCH, raw=raw)
    if raw:
        return gym.make(env_id, **kwargs)
    registered = gym.spec(env_id).kwargs["frameskip"]
    options = {"frameskip": 4 if registered == 1 else registered}
    options |= {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
    kwargs = {"obs_type": "grayscale", "disable_env_checker": True} | kwargs
    return preprocess(gym.make(env_id, frameskip=1, **kwargs), **options)


def preprocess(
    env: gym.Env,
    *,
    noop_max: int = 30,
    frameskip: int | tuple[int, int] = 4,
    episodic_life: bool = True,
    fire_reset: bool = True,
    clip_reward: bool = True,
    size: int = 84,
    stack: int = 4,
) -> gym.Env:
    """Apply the wrappers of this module to an Atari game.

    Observations become uint8 arrays `[size, size, stack]`, in gray, with the newest frame last. The
    score and the length of a whole game, in steps of the agent, are in `info["episode"]` of its
    last step.

    Args:
        env: The game, made with `obs_type="grayscale"` and `frameskip=1`.
        noop_max: Each game begins with a random number of frames, from 1 to this, in which no
            button is pressed; 0 for none.
        frameskip: Number of frames for which an action is repeated. A pair `(low, high)` stands for
            a random number from `low` to `high - 1`.
        episodic_life: Whether a lost life ends an episode.
        fire_reset: Whether FIRE is pressed at the beginning of each game and each life, if the game
            has that button.
        clip_reward: Whether rewards are replaced by their signs.
        size: Height and width of the frames.
        stack: Number of frames in an observation.
    """
    skips = env.spec.kwargs["frameskip"]
    if skips != 1:
        raise UserError(f"frames would be skipped twice: the game was made with frameskip={skips}.")
    check(SWITCH, episodic_life=episodic_life, fire_reset=fire_reset, clip_reward=clip_reward)
    if noop_max:
        env = NoopReset(env, noop_max)
    env = MaxAndSkip(env, frameskip)
    env = RecordEpisodeStatistics(env)
    if episodic_life:
        env = EpisodicLife(env)
    if fire_reset and "FIRE" in env.unwrapped.get_action_meanings():
        env = FireReset(env)
    env = StackFrames(env, size, stack)
    if clip_reward:
        env = ClipReward(env)
    return env


_OPTIONS = tuple(inspect.signature(preprocess).parameters)[1:]


# ---------------------------------------------------------------- wrappers, from inside to outside


def _button(env, name):
    """Return the action that presses one button."""
    if isinstance(env.action_space, gym.spaces.Discrete):
        return env.unwrapped.get_action_meanings().index(name)
    return np.array([0, 0, name == "FIRE"], np.float32)  # radius and angle of the stick, trigger


class NoopReset(gym.Wrapper, RecordConstructorArgs):
    """Begins each game with 1 to `noop_max` frames in which no button is pressed.

    The number is drawn from the environment's random number generator, so that games differ.
    """

    def __init__(self, env: gym.Env, noop_max: int = 30):
        RecordConstructorArgs.__init__(self, noop_max=noop_max)
        gym.Wrapper.__init__(self, env)
        check(POSITIVE_INTEGER, noop_max=noop_max)
        self._noop_max = noop_max
        self._noop = _button(env, "NOOP")

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        obs, info = self.env.reset(**kwargs)
        for _ in range(self.np_random.integers(1, self._noop_max + 1)):
            obs, _, terminated, truncated, info = self.env.step(self._noop)
            if terminated or truncated:
                obs, info = self.env.reset()
        return obs, info


class EpisodicLife(gym.Wrapper, RecordConstructorArgs):
    """Ends the episode when a life is lost; the next episode continues the same game.

    So the agent learns the value of a life. After any other end of an episode, and in a `reset`
    when no life has just been lost or with a seed, a new game begins.
    """

    training_only = True

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._lives = 0
        self._life_lost = False
        self._noop = _button(env, "NOOP")

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self.env.step(action)
        lives = info["lives"]
        # Some games show no lives for a few frames before they are over: no life is lost then.
        self._life_lost = 0 < lives < self._lives and not (terminated or truncated)
        self._lives = lives
        return obs, rew, terminated or self._life_lost, truncated, info

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        over = not self._life_lost or kwargs.get("seed") is not None
        if not over:
            obs, _, terminated, truncated, info = self.env.step(self._noop)
            over = terminated or truncated
        if over:
            obs, info = self.env.reset(**kwargs)
        self._lives, self._life_lost = info["lives"], False
        return obs, info


class FireReset(gym.Wrapper, RecordConstructorArgs):
    """Presses FIRE at the beginning of each game and life; some games stand still until then."""

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._lives = 0
        self._fire = _button(env, "FIRE")

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self.env.step(action)
        if info["lives"] < self._lives and not (terminated or truncated):
            obs, more, terminated, truncated, info = self.env.step(self._fire)
            rew += more
        self._lives = info["lives"]
        return obs, rew, terminated, truncated, info

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        self.env.reset(**kwargs)
        obs, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:
            obs, info = self.env.reset()
        self._lives = info["lives"]
        return obs, info


class ClipReward(gym.RewardWrapper, RecordConstructorArgs):
    """Replaces rewards by their signs (-1, 0 or 1), so that one learning rate suits all games."""

    training_only = True

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.RewardWrapper.__init__(self, env)

    def reward(self, reward: float) -> float:
        return float(np.sign(reward))
