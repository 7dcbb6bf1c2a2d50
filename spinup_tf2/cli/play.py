"""Lets a human or random actions play a game: `python -m spinup_tf2.run play --env ID`.

The environment is not preprocessed: no frames are skipped, and rewards are the original ones.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from importlib.util import find_spec

import gymnasium as gym

from spinup_tf2.arguments.rules import NON_NEGATIVE_INTEGER, check
from spinup_tf2.cli.agents import line_of, run_policy
from spinup_tf2.cli.flags import split_env_kwargs
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import add_import_argument, import_named, look_here
from spinup_tf2.envs.rendering import INSTALL, choose_render_mode, shown_or_recorded
from spinup_tf2.envs.wrappers import frames_per_second
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import check_environment

MODES = ("human", "random")

EPISODES = 3
ZOOM = 3.0

_RANDOM_HINT = (
    "Without one there is --mode random, with --norender (returns only) or --record DIR (videos)."
)


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `play`."""
    argv, env_kwargs = split_env_kwargs(argv)
    args = _parser().parse_args(argv)
    check(NON_NEGATIVE_INTEGER, seed=args.seed or 0)
    look_here()  # for environments given as module:EnvId
    import_named(args.modules)
    human = args.mode == "human"
    if human:
        choose_render_mode(record=False, norender=False, hint=_RANDOM_HINT)
        render_mode: str | None = "rgb_array"  # gymnasium's `play` has a window of its own
    else:
        render_mode = choose_render_mode(args.record, args.norender)
    make = _maker(args.env, env_kwargs, human)
    name = args.env.rpartition(":")[2].replace("/", "-")
    with shown_or_recorded(make, render_mode, args.record, name) as env:
        if human:
            play_as_human(env, args.seed, args.fps, args.zoom)
        else:
            env.action_space.seed(args.seed)
            act = lambda obs: env.action_space.sample()  # noqa: E731
            run_policy(env, act, None, args.episodes, False, seed=args.seed, num_steps=args.steps)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run play",
        description="Play a game with the keyboard, or leave it to chance.",
        epilog="Arguments of the environment: --env_kwargs:NAME VALUE.",
    )
    add_import_argument(parser)
    add = parser.add_argument
    add("--env", required=True, metavar="ID", help="the environment: an id, or module:EnvId")
    add("--mode", choices=MODES, default="human", help="who plays: you (until Esc), or chance")
    add("--seed", type=int, help="makes the games the same every time")
    add("--record", metavar="DIR", help="write a video (mp4) of each episode into DIR")
    add("--fps", type=int, help="frames in a second (the environment's own; 0: all), for a human")
    zoom_help = "how much larger a human sees the frames (%(default)g)"
    add("--zoom", type=float, default=ZOOM, help=zoom_help)
    add("--episodes", "-n", type=int, default=EPISODES, help="episodes at random (%(default)s)")
    add("--steps", type=int, help="number of steps at random, instead of --episodes")
    add("--norender", "-nr", action="store_true", help="open no window for episodes at random")
    return parser


def _maker(env_name, env_kwargs, human):
    """Return a function that makes the environment with a render mode.

    Raises:
        UserError: The environment cannot be made.
    """
    from spinup_tf2.envs.atari import is_atari
    from spinup_tf2.envs.mario import is_mario

    if is_atari(env_name):
        env_kwargs = dict(raw=True, frameskip=1) | env_kwargs
    elif is_mario(env_name):
        all_buttons = dict(actions="complex") if human else {}
        env_kwargs = dict(raw=True) | all_buttons | env_kwargs
    check_environment(EnvFn(env_name, env_kwargs))

    def make(render_mode):
        # Some environments do not have the argument render_mode.
        rendering = {} if render_mode is None else dict(render_mode=render_mode)
        return EnvFn(env_name, env_kwargs | rendering)()

    return make


def play_as_human(env: gym.Env, seed: int | None, fps: int | None, zoom: float) -> None:
    """Open a window in which a human plays, one episode after the other, until Esc is pressed.

    Args:
        env: Environment with the render mode "rgb_array" and a method `get_keys_to_action`.
        seed: Seed of the environment.
        fps: Steps per second; 0 for as many as possible, None for the environment's own number.
        zoom: Size of the window relative to the frames.
    """
    if find_spec("pygame") is None:
        raise UserError(f"Playing needs pygame; install it with: {INSTALL}.")
    from gymnasium.utils.play import play
    from gymnasium.wrappers import RecordEpisodeStatistics

    keys_to_action, meanings = _keys(env), []
    if env.has_wrapper_attr("get_action_meanings"):
        meanings = env.get_wrapper_attr("get_action_meanings")()
    noop = meanings.index("NOOP") if "NOOP" in meanings else 0  # when no key is held
    print(_explanation(meanings, keys_to_action, noop), flush=True)
    if fps is None:
        fps = frames_per_second(env)
    env.reset(seed=seed)  # `play` would use a seed for every episode
    numbers = itertools.count()

    def report(obs, next_obs, act, rew, terminated, truncated, info):
        if "episode" in info:
            ret, length = float(info["episode"]["r"]), info["episode"]["l"]
            print(line_of(next(numbers), ret, length, info), flush=True)

    play(
        RecordEpisodeStatistics(env),
        fps=fps,
        zoom=zoom,
        keys_to_action=keys_to_action,
        noop=noop,
        callback=report,
    )


def _keys(env):
    """Return the mapping of keys to actions for `gymnasium.utils.play`; UserError if none."""
    try:
        return env.get_wrapper_attr("get_keys_to_action")()
    except AttributeError as error:  # there is no such method, or it fails for these actions
        raise UserError(
            "the environment does not say what the keys of the keyboard mean (it has no "
            "get_keys_to_action); --mode random can play it."
        ) from error


def _explanation(meanings, keys_to_action, noop):
    """Return a table of the keys, with the shortest combination for each action."""
    words = dict(enumerate(meanings))
    combinations = [((), noop), *((_names(keys), act) for keys, act in keys_to_action.items())]
    fewest = {}
    for keys, action in sorted(combinations, key=lambda each: len(each[0])):
        fewest.setdefault(str(words.get(action, f"action {action}")), " ".join(keys) or "none")
    rows = [("Keys", "Buttons"), *((keys, buttons) for buttons, keys in fewest.items())]
    return "\n".join(f"    {keys:<12}{text}" for keys, text in [*rows, ("Esc", "the end")])


def _names(keys):
    """Return the names of the keys of a combination: "d ", ("d", " "), (100, 32) or 100."""
    import pygame

    keys = (keys,) if isinstance(keys, int) else keys
    names = [pygame.key.name(key) if isinstance(key, int) else key for key in keys]
    return ["space" if name == " " else name for name in names]
