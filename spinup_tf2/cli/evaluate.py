"""Evaluates a trained agent: `python -m spinup_tf2.run evaluate RUN_DIR`.

A game that always begins in the same way can be cleared by memorizing it, so that a single number
says little. The agent is evaluated with its most likely actions (greedy) and with actions sampled
as in training (sampled). If all episodes begin alike, it is also evaluated greedily after some
frames of no-ops. Such an environment has an attribute `fixed_starts`, which maps the name of each
fixed initial state, such as a stage of Super Mario Bros, to options of `reset`; and its `reset` has
an option `noops`, the number of frames before the agent may act.

With `--robustness`, the agent is evaluated greedily under several conditions. The environment
states them in an attribute `robustness`, which maps their names to arguments of the environment,
such as `{"friction 0.4": {"domain_randomization": {"friction": 0.4}}}`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from spinup_tf2.arguments.rules import NON_NEGATIVE_INTEGER, POSITIVE_INTEGER, check
from spinup_tf2.cli.agents import load_env, play_episode
from spinup_tf2.cli.flags import ENV_KWARGS_HELP, split_env_kwargs
from spinup_tf2.cli.test_policy import add_agent_arguments
from spinup_tf2.envs.modules import import_for_command, import_named
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.presets import merged
from spinup_tf2.files.saves import find_save
from spinup_tf2.tensorflow_import import quiet_tensorflow

EPISODES = 100
NOOPS = 30


def evaluate_run(
    fpath: str | os.PathLike,
    episodes: int = EPISODES,
    noops: int = NOOPS,
    *,
    robustness: bool = False,
    itr: int | str = "last",
    best: bool = False,
    max_ep_len: int | None = None,
    seed: int = 0,
    allow_pickle: bool = False,
    modules: Iterable[str] = (),
    env_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, float]]:
    """Evaluate the agent of a run in several ways, and print a row of numbers for each.

    If episodes always begin in the same way, up to the option `noops`, the rows are `greedy`, one
    episode; `greedy, after no-ops`, one episode for each number from 0 to `noops`; and `sampled`.
    If there are several stages, there are such rows for each of them, as in `1-2: greedy`, followed
    by their means, `mean: greedy` and so on. For other environments the rows are `greedy` and
    `sampled`. Environments are those of the run, without wrappers that only help training.

    Args:
        fpath: Directory of the run.
        episodes: Number of sampled episodes, and of greedy ones if these are not all the same.
        noops: Largest number of no-ops (frames without a button pressed) before the agent acts.
        robustness: Whether to evaluate the agent greedily under each of the conditions that the
            environment states in its attribute `robustness` instead. Their arguments override
            `env_kwargs`, which apply to all conditions; in nested dicts, key by key.
        itr: Number of the save, or 'last'.
        best: Whether to use the best weights, from the newest checkpoint, instead of those of the
            save.
        max_ep_len: Maximum number of steps in an episode; None for no limit.
        seed: Seed of the agent's samples and of the environments; episode i has `seed + i`.
        allow_pickle, modules, env_kwargs: As in `load_policy_and_env`.

    Returns:
        For each row a dict of `Episodes`, `SuccessRate` (if the environment reports it), `EpRet`,
        `StdEpRet`, `EpLen` and, if the environment reports them, `X`, the distance that the agent
        has covered, `VelError` and `HeadError`, the deviations of its velocity and its heading (in
        rad) from the command. With `robustness`, `Falls`, the share of episodes that were
        terminated, instead of `StdEpRet`.
    """
    check(POSITIVE_INTEGER, episodes=episodes)
    check(NON_NEGATIVE_INTEGER, noops=noops)
    agent = _Agent(fpath, itr, best, max_ep_len, seed, allow_pickle, modules)
    if robustness:
        return _under_conditions(agent, episodes, env_kwargs or {})
    rows = {}
    with closing(agent.make_env(env_kwargs)) as env:
        fixed = getattr(env.unwrapped, "fixed_starts", {})
        several = len(fixed) > 1
        for start in fixed or [None]:
            for way, options in _ways(fixed.get(start), episodes, noops).items():
                row = _summary(agent.play(env, way != "sampled", options))
                _show(rows, f"{start}: {way}" if several else way, row)
    for way in _ways({}, episodes, noops) if several else ():
        _show(rows, f"mean: {way}", _mean([rows[f"{start}: {way}"] for start in fixed]))
    return rows


def _under_conditions(agent, episodes, env_kwargs):
    """Return the rows of `evaluate_run` with `robustness`."""
    with closing(agent.make_env(env_kwargs)) as env:
        conditions = getattr(env.unwrapped, "robustness", None)
        if not conditions:
            raise UserError(
                f"{env.unwrapped} states no conditions under which to evaluate an agent: it has no "
                "attribute robustness, such as {'windy': {'wind': 3.0}}."
            )
    changes = {name: merged(env_kwargs, changed) for name, changed in conditions.items()}
    for kwargs in changes.values():  # finds invalid conditions before anything is played
        agent.make_env(kwargs).close()
    rows = {}
    for name, kwargs in changes.items():
        with closing(agent.make_env(kwargs)) as env:
            played = agent.play(env, True, [{}] * episodes)
        row = _summary(played)
        del row["StdEpRet"]
        falls = float(np.mean([episode.terminated for episode in played]))
        _show(rows, name, dict(Episodes=row.pop("Episodes"), Falls=falls, **row))
    return rows


class _Agent:
    """A saved agent and its environments. For the arguments see `evaluate_run`."""

    def __init__(self, fpath, itr, best, max_ep_len, seed, allow_pickle, modules):
        check(NON_NEGATIVE_INTEGER, seed=seed, max_ep_len=max_ep_len or 0)
        from spinup_tf2.training.saved_policy import load_networks, policy_of

        import_named(modules)
        save_dir = find_save(fpath, itr)
        print(f"Evaluating {save_dir}.", flush=True)
        self.make_env = functools.partial(load_env, save_dir, None, allow_pickle)
        loaded = load_networks(save_dir, allow_pickle=allow_pickle, best=best)
        self._policy = functools.partial(policy_of, loaded, seed=seed)
        self._seed, self._max_ep_len = seed, max_ep_len or None

    def play(self, env, greedy, options):
        """Play an episode for each of `options`, the options of `reset`."""
        play = functools.partial(play_episode, env, self._policy(deterministic=greedy))
        seeds = itertools.count(self._seed)
        return [
            play(i, self._max_ep_len, seed=next(seeds), options=each or None)
            for i, each in enumerate(options)
        ]


def _ways(start, episodes, noops):
    """Return, for each row, the options of `reset` of its episodes.

    Args:
        start: Options for a fixed initial state; None if there is none.
        episodes, noops: As in `evaluate_run`.
    """
    if start is None:
        return dict(greedy=[{}] * episodes, sampled=[{}] * episodes)
    return {
        "greedy": [start],
        "greedy, after no-ops": [start | {"noops": number} for number in range(noops + 1)],
        "sampled": [start] * episodes,
    }


# Position in a level or of a robot, and how far a robot's velocity and heading were from commands.
_OF_INFO = dict(x_pos="X", x_position="X", velocity_error="VelError", heading_error="HeadError")


def _summary(episodes):
    row = dict(Episodes=len(episodes))
    infos = [episode.info for episode in episodes]
    successes = [episode.success for episode in episodes if episode.success is not None]
    if successes:  # over the episodes that report it, as in training
        row["SuccessRate"] = float(np.mean(successes))
    row["EpRet"] = float(np.mean([episode.ret for episode in episodes]))
    row["StdEpRet"] = float(np.std([episode.ret for episode in episodes]))
    row["EpLen"] = float(np.mean([episode.len for episode in episodes]))
    for key, column in _OF_INFO.items():
        if all(isinstance(info.get(key), Real) for info in infos):
            row[column] = float(np.mean([info[key] for info in infos]))
    return row


def _mean(rows):
    """Return the mean of each column that all rows have, and the sum of their episodes."""
    columns = [column for column in rows[0] if all(column in row for row in rows)]
    mean = {column: float(np.mean([row[column] for row in rows])) for column in columns}
    return mean | dict(Episodes=sum(row["Episodes"] for row in rows))


def _show(rows, name, row):
    """Add a row to `rows` and print it, with a heading if the columns differ from the last row."""
    widths = {column: max(len(column) + 2, 10) for column in row}
    if not rows or list(list(rows.values())[-1]) != list(row):
        print(f"{'':26}" + "".join(f"{column:>{width}}" for column, width in widths.items()))
    rows[name] = row
    cells = "".join(f"{row[column]:>{width}.4g}" for column, width in widths.items())
    print(f"{name:26}" + cells, flush=True)


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `evaluate`."""
    argv, env_kwargs = split_env_kwargs(argv)
    args = _parser().parse_args(argv)
    find_save(args.fpath, args.itr)  # checked before TensorFlow is loaded, which takes a while
    if args.output and (os.path.exists(args.output) or not Path(args.output).parent.is_dir()):
        raise UserError(
            f"--output is {args.output}; give the name of a new file, in a directory that exists."
        )
    import_for_command(args.modules)
    quiet_tensorflow()
    rows = evaluate_run(
        args.fpath,
        args.episodes,
        args.noops,
        robustness=args.robustness,
        itr=args.itr,
        best=args.best,
        max_ep_len=args.len,
        seed=args.seed,
        allow_pickle=args.allow_pickle,
        env_kwargs=env_kwargs,
    )
    if args.output:
        Path(args.output).write_text(json.dumps(rows, indent=4) + "\n", encoding="utf-8")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run evaluate",
        description="Evaluate a trained agent: greedy, greedy after no-ops, and sampled; or greedy "
        "under several conditions (--robustness).",
        epilog=ENV_KWARGS_HELP,
    )
    add_agent_arguments(parser)
    add = parser.add_argument
    add("--len", "-l", type=int, default=0, help="cut episodes after this many steps (0: never)")
    add("--episodes", "-n", type=int, default=EPISODES, help=f"number of episodes ({EPISODES})")
    add("--noops", type=int, default=NOOPS, help=f"most no-ops, where there are any ({NOOPS})")
    add("--robustness", action="store_true", help="under the conditions of the environment")
    add("--seed", type=int, default=0, help="of the samples and the environments")
    add("--output", metavar="FILE", help="write the numbers as JSON, too")
    return parser
