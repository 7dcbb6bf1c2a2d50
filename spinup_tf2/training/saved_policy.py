"""The policy of a run on disk: written as a SavedModel, read back without running its code.

A SavedModel is a program: whoever loads one must trust its author. TensorFlow's files of variables
require trust, too, because a corrupted one may crash the process. So the same weights are also
saved in weights.npz, and the networks are rebuilt according to model_info.json (`rebuilding`).
"""

import inspect
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.checks import check_keras
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.q_actor_critic import QActorCritic
from spinup_tf2.envs.spaces import (
    ActionSpec,
    action_spec,
    bounded_action_spec,
    network_dtype,
    network_observation_space,
    observation_test,
    to_network,
)
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.files.as_json import space_from_json, space_to_json
from spinup_tf2.files.saves import complete_save, read_info, read_weights
from spinup_tf2.files.unpickling import load_saved_model
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.training.policy_with_memory import Policy, PolicyWithMemory
from spinup_tf2.training.rebuilding import build_again, describe_networks

_OPT_IN = (
    "If you trust whoever made the run, load its SavedModel with --allow_pickle "
    "(allow_pickle=True), which runs code that lies in the run."
)

# What the conversion raises of a value that is no observation.
_NO_OBSERVATION = (LookupError, OverflowError, TypeError, ValueError)


# ---------------------------------------------------------------------------------- writing


class SavedPolicy(tf.Module):
    """An actor-critic as the module that `EpochLogger.setup_tf_saver` takes.

    The SavedModel has a function `policy(x, noise)`. It takes observations `[batch, obs_dim]` (or
    images) and noise `[batch, *noise_shape]` (model_info.json says which kind), and returns a dict
    of `pi`, the action selected by the noise, `mu`, the deterministic action, and, if there is a
    value function, `v`, the value, and `pi_logp`, the log-probability of `pi`; `logp(x, a)` is that
    of other actions. With a memory both also take `state` `[batch, state_size]`, zeros at the
    beginning of an episode, and the dict holds the next `state`. If there are Q-functions
    instead, `q(x, a)` returns a dict of the values `q`, or `q1` and `q2`, of actions such as `pi`;
    for discrete actions, `q(x)` returns those of all actions.

    Args:
        ac: The actor-critic.
        observation_space: The raw environment's observation space, before flattening.
        action_space: The environment's action space.
        extra: Variables that are saved with the policy but not used by it.
    """

    def __init__(
        self,
        ac: BaseActorCritic,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        extra: Iterable[keras.Variable] = (),
    ):
        super().__init__()
        extra = [*extra]
        # The variables that a SavedModel's function uses must be attributes of the module. The
        # Keras models must not be: their own functions return distributions, which cannot be saved.
        self.parameters = [variable.value for variable in [*ac.variables, *extra]]
        spec = ac.action_spec
        seen = network_observation_space(observation_space)
        x = tf.TensorSpec([None, *seen.shape], network_dtype(seen), name="x")
        noise = tf.TensorSpec([None, *spec.noise_shape], tf.float32, name="noise")
        act_dtype = tf.int32 if spec.num_choices else tf.float32
        a = tf.TensorSpec([None, *spec.shape], act_dtype, name="a")
        state = []
        if ac.memory is not None:
            state = [tf.TensorSpec([None, ac.memory.size], tf.float32, name="state")]
        info: dict[str, Any] = {
            "noise": "gumbel" if spec.num_choices else "normal",
            "noise_shape": list(spec.noise_shape),
            "observation_space": space_to_json(observation_space),
            "action_space": space_to_json(action_space),
            "bounded": spec.bounded,
            "networks": describe_networks(ac, len(extra)),
        }

        # Networks that cannot be saved fail now instead of at the first save.
        self.policy, info["inputs"] = _saved(ac.outputs, [x, noise, *state])
        info["outputs"] = list(self.policy.get_concrete_function().structured_outputs)
        if ac.memory is not None:
            info["state_size"] = ac.memory.size
        if isinstance(ac, ActorCritic):
            self.logp, info["logp_inputs"] = _saved(ac.log_prob, [x, a, *state])
        if isinstance(ac, QActorCritic):
            self.q, info["q_inputs"] = _saved(
                lambda *inputs: dict(zip(ac.q_names, ac.q_values(*inputs), strict=True)),
                [x] if spec.num_choices else [x, a],
            )
            info["q_outputs"] = ac.q_names
        # Bypasses tf.Module, which would wrap the dict; Python 3.13 cannot write that as JSON.
        object.__setattr__(self, "info", info)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the current values of the variables by number, for weights.npz."""
        return {str(i): variable.numpy() for i, variable in enumerate(self.parameters)}


def _saved(function, inputs):
    """Return a compiled function whose arguments have the names of the inputs, and these names."""
    names = [each.name for each in inputs]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def of_inputs(*args):
        return function(*args)

    of_inputs.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in names]
    )
    traced = compiled(of_inputs, input_signature=inputs)
    traced.get_concrete_function()
    return traced, names


# ---------------------------------------------------------------------------------- reading


class LoadedPolicy(NamedTuple):
    """The networks of a save, in TensorFlow.

    Attributes:
        observation_space: The raw environment's observation space.
        action_spec: Description of the actions and their conversion for the environment.
        ac: The rebuilt networks, or None.
        saved_model: The SavedModel if the networks were loaded as such, or None.
        state_size: Length of the recurrent state; 0 without a memory.
    """

    observation_space: spaces.Space
    action_spec: ActionSpec
    ac: BaseActorCritic | None
    saved_model: Any
    state_size: int = 0

    @property
    def outputs(self) -> Callable[..., Mapping[str, tf.Tensor]]:
        """The function `policy` of a `SavedPolicy`: `outputs(x, noise)`.

        With a memory, it is `outputs(x, noise, state)`.
        """
        return self.saved_model.policy if self.ac is None else self.ac.outputs

    @property
    def log_prob(self) -> Callable[..., tf.Tensor] | None:
        """The function `logp(x, a)` of a `SavedPolicy`; None if there is none."""
        return getattr(self.ac or self.saved_model, "log_prob" if self.ac else "logp", None)


def load_networks(
    save_dir: str | os.PathLike, *, allow_pickle: bool = False, best: bool = False
) -> LoadedPolicy:
    """Load the networks in `save_dir`; for arguments and errors see `load_policy`."""
    check_keras()
    with complete_save(save_dir):
        info = read_info(save_dir)
        observation_space, action_space = (
            space_from_json(info[name]) for name in ("observation_space", "action_space")
        )
    try:
        ac = _networks_from_weights(save_dir, info, observation_space, action_space, best)
    except UserError:
        if best or not allow_pickle:
            raise
        make_spec = bounded_action_spec if info.get("bounded") else action_spec
        spec = make_spec(action_space)
        with complete_save(save_dir):
            model = load_saved_model(save_dir)
        return LoadedPolicy(observation_space, spec, None, model, int(info.get("state_size", 0)))
    size = 0 if ac.memory is None else ac.memory.size
    return LoadedPolicy(observation_space, ac.action_spec, ac, None, size)


def load_policy(
    save_dir: str | os.PathLike,
    deterministic: bool = False,
    seed: int | None = None,
    *,
    allow_pickle: bool = False,
    best: bool = False,
) -> Callable[[Any], Any]:
    """Load the policy in `save_dir` (a run's `tf2_save`).

    Args:
        save_dir: Directory of the save.
        deterministic: Whether to take the mode of the policy instead of a sample.
        seed: Seed of the samples; None gives different ones every time.
        allow_pickle: Whether networks that cannot be rebuilt may be loaded from their SavedModel.
            That runs code in the file: use it only for runs of people you trust.
        best: Whether to take the best weights so far, which the run's newest checkpoint holds. Not
            supported for networks that are loaded from a SavedModel.

    Returns:
        `get_action(obs)`, from an observation of the raw environment to an action for its `step`,
        or from those of a vector environment, `[n, ...]`, to its n actions. With a memory,
        `get_action(obs, state)` returns `(action, next state)`, where state None begins an episode
        (`policy_with_memory.PolicyWithMemory`). `get_action.logp(obs, action)`, or `logp(obs,
        action, state)`, returns the log-probability of an action of the environment under the
        policies of the on-policy algorithms, which sample.

    Raises:
        UserError: There is no complete save, or it holds something unexpected.
    """
    loaded = load_networks(save_dir, allow_pickle=allow_pickle, best=best)
    return policy_of(loaded, deterministic, seed)


def policy_of(
    loaded: LoadedPolicy, deterministic: bool = False, seed: int | None = None
) -> Callable[[Any], Any]:
    """Return the policy of loaded networks, as `load_policy` does."""
    observation_space, spec = loaded.observation_space, loaded.action_spec
    act = _act_of(loaded, deterministic)
    shape = network_observation_space(observation_space).shape
    fits = observation_test(observation_space, np.dtype(np.float64))
    if isinstance(observation_space, spaces.Box):  # else only more axes say what its shape does not
        fits = lambda obs: np.ndim(obs) <= len(observation_space.shape)  # noqa: E731
    rng = np.random.default_rng(seed)

    def step(obs, *state):
        x = _seen(observation_space, obs, shape, fits, batches=not state)
        several = x.ndim > len(shape)
        noise = spec.draw_noise(rng, len(x) if several else 1)
        if deterministic:
            noise = np.zeros_like(noise)  # selects the mode
        action, *next_state = act(x if several else x[None], noise, *state)
        actions = spec.to_env(action)
        return actions if several else actions[0], *next_state

    def logp(obs, action, *state):
        if loaded.log_prob is None:
            raise UserError(
                "This policy was saved without log-probabilities; those of VPG, TRPO, PPO, PPG and "
                "A2C have them."
            )
        if not spec.allows(np.asarray(action)):
            raise UserError(f"The action is {action!r}, which is none in {spec.space}.")
        x = _seen(observation_space, obs, shape, fits)
        return float(loaded.log_prob(x[None], spec.from_env(action)[None], *state)[0])

    if loaded.state_size:
        return PolicyWithMemory(step, loaded.state_size, logp)
    return Policy(step, logp)


def _act_of(loaded, deterministic):
    """Return `act(x, noise)`, which returns a sequence of the actions.

    With a memory, it is `act(x, noise, state)`, which returns actions and next states.
    """
    if loaded.ac is not None and loaded.ac.memory is None:
        actor = Actor(loaded.ac)
        return lambda x, noise: actor(x, noise)[:1]
    names = ["mu" if deterministic else "pi", *(["state"] if loaded.state_size else [])]
    of_networks = None if loaded.ac is None else compiled(loaded.ac.outputs)

    def act(*inputs):
        # `loaded` keeps the SavedModel alive as long as this function.
        results = (of_networks or loaded.outputs)(*inputs)
        return [results[name].numpy() for name in names]

    return act


def _seen(observation_space, obs, shape, fits, batches=False):
    """Convert an observation, or a batch of them, for the networks; UserError if it is neither."""

    def one(obs):
        x = to_network(observation_space, obs)
        if x.shape != shape:
            raise ValueError(f"it has shape {x.shape} instead of {shape}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise ValueError("it has NaN or infinity")
        if not fits(obs):  # to_network would take -1 in a Discrete space for the last value
            raise ValueError(f"it is {reprlib.repr(obs)}")
        return x

    try:
        return one(obs)
    except _NO_OBSERVATION as error:
        with suppress(*_NO_OBSERVATION):
            if batches:
                return np.stack([*map(one, iterate(batch_space(observation_space), obs))])
        raise UserError(
            f"The agent was trained on observations in {reprlib.repr(observation_space)}, and this "
            f"is none of them ({one_line(error)})."
        ) from error


def _networks_from_weights(save_dir, info, observation_space, action_space, best):
    networks = info.get("networks")
    if networks is None:
        raise UserError(
            f"The networks in {save_dir} are not this package's own, so that they cannot be built "
            f"again from their weights. {_OPT_IN}"
        )
    best_weights = _best_weights(save_dir) if best else None
    try:
        if best_weights is not None and isinstance(networks, dict):
            networks = networks | {"extra": 0}
        weights = read_weights(save_dir) if best_weights is None else best_weights
        return build_again(networks, observation_space, action_space, weights)
    except UserError as error:
        raise UserError(
            f"The networks in {save_dir} cannot be built again from their weights: {error} "
            f"{_OPT_IN}"
        ) from error


def _best_weights(save_dir):
    """Return the best weights of the run that a save belongs to, from its newest checkpoint.

    Also prints their epoch and score.
    """
    arrays, best = Checkpoints(Path(save_dir).parent).best()
    success = f"success rate {best['success']:.2f}, " if best["success"] else ""
    print(
        f"The best policy so far: epoch {best['epoch']}, {success}mean return {best['score']:.4g}."
    )
    return arrays
