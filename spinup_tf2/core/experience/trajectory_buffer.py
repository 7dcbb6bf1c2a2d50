"""The buffer in which on-policy algorithms collect the experience of one batch."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spinup_tf2.core.vector_env import lost

# returns(rew, val, next_val, terminated, truncated, valid) -> (adv, ret); all `[T, n]`.
Returns = Callable[..., tuple[np.ndarray, np.ndarray]]


class TrajectoryBuffer:
    """The steps of one batch of `n` environments, `[T, n, ...]`, and their advantages.

    Args:
        obs_shape: Shape of one observation.
        act_shape: Shape of one action.
        act_dtype: Type of the actions; rewards and values are float32.
        size: T, the number of steps that each environment takes.
        num_envs: The number of environments, n.
        returns: Function `returns(rew, val, next_val, terminated, truncated, valid)` that returns
            advantages and value targets `[T, n]`, such as `advantages.estimates`.
        obs_dtype: Type of the observations.
    """

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        act_shape: tuple[int, ...],
        act_dtype: type | np.dtype,
        size: int,
        num_envs: int,
        returns: Returns,
        obs_dtype: type | np.dtype = np.float32,
    ):
        rows = (size, num_envs)
        self.obs = np.zeros((*rows, *obs_shape), obs_dtype)
        self.act = np.zeros((*rows, *act_shape), act_dtype)
        self.rew, self.val = np.zeros((2, *rows), np.float32)
        self.terminated, self.truncated, self.lost = np.zeros((3, *rows), bool)
        self.returns = returns
        self.size = size
        self.start()

    def start(self) -> None:
        """Empty the buffer; its arrays are reused."""
        self.t = 0
        self.has_values = False
        self.terminated[:] = self.truncated[:] = self.lost[:] = False
        # (t, env, last observation) of episodes that ended, unless lost
        self.final_obs: list[tuple[int, int, np.ndarray]] = []

    def store(
        self,
        obs: np.ndarray,
        act: np.ndarray,
        rew: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_obs: Mapping[int, np.ndarray | None],
        val: np.ndarray | None = None,
    ) -> None:
        """Append one step of all environments.

        Args:
            obs, act: Observations and actions, `[n, ...]`.
            rew, terminated, truncated: `[n]`.
            final_obs: {environment: last observation} of the episodes that ended in this step; None
                where the step was lost.
            val: V(obs) `[n]` if acting has computed it anyway, else None; in all steps alike.
        """
        t = self.t
        if t == self.size:
            raise IndexError(f"The buffer is full: it holds {self.size} steps of each environment.")
        self.obs[t] = obs
        self.act[t] = act
        self.rew[t] = rew
        self.has_values = val is not None
        if self.has_values:
            self.val[t] = val
        if final_obs:
            self.terminated[t] = terminated
            self.truncated[t] = truncated
            self.lost[t, lost(final_obs)] = True
            self.final_obs += [
                (t, env, last) for env, last in final_obs.items() if last is not None
            ]
        self.t += 1

    def get(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        last_obs: np.ndarray,
        use_stored: bool = True,
    ) -> dict[str, Any]:
        """Return the batch of `T * n` steps: a dict of obs, act, ret, adv, val and valid.

        A step that was lost has advantage 0 and return V(obs), so that the policy learns nothing
        from it, and the value function at most to stay as it is.

        Args:
            value: A function from observations `[batch, ...]` to V `[batch]`. Because no weight
                changes while a batch is collected, it is called once for the whole batch, unless
                the values were stored.
            last_obs: Observations after the last step, `[n, ...]`.
            use_stored: Whether to use the stored values; False if V has changed since.
        """
        if self.t != self.size:
            raise ValueError(f"The buffer holds {self.t} of {self.size} steps; fill it first.")
        steps, num_envs = self.rew.shape
        stored = self.has_values and use_stored
        val = self.val.copy() if stored else self._values(value)
        everywhere = num_envs * [steps - 1], range(num_envs)
        next_val = np.concatenate([val[1:], self._values_after(value, last_obs, *everywhere)[None]])
        # After an episode's end, the next observation in the buffer belongs to the next episode.
        limits = [(t, i, last) for t, i, last in self.final_obs if not self.terminated[t, i]]
        if limits:
            times, envs, last = zip(*limits, strict=True)
            after = self._values_after(value, np.stack(last), times, envs)
            next_val[list(times), list(envs)] = after

        # A lost step is worth V(obs), whatever was done: the trajectory before it is cut off there,
        # and its own "reward" is that value, with nothing to follow.
        cut = self.truncated.copy()
        cut[:-1] |= self.lost[1:]
        rew = np.where(self.lost, val, self.rew)
        over = self.terminated | self.lost
        valid = ~self.lost
        adv, ret = self.returns(rew, val, next_val, over, cut, valid)
        return self._batch(dict(obs=self.obs, act=self.act, ret=ret, adv=adv, val=val, valid=valid))

    # Overridden by SegmentBuffer.

    def _values(self, value):
        """Return V of all observations, `[T, n]`."""
        return value(_flat(self.obs)).reshape(self.rew.shape)

    def _values_after(self, value, obs, times, envs):
        """Return V `[m]` of observations `[m, ...]` after the steps `times` of `envs`."""
        return value(obs)

    def _batch(self, arrays):
        """Reshape arrays `[T, n, ...]` to those of a batch."""
        return {name: _flat(x) for name, x in arrays.items()}


def _flat(x):
    return x.reshape(-1, *x.shape[2:])
