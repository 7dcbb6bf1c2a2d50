"""Tells whether an environment can be built again from its description, by its first steps.

A description holds the arguments of `gymnasium.make` and of wrappers. What is done to an
environment afterwards, such as setting an attribute, is not in it.
"""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.faults import FAULTS
from spinup_tf2.files.env_spec import make_described

_COMPARED = 10  # steps

_WARNING = (
    "the environment that test_policy, evaluate and videos of the training use is built from "
    "env_spec.json, and it is not the one that is trained: {when} it answers differently, so that "
    "returns and videos will be those of another environment. Attributes that are set after "
    "gymnasium.make are lost; give them as arguments of gymnasium.make, or set them in a wrapper."
)


class FirstSteps:
    """Compares the first steps of a training run with those of the environment built again.

    It is the `log` of the VectorEnv until then, and passes everything on to the log before it. Only
    the environment that is built again is used, so that the training does not notice. Nothing is
    said about environments of which two, with the same seed and actions, differ anyway.

    Args:
        envs: The training environments, before their first reset.
        description: Description of the environment by `describe_env`.
        max_ep_len: The training's time limit.
        warn: Function that is called with a warning.
    """

    def __init__(
        self,
        envs: VectorEnv,
        description: Mapping[str, Any],
        max_ep_len: int,
        warn: Callable[[str], None],
    ):
        self._envs, self._log, self._warn = envs, envs.log, warn
        self._make = lambda: make_described(description, training=True)
        self._max_ep_len = max_ep_len
        envs.log = self

    def begin(self, epoch: int, step: int, obs: np.ndarray) -> None:
        if self._log is not None:
            self._log.begin(epoch, step, obs)
        self._began = epoch, step
        self._acts: list[np.ndarray] = []
        self._seen = [(obs[0].copy(),)]

    def add_step(self, which: slice, act: np.ndarray, *answer: np.ndarray) -> None:
        if self._log is not None:
            self._log.add_step(which, act, *answer)
        if which.start == 0:
            self._acts.append(act[:1].copy())
            self._seen.append(tuple(each[0].copy() for each in answer))
            _, _, terminated, truncated = self._seen[-1]
            if len(self._acts) == _COMPARED or terminated or truncated:
                self._envs.log = self._log
                self._compare()

    def add_epoch(self) -> None:
        self._envs.log = self._log  # an epoch may be shorter than what is compared
        if self._log is not None:
            self._log.add_epoch()

    def forget(self, steps: int) -> None:
        if self._log is not None:
            self._log.forget(steps)

    def _compare(self):
        states = random.getstate(), np.random.get_state()  # noqa: NPY002
        # What cannot be built again is refused, with the reason, by whoever tries to.
        with suppress(*FAULTS):
            again = self._play()
            first = _first_difference(self._seen, again)
            if first is not None and _first_difference(again, self._play()) is None:
                when = f"in step {first}" if first else "when it is reset"
                self._warn(_WARNING.format(when=when))
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002

    def _play(self):
        """Return what the environment built again answers to the same actions."""
        envs = self._envs
        with VectorEnv(
            self._make,
            seed=envs.randomness.seed,
            max_ep_len=self._max_ep_len,
            first_env=envs.indices[0],
            make_action_spec=lambda space: envs.action_spec,
            prototype=envs.prototype,
        ) as again:
            seen = [(again.reset(*self._began)[0],)]
            for act in self._acts:
                seen.append(tuple(each[0] for each in again.step(act)[:4]))
        return seen


def _first_difference(ours, theirs):
    """Return the number of the first step that differs, 0 for the reset; None if there is none."""
    for t, values in enumerate(zip(ours, theirs, strict=True)):
        pairs = zip(*values, strict=True)
        if not all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
            return t
    return None
