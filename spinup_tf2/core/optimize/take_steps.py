"""The steps of several losses on one batch, and what of it is computed again before each pass."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from spinup_tf2.core.experience.advantages import normalized_in_minibatches
from spinup_tf2.core.optimize.gradient_steps import Batch, Floats, GradientSteps, Steps

Renewed = Callable[[Batch, np.ndarray], Batch]


def take_steps(
    gradient_steps: Iterable[GradientSteps],
    batch: Batch,
    minibatches: np.ndarray | None = None,
    renewed: Renewed | None = None,
    in_turn: bool = False,
) -> Steps:
    """Several GradientSteps on one batch: the info of all, and how many steps the first took.

    Args:
        gradient_steps: They train different variables, and are taken side by side.
        batch, minibatches: As GradientSteps take them.
        renewed: `renewed(batch, minibatches of a pass [count, size])` gives the batch of that pass.
            Then all GradientSteps take their first pass, all take their second, and so on, each
            up to where it ends anyway. The info is that of the batch as it was in the first and in
            the last pass.
        in_turn: All steps of one are taken, then all of the next. It makes a difference where a
            loss depends on what another one trains.
    """
    first, *others = gradient_steps = [*gradient_steps]
    if in_turn:
        infos = [steps.info(batch) for steps in others]  # before anything has changed
        results = [steps(batch, minibatches) for steps in gradient_steps]
        for i, info in enumerate(infos, start=1):
            results[i] = (info, *results[i][1:])
        return _together(results)
    if renewed is None:
        return _together(first.beside(others, batch, minibatches))
    if minibatches is None:  # a pass is a step on everything
        passes = max(steps.num_steps for steps in gradient_steps)
        minibatches = np.tile(np.arange(len(batch["adv"])), (max(passes, 1), 1, 1))
    return _together(_pass_by_pass(gradient_steps, batch, minibatches, renewed))


def _pass_by_pass(gradient_steps, batch, minibatches, renewed):
    if len(minibatches) == 0:
        return [steps(batch, minibatches) for steps in gradient_steps]  # what there is to log
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
    """What an update did to the losses of policy and value function, as it is logged."""
    losses = {key: before[key] for key in ("LossPi", "LossV")}
    return losses | {f"Delta{key}": after[key] - before[key] for key in losses}


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
