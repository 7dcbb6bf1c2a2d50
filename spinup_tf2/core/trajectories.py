"""The experience of one batch, `[T, n, ...]`, and its advantages and returns. Time comes first.

The data of an episode end in one of three ways, which differ in the value of the future:

- `terminated`: the environment has reached a terminal state. The future has value 0.
- `truncated`: a time limit. The value of the future is V(the last observation).
- the batch ends: the same, and the episode continues in the next batch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from spinup_tf2.core.workers.episodes import pieces
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import mpi_statistics_scalar, mpi_sum

# returns(rew, val, next_val, terminated, truncated, valid) -> (adv, ret); all `[T, n]`.
Returns = Callable[..., tuple[np.ndarray, np.ndarray]]


def discount_cumsum(x: np.ndarray, discount: float) -> np.ndarray:
    """Return y[t] = x[t] + discount * x[t+1] + discount^2 * x[t+2] + ..., for x `[T]`, in float64.

    A plain loop: scipy.signal.lfilter gives the same bits, but importing it takes half a second.
    """
    sums, total = [], 0.0
    for each in reversed(np.asarray(x, float).tolist()):
        total = each + discount * total
        sums.append(total)
    return np.array(sums[::-1])


def gae(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return generalized advantage estimates and rewards-to-go, both float32 `[T, n]`.

        delta[t] = rew[t] + gamma * next_val[t] - val[t]      (next_val is 0 after termination)
        adv[t] = delta[t] + gamma * lam * adv[t+1]            (Schulman et al. 2016, eq. 16)
        ret[t] = rew[t] + gamma * ret[t+1]                    (ret = next_val where the data end)

    Args:
        rew, val, next_val: `[T, n]`. next_val is V of the observation that step t itself led to,
            not of the first one after a reset.
        terminated, truncated: bool `[T, n]`.
        gamma, lam: The discount factor and lambda, between 0 and 1.
    """
    future = gamma * np.where(terminated, 0.0, next_val)
    delta = rew + future - val
    adv, ret = np.empty((2, *delta.shape), np.float32)
    for env, piece in pieces(terminated | truncated):
        adv[piece, env] = discount_cumsum(delta[piece, env], gamma * lam)
        rewards = rew[piece, env].astype(np.float64)
        rewards[-1] += future[piece, env][-1]  # what follows the piece
        ret[piece, env] = discount_cumsum(rewards, gamma)
    return adv, ret


def normalized(adv: np.ndarray, valid: np.ndarray | bool = True) -> np.ndarray:
    """Return advantages shifted and scaled to mean 0 and standard deviation 1 over all MPI ranks.

    Args:
        adv: Advantages of any shape.
        valid: Bool, of the same shape; invalid advantages are ignored and become 0.
    """
    mean, std = mpi_statistics_scalar(adv[valid])
    # Equal advantages (std 0) say nothing: they become 0, not nan.
    return np.where(valid, (adv - mean) / (std if std > 0 else 1), np.float32(0))


def normalized_in_minibatches(
    adv: np.ndarray, minibatches: np.ndarray, valid: np.ndarray
) -> np.ndarray:
    """Return advantages that are normalized in each minibatch of a pass, as by `normalized`.

    Args:
        adv: `[batch]`, or `[segments, steps]`: with a memory, a row is a segment.
        minibatches: `[count, size]`, each row of the batch once; the corresponding minibatches of
            all ranks are normalized together.
        valid: Bool, of the shape of adv; invalid advantages are ignored and become 0.
    """
    x, counts = adv[minibatches].astype(np.float64), valid[minibatches]
    own = tuple(range(1, x.ndim))  # the axes within a minibatch
    total = partial(np.sum, axis=own, keepdims=True)
    number = np.maximum(mpi_sum(total(counts).astype(np.float64)), 1)
    x -= mpi_sum(total(np.where(counts, x, 0))) / number
    var = mpi_sum(total(np.where(counts, x**2, 0))) / number
    result = np.empty_like(adv)
    # Equal advantages in a minibatch say nothing: they become 0, not nan.
    result[minibatches] = np.where(counts, x / np.sqrt(np.where(var > 0, var, 1)), 0)
    return result


def mixture(
    advs: Sequence[np.ndarray], coeffs: Sequence[float], valid: np.ndarray | bool = True
) -> np.ndarray:
    """Mix k estimates `[...]` into one `[...]`: sum_i coeffs[i] * normalized(advs[i]).

    The mixture is not normalized again; the more the estimates disagree, the further its standard
    deviation is below 1.
    """
    parts = [coeff * normalized(adv, valid) for coeff, adv in zip(coeffs, advs, strict=True)]
    return np.sum(parts, axis=0)


def estimates(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    valid: np.ndarray | bool = True,
    *,
    gamma: float,
    lam: float,
    normalize: bool = True,
    value_target: str = "rewards_to_go",
) -> tuple[np.ndarray, np.ndarray]:
    """Return the advantages and the value targets of a batch, both float32 `[T, n]`.

    Args:
        rew, val, next_val, terminated, truncated, gamma, lam: See `gae`.
        valid: Bool `[T, n]`; steps that are not valid are ignored in the normalization.
        normalize: Whether to normalize the advantages.
        value_target: 'rewards_to_go' or 'lambda_return'; see PPO.
    """
    adv, ret = gae(rew, val, next_val, terminated, truncated, gamma, lam)
    if value_target == "lambda_return":
        ret = adv + val
    return normalized(adv, valid) if normalize else adv, ret


def mixed_estimates(
    *steps: np.ndarray, gamma: float, lams: Sequence[float], coeffs: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a mixture of advantages with several lambdas, and rewards-to-go.

    Args:
        *steps: rew, val, next_val, terminated, truncated and valid, as in `estimates`.
        gamma: Discount factor.
        lams: Lambda of each estimate.
        coeffs: Weight of each estimate in the mixture.
    """
    rew, val, next_val, terminated, truncated, valid = steps
    pairs = [gae(rew, val, next_val, terminated, truncated, gamma, lam) for lam in lams]
    return mixture([adv for adv, _ in pairs], coeffs, valid), pairs[0][1]


class TrajectoryBuffer:
    """`size` steps of n environments. Whoever stores a step decides what is kept of it.

        buffer.start()
        buffer.store(final_obs, obs=obs, act=act, rew=rew, ...)     # [n, ...] each
        batch = buffer.get(critic, last_obs, returns)               # [T, n, ...] each

    Args:
        size: T, the number of steps that each environment takes.
        **dtypes: Types of the rows that are kept in another type than they are stored in.

    Attributes:
        rows: What was stored, arrays `[T, n, ...]` by name.
        t: How many steps the buffer holds.
        final_obs: (t, environment, last observation) of each episode that has ended; None for the
            observation where the environment has failed and the step is lost.
    """

    def __init__(self, size: int, **dtypes: Any):
        self.size, self.dtypes = size, dtypes
        self.rows: dict[str, np.ndarray] = {}
        self.start()

    def start(self) -> None:
        """Empty the buffer; its arrays are reused."""
        self.t = 0
        self.final_obs: list[tuple[int, int, np.ndarray | None]] = []

    def store(self, final_obs: Mapping[int, np.ndarray | None], **step: np.ndarray) -> None:
        """Append a step of all environments: arrays `[n, ...]` by name."""
        t, rows = self.t, self.rows
        for name, x in step.items():
            if name not in rows:
                dtype = self.dtypes.get(name, x.dtype)
                rows[name] = np.zeros((self.size, *x.shape), dtype)
            rows[name][t] = x
        if final_obs:
            self.final_obs += [(t, env, last) for env, last in final_obs.items()]
        self.t += 1

    @property
    def ends(self) -> np.ndarray:
        """Which steps were the last ones of an episode, bool `[T, n]`."""
        return self.rows["terminated"] | self.rows["truncated"]

    @property
    def lost(self) -> np.ndarray:
        """Which steps were lost because an environment failed, bool `[T, n]`."""
        lost = np.zeros(self.rows["rew"].shape, bool)
        for t, env, last in self.final_obs:
            lost[t, env] = last is None
        return lost

    def get(
        self, critic: Any, last_obs: np.ndarray, returns: Returns, fresh: bool = False
    ) -> dict[str, np.ndarray]:
        """Return what was stored to learn from, and adv, ret, val and valid, `[T, n, ...]`.

        A step that was lost has advantage 0 and return V(obs), so that nothing is learned from it.

        Args:
            critic: The value function (`nets.acting.Critic`), for what the actor has not valued.
            last_obs: Observations after the last step, `[n, ...]`.
            returns: Function that computes advantages and value targets, such as `estimates`.
            fresh: Whether V has changed since it was stored.
        """
        if self.t != self.size:
            raise ValueError(f"The buffer holds {self.t} of {self.size} steps; fill it first.")
        rows, lost = self.rows, self.lost
        steps, num_envs = rows["rew"].shape
        val = rows["val"].copy() if "val" in rows and not fresh else critic.of_batch(rows)
        every, last_steps = np.arange(num_envs), np.full(num_envs, steps - 1)
        last_val = critic.after(rows, last_steps, every, last_obs)
        next_val = np.concatenate([val[1:], last_val[None]])
        # After an episode's end, the next observation in the buffer belongs to the next episode.
        over = lost | rows["terminated"]
        limits = [each for each in self.final_obs if not over[each[:2]]]
        if limits:
            times, envs, last = (np.stack(each) for each in zip(*limits, strict=True))
            next_val[times, envs] = critic.after(rows, times, envs, last)
        # The trajectory before a lost step is cut off there; its own "reward" is V(obs).
        cut = rows["truncated"].copy()
        cut[:-1] |= lost[1:]
        rew = np.where(lost, val, rows["rew"])
        adv, ret = returns(rew, val, next_val, over, cut, ~lost)
        unused = ("rew", "terminated", "truncated")
        kept = {name: x for name, x in rows.items() if name not in unused}
        return kept | dict(ret=ret, adv=adv, val=val, valid=~lost)


class PPOBuffer:
    """Spinning Up's buffer, for training loops written with it.

    Buffer for the consecutive steps of one environment, with their advantages and returns.

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
        if np.size(lam) != np.size(1 if coeff is None else coeff):
            raise UserError(f"lam is {lam!r}; there must be as many coefficients, not {coeff!r}.")
        self.obs_buf = np.zeros(_shape(size, obs_dim), np.float32)
        self.act_buf = np.zeros(_shape(size, act_dim), np.float32)
        self.adv_buf = np.zeros((*np.shape(lam), size), np.float32)
        self.rew_buf, self.ret_buf, self.val_buf, self.logp_buf = np.zeros((4, size), np.float32)
        self.gamma, self.lam, self.coeff = gamma, lam, coeff
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs: np.ndarray, act: np.ndarray, rew: float, val: float, logp: float) -> None:
        """Append one step; val is V(obs), logp the log-probability of act when it was chosen."""
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
        for adv_buf, lam in zip(np.atleast_2d(self.adv_buf), np.atleast_1d(self.lam), strict=True):
            adv, ret = gae(rew, val, next_val, ends, ends, self.gamma, lam)
            adv_buf[path] = adv[:, 0]
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
        adv = (
            normalized(self.adv_buf) if self.coeff is None else mixture([*self.adv_buf], self.coeff)
        )
        return [self.obs_buf, self.act_buf, adv, self.ret_buf, self.logp_buf]


def _shape(size, dim):
    """Return the shape `(size, ...)` for a dimension in Spinning Up's format."""
    if dim is None:
        return (size,)
    return (size, dim) if np.isscalar(dim) else (size, *dim)
