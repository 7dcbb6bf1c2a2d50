"""A Gaussian policy of your own: network and distribution.

    pi(a|s) = N(a; mu(s), sigma)

mu(s) is the output of a network: hidden layers with tanh, then a linear layer. The logarithm of
sigma is a weight for each dimension of the action, which does not depend on the state, starts at
-0.5, and is trained as well.

To draw an action, take standard normal noise: a = mu + sigma * noise. This way the function has no
hidden state, and gradients of the action with respect to mu and sigma are available.

    H = sum_i ( 1/2 + log(2 pi) / 2 + log sigma_i )         the entropy, of any state
"""

import keras
import tensorflow as tf


class GaussianPolicy(keras.Model):
    """A diagonal Gaussian whose mean depends on the observation.

    Args:
        obs_dim: Length of an observation.
        act_dim: Length of an action.
        hidden_sizes: Widths of the hidden layers, such as (64, 64).
    """

    def __init__(self, obs_dim: int, act_dim: int, hidden_sizes: tuple[int, ...]):
        super().__init__()
        raise NotImplementedError  # layers, built for obs_dim, and self.log_std, [act_dim]

    def call(self, obs: tf.Tensor) -> tf.Tensor:
        """Return mu(s): [batch, obs_dim] to [batch, act_dim]."""
        raise NotImplementedError

    def sample(self, obs: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Return actions [batch, act_dim], from standard normal noise of the same shape."""
        raise NotImplementedError

    def log_prob(self, obs: tf.Tensor, act: tf.Tensor) -> tf.Tensor:
        """Return log pi(a|s): [batch, obs_dim] and [batch, act_dim] to [batch]."""
        raise NotImplementedError

    def entropy(self) -> tf.Tensor:
        """Return H, a scalar."""
        raise NotImplementedError
