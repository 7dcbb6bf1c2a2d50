"""Normalization of observations and rewards with running statistics.

The statistics are like those of gymnasium's NormalizeObservation and NormalizeReward, but merged
over all environments of all MPI ranks, of observations that were acted on, and of returns that
start from 0 in each episode. Scaled values are clipped as in the published settings. The statistics
of returns include a batch before it is learned from. Those of observations are a part of the
policy, which is trained, tested and saved with the same values: see `ObservationNormalizer`.
"""

from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.wrappers.utils import update_mean_var_count_from_moments

from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.layers import compiled, read
from spinup_tf2.envs.spaces import is_image
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import mpi_avg, mpi_sum

EPSILON = 1e-8  # added to variances, as gymnasium does

# The largest normalized observation or reward, as in the published settings. Otherwise, a component
# that has hardly varied so far would be multiplied by up to 10,000 (1 / sqrt(EPSILON)).
CLIP = 10.0

# How far new statistics may move the policy between two updates: the mean KL divergence over the
# last batch. A tenth of PPO's default target_kl.
MAX_KL = 0.001
SHARES = (*2.0 ** -np.arange(21), 0.0)  # fractions of the way to new statistics, in this order


class RunningStatistics(keras.layers.Layer):
    """Mean and variance of all samples that were passed to `update`.

    The state consists of three variables that are not trained. The initial mean 0 and variance 1
    have no weight.

    Args:
        shape: Shape of one sample.
    """

    def __init__(self, shape: tuple[int, ...]):
        super().__init__(trainable=False, autocast=False)
        self.mean, self.var = _mean_and_var(self, shape)
        self.count = _not_trained(self, "count", (), "zeros")
        self.built = True

    def update(self, x: np.ndarray) -> None:
        """Add this rank's samples `[batch, *shape]` to the statistics. Collective."""
        x = np.asarray(x, np.float64)
        count = mpi_sum(float(len(x)))
        if count == 0:
            return
        mean = mpi_sum(x.sum(axis=0)) / count
        var = mpi_sum(np.square(x - mean).sum(axis=0)) / count
        merged = update_mean_var_count_from_moments(
            read(self.mean), read(self.var), read(self.count), mean, var, count
        )
        for variable, value in zip((self.mean, self.var, self.count), merged, strict=True):
            variable.assign(value)


class ObservationNormalizer(keras.layers.Layer):
    """Shifts and scales observations `[batch, *shape]`, and clips them at CLIP.

    Attributes:
        mean, var: The mean and variance with which it normalizes, initially 0 and 1. Only `adopt`
            changes them.
        seen: The statistics of all observations so far.
        share: Fraction of the way from the former to the latter that the next `adopt` goes.

    All of these are variables that are not trained, so that a saved model holds them.

    Args:
        shape: Shape of one observation.
    """

    def __init__(self, shape: tuple[int, ...]):
        super().__init__(trainable=False, autocast=False)
        self.mean, self.var = _mean_and_var(self, shape)
        self.share = _not_trained(self, "share", (), "zeros")
        self.seen = RunningStatistics(shape)

    def adopt(self) -> None:
        """Move by `share` towards the statistics of all observations, and set `share` to 0."""
        for variable, value in zip((self.mean, self.var), self._next(), strict=True):
            variable.assign(value)
        self.share.assign(0)

    def _next(self):
        pairs = ((self.mean, self.seen.mean), (self.var, self.seen.var))
        return [now + self.share * (seen - now) for now, seen in pairs]

    def shift_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `(shift, scale)`, float32: x is normalized to (x - shift) * scale, and clipped."""
        scale = 1 / np.sqrt(read(self.var) + EPSILON)
        return np.float32(read(self.mean)), np.float32(scale)

    def call(self, x: tf.Tensor, after_adopting: bool = False) -> tf.Tensor:
        """Normalize x with the current statistics, or with those that `adopt` would leave."""
        mean, var = self._next() if after_adopting else (self.mean, self.var)
        scale = tf.math.rsqrt(var + EPSILON)
        scaled = (x - tf.cast(mean, x.dtype)) * tf.cast(scale, x.dtype)
        return tf.clip_by_value(scaled, -CLIP, CLIP)


def _not_trained(layer, name, shape, start):
    return layer.add_weight(
        name=name, shape=shape, initializer=start, dtype="float64", trainable=False
    )


def _mean_and_var(layer, shape):
    return _not_trained(layer, "mean", shape, "zeros"), _not_trained(layer, "var", shape, "ones")


class Normalized(keras.Model):
    """A model that normalizes observations before it passes them to another model."""

    def __init__(self, normalizer: ObservationNormalizer, model: keras.Model):
        super().__init__()
        self.normalizer = normalizer
        self.model = model

    def call(self, obs: tf.Tensor) -> tf.Tensor | Distribution:
        return self.model(self.normalizer(obs))


class NormalizedActorCritic(ActorCritic):
    """An actor-critic that normalizes observations `[batch, obs_dim]` with running statistics.

    Args:
        ac: An actor-critic of normalized observations.
        observation_space: Space of the observations as the networks see them.
        action_space: The environment's action space.

    Raises:
        UserError: The observations are images, whose bytes the networks scale themselves, or the
            networks have a memory.
    """

    def __init__(self, ac: ActorCritic, observation_space: spaces.Box, action_space: spaces.Space):
        if is_image(observation_space) or ac.memory is not None:
            raise UserError(
                "normalize_obs is neither for images, which networks scale themselves, nor for "
                "networks that have a memory: what they remember was seen with other statistics. "
                "Leave it out, or scale with fixed numbers (gymnasium's RescaleObservation)."
            )
        self.inner = ac
        self.normalizer = ObservationNormalizer(observation_space.shape)
        pi, v = (Normalized(self.normalizer, model) for model in (ac.pi, ac.v))
        super().__init__(pi, v, action_space)
        self._compiled_kl = compiled(self._kl_of_adopting)

    @property
    def recipe(self) -> tuple[Callable[..., ActorCritic], dict | None]:
        make, arguments = self.inner.recipe
        return _normalized, None if arguments is None else dict(make=make, arguments=arguments)

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        return self.inner.pi_and_v(self.normalizer(obs))

    def with_update(self, update: Callable[..., dict]) -> Callable[..., dict]:
        """Return `update(batch, fresh)`, extended by an update of the statistics of observations.

        The policy as the update leaves it is the one that is tested and saved. Before the next
        batch is collected, `normalizer.adopt()` moves it, by a mean KL divergence on this batch
        that is logged as NormKL and is at most MAX_KL.

        The first statistics are adopted at once, so that no gradient step sees observations on
        their raw scale. The first batch has then been collected by a policy that no longer exists.
        It is learned from as if it had been collected by the new one: the old probabilities are
        those of the new policy. Ratios to the probabilities of the policy that acted would exceed
        every clip and every limit before the first step, and nothing would be learned. Because
        advantages are 0 on average in each state, the advantage of an action still says in which
        direction to move the new policy: for the mean of a Gaussian, E[(act - mean) adv] does not
        depend on the mean.
        """

        def take_in_and_update(batch, fresh):
            normalizer, obs = self.normalizer, batch["obs"]
            first = normalizer.seen.count == 0
            normalizer.seen.update(obs)
            if first:
                normalizer.share.assign(1)
                normalizer.adopt()
            info = update(batch, fresh)
            for share in SHARES:
                normalizer.share.assign(share)
                kl = mpi_avg(float(self._compiled_kl(obs)))
                if kl <= MAX_KL:
                    break
            return info | dict(NormKL=kl)

        return take_in_and_update

    def _kl_of_adopting(self, obs):
        after = self.inner.pi(self.normalizer(obs, after_adopting=True))
        return tf.reduce_mean(self.pi(obs).kl_divergence(after))


def _normalized(observation_space, action_space, make, arguments):
    spaces = observation_space, action_space
    return NormalizedActorCritic(make(*spaces, **arguments), *spaces)


class RewardScaler:
    """Divides rewards by the standard deviation of the discounted returns up to each step.

    Rewards are not shifted, which would change the optimal policy. They are clipped at CLIP.

    Args:
        num_envs: Number of environments of this process.
        gamma: Discount factor.
    """

    def __init__(self, num_envs: int, gamma: float):
        self.statistics = RunningStatistics(())
        self.gamma = gamma
        self.ret = np.zeros(num_envs)  # return of each episode so far; older rewards count less

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables of the statistics."""
        return self.statistics.variables

    def restart(self) -> None:
        """Set the returns so far to 0, because all environments begin new episodes."""
        self.ret = np.zeros_like(self.ret)

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(ret=self.ret[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[i] = state["ret"]

    def __call__(
        self, rew: np.ndarray, ends: np.ndarray, lost: np.ndarray | bool = False
    ) -> np.ndarray:
        """Return scaled rewards `[T, n]`. Collective.

        Args:
            rew: Rewards `[T, n]`.
            ends: Whether a step is the last one of an episode, bool `[T, n]`.
            lost: Whether a step was lost and does not count, bool `[T, n]`.
        """
        returns = np.empty(rew.shape)
        for t in range(len(rew)):
            self.ret = self.gamma * self.ret + rew[t]
            returns[t] = self.ret
            self.ret = np.where(ends[t], 0.0, self.ret)
        self.statistics.update(returns[~np.broadcast_to(lost, ends.shape)])
        scale = np.float32(1 / np.sqrt(read(self.statistics.var) + EPSILON))
        return (rew * scale).clip(-CLIP, CLIP)
