"""Resets of all environments, and their return to an earlier state when a run is resumed."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.wrappers import remembering_wrappers
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import gather_objects
from spinup_tf2.training.action_log import ActionLog
from spinup_tf2.training.finite import check_step
from spinup_tf2.training.settings import Settings

# How many steps are repeated only to check that environments answer as before: differences show up
# at once if at all, and some environments are slow.
_COMPARED_STEPS = 100


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
