"""The weights with which a run has done best so far."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np


class BestWeights:
    """Keeps the weights of the actor-critic that has had the highest score.

    Attributes:
        weights: Those with the highest score; the first ones as long as there is no score.
        record: Its `score` (mean return), `success` (rate) and `epoch`, as a checkpoint holds them.
        acting: Those to which the next score belongs.
    """

    def __init__(self, networks: Sequence[keras.Variable]):
        self.networks = networks
        self.record: dict[str, Any] = dict(score=None, epoch=None)
        self.weights = self.acting = [each.numpy() for each in networks]

    def note_acting(self) -> None:
        """Note the present weights as those to which the next score belongs."""
        self.acting = [each.numpy() for each in self.networks]

    def judge(self, score: list[float] | None, epoch: int) -> None:
        """Keep the weights that were noted last if they are the best.

        Args:
            score: Their success rate and mean return; between equal success rates the return
                decides. None if they are not known.
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
        """Take back what a checkpoint holds.

        If `acting` is empty, `note_acting` is called again before the next score.
        """
        self.record, self.weights = dict(record), [*weights]
        self.acting = [*acting] or self.acting


def score_of(row: Mapping[str, Any], tested: bool) -> list[float] | None:
    """What the policy of an epoch is judged by: (success rate, mean return); None if by nothing.

    Args:
        row: The epoch's row of the log.
        tested: Whether test episodes count, or those of the training.
    """
    prefix = "Test" if tested else ""
    score = row.get(f"{prefix}SuccessRate", 0.0), row[f"Average{prefix}EpRet"]
    known = all(value != "" and np.isfinite(value) for value in score)
    return [float(value) for value in score] if known else None
