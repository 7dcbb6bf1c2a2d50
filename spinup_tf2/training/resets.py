"""Resets of all environments, and their return to an earlier state when a run is resumed."""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.wrappers import remembering_wrappers
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import beat, gather_objects
from spinup_tf2.training.finite import check_step
from spinup_tf2.training.settings import Settings

# How many steps are repeated only to check that environments answer as before: differences show up
# at once if at all, and some environments are slow.
_COMPARED_STEPS = 100


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


class Resets:
    """Begins new episodes when they are due, and provides the observations from which to act.

    Args:
        settings: The run's settings.
        envs: The training environments.
        log: Log of their actions since the last reset, with deterministic_resume; else None.
        parts: Objects whose `restart` is called when all environments begin new episodes.
        resumed: Whether the run is resumed from a checkpoint.
        logger: Logger for warnings.
    """

    def __init__(
        self,
        settings: Settings,
        envs: VectorEnv,
        log: ActionLog | None,
        parts: Iterable[Any],
        resumed: bool,
        logger: EpochLogger,
    ):
        self.settings, self.envs, self.log = settings, envs, log
        self.parts, self.resumed, self.logger = [*parts], resumed, logger
        wrappers = remembering_wrappers(envs.prototype)
        if wrappers and not resumed:
            logger.warn_once(
                f"the statistics of {' and '.join(wrappers)} around the environment are not saved. "
                "They begin empty in test episodes and wherever the agent plays later, where "
                "normalized observations are then others than in training and returns may be much "
                "lower. They also start again if this run is stopped and resumed, so that it gives "
                "other numbers, even with deterministic_resume. Those of ppo's own normalize_obs "
                "and normalize_reward are saved."
            )

    def observations(
        self, obs: np.ndarray | None, epoch: int, step: int, logged_epoch: int
    ) -> np.ndarray:
        """Return the environments' observations, of new episodes if these are due. Collective.

        Args:
            obs: The latest observations, `[n, ...]`; None at the start of a training run or of its
                resumption.
            epoch: Number of the epoch, from 0.
            step: How many steps of the epoch each environment has taken.
            logged_epoch: Number of the epoch, as it is logged.
        """
        settings = self.settings
        new = self.log is not None and step == 0 and epoch % settings.checkpoint_freq == 0
        if obs is not None and not new:
            return obs
        if self.log is not None and not new:
            obs = self.log.replay()
            self._say_what_strayed(self.log)
            return obs
        if self.log is not None and obs is None and self.resumed:
            self.log.replay(steps=_COMPARED_STEPS)
            self._say_what_strayed(self.log)
        for part in self.parts:
            part.restart()
        obs = self.envs.reset(epoch, step)
        check_step(self.envs, logged_epoch, step, obs)
        return obs

    def _say_what_strayed(self, log):
        """Warn of environments that a replay has not brought back to their earlier state."""
        strayed = [item for each in gather_objects(log.strayed) for item in each.items()]
        if not strayed:
            return
        names = [f"{label} from {f'step {t}' if t else 'the reset'} on" for label, t in strayed]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        memory = " and ".join(remembering_wrappers(self.envs.prototype))
        memory = memory or "a random generator of its own, or statistics that a wrapper keeps"
        self.logger.warn_once(
            "environments do not come back as they were. Reset with the seeds of before and given "
            f"the same actions, they answer differently: {', '.join(names[:3])}{more}. Something "
            f"in them is not set by a seed ({memory}). The run continues, but not with the numbers "
            "that it would have had without the stop."
        )


def _checksums(*arrays):
    """Return a checksum for each row of arrays `[n, ...]`."""
    rows = (b"".join(x.tobytes() for x in row) for row in zip(*arrays, strict=True))
    return [zlib.crc32(row) for row in rows]
