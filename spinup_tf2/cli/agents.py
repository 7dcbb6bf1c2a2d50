"""Trained agents and their environments: how they are loaded, and how they play.

The environment is rebuilt from env_spec.json, and the networks from model_info.json and their
weights, so that watching a run executes none of its code. The exceptions, only on request
(`--allow_pickle`), are vars.pkl and the SavedModel of networks that are not the package's own.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.arguments.rules import NON_NEGATIVE_INTEGER, POSITIVE_INTEGER, check
from spinup_tf2.core.workers.faults import environment_failed
from spinup_tf2.envs.modules import import_named
from spinup_tf2.envs.protocol import success_of
from spinup_tf2.envs.wrappers import remembering_wrappers
from spinup_tf2.errors import UserError, kind_and_line, printable
from spinup_tf2.files.env_spec import make_env
from spinup_tf2.files.printing import format_table
from spinup_tf2.files.saves import find_save, read_info
from spinup_tf2.files.unpickling import load_trusted
from spinup_tf2.training.policy_with_memory import in_episode

_MOST_EPOCHS = 1_000_000  # limit for the calls of add_epoch, whatever a file says


# ---------------------------------------------------------------- loading


def load_policy_and_env(
    fpath: str | os.PathLike,
    itr: int | str = "last",
    deterministic: bool = False,
    *,
    render_mode: str | None = None,
    seed: int | None = None,
    allow_pickle: bool = False,
    best: bool = False,
    modules: Iterable[str] = (),
    env_kwargs: Mapping[str, Any] | None = None,
) -> tuple[gym.Env | None, Callable[[Any], Any]]:
    """Load the agent of a run and build its environment.

    Args:
        fpath: Directory of the run.
        itr: Number of the save, or 'last' (or less than 0) for the highest number there is, or for
            the save without a number.
        deterministic: Whether the agent takes the most likely action instead of a sample.
        render_mode: The environment's render mode: "human" for a window, "rgb_array", or None.
        seed: Seed of the agent's samples; None gives different ones every time.
        allow_pickle: Whether to load from vars.pkl an environment that cannot be built from
            env_spec.json, and from their SavedModel networks that are not the package's own. That
            runs code in these files: use it only if you trust whoever made them.
        best: Whether to take the best weights so far, which the newest checkpoint holds, instead of
            those of a save.
        modules: Your modules to import first, which register the environment or hold its wrappers,
            such as `["my_envs"]`. Modules that are already imported need not be named.
        env_kwargs: Arguments of the environment that replace those of the run, such as another
            `start_level` of procgen's games.

    Returns:
        `(env, get_action)`. If the environment cannot be built or loaded, `env` is None, and the
        reason is printed: build it yourself, and call `run_policy(your_env, get_action)`.
    """
    import_named(modules)
    save_dir = find_save(fpath, itr)
    try:
        env = load_env(save_dir, render_mode, allow_pickle, env_kwargs)
    except UserError as error:
        print(f"Warning: {error}")
        env = None
    return env, load_agent(save_dir, deterministic, seed, allow_pickle, best)


def load_env(
    save_dir: str | os.PathLike,
    render_mode: str | None = None,
    allow_pickle: bool = False,
    env_kwargs: Mapping[str, Any] | None = None,
) -> gym.Env:
    """Build the environment of a run; raises UserError if that is not possible.

    An environment that becomes harder with the epochs (a method `add_epoch`) is as hard as in the
    epoch of the save. If one of its wrappers keeps statistics, which are not saved, a warning is
    printed on standard error, once for each run. See `load_policy_and_env` for the arguments.
    """
    run_dir = Path(save_dir).parent
    try:
        env = make_env(run_dir / "env_spec.json", render_mode, env_kwargs)
    except UserError:
        if not allow_pickle or env_kwargs:  # a pickled environment takes no other arguments
            raise
        env = _unpickled_env(Path(save_dir))
    else:
        _tell_epochs(env, save_dir)
    if names := " and ".join(remembering_wrappers(env)):
        _warn_once(
            f"the statistics of {names} around the environment of {run_dir} are not saved. Here "
            "they begin empty, so that returns may be much lower than in training. Those of ppo's "
            "own normalize_obs are saved with the policy."
        )
    return env


@functools.cache
def _warn_once(text):
    print(f"Warning: {printable(text)}", file=sys.stderr, flush=True)


def _unpickled_env(save_dir):
    """Return the environment in the vars.pkl of a save. Runs code in this file."""
    number = re.search(r"\d*", save_dir.name.removeprefix("tf2_save"))[0]
    path = save_dir.parent / f"vars{number}.pkl"
    try:
        return load_trusted(path)["env"]
    except Exception as error:  # unpickling may raise anything
        raise UserError(
            f"The environment cannot be loaded from {path} either ({kind_and_line(error)}). Import "
            "its module first (--import MODULE), or build it yourself and call "
            "run_policy(env, get_action)."
        ) from error


def _tell_epochs(env, save_dir):
    """Call `add_epoch` of an environment, if it has one, for each epoch before that of a save."""
    if not env.has_wrapper_attr("add_epoch"):
        return
    epoch = read_info(save_dir).get("epoch")
    if type(epoch) is int:
        for _ in range(min(epoch, _MOST_EPOCHS)):
            env.get_wrapper_attr("add_epoch")()


def load_agent(
    save_dir: str | os.PathLike,
    deterministic: bool = False,
    seed: int | None = None,
    allow_pickle: bool = False,
    best: bool = False,
) -> Callable[[Any], Any]:
    """Load a saved policy as `get_action(obs)`."""
    from spinup_tf2.training.saved_policy import load_policy

    print(f"\n\nLoading from {save_dir}.\n\n")
    print(f"Using {'deterministic' if deterministic else 'default'} action op.", flush=True)
    return load_policy(save_dir, deterministic, seed, allow_pickle=allow_pickle, best=best)


# ---------------------------------------------------------------- playing


@dataclass
class Episode:
    """An episode that an agent has played.

    Attributes:
        ret: Return.
        len: Number of steps.
        terminated: Whether the environment has terminated it.
        success: Whether it was successful; None if the environment does not report that.
        info: The environment's last info.
    """

    ret: float = 0.0
    len: int = 0
    terminated: bool = False
    success: bool | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


def play_episode(
    env: gym.Env,
    get_action: Callable[[Any], Any],
    number: int,
    max_ep_len: float | None = None,
    *,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    show: Callable[[], object] | None = None,
) -> Episode:
    """Play an episode; raise UserError for whatever the environment raises.

    Args:
        env: The environment.
        get_action: The agent, as `load_agent` returns it.
        number: Number of the episode, from 0, for messages.
        max_ep_len: Maximum number of steps; None or 0 for no limit.
        seed, options: Arguments of `reset`.
        show: Called for every frame, the first and the last included.
    """
    act, episode = in_episode(get_action), Episode()
    show = show or (lambda: None)

    def call(function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise environment_failed(error, number, seed, episode.len) from error

    obs, episode.info = call(env.reset, seed=seed, options=options)
    over = False
    while not over:
        show()
        action = act(obs)
        episode.len += 1
        obs, rew, episode.terminated, truncated, episode.info = call(env.step, action)
        episode.ret += float(rew)
        over = episode.terminated or truncated or episode.len == max_ep_len
    show()
    if "is_success" in episode.info:
        episode.success = call(success_of, episode.info["is_success"])
    return episode


def run_policy(
    env: gym.Env | None,
    get_action: Callable[[Any], Any],
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    render: bool = True,
    *,
    seed: int | None = None,
    num_steps: int | None = None,
) -> dict[str, float]:
    """Let an agent act, and print its returns.

    Args:
        env: The environment, created with a render mode if it is to be shown.
        get_action: A function from an observation to an action, or what `load_policy` returns for
            a policy with a memory.
        max_ep_len: Maximum length of episodes, in steps; None or 0 for no limit.
        num_episodes: Number of episodes.
        render: Whether to render the environment. With render mode "human", it does so by itself in
            each step; with "ansi", its frames are printed.
        seed: Seed of the environment's first reset.
        num_steps: Number of steps of all episodes together, instead of `num_episodes`.

    Returns:
        The numbers of the table that is printed at the end, as a dict.

    Raises:
        UserError: There is no environment, an argument cannot be used, or the environment fails.
    """
    if env is None:
        raise UserError(
            "Environment not found!\n\n It looks like the environment wasn't saved, and we can't "
            "run the agent in it. :( \n\n Check out the docs page on Experiment Outputs for how to "
            "handle this situation."
        )
    check(POSITIVE_INTEGER, num_episodes=num_episodes)
    if num_steps is not None:
        check(POSITIVE_INTEGER, num_steps=num_steps)
    check(NON_NEGATIVE_INTEGER, max_ep_len=max_ep_len or 0)
    if render and env.render_mode is None:
        raise UserError(
            "The environment was made without a render mode. Make it with render_mode='human' "
            "(an argument of gymnasium.make and of load_policy_and_env), or run the policy with "
            "render=False (--norender)."
        )
    rets: list[float] = []
    lens: list[int] = []
    show = functools.partial(_show, env) if render else None
    while len(rets) < num_episodes if num_steps is None else sum(lens) < num_steps:
        number, limit = len(rets), max_ep_len or math.inf
        if num_steps is not None:
            limit = min(limit, num_steps - sum(lens))
        first = seed if number == 0 else None  # only the first episode sets the seed
        episode = play_episode(env, get_action, number, limit, seed=first, show=show)
        rets.append(episode.ret)
        lens.append(episode.len)
        print(line_of(number, episode.ret, episode.len, episode.info), flush=True)
    row = {
        "AverageEpRet": np.mean(rets),
        "StdEpRet": np.std(rets),
        "MaxEpRet": np.max(rets),
        "MinEpRet": np.min(rets),
        "EpLen": np.mean(lens),
    }
    print(format_table(row))
    return row


def line_of(number: int, ret: float, length: int, info: Mapping[str, Any]) -> str:
    """Return the line about an episode that is over."""
    line = f"Episode {number} \t EpRet {ret:.3f} \t EpLen {length}"
    if {"x_pos", "flag_get"} <= {*info}:  # in Super Mario Bros
        line += f" \t x {info['x_pos']} \t flag {'yes' if info['flag_get'] else 'no'}"
    return line


def _show(env):
    # In mode "human" the environment has rendered already; doing it twice would halve the speed.
    if env.render_mode != "human" and isinstance(picture := env.render(), str):
        print(picture)
