"""Running statistics of observations and returns, and what is scaled by them.

The statistics are those of gymnasium's NormalizeObservation and NormalizeReward, merged over all
environments of all MPI ranks. Those of observations stand still while a batch is collected and
learned from, and take it in afterwards: all of a batch is seen on one scale, by the policy that
acts and by the one that learns. Those of returns take a batch in before it is learned from.
"""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces
from gymnasium.wrappers.utils import update_mean_var_count_from_moments

from spinup_tf2.core.policies import ActorCritic
from spinup_tf2.core.spaces import is_image
from spinup_tf2.errors import UserError
from spinup_tf2.utils.mpi_tools import mpi_sum

EPSILON = 1e-8  # added to variances, as gymnasium does


class RunningStatistics(keras.layers.Layer):
    """Mean and variance of everything that `update` was given; called, it normalises with them.

    shape: of one sample. The state is three variables that are not trained (mean 0 and variance 1
    at first, which count for nothing), so that a saved model holds it and uses it unchanged.
    """

    def __init__(self, shape: tuple[int, ...]):
        super().__init__(trainable=False, autocast=False)
        weight = lambda name, shape, start: self.add_weight(  # noqa: E731
            name=name, shape=shape, initializer=start, dtype="float64", trainable=False
        )
        self.mean = weight("mean", shape, "zeros")
        self.var = weight("var", shape, "ones")
        self.count = weight("count", (), "zeros")

    def update(self, x: np.ndarray) -> None:
        """Take in this rank's samples `[batch, *shape]`. Collective."""
        x = np.asarray(x, np.float64)
        count = mpi_sum(float(len(x)))
        mean = mpi_sum(x.sum(axis=0)) / count
        var = mpi_sum(np.square(x - mean).sum(axis=0)) / count
        state = (self.mean, self.var, self.count)
        merged = update_mean_var_count_from_moments(
            *(variable.numpy() for variable in state), mean, var, count
        )
        for variable, value in zip(state, merged, strict=True):
            variable.assign(value)

    def shift_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """`(shift, scale)`, float32: a sample x is normalised to (x - shift) * scale."""
        scale = 1 / np.sqrt(self.var.numpy() + EPSILON)
        return np.float32(self.mean.numpy()), np.float32(scale)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        scale = tf.math.rsqrt(self.var + EPSILON)
        return (x - tf.cast(self.mean, x.dtype)) * tf.cast(scale, x.dtype)


class Normalized(keras.Model):
    """A model of normalised observations, as a model of observations."""

    def __init__(self, statistics: RunningStatistics, model: keras.Model):
        super().__init__()
        self.statistics = statistics
        self.model = model

    def call(self, obs: tf.Tensor) -> tf.Tensor | tfp.distributions.Distribution:
        return self.model(self.statistics(obs))


class NormalizedActorCritic(ActorCritic):
    """An actor-critic that normalises observations `[batch, obs_dim]` with running statistics.

    Raises UserError for images, whose bytes the networks scale themselves.
    """

    def __init__(self, ac: ActorCritic, observation_space: spaces.Box, action_space: spaces.Space):
        if is_image(observation_space):
            raise UserError(
                "normalize_obs is True, but the observations are images; networks for images scale "
                "their bytes themselves. Leave normalize_obs out."
            )
        self.inner = ac
        self.statistics = RunningStatistics(observation_space.shape)
        pi, v = (Normalized(self.statistics, model) for model in (ac.pi, ac.v))
        super().__init__(pi, v, action_space)

    def pi_and_v(self, obs: tf.Tensor) -> tuple[tfp.distributions.Distribution, tf.Tensor]:
        return self.inner.pi_and_v(self.statistics(obs))


class RewardScaler:
    """Divides rewards by the standard deviation of the discounted returns up to each step.

    Rewards are not shifted, which would change what is optimal.
    """

    def __init__(self, num_envs: int, gamma: float):
        self.statistics = RunningStatistics(())
        self.gamma = gamma
        self.ret = np.zeros(num_envs)  # of each environment's episode so far, discounted backwards

    def restart(self) -> None:
        """All environments begin new episodes."""
        self.ret = np.zeros_like(self.ret)

    def env_state(self, column: int) -> dict[str, np.ndarray]:
        return dict(ret=self.ret[column])

    def set_env_state(self, column: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[column] = state["ret"]

    def __call__(self, rew: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Rewards `[T, n]`, scaled; ends: `[T, n]`, where episodes end. Collective."""
        returns = np.empty(rew.shape)
        for t in range(len(rew)):
            self.ret = self.gamma * self.ret + rew[t]
            returns[t] = self.ret
            self.ret = np.where(ends[t], 0.0, self.ret)
        self.statistics.update(returns.ravel())
        _, scale = self.statistics.shift_and_scale()
        return rew * scale
