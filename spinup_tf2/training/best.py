"""The best weights of a run so far."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np


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
        self.record: dict[str, Any] = dict(score=None, epoch=None)
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
            best["score"] is None or score > [best.get("success", 0.0), best["score"]]
        ):
            success, ret = score
            self.record = dict(score=ret, success=success, epoch=epoch)
            self.weights = self.acting

    def restore(
        self,
        record: Mapping[str, Any],
        weights: Sequence[np.ndarray],
        acting: Sequence[np.ndarray],
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
