"""Spinning Up's buffer of on-policy experience, for training loops written with it."""

from collections.abc import Sequence

import numpy as np

from spinup_tf2.core.trajectories import gae, mixture, normalized
from spinup_tf2.errors import UserError


class PPOBuffer:
    """Buffer for the consecutive steps of one environment, with their advantages and returns.

        buf = PPOBuffer(obs_dim, act_dim, size, gamma=0.99, lam=0.95)
        buf.store(obs, act, rew, val, logp)          # in each step
        buf.finish_path(last_val)                    # where a trajectory ends or is cut off
        obs, act, adv, ret, logp = buf.get()         # once `size` steps are stored

    The algorithms of this package keep their experience in a TrajectoryBuffer, for many
    environments at once. Both compute the same numbers with the same functions.

    Args:
        obs_dim, act_dim: Shapes of an observation and an action: a number, a tuple, or None for
            scalars.
        size: How many steps the buffer holds.
        gamma: Discount factor.
        lam: Lambda of generalized advantage estimation; or a tuple of them, for as many estimates
            from the same temporal-difference errors.
        coeff: For a tuple of lambdas, the weight of each estimate in the advantage; the weights add
            up to 1.
    """

    def __init__(
        self,
        obs_dim: int | tuple[int, ...] | None,
        act_dim: int | tuple[int, ...] | None,
        size: int,
        gamma: float = 0.99,
        lam: float | Sequence[float] = 0.95,
        coeff: Sequence[float] | None = None,
    ):
        if (coeff is None) != (np.ndim(lam) == 0):
            raise UserError(
                f"lam is {lam!r} and coeff is {coeff!r}; several lambdas need as many coefficients,"
                " such as lam=(0.97, 0.93) with coeff=(0.5, 0.5), and one lambda needs none."
            )
        if coeff is not None and (
            len(coeff) != np.size(lam) or min(coeff) < 0 or not np.isclose(sum(coeff), 1)
        ):
            raise UserError(
                f"coeff is {coeff!r} for lam {lam!r}; it must have one weight for each lambda, "
                "none below 0, that add up to 1."
            )
        self.obs_buf = np.zeros(_shape(size, obs_dim), np.float32)
        self.act_buf = np.zeros(_shape(size, act_dim), np.float32)
        self.adv_buf = np.zeros((*np.shape(lam), size), np.float32)
        self.rew_buf, self.ret_buf, self.val_buf, self.logp_buf = np.zeros((4, size), np.float32)
        self.gamma, self.lam, self.coeff = gamma, lam, coeff
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs: np.ndarray, act: np.ndarray, rew: float, val: float, logp: float) -> None:
        """Append one step; val is V(obs), logp the log-probability of act when it was chosen."""
        if self.ptr == self.max_size:
            raise IndexError(f"The buffer is full: it holds {self.max_size} steps.")
        self.obs_buf[self.ptr] = obs
        self.act_buf[self.ptr] = act
        self.rew_buf[self.ptr] = rew
        self.val_buf[self.ptr] = val
        self.logp_buf[self.ptr] = logp
        self.ptr += 1

    def finish_path(self, last_val: float = 0) -> None:
        """Compute advantages and rewards-to-go of the steps since the last call.

        Args:
            last_val: Value of the future after the last of these steps: 0 if the episode
                terminated, and V of the next observation if it was cut off or hit a time limit.
        """
        path = slice(self.path_start_idx, self.ptr)
        val = self.val_buf[path]
        next_val = np.append(val[1:], np.float32(last_val))
        ends = np.zeros((len(val), 1), bool)  # none within the path; last_val stands for its end
        rew, val, next_val = (x[:, None] for x in (self.rew_buf[path], val, next_val))
        adv, ret = gae(rew, val, next_val, ends, ends, self.gamma, self.lam)
        self.adv_buf[..., path] = adv[..., 0]
        self.ret_buf[path] = ret[:, 0]
        self.path_start_idx = self.ptr

    def get(self) -> list[np.ndarray]:
        """Return `[obs, act, adv, ret, logp]` of the full buffer, and empty it.

        Advantages are normalized to mean 0 and standard deviation 1 over all MPI ranks. Several
        estimates are normalized separately before they are mixed.
        """
        if self.ptr != self.max_size:
            raise ValueError(
                f"The buffer holds {self.ptr} of {self.max_size} steps; fill it first."
            )
        self.ptr, self.path_start_idx = 0, 0
        adv = normalized(self.adv_buf) if self.coeff is None else mixture(self.adv_buf, self.coeff)
        return [self.obs_buf, self.act_buf, adv, self.ret_buf, self.logp_buf]


def _shape(size, dim):
    """Return the shape `(size, ...)` for a dimension in Spinning Up's format."""
    if dim is None:
        return (size,)
    return (size, dim) if np.isscalar(dim) else (size, *dim)
