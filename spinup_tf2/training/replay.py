"""Environments that do again what they did, and warnings of those that do not."""

import random
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.faults import FAULTS
from spinup_tf2.envs.spaces import to_network
from spinup_tf2.envs.wrappers import remembering_wrappers
from spinup_tf2.files.env_spec import make_described
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import beat, gather_objects

# How many steps are repeated only to check that environments answer as before: differences show up
# at once if at all, and some environments are slow.
REPEATED_STEPS = 100
_COMPARED_STEPS = 10

_CHANGED = (
    "the environment that test_policy, evaluate and videos of the training use is built from "
    "env_spec.json, and it is not the one that is trained: {when} it answers differently, so that "
    "returns and videos will be those of another environment. Attributes that are set after "
    "gymnasium.make are lost; give them as arguments of gymnasium.make, or set them in a wrapper."
)


class ActionLog:
    """The actions since the last reset, and checksums of the environments' answers.

    Checkpoints hold the log, and `replay` brings the environments back to its end. The VectorEnv
    whose `log` it is fills it.

    `strayed` maps the labels of environments that answered differently in the last replay to the
    number of the first step that differed, 0 for the reset.
    """

    def __init__(self, envs: VectorEnv):
        self.envs = envs
        self.strayed: dict[str, int] = {}
        self._began: tuple[int, ...] = (0, 0)
        self._epoch_ends: list[int] = []  # as numbers of actions taken so far
        self._actions: list[list[np.ndarray]] = [[] for _ in envs.indices]
        self._seen: list[list[int]] = [[] for _ in envs.indices]

    def begin(self, epoch: int, step: int, obs: np.ndarray) -> None:
        """Begin again after a reset at this epoch and step, which returned `obs` `[n, ...]`."""
        self._began, self._epoch_ends = (epoch, step), []
        self._actions, self._seen = [[] for _ in obs], [[each] for each in _checksums(obs)]

    def add_step(self, which: slice, act: np.ndarray, *answer: np.ndarray) -> None:
        """Add a step in which the environments `which` answered `act` with `answer`, `[n, ...]`."""
        taken: np.ndarray = act.astype(self.envs.action_spec.dtype)  # a copy
        for actions, own in zip(self._actions[which], taken, strict=True):
            actions.append(own)
        for seen, own in zip(self._seen[which], _checksums(*answer), strict=True):
            seen.append(own)

    def add_epoch(self) -> None:
        self._epoch_ends.append(len(self._actions[0]))

    def forget(self, steps: int) -> None:
        """Remove the last `steps` steps, as if they had not been taken."""
        if steps:
            remembered: list[list] = [*self._actions, *self._seen]
            for each in remembered:
                del each[-steps:]

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        """Return the log of the i-th environment of this process."""
        return dict(
            began=np.array(self._began),
            actions=np.array(self._actions[i], self.envs.action_spec.dtype),
            epoch_ends=np.array(self._epoch_ends, int),
            seen=np.array(self._seen[i], np.uint32),
        )

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        """Restore the log of the i-th environment; all are needed before `replay`."""
        self._began = tuple(int(number) for number in state["began"])
        self._actions[i], self._seen[i] = [*state["actions"]], [*state["seen"]]
        self._epoch_ends = [*state["epoch_ends"]]

    def replay(self, steps: int | None = None) -> np.ndarray:
        """Repeat the last reset and the logged actions; return the observations `[n, ...]`.

        Args:
            steps: The largest number of actions to take; None takes all.
        """
        envs, before, epoch_ends = self.envs, self._seen, self._epoch_ends
        actions = [np.array(act) for act in zip(*self._actions, strict=True)][:steps]
        epoch, step = self._began
        obs = envs.reset(epoch, step)
        for t in range(len(actions) + 1):
            for _ in range(epoch_ends.count(t)):
                envs.add_epoch()
            if t < len(actions):
                obs, *_ = envs.step(actions[t])
            beat()
        envs.episodes.clear()  # these episodes have been counted before
        self.strayed = {}
        for label, *seen in zip(envs.labels, before, self._seen, strict=True):
            differing = (t for t, (old, new) in enumerate(zip(*seen, strict=False)) if old != new)
            if (first := next(differing, None)) is not None:
                self.strayed[label] = first
        return obs


def _checksums(*arrays):
    """Return a checksum for each row of arrays `[n, ...]`."""
    rows = (b"".join(x.tobytes() for x in row) for row in zip(*arrays, strict=True))
    return [zlib.crc32(row) for row in rows]


# --------------------------------------------------------------------------------- warnings


def warn_of_wrappers(env: gym.Env, logger: EpochLogger) -> None:
    """Warn of wrappers that keep statistics, which are not saved."""
    if wrappers := remembering_wrappers(env):
        logger.warn_once(
            f"the statistics of {' and '.join(wrappers)} around the environment are not saved. "
            "They begin empty in test episodes and wherever the agent plays later, where "
            "normalized observations are then others than in training and returns may be much "
            "lower. They also start again if this run is stopped and resumed, so that it gives "
            "other numbers, even with deterministic_resume. Those of ppo's own normalize_obs "
            "and normalize_reward are saved."
        )


def warn_of_strayed(log: ActionLog, logger: EpochLogger) -> None:
    """Warn of environments that a replay has not brought back as they were. Collective."""
    strayed = [item for each in gather_objects(log.strayed) for item in each.items()]
    if not strayed:
        return
    names = [f"{label} from {f'step {t}' if t else 'the reset'} on" for label, t in strayed]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    memory = " and ".join(remembering_wrappers(log.envs.prototype))
    memory = memory or "a random generator of its own, or statistics that a wrapper keeps"
    logger.warn_once(
        "environments do not come back as they were. Reset with the seeds of before and given "
        f"the same actions, they answer differently: {', '.join(names[:3])}{more}. Something "
        f"in them is not set by a seed ({memory}). The run continues, but not with the numbers "
        "that it would have had without the stop."
    )


def warn_of_changes(
    env_fn: Callable[[], gym.Env],
    prototype: gym.Env,
    description: Mapping[str, Any],
    logger: EpochLogger,
) -> None:
    """Warn if an environment is another one when it is built again from its description.

    A description holds the arguments of `gymnasium.make` and of wrappers. What is done to an
    environment afterwards, such as setting an attribute, is not in it. Nothing is said about
    environments of which two, with the same seed and actions, differ anyway.

    Args:
        env_fn: Function that creates the environments of the training.
        prototype: One of them, for its spaces.
        description: Its description by `describe_env`.
        logger: Logger of the run.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    space = deepcopy(prototype.action_space)
    space.seed(0)
    actions = [space.sample() for _ in range(_COMPARED_STEPS)]
    # What cannot be built again is refused, with the reason, by whoever tries to.
    with suppress(*FAULTS):
        theirs = _answers(lambda: make_described(description, training=True), actions)
        ours = _answers(env_fn, actions)
        if ours != theirs and ours == _answers(env_fn, actions):
            pairs = enumerate(zip(ours, theirs, strict=False))
            first = next(t for t, (one, other) in pairs if one != other)
            logger.warn_once(_CHANGED.format(when=f"in step {first}" if first else "in its reset"))
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002


def _answers(make, actions):
    """Return checksums of what a new environment answers to a reset and to the actions."""
    env = make()
    try:
        obs, _ = env.reset(seed=0)
        answers = [[to_network(env.observation_space, obs)]]
        for action in actions:
            obs, *rest, _ = env.step(action)
            answers.append([to_network(env.observation_space, obs), np.array(rest, float)])
            if any(rest[1:]):
                break
        return [zlib.crc32(b"".join(x.tobytes() for x in answer)) for answer in answers]
    finally:
        env.close()
