"""PPO with a standard deviation that depends on what is observed."""

import gymnasium as gym
import keras
import tensorflow as tf
import tensorflow_probability as tfp
from spinup_tf2.core.nets.layers import mlp

from spinup_tf2 import ppo
from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.heads import ValueFunction


class StateDependentGaussian(keras.Model):
    """A diagonal Gaussian: mean and standard deviation from one network."""

    def __init__(self, obs_dim, act_dim, width):
        super().__init__()
        self.body = mlp(obs_dim, (width,), width, "relu", output_activation="relu")
        self.mean = keras.layers.Dense(act_dim)
        self.log_std = keras.layers.Dense(act_dim)

    def call(self, obs):
        features = self.body(obs)
        log_std = tf.clip_by_value(self.log_std(features) - 0.5, -5.0, 1.0)
        mean = self.mean(features)
        return tfp.distributions.MultivariateNormalDiag(mean, tf.exp(log_std))


def my_actor_critic(observation_space, action_space, width=32, value_width=64):
    """What `ppo` calls; `observation_space` is always a flat Box."""
    obs_dim = observation_space.shape[0]
    pi = StateDependentGaussian(obs_dim, action_space.shape[0], width)
    v = ValueFunction(
        keras.Sequential(
            [
                keras.Input((obs_dim,)),
                keras.layers.LayerNormalization(),
                keras.layers.Dense(value_width, activation="relu"),
                keras.layers.Dense(1),
            ]
        )
    )
    return ActorCritic(pi, v, action_space)


if __name__ == "__main__":
    run_dir = "data/own_network/own_network_s0"
    ppo(
        lambda: gym.make("Pendulum-v1"),
        actor_critic=my_actor_critic,
        ac_kwargs=dict(width=64),
        num_envs=8,
        epochs=5,
        logger_kwargs=dict(output_dir=run_dir, exp_name="own_network"),
    )
