"""SAC with Q-functions that normalize what is inside of them."""

import gymnasium as gym
import keras
import tensorflow as tf
from spinup_tf2.core.nets.layers import mlp

from spinup_tf2 import sac
from spinup_tf2.core.nets.heads import SquashedGaussianPolicy
from spinup_tf2.core.nets.q_actor_critic import QActorCritic


class NormalizedQ(keras.Model):
    """Q(s, a), with layer normalization behind each hidden layer."""

    def __init__(self, input_dim, width):
        super().__init__()
        layers = keras.layers
        self.net = keras.Sequential(
            [
                keras.Input((input_dim,)),
                *(layers.Dense(width), layers.LayerNormalization(), layers.ReLU()),
                *(layers.Dense(width), layers.LayerNormalization(), layers.ReLU()),
                layers.Dense(1),
            ]
        )

    def call(self, obs, act):
        q = self.net(tf.concat([obs, act], axis=-1))
        return tf.squeeze(q, axis=-1)  # [batch], not [batch, 1]


def my_actor_critic(observation_space, action_space, width=64):
    """What `sac` calls, twice; `observation_space` is always a flat Box."""
    obs_dim, act_dim = observation_space.shape[0], action_space.shape[0]
    pi = SquashedGaussianPolicy(mlp(obs_dim, (width, width), 2 * act_dim, "relu"))
    qs = [NormalizedQ(obs_dim + act_dim, width) for _ in range(2)]
    return QActorCritic(pi, qs, action_space)


if __name__ == "__main__":
    run_dir = "data/own_q_network/own_q_network_s0"
    sac(
        lambda: gym.make("Pendulum-v1"),
        actor_critic=my_actor_critic,
        ac_kwargs=dict(width=64),
        steps_per_epoch=1000,
        epochs=3,
        start_steps=500,
        update_after=500,
        num_test_episodes=3,
        logger_kwargs=dict(output_dir=run_dir, exp_name="own_q_network"),
    )
