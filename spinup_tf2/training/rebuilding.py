"""Networks from the weights of a saved agent: rebuilt, or those with which a run begins.

model_info.json has an entry `networks`, which is null for networks that cannot be rebuilt:

    {"networks": {"actor_critic": "MLPActorCritic", "normalize_obs": false, "extra": 0,
                  "arguments": {"hidden_sizes": [64, 64], "activation": "tanh"}}}

Run directories are passed around, so the file is not trusted: networks that would have more weights
than lie beside it are refused before any memory is claimed for them.
"""

import inspect
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets import actor_critic, q_actor_critic
from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.checks import two_observations
from spinup_tf2.core.nets.layers import activation_name
from spinup_tf2.core.nets.normalization import NormalizedActorCritic
from spinup_tf2.envs.modules import import_for_file, is_own
from spinup_tf2.envs.spaces import network_observation_space
from spinup_tf2.errors import UserError, kind_and_line, one_line
from spinup_tf2.files.disk import StoredArray
from spinup_tf2.files.saves import complete_save, find_save, read_info, read_weights

MOST_LAYERS = 1000

# Arguments that change what networks compute, but not the shapes of their weights.
_NOT_IN_SHAPES = ("activation", "conv", "background")


def describe_networks(ac: BaseActorCritic, extra: int) -> dict[str, Any] | None:
    """Return the description from which `build_again` rebuilds an actor-critic, or None.

    Args:
        ac: The actor-critic.
        extra: Number of variables that are saved with it but not used by it.
    """
    inner = ac.inner if type(ac) is NormalizedActorCritic else ac
    make, arguments = type(inner), _plain_arguments(inner)
    own = is_own(make.__module__)
    importable = getattr(sys.modules.get(make.__module__), make.__name__, None) is make
    if arguments is None or not importable or make.__module__ == "__main__":
        return None
    # A custom class is rebuilt only if it has passed on all of its arguments, and no others.
    _, _, *parameters = inspect.signature(make).parameters
    if not own and {*parameters} != {*arguments}:
        return None
    return {
        "actor_critic": make.__name__ if own else f"{make.__module__}:{make.__name__}",
        "arguments": arguments,
        "normalize_obs": inner is not ac,
        "extra": extra,
    }


def _plain_arguments(ac):
    """Return an actor-critic's arguments as in JSON; None if they do not fully describe it."""
    _, given = ac.recipe
    if given is None:
        return None
    arguments = dict(given)
    if "activation" in arguments:
        arguments["activation"] = activation_name(arguments["activation"])
        if arguments["activation"] is None:
            return None
    try:
        return json.loads(json.dumps(arguments, default=np.generic.item))
    except TypeError:
        return None


def build_again(
    networks: Mapping[str, Any],
    observation_space: spaces.Space,
    action_space: spaces.Space,
    weights: Sequence[np.ndarray | StoredArray],
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
                noise = ac.action_spec.draw_noise(np.random.default_rng(0), 2)
                ac.outputs(two_observations(seen), noise)
    except UserError:
        raise
    except Exception as error:  # whatever a constructor raises for arguments that are not its own
        raise UserError(f"{make.__name__} is not for this run ({kind_and_line(error)}).") from error
    if len(weights) != len(ac.variables) + extra:
        raise UserError("Its weights are not those of the networks in model_info.json.")
    for variable, weight in zip(ac.variables, weights, strict=False):
        if _form(variable) != _form(weight):
            raise UserError("Its weights are of another order or type than those of the networks.")
    _assign(ac, weights[: len(ac.variables)], "There is NaN or infinity in its weights.")
    return ac


def _assign(ac, weights, not_finite):
    """Assign weights to all variables if all are finite; otherwise raise UserError(not_finite)."""
    values = [np.asarray(weight) for weight in weights]
    if not all(np.isfinite(value).all() for value in values):
        raise UserError(not_finite)
    ac.set_weights(values)


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


# ------------------------------------------------------------------------------- init_from


def begin_with(ac: BaseActorCritic, run_dir: str | os.PathLike) -> None:
    """Load the weights of the last save of a run into an actor-critic.

    Raises:
        UserError: They do not belong to networks of this kind; nothing is changed.
    """

    def refuse(differences):
        raise UserError(
            f"init_from is {run_dir}, whose networks are others than those of this run: "
            f"{differences}. Use the same kind of environment, the same algorithm or a relative of "
            "it, and the same ac_kwargs and normalize_obs."
        )

    try:
        save_dir = find_save(run_dir)
    except UserError as error:
        raise UserError(f"init_from is {run_dir}: {error}") from error
    weights, theirs = read_weights(save_dir)[: len(ac.variables)], _networks_in(save_dir)
    ours = describe_networks(ac, 0)
    if theirs and ours is not None:
        there, here = (
            each["arguments"] | {"normalize_obs": each.get("normalize_obs")}
            for each in (theirs, ours)
        )
        for name in ("normalize_obs", *_NOT_IN_SHAPES):
            if there.get(name) != here.get(name):
                refuse(f"their {name} is {there.get(name)!r}, and here it is {here.get(name)!r}")
    for i, pair in enumerate(zip_longest(ac.variables, weights)):
        here, there = map(_form, pair)
        if here != there:
            refuse(f"their variable {i + 1} is {there}, and here it is {here}")
    _assign(ac, weights, f"init_from is {run_dir}, in whose weights there is NaN or infinity.")


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
    return _networks_in(find_save(run_dir)).get("arguments", {})


def _networks_in(save_dir):
    """Return the description of the networks in a save; empty if there is none."""
    with complete_save(save_dir):
        networks = read_info(save_dir).get("networks")
    known = isinstance(networks, dict) and isinstance(networks.get("arguments"), dict)
    return networks if known else {}
