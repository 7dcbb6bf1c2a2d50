"""What of a batch is computed again before each pass over it."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from spinup_tf2.core.experience.advantages import normalized_in_minibatches
from spinup_tf2.core.optimize.gradient_steps import Renewed


def renewal(
    recomputed: Callable[[], Mapping[str, np.ndarray]] | None, per_minibatch: bool
) -> Renewed | None:
    """How a batch of tensors is renewed before each pass over it; None: it stays as it is.

    Args:
        recomputed: Gives adv and ret `[batch]` with the present value function; None: they stay.
        per_minibatch: Whether advantages are normalized in each minibatch.
    """
    if recomputed is None and not per_minibatch:
        return None

    def renewed(batch, minibatches):
        new = dict(recomputed()) if recomputed else {}
        if per_minibatch:
            adv = new["adv"] if recomputed else batch["adv"].numpy()
            new["adv"] = normalized_in_minibatches(adv, minibatches, batch["valid"].numpy())
        return batch | {name: tf.constant(array) for name, array in new.items()}

    return renewed
