"""Ways to the flag, with which `mario_demo` trains a network: found by a search, stored in a file.

A way is a sequence of buttons. The game is deterministic, so that frames need not be stored: they
are the same whenever it is played. The file has a line for each episode, so that hours of searching
are not lost when the program is stopped.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from statistics import mode
from typing import NamedTuple

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.mario.demonstrations import shortened, written_out
from spinup_tf2.envs.mario.env import LEVELS
from spinup_tf2.envs.mario.search import plan_after, reaches_flag
from spinup_tf2.errors import UserError
from spinup_tf2.utils.run_utils import EnvFn

Shown = tuple[np.ndarray, np.ndarray]  # observations [steps, ...] and actions [steps]


class Start(NamedTuple):
    """The start of an episode, and how actions are chosen in it."""

    stage: str  # name of the level
    noops: int  # number of idle frames at the beginning
    seed: int | None = None  # of sampled actions; None for the most likely actions


class Way(NamedTuple):
    """An episode, and what is to be learned from it. A plan has a letter for the buttons of each
    step.
    """

    start: Start
    success: bool  # whether it has reached the flag without corrections
    plan: str | None = None  # that leads from this start to the flag; None if unknown
    learned: str | None = None  # what the network is to press along the way


class Ways:
    """The ways that a run has found so far, in a file of JSON lines, one per episode.

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
        """Return the ways of a round, in the order of `starts`. Missing ones are found and stored.

        `find` finds the way for a start; it is called in `cpu` threads.
        """
        missing = [start for start in starts if (number, start) not in self._found]
        with ThreadPoolExecutor(cpu) as pool, self._path.open("a", encoding="utf-8") as file:
            for way in pool.map(find, missing):
                plans = [plan and shortened(plan) for plan in (way.plan, way.learned)]
                file.write(json.dumps([number, way.start, way.success, *plans]) + "\n")
                file.flush()
                self._found[number, way.start] = way
        return [self._found[number, start] for start in starts]


def first_ways(ways: Ways, starts: Sequence[Start], letters: str, cpu: int) -> list[Way]:
    """Find ways from these starts without a network, for round 0, with few different plans.

    Args:
        ways: The ways found so far, which are not searched for again.
        starts: Starts of the episodes, in any levels.
        letters: Letters that may be used.
        cpu: Number of threads that search, each in a different level: plans found for a start are
            tried for the next one in the same level.
    """
    known: dict[str, list[str]] = {start.stage: [] for start in starts}
    find = lambda start: first_way(letters, known[start.stage], start)  # noqa: E731
    for noops in dict.fromkeys(start.noops for start in starts):
        at_once = [start for start in starts if start.noops == noops]
        for way in ways.of_round(0, at_once, find, cpu):
            if way.plan is not None and way.plan not in known[way.start.stage]:
                known[way.start.stage].append(way.plan)
    found = with_few_plans(ways.of_round(0, starts, find, cpu), cpu)
    for way in found:
        if way.plan is None:
            print(
                f"No way through {way.start.stage} was found after {way.start.noops} frames of "
                "doing nothing."
            )
    return found


def first_way(letters: str, known: Sequence[str], start: Start) -> Way:
    """Find a way: a plan that is known for another start, the demonstration, or a similar one."""
    tries = (plan for plan in known if clears(plan, start))
    plan = next(tries, None) or plan_after(start.stage, start.noops, letters)
    return Way(start, success=False, plan=plan, learned=plan)


def clears(plan: str, start: Start) -> bool:
    """Return whether a plan leads from this start to the flag."""
    return reaches_flag(LEVELS[start.stage], plan, noops=start.noops)


def with_few_plans(ways: Sequence[Way], cpu: int = 1) -> list[Way]:
    """Return ways for the same starts with few different plans, preferring plans for many starts.

    A plan that was found for one start often clears the level from other starts as well. Where two
    plans diverge, the frames look nearly the same, and a network can hardly learn both. Ways
    without a plan may get one. Plans are tried in `cpu` threads.
    """
    with ThreadPoolExecutor(cpu) as pool:
        of_levels = [
            _with_few_plans([way for way in ways if way.start.stage == stage], pool)
            for stage in dict.fromkeys(way.start.stage for way in ways)
        ]
    chosen = {start: plan for of_level in of_levels for start, plan in of_level.items()}
    return [way._replace(plan=chosen.get(way.start), learned=chosen.get(way.start)) for way in ways]


def _with_few_plans(ways, pool):
    """Return {start: plan} for the starts of a level."""
    plans = dict.fromkeys(way.plan for way in ways if way.plan is not None)
    tried = [(plan, way) for plan in plans for way in ways]
    flags = pool.map(lambda pair: pair[0] == pair[1].plan or clears(pair[0], pair[1].start), tried)
    cleared = [(plan, way.start) for (plan, way), flag in zip(tried, flags, strict=True) if flag]
    chosen: dict[Start, str] = {}
    while cleared:
        best = mode(plan for plan, _ in cleared)
        chosen |= {start: best for plan, start in cleared if plan == best}
        cleared = [(plan, start) for plan, start in cleared if start not in chosen]
    return chosen


def frames_of(env_fn: EnvFn, ways: Iterable[Way], cpu: int = 1) -> list[Shown]:
    """Return the observations along each way to the flag, and the actions to be learned.

    Args:
        env_fn: Factory of Super Mario Bros, preprocessed.
        ways: The ways; those without a plan are left out.
        cpu: Number of threads in which they are played.

    Raises:
        UserError: One of them does not reach the flag.
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
    """Return the observations along one way, and the actions to be learned."""
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
    """Return each observation once, with the action that comes first for it.

    Where ways of the same level diverge, both actions are possible. A network that is shown both
    would take each of them half of the time, and so often leave the way that it is on.
    """
    first: dict[bytes, tuple[np.ndarray, np.integer]] = {}
    for seen, acts in shown:
        for obs, act in zip(seen, acts, strict=True):
            first.setdefault(blake2b(obs).digest(), (obs, act))
    obs, act = zip(*first.values(), strict=True)
    return np.array(obs), np.array(act)
