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

from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.distributions import (
    Distribution,
    choice_logits,
    is_bijection,
    is_categorical,
    is_choice,
    sample,
)
from spinup_tf2.core.nets.heads import GreedyPolicy
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.q_actor_critic import QActorCritic
from spinup_tf2.core.nets.recurrent import Memory, single_steps
from spinup_tf2.envs.spaces import ActionSpec, is_image, network_dtype
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
    if shared is False and ac.shared:
        raise UserError(
            "The policy and the value function share variables; this algorithm trains them apart. "
            "Give each its own (ac_kwargs: shared=False), or use ppo or a2c, or ppg with "
            "arch='shared' or 'detach'."
        )
    if shared and not ac.shared:
        raise UserError(
            "The policy and the value function share no variables, which this algorithm needs. "
            "Use networks that have layers in common (ac_kwargs: shared=True)."
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
    if chosen.keys() & kwargs.keys():
        raise UserError(f"ac_kwargs has {kwargs}; the algorithm itself chooses {chosen}.")
    known = _parameters_of(actor_critic)
    kwargs |= {name: value for name, value in chosen.items() if name in known}
    ac = _called(actor_critic, observation_space, action_space, kwargs)
    _check_returned(ac, QActorCritic, "pi, [q, ...], action_space")
    obs, spec = two_observations(observation_space), ac.action_spec
    pi = ac.pi(obs)
    if stochastic:
        act = _check_policy(ac, pi)
        _check_trainable_by_sac(pi, spec)
    elif not tf.is_tensor(pi) or tuple(pi.shape) != (2, *spec.shape):
        raise UserError(
            f"For 2 observations the actor-critic's pi returned {_described(pi)}; this algorithm "
            f"needs a deterministic policy, a tensor of actions {(2, *spec.shape)}."
        )
    else:
        act = pi
    if spec.num_choices is not None:
        _check_values(ac.q_values(obs), (2, *spec.num_choices), "q_values(obs)", num_q)
    else:
        _check_values(ac.q_values(obs, act), (2,), "q_values(obs, act)", num_q)
    check_tracked(ac.networks)
    if stochastic or spec.num_choices is None:
        names = "the policy and the Q-functions"
        check_no_variable_in_both(ac.pi.trainable_variables, ac.q_variables, names)
    elif not _is_greedy(ac.pi, ac.qs[0]):
        raise UserError(
            "The actor-critic's pi is not the greedy policy of its Q-function, and would not be "
            "trained: return QActorCritic(GreedyPolicy(q), [q], action_space), with "
            "spinup_tf2.core.nets.heads.GreedyPolicy."
        )
    return ac


def _is_greedy(pi, q):
    variables = {id(each) for each in q.variables}
    return isinstance(pi, GreedyPolicy) and variables == {id(each) for each in pi.variables}


def _parameters_of(actor_critic):
    return inspect.signature(actor_critic).parameters if callable(actor_critic) else {}


def check_keras() -> None:
    """Check the global settings of Keras and TensorFlow with which networks are made.

    Raises:
        UserError: With one of them, nothing could be trained or loaded.
    """
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy().name
    if floatx != "float32":
        raise UserError(
            f"Keras's floatx is {floatx!r}, and the networks need 'float32'. Change it in "
            "~/.keras/keras.json, or with keras.config.set_floatx('float32')."
        )
    if policy != "float32":
        raise UserError(
            f"Keras's dtype policy is {policy!r}, and the networks need 'float32'. Change it with "
            "keras.config.set_dtype_policy('float32')."
        )
    if tf.distribute.has_strategy():
        raise UserError("Networks cannot be made within the scope of a tf.distribute.Strategy.")
    if not tf.executing_eagerly():
        raise UserError("Eager execution is disabled in TensorFlow; leave it enabled.")


def _called(actor_critic, observation_space, action_space, kwargs):
    """Return the result of `actor_critic(observation_space, action_space, **kwargs)`."""
    check_keras()
    if isinstance(actor_critic, keras.Layer | BaseActorCritic) or not callable(actor_critic):
        raise UserError(
            f"actor_critic is a {type(actor_critic).__name__}; give the class or function that "
            "makes the networks."
        )
    try:
        inspect.signature(actor_critic).bind(observation_space, action_space, **kwargs)
    except TypeError as error:
        name = getattr(actor_critic, "__name__", repr(actor_critic))
        raise UserError(
            f"{name} cannot make the networks: {error}. It takes "
            f"{', '.join(_parameters_of(actor_critic))}, and is given the observation space, the "
            f"action space and {dict(kwargs)}. Change ac_kwargs or actor_critic."
        ) from error
    return actor_critic(observation_space, action_space, **kwargs)


def _check_returned(ac, expected, arguments):
    if not isinstance(ac, expected):
        raise UserError(
            f"The actor_critic returned {type(ac).__name__}; this algorithm needs "
            f"{expected.__name__}: return {expected.__module__}.{expected.__name__}({arguments})."
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
    if not isinstance(distribution, Distribution):
        raise UserError(
            f"The actor-critic's pi(obs) returned {type(distribution).__name__}; it must return a "
            "distribution of tensorflow_probability over the actions."
        )
    check_size(distribution, spec)
    act = sample(distribution, spec.draw_noise(np.random.default_rng(0), 2))
    logp = distribution.log_prob(act)
    if tuple(act.shape) != (2, *spec.shape) or tuple(logp.shape) != (2,):
        raise UserError(
            f"For 2 observations the actor-critic's pi gives actions of shape {tuple(act.shape)} "
            f"and log_prob of shape {tuple(logp.shape)}; they must be {(2, *spec.shape)} "
            "and (2,). For actions with several dimensions, use MultivariateNormalDiag, or "
            "Independent(..., 1)."
        )
    return act


def check_size(distribution: Distribution, spec: ActionSpec) -> None:
    """Check the size of a policy's distribution for two observations, before noise is added.

    Raises:
        UserError: Kind or size of the distribution do not match the action space.
    """
    discrete = spec.num_choices is not None
    if is_choice(distribution) != discrete:
        kinds = (
            "Categorical or Bernoulli of tensorflow_probability, or Independent of these"
            if discrete
            else "MultivariateNormalDiag of tensorflow_probability, or Independent(Normal, 1)"
        )
        raise UserError(
            f"The actor-critic's pi(obs) returned {type(distribution).__name__}; for the action "
            f"space {spec.space} use {kinds}."
        )
    if discrete:
        what, shape = "logits", choice_logits(distribution).shape
    else:
        what, shape = "means", distribution.batch_shape + distribution.event_shape
    # A policy that ignores the observations may have no batch dimension.
    shape = shape if shape.rank == len(spec.noise_shape) else shape[1:]
    if tuple(shape) != spec.noise_shape:
        given, needed = (" x ".join(map(str, each)) for each in (shape, spec.noise_shape))
        raise UserError(
            f"pi gives {given} {what} for each observation, and the action space {spec.space} "
            f"needs {needed}: give the layer that computes them as many units."
        )


def _check_trainable_by_sac(pi, spec):
    if spec.num_choices is not None:
        fits, needed = is_categorical(pi), "for Discrete actions a Categorical"
    else:
        fits = is_bijection(pi) and pi.event_shape.rank == 1
        needed = "TransformedDistribution(MultivariateNormalDiag(mean, std), bijectors.Tanh())"
    if not fits:
        raise UserError(
            f"The actor-critic's pi(obs) returned {type(pi).__name__}, of events of shape "
            f"{tuple(pi.event_shape)}; this algorithm needs {needed} of tensorflow_probability."
        )


def _check_values(values, shape, name, number):
    if [tuple(each.shape) for each in values] != [shape] * number:
        raise UserError(
            f"For 2 observations the actor-critic's {name} returned shapes "
            f"{[tuple(each.shape) for each in values]}; this algorithm needs {number} of shape "
            f"{shape}. Squeeze a last axis of length 1."
        )


def check_no_variable_in_both(
    some: Iterable[keras.Variable], others: Iterable[keras.Variable], names: str
) -> None:
    """Raise UserError if networks that must be separate have a variable in common."""
    if {id(variable) for variable in some} & {id(variable) for variable in others}:
        raise UserError(
            f"In the actor_critic {names} share variables; they are trained apart. Make new Keras "
            "layers for each, every time that it is called."
        )


def check_tracked(networks: Iterable[keras.Model]) -> None:
    """Raise UserError if a layer of built networks has a variable that Keras does not track.

    Such a variable would not be trained, and a function that uses it cannot be saved. It may be an
    attribute of the layer, or in a list, dict or `tf.Module` that is an attribute. UserError is
    also raised for losses of layers, because no algorithm adds them to its own.
    """
    for net in networks:
        if net.losses:
            raise UserError(
                f"{type(net).__name__} has layers with losses of their own, as those of "
                "kernel_regularizer, which no algorithm adds to its own. Leave them out. (An "
                "optimizer such as keras.optimizers.AdamW, in a copy of the algorithm, lets "
                "weights decay.)"
            )
        tracked = {id(variable.value) for variable in net.variables}
        for layer in net._flatten_layers():  # there is no public method for all nested layers
            for name, value in vars(layer).items():
                if name.startswith("_self_"):  # TensorFlow's own copies of all attributes
                    continue
                if any(id(each) not in tracked for each in _bare_variables(value)):
                    raise UserError(
                        f"{type(layer).__name__}.{name} is a tf.Variable, or has one, which Keras "
                        "does not track: make it with self.add_weight(...), so that it is trained "
                        "and saved."
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
    known = dict(
        entropy=compiled(lambda old: old.entropy(), autograph=True),
        kl_divergence=compiled(lambda old: old.kl_divergence(pi(obs)), autograph=True),
    )
    for name in closed_forms:
        try:
            known[name](distribution)
        except NotImplementedError as error:
            raise UserError(
                f"The policy's distribution {type(distribution).__name__} has no {name}() in "
                "closed form, which this run needs. Use a distribution that has one, or do "
                "without: ppo, ppg and a2c need entropy for ent_coef, ppo kl_divergence for "
                "objective='penalty' and normalize_obs, ppg for train_aux_iters above 0, and trpo "
                "in any case."
            ) from error


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
    if arguments.get("train_aux_iters"):
        raise UserError(
            "The networks have a memory, and the auxiliary phase of ppg learns from single steps; "
            "leave the memory out, or use ppo."
        )
    steps = arguments.get("n_steps") or settings.local_steps
    length = memory.segment_length(steps)
    if steps % length:
        whole = [number for number in range(1, steps + 1) if steps % number == 0]
        nearest = min(whole, key=lambda number: abs(number - length))
        raise UserError(
            f"seq_len is {memory.seq_len}, but each environment takes {steps} steps for a batch, "
            f"which cannot be cut into segments of so many; use one that divides them, such as "
            f"{nearest}, or another steps_per_epoch."
        )
    size, environments = arguments.get("minibatch_size"), settings.num_envs * num_procs()
    if size is not None and size % (environments * length):
        raise UserError(
            f"minibatch_size is {size}, but minibatches consist of whole segments; with "
            f"{environments} environments and seq_len {length} it must be a multiple of "
            f"{environments * length} that divides steps_per_epoch, {settings.steps_per_epoch}."
        )
