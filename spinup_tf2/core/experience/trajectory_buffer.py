"""Where experience waits until it is learned from."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spinup_tf2.core.experience.advantages import gae, mixture, normalized
from spinup_tf2.core.rollout.vector_env import lost


class TrajectoryBuffer:
    """The steps of one epoch of `n` environments, `[T, n, ...]`, and their advantages.

    obs_shape, act_shape: shapes of one observation and one action.
    act_dtype, obs_dtype: of the actions and the observations; everything else is float32.
    size: T, the number of steps that each environment takes in an epoch.
    num_envs: how many environments, n.
    gamma, lam: discount, and the lambda of generalised advantage estimation.
    normalize_adv: whether `get` normalises the advantages.
    coeff: if `lam` is several lambdas, the weights with which their estimates are mixed; each is
        normalised before.
    """

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        act_shape: tuple[int, ...],
        act_dtype: type | np.dtype,
        size: int,
        num_envs: int,
        gamma: float = 0.99,
        lam: float | Sequence[float] = 0.95,
        obs_dtype: type | np.dtype = np.float32,
        normalize_adv: bool = True,
        coeff: Sequence[float] | None = None,
    ):
        rows = (size, num_envs)
        self.obs = np.zeros((*rows, *obs_shape), obs_dtype)
        self.act = np.zeros((*rows, *act_shape), act_dtype)
        self.rew = np.zeros(rows, np.float32)
        self.val = np.zeros(rows, np.float32)
        self.terminated = np.zeros(rows, bool)
        self.truncated = np.zeros(rows, bool)
        self.lost = np.zeros(rows, bool)
        self.gamma, self.lam, self.coeff = gamma, lam, coeff
        self.normalize_adv = normalize_adv
        self.size = size
        self.start_epoch()

    def start_epoch(self) -> None:
        """Forget the steps; the arrays are used again."""
        self.t = 0
        self.has_values = False
        self.terminated[:] = self.truncated[:] = self.lost[:] = False
        self.final_obs = []  # (t, env, obs): where a time limit hid the observation it led to

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

        obs, act: what was seen and done, `[n, ...]`; rew, terminated, truncated: `[n]`.
        final_obs: {environment: last observation} of the episodes that ended in this step; None
            where the step was lost.
        val: V(obs) `[n]` where acting has computed it anyway, else None; the same in all steps.
        """
        t = self.t
        if t == self.size:
            raise IndexError(f"The buffer is full: it holds {self.size} steps an epoch.")
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
        self, value: Callable[[np.ndarray], np.ndarray], last_obs: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The epoch as one batch of `T * n` steps: a dict of obs, act, ret, adv and val.

        value: a function from observations `[batch, ...]` to V `[batch]`. Because no weight
            changes while an epoch is collected, it is called for the whole epoch at once, unless
            the values were stored.
        last_obs: `[n, ...]`, what the environments show after the last step.
        Advantages are normalised (if they are) to mean 0 and standard deviation 1 over all ranks.

        A step that was lost is a trajectory of no steps: its advantage is 0 and its return V(obs),
        so that what was done in it teaches the policy nothing, and the value function at most to
        stay as it is. The one before it is cut off.
        """
        if self.t != self.size:
            raise ValueError(f"The buffer holds {self.t} of {self.size} steps; fill it first.")
        steps, num_envs = self.rew.shape
        obs = self.obs.reshape(steps * num_envs, *self.obs.shape[2:])
        val = self.val.copy() if self.has_values else value(obs).reshape(steps, num_envs)
        next_val = np.concatenate([val[1:], value(last_obs)[None]])
        # After an episode's end, the next observation in the buffer belongs to the next episode.
        limits = [(t, i, last) for t, i, last in self.final_obs if not self.terminated[t, i]]
        if limits:
            times, envs, last = zip(*limits, strict=True)
            next_val[list(times), list(envs)] = value(np.stack(last))

        cut = self.truncated.copy()
        cut[:-1] |= self.lost[1:]  # what followed is worth V(the observation of the lost step)
        adv, ret = gae(self.rew, val, next_val, self.terminated, cut, self.gamma, self.lam)
        adv[..., self.lost], ret[self.lost] = 0, val[self.lost]
        if self.coeff is not None:
            adv = mixture(adv, self.coeff, ~self.lost)
        elif self.normalize_adv:
            adv = normalized(adv, ~self.lost)
        flat = lambda x: x.reshape(steps * num_envs, *x.shape[2:])  # noqa: E731
        return dict(obs=obs, act=flat(self.act), ret=flat(ret), adv=flat(adv), val=flat(val))
