"""Finds corrections: minimal changes of a network's failed episodes that lead to the flag.

A network that is shown yet another way to the flag learns it at the expense of others that look
alike. So it is shown a short deviation from what it does, after which it clears the rest of the
level by itself. Only if there is none, a search finds the rest of the way.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.envs.mario.search import plan_after
from spinup_tf2.examples.mario_ways import Start, Way
from spinup_tf2.utils.run_utils import EnvFn

LONGEST = 600  # steps in an episode; otherwise an agent that is stuck would wait for the clock
STEPS_BACK = (1, 2, 3, 5, 7, 9, 12, 15, 18, 22, 26, 31, 37, 44, 52, 62)  # from the furthest point
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)  # of a deviation, in steps
BUDGET = 8000  # maximum number of steps that are tried for one episode
NOTICEABLE = 2.0  # increase of the return that counts as getting further: 20 pixels
MUCH = 30.0  # increase after which no further deviations are tried

LogitsOf = Callable[[np.ndarray], tf.Tensor]


class Player:
    """Lets a network play Super Mario Bros, starting from any step of an episode.

    Args:
        env: Super Mario Bros, preprocessed.
        logits_of: Function of observations that returns logits `[batch, num_actions]`.
    """

    def __init__(self, env: gym.Env, logits_of: LogitsOf):
        self._env, self._logits_of = env, logits_of
        self.actions = env.unwrapped.actions_of(env.unwrapped.letters)  # that may lead to the flag
        self.steps = 0  # in all episodes

    def begin(self, start: Start, played: Sequence[int] = ()) -> None:
        """Begin an episode with these actions."""
        self._reset(dict(stages=[start.stage], noops=start.noops))
        self.take(played)

    def _reset(self, options):
        self._obs, _ = self._env.reset(options=options)
        self.played: list[int] = []  # the actions taken in this episode
        self.best: list[int] = []  # the most likely ones where the network itself has acted
        self._return = self.furthest = 0.0  # the largest return, which says how far Mario has come
        self._furthest_step = 0
        self.over = self.success = False  # whether the episode has ended, and with the flag

    def take(self, actions: Sequence[int]) -> None:
        """Take these actions, until the episode ends."""
        for action in actions:
            if not self.over:
                self._take(action)

    def _take(self, action):
        self._obs, rew, terminated, truncated, info = self._env.step(action)
        self.steps += 1
        self.played.append(action)
        self._return += rew
        if self._return > self.furthest:
            self.furthest, self._furthest_step = self._return, len(self.played)
        self.over = terminated or truncated or len(self.played) >= LONGEST
        self.success = info["is_success"]

    @property
    def until_stuck(self) -> list[int]:
        """The actions up to the furthest point, and one more."""
        return self.played[: self._furthest_step + 1]

    def go_on(self, rng: np.random.Generator | None = None) -> None:
        """Let the network play to the end, with the most likely actions or, with `rng`, samples."""
        while not self.over:
            logits = self._logits_of(self._obs[None])[0].numpy()
            self.best.append(int(logits.argmax()))
            noise = 0.0 if rng is None else rng.gumbel(size=logits.shape)
            self._take(int((logits + noise).argmax()))

    def remember(self, start: Start, played: Sequence[int]) -> None:
        """Play these actions from the start of an episode; `go_back` returns to that point."""
        frames_seen = self._env.observation_space.shape[-1]
        before = max(len(played) - frames_seen, 0)  # `go_back` replays the stacked frames
        self.begin(start, played[:before])
        self._env.unwrapped.backup()
        progress = self._return, self.furthest, self._furthest_step
        self._remembered = self.played, [*played[before:]], progress

    def go_back(self) -> None:
        """Return to the step that was remembered."""
        played, rest, progress = self._remembered
        self._reset(dict(from_backup=True))
        self.played = [*played]
        self._return, self.furthest, self._furthest_step = progress
        self.take(rest)


def corrected(env_fn: EnvFn, logits_of: LogitsOf, start: Start) -> Way:
    """Let a network play an episode, and return it, corrected if it does not reach the flag.

    In the part before the correction, the network is to learn the actions that it finds most likely
    itself, in the states to which its samples have led; from there on, those that lead to the flag
    (dataset aggregation, DAgger: Ross, Gordon and Bagnell 2011). In an episode without a correction
    it learns its own most likely actions, so that it does not forget them.
    """
    env = env_fn()
    try:
        mario, player = env.unwrapped, Player(env, logits_of)
        player.begin(start)
        player.go_on(None if start.seed is None else np.random.default_rng(start.seed))
        played, best, success = player.played, player.best, player.success
        way = played if success else helped(player, start)
        letters, begun, thought = mario.letters, mario.plan_of(played), mario.plan_of(best)
        plan = None if way is None else mario.plan_of(way)
    finally:
        env.close()
    if plan is None:
        plan = plan_after(start.stage, start.noops, letters, begun=begun)
    if plan is None:
        return Way(start, success)
    same = 0  # number of first steps that the plan has in common with what was played
    while same < min(len(begun), len(plan)) and begun[same] == plan[same]:
        same += 1
    return Way(start, success, plan, thought[:same] + plan[same:])


def correct_with(env_fn: EnvFn, net: keras.Model) -> Callable[[Start], Way]:
    """Return `corrected` as a function of the start, for a network whose outputs are logits."""
    return partial(corrected, env_fn, tf.function(net, reduce_retracing=True))


def helped(player: Player, start: Start) -> list[int] | None:
    """Return actions that reach the flag, similar to those of a failed episode; None if none found.

    At one of the last steps in which Mario got further, the network is forced to take the same
    action for a while, and then plays by itself again. If it reaches the flag, that is the
    correction. Otherwise the deviation with which it gets furthest is kept, and another one is
    sought where it fails then. Deviations begin before Mario stands still, not later: from there
    the way on could not be learned, as all frames in which he stands look the same.

    Args:
        player: Player at the end of the episode. It is used to play others.
        start: Start of the episode.
    """
    rng = np.random.default_rng([start.noops, start.seed or 0])
    played, furthest, limit = player.until_stuck, player.furthest, player.steps + BUDGET
    while player.steps < limit:
        most = furthest + NOTICEABLE
        further = None
        for _ in _deviations(player, start, played, rng):
            if player.success:
                return player.played
            if player.furthest > most:
                most, further = player.furthest, player.until_stuck
            if player.steps >= limit or most > furthest + MUCH:
                break
        if further is None:
            return None
        played, furthest = further, most
    return None


def _deviations(
    player: Player, start: Start, played: list[int], rng: np.random.Generator
) -> Iterator[None]:
    """Let the network play on after each deviation, beginning with those in the last steps.

    Yields when each of these episodes has ended.
    """
    for back in STEPS_BACK:
        step = len(played) - back
        if step < 0:
            return
        player.remember(start, played[:step])
        forced = [[action] * length for length in LENGTHS for action in player.actions]
        for i in rng.permutation(len(forced)):
            if forced[i] != played[step : step + len(forced[i])]:
                player.go_back()
                player.take(forced[i])
                player.go_on()
                yield
