"""The argument init_from: networks that start with the weights of another run."""

import os
from itertools import zip_longest
from typing import Any

import numpy as np

from spinup_tf2.core.nets.actor_critic import BaseActorCritic
from spinup_tf2.errors import UserError
from spinup_tf2.files.saves import find_save, read_info, read_weights
from spinup_tf2.training.saved_policy import (
    complete_save,
    plain_arguments,
    without_normalization,
)

# Arguments that change what networks compute, but not the shapes of their weights.
_NOT_IN_SHAPES = ("activation", "conv", "background")
_EARLIER = {"background": 0.0}  # values of arguments that earlier versions did not have


def begin_with(ac: BaseActorCritic, run_dir: str | os.PathLike) -> None:
    """Load the weights of the last save of a run into an actor-critic.

    Raises:
        UserError: They do not belong to networks of this kind; nothing is changed.
    """
    try:
        save_dir = find_save(run_dir)
    except UserError as error:
        raise UserError(f"init_from is {run_dir}: {error}") from error
    weights = read_weights(save_dir)[: len(ac.variables)]
    networks = _networks_in(save_dir)
    _check_normalization(ac, networks, run_dir)
    for i, pair in enumerate(zip_longest(ac.variables, weights)):
        here, there = map(_form, pair)
        if here != there:
            raise UserError(
                f"init_from is {run_dir}, whose networks are others than those of this run: their "
                f"variable {i + 1} is {there}, and here it is {here}. Use the same kind of "
                "environment, the same algorithm or a relative of it, and the same ac_kwargs."
            )
    _check_not_in_shapes(ac, _arguments_of(networks), run_dir)
    if not all(np.isfinite(weight).all() for weight in weights):
        raise UserError(f"init_from is {run_dir}, in whose weights there is NaN or infinity.")
    for variable, weight in zip(ac.variables, weights, strict=True):
        variable.assign(weight)


def _form(values):
    """Describe the type and shape of a variable or an array; "none" for None."""
    if values is None:
        return "none"
    return f"{np.dtype(values.dtype).name} {tuple(values.shape)}"


def network_arguments(run_dir: str | os.PathLike) -> dict[str, Any]:
    """Return the arguments of the networks in a run's last save; empty if they are not recorded.

    Raises:
        UserError: There is no complete save.
    """
    return _arguments_of(_networks_in(find_save(run_dir)))


def _networks_in(save_dir):
    """Return the description of the networks in a save; empty if there is none."""
    with complete_save(save_dir):
        networks = read_info(save_dir).get("networks")
    return networks if isinstance(networks, dict) else {}


def _arguments_of(networks):
    arguments = networks.get("arguments")
    return _EARLIER | arguments if isinstance(arguments, dict) else {}


def _check_normalization(ac, networks, run_dir):
    """Check that both or neither normalize observations, if the save records it."""
    here = without_normalization(ac) is not ac
    if networks.get("normalize_obs", here) == here:
        return
    if here:
        raise UserError(
            f"init_from is {run_dir}, which was trained without normalize_obs, and here it is "
            "True. Leave it out here, too, or begin with a run that was trained with it."
        )
    raise UserError(
        f"init_from is {run_dir}, which was trained with normalize_obs=True, and this run does not "
        "normalize observations. Give it here, too (only ppo has it); for another algorithm, begin "
        "with a run of it, or of a relative, that was trained without normalize_obs."
    )


def _check_not_in_shapes(ac, theirs, run_dir):
    """Check that arguments in `_NOT_IN_SHAPES` are the same, if both are known."""
    ours = plain_arguments(without_normalization(ac))
    if not theirs or ours is None:
        return
    ours = _EARLIER | ours
    for name in _NOT_IN_SHAPES:
        there, here = theirs.get(name), ours.get(name)
        if there != here:
            raise UserError(
                f"init_from is {run_dir}, whose networks have {name} {there!r}, and here it is "
                f"{here!r}: with the same weights they would do something else. Use the same "
                "ac_kwargs."
            )
