"""Rebuilding the networks of a saved agent from plain values and weights.

model_info.json has an entry `networks`, which is null for networks that cannot be rebuilt:

    {"networks": {"actor_critic": "MLPActorCritic", "normalize_obs": false, "extra": 0,
                  "arguments": {"hidden_sizes": [64, 64], "activation": "tanh"}}}

Run directories are passed around, so the file is not trusted. The class itself knows the shapes of
its variables before any is created (`BaseActorCritic.variable_shapes`).
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets import actor_critic, q_actor_critic
from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.normalization import NormalizedActorCritic, ObservationNormalizer
from spinup_tf2.envs.modules import import_for_file, is_own
from spinup_tf2.envs.spaces import network_observation_space
from spinup_tf2.errors import UserError, one_line


def build_again(
    networks: Mapping[str, Any],
    observation_space: spaces.Space,
    action_space: spaces.Space,
    weights: Sequence[np.ndarray],
) -> BaseActorCritic:
    """Return the actor-critic that an entry `networks` of model_info.json describes.

    Nothing is built that does not match the sizes of the weights.

    Args:
        networks: The entry.
        observation_space, action_space: The spaces of the raw environment.
        weights: Values of all variables of the actor-critic, in order, followed by those of
            variables that it does not use.

    Raises:
        UserError: Something differs from what `SavedPolicy` writes.
    """
    make, arguments, normalize_obs, extra = _check_entry(networks)
    seen = network_observation_space(observation_space)
    try:
        expected = make.variable_shapes(seen, action_space, **arguments)
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{make.__name__} is not for the spaces of this run.") from error
    if normalize_obs:
        expected = expected + ObservationNormalizer.variable_shapes(seen.shape)
    shapes = sorted(weight.shape for weight in weights[: len(expected)])
    if len(weights) != len(expected) + extra or shapes != sorted(expected):
        raise UserError("Its weights are not those of the networks in model_info.json.")

    ac = make(seen, action_space, **arguments)
    if normalize_obs:
        ac = NormalizedActorCritic(ac, seen, action_space)
    for variable, weight in zip(ac.variables, weights, strict=False):
        if (tuple(variable.shape), variable.dtype) != (weight.shape, weight.dtype.name):
            raise UserError("Its weights are of another order or type than those of the networks.")
        if not np.isfinite(weight).all():
            raise UserError("There is NaN or infinity in its weights.")
        variable.assign(weight)
    return ac


def _check_entry(networks):
    """Return (class, arguments, normalize_obs, extra) after checking their types."""
    try:
        make = _class_named(networks["actor_critic"])
        arguments = dict(networks["arguments"])
        normalize_obs, extra = networks["normalize_obs"], networks["extra"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"model_info.json does not describe them ({one_line(error)}).") from error
    _, _, *parameters = inspect.signature(make.variable_shapes).parameters.values()
    names = {each.name for each in parameters}
    required = {each.name for each in parameters if each.default is each.empty}
    if not required <= arguments.keys() <= names:  # earlier versions had fewer arguments
        raise UserError(f"{make.__name__} takes {', '.join(sorted(names))}.")
    if is_own(make.__module__):  # custom classes choose their own names and meanings
        check_network_arguments(arguments)
    if not isinstance(normalize_obs, bool) or type(extra) is not int:
        raise UserError("model_info.json has an entry of another type.")
    if normalize_obs and not issubclass(make, ActorCritic):
        raise UserError("normalize_obs is not for the off-policy algorithms.")
    return make, arguments, normalize_obs, extra


def _class_named(name):
    """Return the actor-critic class that a file names: `MLPActorCritic` or `my_networks:MyClass`.

    As for environments and wrappers, a file can only import modules that `import_for_file` allows,
    and only actor-critic classes with `variable_shapes` are called.
    """
    module, _, name = str(name).rpartition(":")
    homes = [import_for_file(module)] if module else [actor_critic, q_actor_critic]
    for found in (vars(home).get(name) for home in homes):
        if isinstance(found, type) and issubclass(found, BaseActorCritic) and found.variable_shapes:
            return found
    raise UserError(f"model_info.json does not describe them ({name!r} is no class of networks).")
