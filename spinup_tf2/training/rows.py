"""What a run says of each epoch: the rows of its log, and the best weights so far."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.files.logger import EpochLogger, number_in
from spinup_tf2.parallel.mpi import mpi_op


class Rows:
    """Writes the rows of the log. Collective.

    Args:
        logger: The run's logger.
        columns: As in `opening.open_run`.
        envs: The training and the test environments of this rank; None values are ignored.
        tests: Whether rows have columns for test episodes.

    Attributes:
        infos: What the updates of the current epoch have returned, in Python's numbers.
    """

    def __init__(
        self,
        logger: EpochLogger,
        columns: Mapping[str, bool],
        envs: Sequence[VectorEnv | None],
        tests: bool,
    ):
        self.logger, self.columns, self.envs, self.tests = logger, columns, envs, tests
        self.infos: list[dict[str, Any]] = []

    def record(self, info: Mapping[str, Any]) -> None:
        """Take what an update has returned into the row of this epoch.

        Args:
            info: Scalars by name, the same in all updates; or values for `columns`.
        """
        if info.keys() <= self.columns.keys():
            self.logger.store(**info)
            return
        numbers = {name: number_in(name, value) for name, value in info.items()}
        self.infos.append(  # Python's numbers, because checkpoints hold them as JSON
            {name: x.item() if isinstance(x, np.generic) else x for name, x in numbers.items()}
        )

    def log(self, epoch: int, interacts: int, seconds: float) -> None:
        """Set the values of this epoch's row.

        Args:
            epoch: Number of the epoch, as it is logged.
            interacts: Number of steps of all environments so far.
            seconds: Time that the run has taken so far.
        """
        logger = self.logger
        logger.log_tabular("Epoch", epoch)
        kinds = ("", "Test") if self.tests else ("",)  # of episodes
        for kind in kinds:
            logger.log_tabular(f"{kind}EpRet", with_min_and_max=True)
        for kind in kinds:
            logger.log_tabular(f"{kind}EpLen", average_only=True)
        log_successes(logger, [f"{kind}SuccessRate" for kind in kinds], self.envs)
        if "VVals" in logger.epoch_dict:  # on-policy
            logger.log_tabular("VVals", with_min_and_max=True)
        logger.log_tabular("TotalEnvInteracts", interacts)
        for name, first in self.infos[0].items() if self.infos else ():
            several = [info[name] for info in self.infos]
            logger.log_tabular(name, np.mean(several) if len(several) > 1 else first)
        logger.store(**{name: [] for name in self.columns})  # blank if there is no value
        for name, all_four in self.columns.items():
            logger.log_tabular(name, with_min_and_max=all_four, average_only=not all_four)
        logger.log_tabular("Time", seconds)
        if "Ret" in logger.epoch_dict:  # on-policy
            logger.log_tabular("ExplainedVariance", explained_variance(logger))

    def write(self) -> dict[str, Any]:
        """Write the row, and return it: its values by column, blank ("") if there is none."""
        logger = self.logger
        logger.check_in_place()
        row = {name: logger.log_current_row.get(name, "") for name in logger.log_headers}
        logger.dump_tabular()
        self.infos = []
        return row


def explained_variance(logger: EpochLogger) -> float | str:
    """Return 1 - Var[ret - val] / Var[ret] of the epoch's value targets. Collective.

    1 for a perfect value function, 0 for a constant one. Blank if all targets are equal.
    """
    (_, error), (_, spread) = logger.get_stats("RetError"), logger.get_stats("Ret")
    del logger.epoch_dict["RetError"], logger.epoch_dict["Ret"]
    return 1 - (error / spread) ** 2 if spread > 0 else ""


def log_successes(
    logger: EpochLogger, names: Sequence[str], envs: Iterable[VectorEnv | None]
) -> None:
    """Log success rates, if environments report successes. Collective.

    The first row determines whether there are such columns: only if any environment of any rank has
    reported `is_success` by then. Successes that are first reported later are not logged.

    Args:
        logger: The run's logger.
        names: Keys under which successes have been stored.
        envs: The environments of this rank; None values are ignored.
    """
    told = any(each is not None and each.episodes.tells_success for each in envs)
    told = told or any(logger.stored()[name].size for name in names)  # before a stop
    if logger.first_row:
        logged = bool(mpi_op(float(told), "MAX"))
    else:
        logged = names[0] in logger.log_headers
    for name in names:
        if logged:
            logger.log_tabular(name, average_only=True)
        else:
            del logger.epoch_dict[name]
    if told and not logged:
        logger.warn_once(
            "An environment has told is_success for the first time after the first row of the log, "
            "which settles the columns; there is no SuccessRate. Make epochs long enough for an "
            "episode to end in the first one, or tell is_success in every step."
        )


class BestWeights:
    """Keeps the weights of the actor-critic that have had the highest score.

    Args:
        networks: The variables of the actor-critic.

    Attributes:
        weights: The weights with the highest score; the initial ones as long as there is no score.
        record: Their `score` (mean return), `success` (rate) and `epoch`, for checkpoints.
        acting: The weights to which the next score belongs.
    """

    def __init__(self, networks: Sequence[keras.Variable]):
        self.networks = networks
        self.record: dict[str, Any] = dict(score=None, success=None, epoch=None)
        self.weights = self.acting = [each.numpy() for each in networks]

    def note_acting(self) -> None:
        """Copy the current weights, to which the next score belongs."""
        self.acting = [each.numpy() for each in self.networks]

    def judge(self, score: list[float] | None, epoch: int) -> None:
        """Keep the weights of the last `note_acting` if their score is the highest so far.

        Args:
            score: Their success rate and mean return; between equal success rates the return
                decides. None if they are unknown.
            epoch: Number of the epoch, as it is logged.
        """
        best = self.record
        if score is not None and (
            best["score"] is None or score > [best["success"], best["score"]]
        ):
            success, ret = score
            self.record = dict(score=ret, success=success, epoch=epoch)
            self.weights = self.acting

    def restore(
        self, record: Mapping[str, Any], weights: Sequence[np.ndarray], acting: Sequence[np.ndarray]
    ) -> None:
        """Restore what a checkpoint holds.

        `acting` may be empty if `note_acting` will be called before the next score.
        """
        self.record, self.weights = dict(record), [*weights]
        self.acting = [*acting] or self.acting


def score_of(row: Mapping[str, Any], tested: bool) -> list[float] | None:
    """Return the score of an epoch's policy, [success rate, mean return]; None if it is unknown.

    Args:
        row: The epoch's row of the log.
        tested: Whether the score is that of the test episodes instead of the training episodes.
    """
    prefix = "Test" if tested else ""
    score = row.get(f"{prefix}SuccessRate", 0.0), row[f"Average{prefix}EpRet"]
    known = all(value != "" and np.isfinite(value) for value in score)
    return [float(value) for value in score] if known else None
