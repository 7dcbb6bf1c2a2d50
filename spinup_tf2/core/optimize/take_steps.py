"""Gradient steps on several losses with one batch, parts of which may change before each pass."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from spinup_tf2.core.gradient_steps import Batch, Floats, GradientSteps, Steps
from spinup_tf2.core.trajectories import normalized_in_minibatches

Renewed = Callable[[Batch, np.ndarray], Batch]


def take_steps(
    gradient_steps: Iterable[GradientSteps],
    batch: Batch,
    minibatches: np.ndarray | None = None,
    renewed: Renewed | None = None,
    in_turn: bool = False,
) -> Steps:
    """Take several GradientSteps on one batch.

    Args:
        gradient_steps: GradientSteps that train different variables; they are taken side by side.
        batch, minibatches: See GradientSteps.
        renewed: Function `renewed(batch, minibatches of a pass [count, size])` that returns the
            batch for that pass. Then all GradientSteps take their first pass, all take their
            second, and so on, until each ends as usual. The info before and after is that of the
            batches of the first and the last pass.
        in_turn: Whether to take all steps of one before those of the next. This makes a difference
            if a loss depends on variables that another one trains.

    Returns:
        The info of all losses before and after the steps, and the number of steps (or passes) that
        the first GradientSteps took.
    """
    first, *others = gradient_steps = [*gradient_steps]
    if in_turn:
        infos = [steps.info(batch) for steps in others]  # before any variable has changed
        results = [steps(batch, minibatches) for steps in gradient_steps]
        for i, info in enumerate(infos, start=1):
            results[i] = (info, *results[i][1:])
        return _together(results)
    if renewed is None:
        return _together(first.beside(others, batch, minibatches))
    if minibatches is None:  # each pass is one step on the whole batch
        passes = max(steps.num_steps for steps in gradient_steps)
        minibatches = np.tile(np.arange(len(batch["adv"])), (max(passes, 1), 1, 1))
    return _together(_pass_by_pass(gradient_steps, batch, minibatches, renewed))


def _pass_by_pass(gradient_steps, batch, minibatches, renewed):
    if len(minibatches) == 0:
        return [steps(batch, minibatches) for steps in gradient_steps]  # for the info only
    of_pass = renewed(batch, minibatches[0])
    results = [steps(of_pass, minibatches[:1]) for steps in gradient_steps]
    for i, minibatch in enumerate(minibatches[1:], start=1):
        left = [
            k
            for k, (steps, (*_, passes)) in enumerate(zip(gradient_steps, results, strict=True))
            if passes == i < steps.num_steps  # it did not stop
        ]
        if not left:
            break
        of_pass = renewed(batch, minibatch)
        for k in left:
            before, _, passes = results[k]
            _, after, more = gradient_steps[k](of_pass, minibatch[None])
            results[k] = before, after, passes + more
    return results


def _together(results):
    before = {key: x for info, _, _ in results for key, x in info.items()}
    after = {key: x for _, info, _ in results for key, x in info.items()}
    return before, after, results[0][2]


def loss_columns(before: Floats, after: Floats) -> Floats:
    """Return the columns LossPi, LossV, DeltaLossPi and DeltaLossV of an update."""
    losses = {key: before[key] for key in ("LossPi", "LossV")}
    return losses | {f"Delta{key}": after[key] - before[key] for key in losses}


def renewal(
    recomputed: Callable[[], Mapping[str, np.ndarray]] | None, per_minibatch: bool
) -> Renewed | None:
    """Return the `renewed` argument of `take_steps`; None if batches do not change between passes.

    Args:
        recomputed: Function that returns adv and ret `[batch]`, computed with the current value
            function; None leaves them as they are.
        per_minibatch: Whether to normalize advantages in each minibatch.
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
