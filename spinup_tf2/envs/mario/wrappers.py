"""Super Mario Bros as agents see it: wrappers for training, and functions that put them on."""

import inspect
import os
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from spinup_tf2.envs.wrappers import MaxAndSkip, StackFrames
from spinup_tf2.errors import UserError

ENTRY_POINT = "spinup_tf2.envs.mario.env:MarioEnv"


class NoopStarts(gym.Wrapper, RecordConstructorArgs):
    """Begins episodes with 0 to `noop_max` frames in which no button is pressed.

    The number is drawn from the environment's random number generator, unless the option `noops` of
    `reset` gives it, or the episode begins from a backup or along a demonstration. Enemies are then
    in different places, so that no single sequence of actions works in every episode.
    """

    training_only = True

    def __init__(self, env: gym.Env, noop_max: int = 30):
        RecordConstructorArgs.__init__(self, noop_max=noop_max)
        gym.Wrapper.__init__(self, env)
        self._noop_max = noop_max

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict]:
        options = options or {}
        if not options.get("from_backup") and not options.get("demonstration"):
            options = {"noops": (0, self._noop_max)} | options
        return self.env.reset(seed=seed, options=options)


class DemonstrationStarts(gym.Wrapper, RecordConstructorArgs):
    """Begins episodes along the demonstration of their level, first near its end, then earlier.

    In epoch e of the first `epochs`, counted from 0, an episode begins after a share of the
    demonstration that is drawn from 1 - (e + 1) / epochs to 1. An agent that can do the rest of the
    level only has to learn what comes before it (Salimans and Chen 2018). Later, episodes begin
    half of the time at the start of the level, and the other half anywhere along the demonstration:
    if all began at the start, the agent would forget the rest of the level. Several episodes begin
    at the same place, because getting there takes about as many frames as are played from there.

    An episode that is given a seed begins at the start of the level, as the test episodes of
    training do.

    Args:
        env: The environment.
        epochs: Number of epochs in which the starts move to the beginning of the level.
        frames: Minimum number of frames that are played from each place.
    """

    training_only = True

    def __init__(self, env: gym.Env, epochs: int, frames: int = 1024):
        RecordConstructorArgs.__init__(self, epochs=epochs, frames=frames)
        gym.Wrapper.__init__(self, env)
        self._epochs, self._frames = epochs, frames
        self._epoch = 0
        self._left, self._along = 0, False  # frames left at this place; whether it is on the way

    def add_epoch(self) -> None:
        """Tell the wrapper that an epoch of training has ended."""
        self._epoch += 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict]:
        if options or seed is not None:
            self._left = 0
            return self.env.reset(seed=seed, options=options)
        if self._left > 0:
            return self.env.reset(options={"from_backup": True} if self._along else None)
        self._left = self._frames
        self._along = self._epoch < self._epochs or not self._along
        if not self._along:
            return self.env.reset()
        lowest = max(0.0, 1 - (self._epoch + 1) / self._epochs)
        result = self.env.reset(options={"demonstration": (lowest, 1.0)})
        self.unwrapped.backup()
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self._left -= 1
        return self.env.step(action)


class ScoreReward(gym.Wrapper, RecordConstructorArgs):
    """Adds the increase of the score and a bonus or penalty at the end, and scales the sum.

    reward = scale * (reward + score_scale * growth of the score + flag_bonus or - death_penalty)

    The bonus is for a termination with the flag, the penalty for any other termination.
    """

    def __init__(
        self,
        env: gym.Env,
        score_scale: float = 1 / 40,
        flag_bonus: float = 50.0,
        death_penalty: float = 50.0,
        scale: float = 1 / 10,
    ):
        terms = dict(
            score_scale=score_scale, flag_bonus=flag_bonus, death_penalty=death_penalty, scale=scale
        )
        RecordConstructorArgs.__init__(self, **terms)
        gym.Wrapper.__init__(self, env)
        self._score_scale, self._scale = score_scale, scale
        self._flag_bonus, self._death_penalty = flag_bonus, death_penalty
        self._score = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._score = info["score"]
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self.env.step(action)
        rew += self._score_scale * (info["score"] - self._score)
        self._score = info["score"]
        if terminated:
            rew += self._flag_bonus if info["flag_get"] else -self._death_penalty
        return obs, rew * self._scale, terminated, truncated, info


class StopWithoutProgress(gym.Wrapper, RecordConstructorArgs):
    """Truncates an episode when Mario has not got further to the right for `steps` steps.

    Otherwise, if he is stuck at a pipe, he would stay there until the clock runs out.
    """

    training_only = True

    def __init__(self, env: gym.Env, steps: int = 75):
        RecordConstructorArgs.__init__(self, steps=steps)
        gym.Wrapper.__init__(self, env)
        self._steps = steps
        self._place = None  # world, stage, lives, and the furthest x
        self._without_progress = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._place, self._without_progress = _place(info), 0
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self.env.step(action)
        place = _place(info)
        same_life = place[:-1] == self._place[:-1]
        if same_life and place <= self._place:
            self._without_progress += 1
        else:
            self._place, self._without_progress = place, 0
        stuck = self._without_progress >= self._steps
        return obs, rew, terminated, truncated or (stuck and not terminated), info


def _place(info):
    return info["world"], info["stage"], info["life"], info["x_pos"]


def is_mario(env_id: str) -> bool:
    """Return whether an id, with or without the prefix `spinup_tf2:`, is Super Mario Bros."""
    env_id = env_id.removeprefix("spinup_tf2:")
    return env_id in gym.registry and gym.registry[env_id].entry_point == ENTRY_POINT


def make_mario(env_id: str, *, raw: bool = False, **kwargs: Any) -> gym.Env:
    """Make Super Mario Bros and preprocess it.

    Args:
        env_id: Id of the environment, such as `SuperMarioBros-1-1-v0`.
        raw: Whether to leave out the preprocessing, and return the result of `gymnasium.make`.
        **kwargs: Arguments of `preprocess`; all others are passed to `gymnasium.make`, including
            those of `MarioEnv` such as `actions`.
    """
    if not is_mario(env_id):
        raise UserError(f"{env_id} is not Super Mario Bros.")
    kwargs = {"disable_env_checker": True} | kwargs
    if raw:
        return gym.make(env_id, **kwargs)
    options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
    return preprocess(gym.make(env_id, **({"obs_type": "grayscale"} | kwargs)), **options)


def preprocess(
    env: gym.Env,
    *,
    frameskip: int = 4,
    size: int = 84,
    stack: int = 4,
    score_scale: float = 1 / 40,
    flag_bonus: float = 50.0,
    death_penalty: float = 50.0,
    reward_scale: float = 1 / 10,
    noop_max: int = 0,
    demonstration_epochs: int = 0,
    no_progress: int | None = None,
) -> gym.Env:
    """Wrap Super Mario Bros for training: frame skip, small stacked frames, shaped reward.

    Observations become uint8 arrays `[size, size, stack]`, in gray, with the newest frame last.

    Args:
        env: The game, made with `obs_type="grayscale"`.
        frameskip: Number of frames of the console for which an action is held.
        size: Height and width of the frames.
        stack: Number of frames that are stacked, one from each of the last steps.
        score_scale, flag_bonus, death_penalty, reward_scale: Arguments of `ScoreReward`.
        noop_max: Each episode begins with a random number of frames, from 0 to this, in which no
            button is pressed.
        demonstration_epochs: Number of epochs in which the starts of episodes move along the
            level's demonstration, from the flag to the start; see `DemonstrationStarts`. 0 lets all
            episodes begin at the start.
        no_progress: Number of steps without progress to the right after which an episode is
            truncated; None for no such limit.
    """
    if noop_max:
        env = NoopStarts(env, noop_max)
    if demonstration_epochs:
        env = DemonstrationStarts(env, demonstration_epochs)
    env = MaxAndSkip(env, frameskip)
    env = ScoreReward(env, score_scale, flag_bonus, death_penalty, reward_scale)
    if no_progress is not None:
        env = StopWithoutProgress(env, no_progress)
    return StackFrames(env, size, stack)


_OPTIONS = tuple(inspect.signature(preprocess).parameters)[1:]


def create_train_env(
    world: int, stage: int, action_type: str, output_path: str | os.PathLike | None = None
) -> gym.Env:
    """Make one level of Super Mario Bros, preprocessed for agents.

    Args:
        world: World of the level, 1 to 8.
        stage: Stage of the level, 1 to 4.
        action_type: Set of actions: "right", "simple", "complex" or "run".
        output_path: Directory for a video of every episode, with all frames of the console:
            `1-1-episode-0.mp4`, and so on. Several environments can share it, in which existing
            videos are kept. None for no videos.
    """
    env_id = f"SuperMarioBros-{world}-{stage}-v0"
    render_mode = None if output_path is None else "rgb_array"
    env = make_mario(env_id, actions=action_type, render_mode=render_mode)
    if output_path is None:
        return env
    from spinup_tf2.envs.rendering import record

    return record(env, output_path, f"{world}-{stage}", replace=False)
