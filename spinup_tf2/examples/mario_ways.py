"""Ways to the flag: what `mario_demo` shows to a network, found by a search and kept in a file.

A way is a sequence of buttons. The game is deterministic, so that the frames on it need not be
kept: they are the same whenever it is played. What is kept is a line for each episode, so that
hours of searching are not lost when the program is stopped.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.envs.mario.demonstrations import shortened, written_out
from spinup_tf2.envs.mario.search import plan_after
from spinup_tf2.errors import UserError
from spinup_tf2.utils.run_utils import EnvFn

LONGEST = 600  # steps of an episode; an agent that is stuck stands there until the clock runs out

Shown = tuple[np.ndarray, np.ndarray]  # observations [steps, ...], and the action [steps] in each


class Start(NamedTuple):
    """How an episode begins, and which actions are taken in it.

    Attributes:
        stage: The level.
        noops: Frames of doing nothing.
        seed: Of the actions, which are sampled; None: the most likely ones are taken.
    """

    stage: str
    noops: int
    seed: int | None = None


class Way(NamedTuple):
    """An episode, and what is learned from it.

    Attributes:
        start: How it began.
        success: Whether it has reached the flag without help.
        plan: Letters of the buttons that lead from this start to the flag, a letter for each step;
            None if none are known, or if there is nothing to be learned.
        learned: Letters of the buttons that the network is to press on this way.
    """

    start: Start
    success: bool
    plan: str | None = None
    learned: str | None = None


class Ways:
    """The ways that a run has found so far, in a file of JSON lines, one for each episode.

    Args:
        path: The file. A line that a crash has left unfinished is removed.
    """

    def __init__(self, path: Path):
        self._path = path
        self._found: dict[tuple[int, Start], Way] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        for line in whole.splitlines():
            number, start, success, *plans = json.loads(line)
            way = Way(Start(*start), success, *(plan and written_out(plan) for plan in plans))
            self._found[number, way.start] = way

    def of_round(
        self, number: int, starts: Sequence[Start], find: Callable[[Start], Way], cpu: int
    ) -> list[Way]:
        """The ways of a round, in the order of `starts`. What is missing is found and kept.

        Args:
            number: Of the round.
            starts: Of its episodes.
            find: Gives the way of a start; called in several threads.
            cpu: Number of these threads; the emulators of all of them run at the same time.
        """
        missing = [start for start in starts if (number, start) not in self._found]
        with ThreadPoolExecutor(cpu) as pool, self._path.open("a", encoding="utf-8") as file:
            for way in pool.map(find, missing):
                plans = [plan and shortened(plan) for plan in (way.plan, way.learned)]
                file.write(json.dumps([number, way.start, way.success, *plans]) + "\n")
                file.flush()
                self._found[number, way.start] = way
        return [self._found[number, start] for start in starts]


def demonstrated(letters: str, start: Start) -> Way:
    """The level's demonstration, or a way like it, with the buttons of these letters."""
    plan = plan_after(start.stage, start.noops, letters)
    if plan is None:
        print(
            f"No way through {start.stage} was found after {start.noops} frames of doing nothing."
        )
    return Way(start, success=False, plan=plan, learned=plan)


def corrected(env_fn: EnvFn, logits_of: Callable[[np.ndarray], tf.Tensor], start: Start) -> Way:
    """What a network plays, and what would have led to the flag where it has not got there.

    The way to the flag begins with what was played, up to some moment before the failure: most
    often the last one from which there still is a way. Up to there, what is learned is what the
    network thinks best anyway; from there on it is what the search has found (dataset aggregation,
    DAgger: Ross, Gordon and Bagnell 2011).

    Args:
        env_fn: Makes Super Mario Bros, preprocessed.
        logits_of: The logits `[batch, num_actions]` of observations.
        start: Of the episode.
    """
    env = env_fn()
    try:
        played, best, success = play(env, logits_of, start)
        mario = env.unwrapped
        letters, begun, thought = mario.letters, mario.plan_of(played), mario.plan_of(best)
    finally:
        env.close()
    plan = None if success else plan_after(start.stage, start.noops, letters, begun=begun)
    if plan is None:
        return Way(start, success)
    same = 0  # how many steps of the plan are those that were played
    while same < len(begun) and begun[same] == plan[same]:
        same += 1
    return Way(start, success, plan, thought[:same] + plan[same:])


def play(
    env: gym.Env, logits_of: Callable[[np.ndarray], tf.Tensor], start: Start
) -> tuple[list[int], list[int], bool]:
    """An episode: the actions taken, the most likely ones, and whether it reached the flag."""
    rng = np.random.default_rng(start.seed)
    played, best, over, info = [], [], False, {}
    obs, _ = env.reset(options=dict(stages=[start.stage], noops=start.noops))
    while not over and len(played) < LONGEST:
        logits = logits_of(obs[None])[0].numpy()
        best.append(int(logits.argmax()))
        sampled = int((logits + rng.gumbel(size=logits.shape)).argmax())
        played.append(best[-1] if start.seed is None else sampled)
        obs, _, terminated, truncated, info = env.step(played[-1])
        over = terminated or truncated
    return played, best, info["is_success"]


def correct_with(env_fn: EnvFn, net: keras.Model) -> Callable[[Start], Way]:
    """`corrected` for a network whose outputs are logits."""
    return partial(corrected, env_fn, tf.function(net, reduce_retracing=True))


def frames_of(env_fn: EnvFn, ways: Iterable[Way], cpu: int = 1) -> list[Shown]:
    """The observations on each way to the flag, and what is to be learned in them.

    Args:
        env_fn: Makes Super Mario Bros, preprocessed.
        ways: Those from which nothing is to be learned are left out.
        cpu: Number of threads in which they are played.

    Raises:
        UserError: One does not reach the flag.
    """

    def seen(way):
        env = env_fn()
        try:
            return seen_on_the_way(env, way)
        finally:
            env.close()

    with ThreadPoolExecutor(cpu) as pool:
        return [*pool.map(seen, [way for way in ways if way.plan is not None])]


def seen_on_the_way(env: gym.Env, way: Way) -> Shown:
    """The observations of one way, and the actions that are to be learned in them."""
    seen, info = [], {}
    obs, _ = env.reset(options=dict(stages=[way.start.stage], noops=way.start.noops))
    for act in env.unwrapped.actions_of(way.plan):
        seen.append(obs)
        obs, _, _, _, info = env.step(act)
    if not info["is_success"]:
        raise UserError(
            f"A way through {way.start.stage} that is to be learned does not reach the flag."
        )
    return np.array(seen), np.array(env.unwrapped.actions_of(way.learned))


def together(shown: Iterable[Shown]) -> Shown:
    """Each observation once, and the action that was shown first in it.

    Where ways of the same level part, both actions lead on. A network that is shown both would take
    each of them half of the time, also where a way needs the one that belongs to it.
    """
    first: dict[bytes, tuple[np.ndarray, np.integer]] = {}
    for seen, acts in shown:
        for obs, act in zip(seen, acts, strict=True):
            first.setdefault(blake2b(obs).digest(), (obs, act))
    obs, act = zip(*first.values(), strict=True)
    return np.array(obs), np.array(act)
