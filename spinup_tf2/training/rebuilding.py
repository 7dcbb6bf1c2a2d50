"""Rebuilding the networks of a saved agent from plain values and weights.

model_info.json has an entry `networks`, which is null for networks that cannot be rebuilt:

    {"networks": {"actor_critic": "MLPActorCritic", "normalize_obs": false, "extra": 0,
                  "arguments": {"hidden_sizes": [64, 64], "activation": "tanh"}}}

Run directories are passed around, so the file is not trusted: networks that would have more weights
than lie beside it are refused before any memory is claimed for them.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets import actor_critic, q_actor_critic
from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.checks import two_observations
from spinup_tf2.core.nets.normalization import NormalizedActorCritic
from spinup_tf2.envs.modules import import_for_file, is_own
from spinup_tf2.envs.spaces import network_observation_space
from spinup_tf2.errors import UserError, kind_and_line, one_line

MOST_LAYERS = 1000


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
        with _at_most(sum(weight.size for weight in weights)):
            ac = make(seen, action_space, **arguments)
            if normalize_obs:
                ac = NormalizedActorCritic(ac, seen, action_space)
            if not is_own(make.__module__):  # it may create variables when it is called
                ac.outputs(*_two_steps(ac, seen))
    except UserError:
        raise
    except Exception as error:  # whatever a constructor raises for arguments that are not its own
        raise UserError(f"{make.__name__} is not for this run ({kind_and_line(error)}).") from error
    if len(weights) != len(ac.variables) + extra:
        raise UserError("Its weights are not those of the networks in model_info.json.")
    for variable, weight in zip(ac.variables, weights, strict=False):
        if (tuple(variable.shape), variable.dtype) != (weight.shape, weight.dtype.name):
            raise UserError("Its weights are of another order or type than those of the networks.")
        if not np.isfinite(weight).all():
            raise UserError("There is NaN or infinity in its weights.")
        variable.assign(weight)
    return ac


@contextmanager
def _at_most(largest):
    """Context manager that raises UserError when Keras layers would create more weights."""
    create, left = keras.layers.Layer.add_weight, largest

    def checked(self, shape=None, *args, **kwargs):
        nonlocal left
        left -= math.prod(shape or ())
        if left < 0:
            raise UserError(f"They would have more than the {largest} weights that are there.")
        return create(self, shape, *args, **kwargs)

    keras.layers.Layer.add_weight = checked
    try:
        yield
    finally:
        keras.layers.Layer.add_weight = create


def _two_steps(ac, seen):
    """Return the arguments of `outputs` for two observations."""
    return two_observations(seen), ac.action_spec.draw_noise(np.random.default_rng(0), 2)


def _check_entry(networks):
    """Return (class, arguments, normalize_obs, extra) after checking their types."""
    try:
        make = _class_named(networks["actor_critic"])
        arguments = dict(networks["arguments"])
        normalize_obs, extra = networks["normalize_obs"], networks["extra"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"model_info.json does not describe them ({one_line(error)}).") from error
    if any(isinstance(each, list) and len(each) > MOST_LAYERS for each in arguments.values()):
        raise UserError(f"They would have more than {MOST_LAYERS} layers.")
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
    and only actor-critic classes are called.
    """
    module, _, name = str(name).rpartition(":")
    homes = [import_for_file(module)] if module else [actor_critic, q_actor_critic]
    for found in (vars(home).get(name) for home in homes):
        if isinstance(found, type) and issubclass(found, BaseActorCritic):
            return found
    raise UserError(f"model_info.json does not describe them ({name!r} is no class of networks).")
