"""Makes Super Mario Bros, with or without preprocessing for agents."""

import inspect
import os
from typing import Any

import gymnasium as gym

from spinup_tf2.arguments.rules import SWITCH, check
from spinup_tf2.envs.mario.wrappers import (
    DemonstrationStarts,
    NoopStarts,
    ScoreReward,
    StopWithoutProgress,
)
from spinup_tf2.envs.wrappers import MaxAndSkip, StackFrames
from spinup_tf2.errors import UserError

ENTRY_POINT = "spinup_tf2.envs.mario.env:MarioEnv"


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
    check(SWITCH, raw=raw)
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
    if not is_mario(env_id):
        raise UserError(f"There is no level {world}-{stage}; worlds are 1 to 8, stages 1 to 4.")
    render_mode = None if output_path is None else "rgb_array"
    env = gym.make(
        env_id,
        actions=action_type,
        obs_type="grayscale",
        render_mode=render_mode,
        disable_env_checker=True,
    )
    env = preprocess(env)
    if output_path is None:
        return env
    from spinup_tf2.envs.rendering import record

    return record(env, output_path, f"{world}-{stage}", replace=False)
