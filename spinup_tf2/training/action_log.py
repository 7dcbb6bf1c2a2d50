"""A log of actions, with which environments can be brought back to where they were."""

import zlib
from collections.abc import Mapping

import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.parallel.mpi import beat


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
        self._actions[i] = [*state["actions"]]
        self._epoch_ends = [*state.get("epoch_ends", ())]  # older checkpoints lack some entries
        self._seen[i] = [*state.get("seen", ())]

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
