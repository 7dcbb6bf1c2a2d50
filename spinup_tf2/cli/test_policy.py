"""Shows or records a trained agent: `python -m spinup_tf2.run test_policy RUN_DIR`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext

from spinup_tf2.arguments.rules import NON_NEGATIVE_INTEGER, check
from spinup_tf2.cli.agents import load_agent, load_env, run_policy
from spinup_tf2.cli.flags import ENV_KWARGS_HELP, split_env_kwargs
from spinup_tf2.envs.modules import add_import_argument, import_for_command
from spinup_tf2.envs.rendering import choose_render_mode, shown_or_recorded
from spinup_tf2.files.saves import find_save
from spinup_tf2.tensorflow_import import quiet_tensorflow
from spinup_tf2.training.policy_with_memory import PolicyWithMemory

EPISODES = 100
RECORDED_EPISODES = 3


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `test_policy`."""
    argv, env_kwargs = split_env_kwargs(argv)
    args = _parser().parse_args(argv)
    check(NON_NEGATIVE_INTEGER, seed=args.seed or 0)
    save_dir = find_save(args.fpath, args.itr)
    render_mode = choose_render_mode(args.record, args.norender)
    episodes = args.episodes
    if episodes is None:
        episodes = RECORDED_EPISODES if args.record else EPISODES
    import_for_command(args.modules)  # for the environment, which is made in this process
    agent = (args.modules, save_dir, args.deterministic, args.seed, args.allow_pickle, args.best)
    render = render_mode == "human"
    make = lambda mode: load_env(save_dir, mode, args.allow_pickle, env_kwargs)  # noqa: E731
    name = os.path.basename(os.path.abspath(args.fpath))
    with (
        shown_or_recorded(make, render_mode, args.record, name) as env,
        _agent_apart(*agent) if render_mode else nullcontext(_load_quietly(*agent)) as get_action,
    ):
        run_policy(env, get_action, args.len, episodes, render, seed=args.seed)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run test_policy",
        description="Watch, evaluate or record a trained agent.",
        epilog=ENV_KWARGS_HELP,
    )
    add_agent_arguments(parser)
    add = parser.add_argument
    add("--len", "-l", type=int, default=0, help="cut episodes after this many steps (0: never)")
    known = f"number of episodes ({EPISODES}; with --record {RECORDED_EPISODES})"
    add("--episodes", "-n", type=int, help=known)
    add("--norender", "-nr", action="store_true", help="open no window, only print returns")
    add("--deterministic", "-d", action="store_true", help="take the most likely action each time")
    add("--seed", type=int, help="makes the episodes the same every time")
    add("--record", metavar="DIR", help="write a video (mp4) of each episode into DIR")
    return parser


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which agent to load to a command's parser."""
    add_import_argument(parser)
    add = parser.add_argument
    add("fpath", help="directory of the run")
    add("--itr", "-i", type=int, default=-1, help="number of the save to load (-1: the last)")
    add("--best", action="store_true", help="load the weights that have done best in training")
    add(
        "--allow_pickle",
        action="store_true",
        help="load what may run code: an environment from vars.pkl, networks that are not this "
        "package's own from their SavedModel. Only for runs of people you trust",
    )


def _load_quietly(modules, *args):
    quiet_tensorflow()
    import_for_command(modules)
    return load_agent(*args)


@contextmanager
def _agent_apart(*args):
    """Context manager that calls `load_agent` in a separate process, which ends with the context.

    Both TensorFlow and Mesa, the graphics library of most Linux machines, contain LLVM, and a
    process with both of them crashes as soon as it renders.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        state_size = process.submit(_load_here, *args).result()
        act = lambda *args: process.submit(_act_here, *args).result()  # noqa: E731
        yield PolicyWithMemory(act, state_size) if state_size else act


def _load_here(*args):
    global _get_action
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    _get_action = _load_quietly(*args)
    return _get_action.size if isinstance(_get_action, PolicyWithMemory) else 0


def _end_with_parent():
    # If the parent is killed, nothing else would end this process.
    multiprocessing.parent_process().join()
    os._exit(1)


def _act_here(*args):  # the observation, and the state if the policy has a memory
    act = _get_action.step if isinstance(_get_action, PolicyWithMemory) else _get_action
    return act(*args)
