"""The policy of a run on disk: written as a SavedModel, read back without any of its code."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.policies import ActorCritic
from spinup_tf2.core.q_actor_critic import QActorCritic
from spinup_tf2.core.spaces import (
    action_spec,
    bounded_action_spec,
    network_dtype,
    network_observation_space,
    space_from_json,
    space_to_json,
    to_network,
)
from spinup_tf2.errors import UserError


class SavedPolicy(tf.Module):
    """What `EpochLogger.setup_tf_saver` takes, so that `save_state` saves an actor-critic.

    The SavedModel has a function `policy(x, noise)`: observations `[batch, obs_dim]` (or images)
    and noise `[batch, *noise_shape]` (model_info.json says which kind) to a dict of `pi`, the
    action that the noise picks, `mu`, the deterministic action, and, if there is a value function,
    `v`, the value. If there are Q-functions instead, `q(x, a)` gives a dict of the values of
    actions such as `pi`, or `q(x)` those of all choices: `q`, or `q1` and `q2`.

    observation_space: the raw environment's, before flattening.
    extra: variables that are saved with the policy and not used by it.
    """

    def __init__(
        self,
        ac: ActorCritic | QActorCritic,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        extra: Iterable[keras.Variable] = (),
    ):
        super().__init__()
        # The variables that a SavedModel function uses must be attributes of the module. The Keras
        # models must not be: their own functions return distributions, which it cannot hold.
        self.parameters = [variable.value for variable in [*ac.variables, *extra]]
        spec = ac.action_spec
        seen = network_observation_space(observation_space)
        x = tf.TensorSpec([None, *seen.shape], network_dtype(seen), name="x")
        noise = tf.TensorSpec([None, *spec.noise_shape], tf.float32, name="noise")
        info = {
            "noise": "gumbel" if spec.num_choices else "normal",
            "noise_shape": list(spec.noise_shape),
            "observation_space": space_to_json(observation_space),
            "action_space": space_to_json(action_space),
            "bounded": spec.bounded,
        }

        # What cannot be saved fails now, and not at the first save.
        self.policy = tf.function(ac.outputs, input_signature=[x, noise])
        outputs = self.policy.get_concrete_function().structured_outputs
        info |= {"inputs": ["x", "noise"], "outputs": list(outputs)}
        if isinstance(ac, QActorCritic):
            a = tf.TensorSpec([None, *spec.shape], tf.float32, name="a")
            inputs = [x] if spec.num_choices else [x, a]
            self.q = tf.function(
                lambda *inputs: dict(zip(ac.q_names, ac.q_values(*inputs), strict=True)),
                input_signature=inputs,
            )
            self.q.get_concrete_function()
            info |= {"q_inputs": [each.name for each in inputs], "q_outputs": ac.q_names}
        # Set as it is: tf.Module would wrap the dict, and Python 3.13 writes no such thing as JSON.
        object.__setattr__(self, "info", info)


def load_policy(
    save_dir: str | os.PathLike, deterministic: bool = False, seed: int | None = None
) -> Callable[[Any], Any]:
    """Load the policy in `save_dir` (a run's `tf2_save`).

    deterministic: whether to take the mode of the policy instead of a sample.
    seed: of the samples; None gives different ones every time.
    Returns `get_action(obs)`, from an observation of the raw environment to an action for its
    `step`. Raises UserError if there is no complete save.
    """
    try:
        info = json.loads(Path(save_dir, "model_info.json").read_text(encoding="utf-8"))
        model = tf.saved_model.load(str(save_dir))
    except (OSError, ValueError) as error:
        raise UserError(f"There is no complete saved policy in {save_dir} ({error}).") from error
    observation_space = space_from_json(info["observation_space"])
    make_spec = bounded_action_spec if info.get("bounded") else action_spec
    spec = make_spec(space_from_json(info["action_space"]))
    rng = np.random.default_rng(seed)
    output = "mu" if deterministic else "pi"

    def get_action(obs):
        x = to_network(observation_space, obs)
        noise = spec.draw_noise(rng, 1)
        act = model.policy(x[None], noise)[output].numpy()
        return spec.to_env(act)[0]

    return get_action
