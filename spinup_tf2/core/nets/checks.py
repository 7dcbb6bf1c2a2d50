"""Creation of a run's actor-critic, with checks of networks before anything is written.

The checks refuse what would train on and be wrong: values `[batch, 1]`, which broadcast in losses;
variables that Keras does not track; networks that share what must be separate; sizes that do not
fit; a divergence that has no closed form.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.distributions import (
    Distribution,
    choice_logits,
    is_bijection,
    is_categorical,
    sample,
)
from spinup_tf2.core.nets.heads import GreedyPolicy
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.q_actor_critic import QActorCritic
from spinup_tf2.core.nets.recurrent import Memory, single_steps
from spinup_tf2.envs.spaces import is_image, network_dtype
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import num_procs


def class_for(actor_critic: Callable[..., Any], observation_space: spaces.Space) -> Callable:
    """Return `actor_critic`, or the class that takes its place if observations are images."""
    for_images = getattr(actor_critic, "for_images", None)  # a function has none
    return for_images if for_images and is_image(observation_space) else actor_critic


def make_actor_critic(
    actor_critic: Callable[..., ActorCritic],
    observation_space: spaces.Box,
    action_space: spaces.Space,
    ac_kwargs: dict | None,
    shared: bool | None = None,
    closed_forms: Sequence[str] = (),
) -> ActorCritic:
    """Create, build and check the actor-critic of an on-policy run.

    Args:
        actor_critic, ac_kwargs: The function or class that creates the networks, and its arguments.
        observation_space: Space of the observations as the networks see them.
        action_space: The environment's action space.
        shared: Whether policy and value function must share variables (True) or must not (False);
            None allows both.
        closed_forms: Quantities that the policy must have in closed form: 'entropy',
            'kl_divergence'.

    Raises:
        UserError: The networks do not meet these requirements.
    """
    actor_critic, kwargs = class_for(actor_critic, observation_space), dict(ac_kwargs or {})
    if shared is not None and "shared" in _parameters_of(actor_critic):
        kwargs.setdefault("shared", shared)
    ac = _called(actor_critic, observation_space, action_space, kwargs)
    _check_returned(ac, ActorCritic, "pi, v, action_space")
    obs: Any = two_observations(observation_space)
    if ac.memory is not None:  # the package's own networks
        obs = single_steps(tf.constant(obs), tf.constant(ac.memory.begin(2)))
    else:
        _check_policy(ac, ac.pi(obs))
        _check_values([ac.v(obs)], (2,), "v(obs)", 1)
        check_tracked(ac.networks)
    _require(
        shared is None or ac.shared == shared,
        f"The policy and the value function share {'' if ac.shared else 'no '}variables, and this "
        f"algorithm needs them otherwise (ac_kwargs: shared={shared}).",
    )
    if closed_forms:
        check_closed_forms(ac.pi, obs, closed_forms)
    return ac


def make_q_actor_critic(
    actor_critic: Callable[..., QActorCritic],
    observation_space: spaces.Box,
    action_space: spaces.Space,
    ac_kwargs: dict | None,
    stochastic: bool,
    num_q: int,
) -> QActorCritic:
    """Create, build and check the actor-critic of an off-policy run.

    Args:
        actor_critic, ac_kwargs: The function or class that creates the networks, and its arguments.
        observation_space: Space of the observations as the networks see them.
        action_space: The environment's action space.
        stochastic: Whether the algorithm needs a stochastic policy.
        num_q: The number of Q-functions that the algorithm needs. Both are passed on to an
            `actor_critic` with parameters of these names, such as MLPQActorCritic.

    Raises:
        UserError: The networks do not meet these requirements.
    """
    actor_critic, kwargs = class_for(actor_critic, observation_space), dict(ac_kwargs or {})
    chosen = dict(stochastic=stochastic, num_q=num_q)
    _require(
        not chosen.keys() & kwargs.keys(),
        f"ac_kwargs has {kwargs}; the algorithm itself chooses {chosen}.",
    )
    known = _parameters_of(actor_critic)
    kwargs |= {name: value for name, value in chosen.items() if name in known}
    ac = _called(actor_critic, observation_space, action_space, kwargs)
    _check_returned(ac, QActorCritic, "pi, [q, ...], action_space")
    obs, spec = two_observations(observation_space), ac.action_spec
    act = pi = ac.pi(obs)
    if stochastic:
        act = _check_policy(ac, pi)
        _check_trainable_by_sac(pi, spec)
    else:
        _require(
            tf.is_tensor(pi) and tuple(pi.shape) == (2, *spec.shape),
            f"For 2 observations the actor-critic's pi returned {_described(pi)}; this algorithm "
            f"needs a deterministic policy, a tensor of actions {(2, *spec.shape)}.",
        )
    if spec.num_choices is not None:
        _check_values(ac.q_values(obs), (2, *spec.num_choices), "q_values(obs)", num_q)
    else:
        _check_values(ac.q_values(obs, act), (2,), "q_values(obs, act)", num_q)
    check_tracked(ac.networks)
    if stochastic or spec.num_choices is None:
        names = "the policy and the Q-functions"
        check_no_variable_in_both(ac.pi.trainable_variables, ac.q_variables, names)
    else:
        same = {*map(id, ac.pi.variables)} == {*map(id, ac.qs[0].variables)}
        _require(
            same and isinstance(ac.pi, GreedyPolicy),
            "The actor-critic's pi would not be trained: return "
            "QActorCritic(GreedyPolicy(q), [q], action_space), as in spinup_tf2.core.nets.heads.",
        )
    return ac


def _require(fits, message):
    if not fits:
        raise UserError(message)


def _parameters_of(actor_critic):
    return inspect.signature(actor_critic).parameters if callable(actor_critic) else {}


def check_keras() -> None:
    """Raise UserError if Keras and TensorFlow are set up so that no networks can be trained."""
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy().name
    _require(
        floatx == policy == "float32",
        f"Keras's floatx is {floatx!r} and its dtype policy {policy!r}; networks need float32. See "
        "~/.keras/keras.json, keras.config.set_floatx and keras.config.set_dtype_policy.",
    )
    if tf.distribute.has_strategy():
        raise UserError("Networks cannot be made within the scope of a tf.distribute.Strategy.")
    if not tf.executing_eagerly():
        raise UserError("Eager execution is disabled in TensorFlow; leave it enabled.")


def _called(actor_critic, observation_space, action_space, kwargs):
    """Return the result of `actor_critic(observation_space, action_space, **kwargs)`."""
    check_keras()
    _require(
        callable(actor_critic) and not isinstance(actor_critic, keras.Layer),
        f"actor_critic is a {type(actor_critic).__name__}; give the class or function that makes "
        "the networks.",
    )
    try:
        inspect.signature(actor_critic).bind(observation_space, action_space, **kwargs)
    except TypeError as error:
        name = getattr(actor_critic, "__name__", repr(actor_critic))
        raise UserError(f"{name} cannot make the networks: {error}; see ac_kwargs.") from error
    return actor_critic(observation_space, action_space, **kwargs)


def _check_returned(ac, expected, arguments):
    _require(
        isinstance(ac, expected),
        f"The actor_critic returned {type(ac).__name__}; this algorithm needs "
        f"{expected.__name__}: return {expected.__module__}.{expected.__name__}({arguments}).",
    )


# -------------------------------------------------------------------------- checks of networks


def two_observations(observation_space: spaces.Box) -> np.ndarray:
    """Return two observations `[2, ...]` as networks see them, with which to try these."""
    return np.zeros((2, *observation_space.shape), network_dtype(observation_space))


def _described(output):
    return f"shape {tuple(output.shape)}" if tf.is_tensor(output) else type(output).__name__


def _check_policy(ac, distribution):
    """Check the distribution of a policy for two observations; return sampled actions."""
    spec = ac.action_spec
    returned = f"The actor-critic's pi(obs) returned {type(distribution).__name__}"
    _require(
        isinstance(distribution, Distribution),
        f"{returned}; it must return a distribution of tensorflow_probability over the actions.",
    )
    discrete = spec.num_choices is not None
    kind = "Categorical" if discrete else "MultivariateNormalDiag"
    _require(
        distribution.dtype.is_integer == discrete,
        f"{returned}; for the action space {spec.space} use {kind} of tensorflow_probability.",
    )
    if discrete:
        what, shape = "logits", choice_logits(distribution).shape
    else:
        what, shape = "means", distribution.batch_shape + distribution.event_shape
        loc = distribution.parameters.get("loc")
        if tf.is_tensor(loc):  # a single mean would be broadcast
            shape = shape[:-1] + loc.shape[-1:]
    # A policy that ignores the observations may have no batch dimension.
    shape = shape if shape.rank == len(spec.noise_shape) else shape[1:]
    _require(
        tuple(shape) == spec.noise_shape,
        f"pi gives {what} of shape {tuple(shape)} for each observation, and the action space "
        f"{spec.space} needs {spec.noise_shape}.",
    )
    act = sample(distribution, spec.draw_noise(np.random.default_rng(0), 2))
    found = tuple(act.shape), tuple(distribution.log_prob(act).shape)
    _require(
        found == ((2, *spec.shape), (2,)),
        f"For 2 observations the actor-critic's pi gives actions and log_prob of shapes {found}; "
        f"they must be {(2, *spec.shape)} and (2,): see MultivariateNormalDiag and Independent.",
    )
    return act


def _check_trainable_by_sac(pi, spec):
    if spec.num_choices is not None:
        fits, needed = is_categorical(pi), "for Discrete actions a Categorical"
    else:
        fits = is_bijection(pi) and pi.event_shape.rank == 1
        needed = "TransformedDistribution(MultivariateNormalDiag(mean, std), bijectors.Tanh())"
    _require(
        fits,
        f"The actor-critic's pi(obs) returned {type(pi).__name__}, of events of shape "
        f"{tuple(pi.event_shape)}; this algorithm needs {needed} of tensorflow_probability.",
    )


def _check_values(values, shape, name, number):
    found = [tuple(each.shape) for each in values]
    _require(
        found == [shape] * number,
        f"For 2 observations the actor-critic's {name} returned shapes {found}; this algorithm "
        f"needs {number} of shape {shape}. Squeeze a last axis of length 1.",
    )


def check_no_variable_in_both(
    some: Iterable[keras.Variable], others: Iterable[keras.Variable], names: str
) -> None:
    """Raise UserError if networks that must be separate have a variable in common."""
    _require(
        {*map(id, some)}.isdisjoint(map(id, others)),
        f"In the actor_critic {names} share variables; they are trained apart. Make new Keras "
        "layers for each, every time that it is called.",
    )


def check_tracked(networks: Iterable[keras.Model]) -> None:
    """Raise UserError if a layer of built networks has a variable that Keras does not track.

    Such a variable would not be trained, and a function that uses it cannot be saved. It may be an
    attribute of the layer, or in a list, dict or `tf.Module` that is an attribute. UserError is
    also raised for losses of layers, because no algorithm adds them to its own.
    """
    for net in networks:
        _require(
            not net.losses,
            f"{type(net).__name__} has layers with losses of their own, as those of "
            "kernel_regularizer, which no algorithm adds to its own; leave them out.",
        )
        tracked = {id(variable.value) for variable in net.variables}
        for layer in net._flatten_layers():  # there is no public method for all nested layers
            for name, value in vars(layer).items():
                if name.startswith("_self_"):  # TensorFlow's own copies of all attributes
                    continue
                _require(
                    all(id(each) in tracked for each in _bare_variables(value)),
                    f"{type(layer).__name__}.{name} is a tf.Variable, or has one, which Keras does "
                    "not track: make it with self.add_weight(...), so that it is trained.",
                )


def _bare_variables(value):
    """Return the `tf.Variable`s that an attribute of a layer is or contains."""
    if isinstance(value, tf.Module):  # such as distributions of tensorflow_probability
        return value.variables
    parts = value.values() if isinstance(value, dict) else value
    parts = parts if isinstance(value, dict | list | tuple) else [value]
    return [part for part in parts if isinstance(part, tf.Variable)]


def check_closed_forms(
    pi: Callable[[Any], Distribution], obs: Any, closed_forms: Iterable[str]
) -> None:
    """Check that a policy's distribution has the closed forms that an algorithm needs.

    Args:
        pi: The policy.
        obs: Observations `[batch, ...]`, or Sequences, with which to try it.
        closed_forms: Any of 'entropy' and 'kl_divergence' (from another policy of its kind).

    Raises:
        UserError: tensorflow_probability has no closed form of one of them.
    """
    # Compiled, as in training: it makes a difference for divergences between bijections.
    distribution = compiled(pi, autograph=True)(tf.nest.map_structure(tf.constant, obs))
    known = dict(  # one lambda in a line, by which AutoGraph tells them apart
        entropy=compiled(lambda old: old.entropy(), autograph=True),
        kl_divergence=compiled(lambda old: old.kl_divergence(pi(obs)), autograph=True),
    )
    for name in closed_forms:
        try:
            known[name](distribution)
        except NotImplementedError as error:
            kind = type(distribution).__name__
            raise UserError(f"The policy's {kind} has no {name}() in closed form.") from error


# ------------------------------------------------------------------------------------- memory


def check_memory(memory: Memory, settings: Any) -> None:
    """Check that a run can train networks with a memory.

    Args:
        memory: The networks' memory.
        settings: The run's settings.

    Raises:
        UserError: The arguments do not fit the memory.
    """
    arguments = settings.arguments
    _require(
        not arguments.get("train_aux_iters"),
        "The networks have a memory, and the auxiliary phase of ppg learns from single steps; "
        "leave the memory out, or use ppo.",
    )
    steps = arguments.get("n_steps") or settings.local_steps
    length = memory.segment_length(steps)
    _require(
        steps % length == 0,
        f"seq_len is {memory.seq_len}; it must divide the {steps} steps that each environment "
        "takes for a batch.",
    )
    size, unit = arguments.get("minibatch_size"), settings.num_envs * num_procs() * length
    _require(
        size is None or size % unit == 0,
        f"minibatch_size is {size}, but minibatches consist of whole segments: it must be a "
        f"multiple of {unit} (environments times seq_len) that divides steps_per_epoch.",
    )
