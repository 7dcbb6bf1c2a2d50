"""A Gaussian policy of one's own: network and distribution."""

import keras
import numpy as np
import tensorflow as tf


class GaussianPolicy(keras.Model):
    def __init__(self, obs_dim: int, act_dim: int, hidden_sizes: tuple[int, ...]):
        super().__init__()
        hidden = [keras.layers.Dense(size, activation="tanh") for size in hidden_sizes]
        output = keras.layers.Dense(act_dim)
        self.mu = keras.Sequential([keras.Input((obs_dim,)), *hidden, output])
        self.log_std = self.add_weight(
            shape=(act_dim,), initializer=keras.initializers.Constant(-0.5), name="log_std"
        )

    def call(self, obs: tf.Tensor) -> tf.Tensor:
        return self.mu(obs)

    def sample(self, obs: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        return self(obs) + tf.exp(self.log_std) * noise

    def log_prob(self, obs: tf.Tensor, act: tf.Tensor) -> tf.Tensor:
        z = (act - self(obs)) / tf.exp(self.log_std)
        return tf.reduce_sum(-0.5 * z**2 - self.log_std - 0.5 * np.log(2 * np.pi), axis=-1)

    def entropy(self) -> tf.Tensor:
        return tf.reduce_sum(self.log_std + 0.5 + 0.5 * np.log(2 * np.pi))
