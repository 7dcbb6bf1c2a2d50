"""Atari games of ale-py, preprocessed as in the DQN paper (Mnih et al. 2015) and its successors.

    env = make_atari("PongNoFrameskip-v4")  # observations uint8 [84, 84, 4], the newest frame last

Every step of preprocessing is a wrapper of its own; `preprocess` puts them together. This module
can be imported without ale-py and OpenCV, which come with the `atari` extra.
"""

import inspect
import re
from collections import deque

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import RecordEpisodeStatistics

from spinup_tf2.errors import UserError

_INSTALL = 'pip install "spinup_tf2[atari]"'

# An Atari console draws that many frames per second.
_FRAMES_PER_SECOND = 60


# ---------------------------------------------------------------- making


def is_atari(env_id: str) -> bool:
    """Whether `env_id` is a game of ale-py.

    Registers the games with gymnasium if the id looks like one of theirs. If it can be nothing
    else, and ale-py is not installed, UserError says so.
    """
    if env_id not in gym.registry and re.search(r"^ALE/|NoFrameskip|-v[04]$", env_id):
        _register(certain=bool(re.search(r"^ALE/|NoFrameskip", env_id)), env_id=env_id)
    return env_id in gym.registry and gym.registry[env_id].entry_point == "ale_py.env:AtariEnv"


def _register(certain, env_id):
    try:
        import ale_py
    except ImportError as error:
        if certain:
            raise UserError(
                f"{env_id} is an Atari game, and the emulator cannot be loaded ({error}); "
                f"install it with: {_INSTALL}"
            ) from error
        return
    # Otherwise the emulator presents itself on stderr, in every process.
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)


def make_atari(env_id: str, *, raw: bool = False, **kwargs) -> gym.Env:
    """Make an Atari game and preprocess it.

    Args:
        env_id: Such as `PongNoFrameskip-v4` or `ALE/Pong-v5`, which has sticky actions.
        raw: Leave out the preprocessing: what gymnasium.make makes.
        **kwargs: The arguments of `preprocess`; all others are for `gymnasium.make`. Without
            `frameskip` it is that of the id, or 4 if it is 1 (NoFrameskip).
    """
    env_id = env_id.removeprefix("ale_py:")
    if not is_atari(env_id):
        raise UserError(f"{env_id} is not an Atari game that ale-py knows.")
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
    """Put the wrappers of this module around an Atari game made with `frameskip=1`.

    Observations become uint8 `[size, size, stack]`: gray, the newest frame last. The score and the
    length of a whole game, in steps of the agent, are in `info["episode"]` of its last step.

    Args:
        noop_max: A game begins with 1 to `noop_max` frames without a button pressed; 0: none.
        frameskip: An action is repeated for that many frames; of a pair `(low, high)`, for
            `low` to `high - 1`.
        episodic_life: A lost life ends an episode.
        fire_reset: FIRE is pressed where a game or a life begins, if the game has that button.
        clip_reward: Only the sign of a reward counts.
        size: Height and width of the pictures.
        stack: Number of frames in an observation.
    """
    if gym.spec(env.spec.id).kwargs.get("frameskip") and env.spec.kwargs.get("frameskip") != 1:
        raise UserError(
            f"{env.spec.id} skips {env.spec.kwargs['frameskip']} frames by itself; make it with "
            "frameskip=1, or with make_atari."
        )
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


def _button(env, name):
    """The action that presses one button."""
    if isinstance(env.action_space, gym.spaces.Discrete):
        return env.unwrapped.get_action_meanings().index(name)
    return np.array([0, 0, name == "FIRE"], np.float32)  # radius and angle of the stick, trigger


# ---------------------------------------------------------------- wrappers, from inside to outside


class NoopReset(gym.Wrapper, RecordConstructorArgs):
    """Begins a game with 1 to `noop_max` frames without a button pressed.

    How many is drawn from the environment's own random numbers, so that games differ.
    """

    def __init__(self, env: gym.Env, noop_max: int = 30):
        RecordConstructorArgs.__init__(self, noop_max=noop_max)
        gym.Wrapper.__init__(self, env)
        _check_at_least(1, noop_max=noop_max)
        self._noop_max = noop_max
        self._noop = _button(env, "NOOP")

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(self.np_random.integers(1, self._noop_max + 1)):
            obs, _, terminated, truncated, info = self.env.step(self._noop)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        return obs, info


class MaxAndSkip(gym.Wrapper, RecordConstructorArgs):
    """Repeats an action for `frameskip` frames and adds up their rewards.

    The observation is the maximum, pixel by pixel, of the last two frames, because games draw some
    things only in every other one. A pair `(low, high)` stands for a random number of frames from
    `low` to `high - 1`.
    """

    def __init__(self, env: gym.Env, frameskip: int | tuple[int, int] = 4):
        RecordConstructorArgs.__init__(self, frameskip=frameskip)
        gym.Wrapper.__init__(self, env)
        low, high = (frameskip, frameskip + 1) if isinstance(frameskip, int) else frameskip
        _check_at_least(1, frameskip=low)
        _check_at_least(low + 1, frameskip=high)
        self._low, self._high = low, high
        fps = round(2 * _FRAMES_PER_SECOND / (low + high - 1))  # of videos, at their true speed
        self.metadata = self.metadata | {"render_fps": fps}

    def step(self, action):
        skip = self._low
        if self._high > self._low + 1:
            skip = self.np_random.integers(self._low, self._high)
        obs, total = None, 0.0
        for _ in range(skip):
            previous = obs
            obs, rew, terminated, truncated, info = self.env.step(action)
            total += float(rew)
            if terminated or truncated:
                break
        if previous is not None:
            obs = np.maximum(previous, obs)
        return obs, total, terminated, truncated, info


class EpisodicLife(gym.Wrapper, RecordConstructorArgs):
    """A lost life ends the episode, and the next one goes on in the same game.

    So the agent learns that lives are worth something. Any other end, and a reset where no life has
    just been lost, begin a new game.
    """

    training_only = True

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._lives = 0
        self._life_lost = False
        self._noop = _button(env, "NOOP")

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        lives = info["lives"]
        # Some games show no lives for a few frames before they are over, which is another end.
        self._life_lost = 0 < lives < self._lives and not (terminated or truncated)
        self._lives = lives
        return obs, rew, terminated or self._life_lost, truncated, info

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        over = not self._life_lost or seed is not None
        if not over:
            obs, _, terminated, truncated, info = self.env.step(self._noop)
            over = terminated or truncated
        if over:
            obs, info = self.env.reset(seed=seed, options=options)
        self._lives, self._life_lost = info["lives"], False
        return obs, info


class FireReset(gym.Wrapper, RecordConstructorArgs):
    """Presses FIRE where a game or a life begins: some games stand still until that is done."""

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._lives = 0
        self._fire = _button(env, "FIRE")

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        if info["lives"] < self._lives and not (terminated or truncated):
            obs, more, terminated, truncated, info = self.env.step(self._fire)
            rew += more
        self._lives = info["lives"]
        return obs, rew, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        self.env.reset(seed=seed, options=options)
        obs, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:
            obs, info = self.env.reset(options=options)
        self._lives = info["lives"]
        return obs, info


class StackFrames(gym.ObservationWrapper, RecordConstructorArgs):
    """Gray frames of `size` x `size` pixels, the last `stack` of them, the newest last.

    An episode begins with its first frame `stack` times. A pixel is the average over the area that
    it covers (OpenCV's INTER_AREA). The environment's frames are gray, `[height, width]`, or RGB.
    """

    def __init__(self, env: gym.Env, size: int = 84, stack: int = 4):
        RecordConstructorArgs.__init__(self, size=size, stack=stack)
        gym.ObservationWrapper.__init__(self, env)
        _check_at_least(1, size=size, stack=stack)
        space = env.observation_space
        if space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise UserError(
                f"Observations are {space}; the preprocessing needs pictures: leave out obs_type "
                "and sound_obs, or the preprocessing (raw=True)."
            )
        try:
            import cv2  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"Atari frames are scaled with OpenCV, which cannot be loaded ({error}); "
                f"install it with: {_INSTALL}"
            ) from error
        self._size = size
        self._frames = deque(maxlen=stack)
        self.observation_space = gym.spaces.Box(0, 255, (size, size, stack), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        self._frames.clear()
        return super().reset(seed=seed, options=options)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        import cv2

        if observation.ndim == 3:
            observation = cv2.cvtColor(observation, cv2.COLOR_RGB2GRAY)
        shape = (self._size, self._size)
        frame = cv2.resize(observation, shape, interpolation=cv2.INTER_AREA)
        self._frames.extend([frame] * (1 if self._frames else self._frames.maxlen))
        return cv2.merge(list(self._frames)).reshape(self.observation_space.shape)


class ClipReward(gym.RewardWrapper, RecordConstructorArgs):
    """Rewards become -1, 0 or 1, so that one learning rate does for all games."""

    training_only = True

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.RewardWrapper.__init__(self, env)

    def reward(self, reward: float) -> float:
        return float(np.sign(reward))


def _check_at_least(least, **values):
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
