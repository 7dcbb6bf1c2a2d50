"""The replay buffer of the off-policy algorithms."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from spinup_tf2.core.vector_env import lost
from spinup_tf2.core.workers.faults import EnvironmentFailure


class ReplayBuffer:
    """The last `size` steps of each of `n` environments.

    Each observation is stored once, as the next observation of one step and the observation of the
    following one. Only the last observations of episodes are stored separately. A step that was
    lost keeps its place, but is never sampled.

    Args:
        obs_shape, act_shape: Shapes of one observation and one action.
        act_dtype, obs_dtype: Types of the actions and the observations (uint8 for images); rewards
            are float32.
        size: How many steps of each environment are kept.
        rngs: For each environment, the generator of all random numbers that are drawn for it.
    """

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        act_shape: tuple[int, ...],
        act_dtype: type | np.dtype,
        size: int,
        rngs: Sequence[np.random.Generator],
        obs_dtype: type | np.dtype = np.float32,
    ):
        num_envs = len(rngs)
        slots = size + 1  # one more, for the next observation of the newest step
        self.obs = np.empty((slots, num_envs, *obs_shape), obs_dtype)
        self.act = np.empty((slots, num_envs, *act_shape), act_dtype)
        self.rew = np.empty((slots, num_envs), np.float32)
        self.terminated = np.empty((slots, num_envs), bool)
        self.ended, self.lost = np.zeros((2, slots, num_envs), bool)
        # (slot, environment): the last observation of an episode
        self.final_obs: dict[tuple[int, int], np.ndarray] = {}
        self.slots = slots
        self.rngs = list(rngs)
        self.steps = 0  # steps of each environment so far
        self.saved = 0  # how many of them have been saved

    def __len__(self) -> int:
        """Return the number of steps of each environment that the buffer holds."""
        return min(self.steps, self.slots - 1)

    def store(
        self,
        obs: np.ndarray,
        act: np.ndarray,
        rew: np.ndarray,
        terminated: np.ndarray,
        next_obs: np.ndarray,
        final_obs: Mapping[int, np.ndarray | None],
    ) -> None:
        """Append one step of all environments; a full buffer drops the oldest step.

        Args:
            obs, act, rew, terminated: Observations, actions, rewards and terminations, `[n, ...]`.
            next_obs: Observations after the step, `[n, ...]`; they must be obs of the next step.
            final_obs: {environment: last observation} of the episodes that ended in this step,
                where next_obs belongs to the next episode; None where the step was lost.
        """
        slot = self.steps % self.slots
        for env in np.flatnonzero(self.ended[slot]):
            del self.final_obs[slot, int(env)]  # of the step that is overwritten
        self.obs[slot] = obs
        self.act[slot] = act
        self.rew[slot] = rew
        self.terminated[slot] = terminated
        self.ended[slot] = self.lost[slot] = False
        if final_obs:
            self.lost[slot, lost(final_obs)] = True
            last = {env: last for env, last in final_obs.items() if last is not None}
            self.ended[slot, list(last)] = True
            self.final_obs.update({(slot, env): each for env, each in last.items()})
        self.obs[(slot + 1) % self.slots] = next_obs
        self.steps += 1

    def restart(self) -> None:
        """End all episodes: the next observation that is stored does not follow the last step."""
        if self.steps == 0:
            return
        slot, following = (self.steps - 1) % self.slots, self.steps % self.slots
        last = self.obs[following].copy()
        for env in np.flatnonzero(~self.ended[slot]):
            self.final_obs[slot, int(env)] = last[env]
        self.ended[slot] = True
        self.saved = min(self.saved, self.steps - 1)

    def new_range(self) -> tuple[int, int, int]:
        """Return the numbers of the first unsaved step, of the next step, and of the oldest."""
        oldest = self.steps - len(self)
        return max(self.saved, oldest), self.steps, oldest

    def new_steps(self, i: int) -> dict[str, np.ndarray]:
        """Return the steps of environment `i` in `new_range`, for `put_steps`."""
        first, end, _ = self.new_range()
        slots = np.arange(first, end + 1) % self.slots
        obs, slots = self.obs[slots, i], slots[:-1]
        ended = self.ended[slots, i]
        last = [self.final_obs[int(slot), i] for slot in slots[ended]]
        return dict(
            obs=obs,
            act=self.act[slots, i],
            rew=self.rew[slots, i],
            terminated=self.terminated[slots, i],
            ended=ended,
            lost=self.lost[slots, i],
            final_obs=np.array(last, obs.dtype).reshape(-1, *obs.shape[1:]),
        )

    def put_steps(self, i: int, first: int, steps: Mapping[str, np.ndarray]) -> None:
        """Restore the steps that `new_steps` returned, beginning with step number `first`."""
        slots = np.arange(first, first + len(steps["obs"])) % self.slots
        self.obs[slots, i] = steps["obs"]
        slots = slots[:-1]
        for name in ("act", "rew", "terminated"):
            getattr(self, name)[slots, i] = steps[name]
        for slot in slots[self.ended[slots, i]]:
            self.final_obs.pop((int(slot), i), None)
        self.ended[slots, i] = steps["ended"]
        self.lost[slots, i] = steps["lost"]
        for slot, last in zip(slots[steps["ended"]], steps["final_obs"], strict=True):
            self.final_obs[int(slot), i] = last

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        """Return the state of environment `i` apart from its steps."""
        generator = json.dumps(self.rngs[i].bit_generator.state)
        return dict(generator=np.array(generator), steps=np.array(self.steps))

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.rngs[i].bit_generator.state = json.loads(str(state["generator"]))
        self.steps = self.saved = int(state["steps"])

    def sample(
        self, rows: np.ndarray, noise: Mapping[str, tuple[int, ...]] | None = None
    ) -> dict[str, np.ndarray]:
        """Sample minibatches of steps, uniformly and with replacement.

        Args:
            rows: How many steps of each environment each minibatch holds, `[updates, n]`; all
                minibatches have the same size.
            noise: Names and shapes of noise to draw for each row: standard normal numbers, float32
                `[updates, batch, *shape]`.

        Returns:
            A dict of obs, act, rew, terminated, next_obs `[updates, batch, ...]` and the noise.
        """
        updates, num_envs = rows.shape
        envs = np.repeat(np.tile(np.arange(num_envs), updates), rows.ravel()).reshape(updates, -1)
        slots = np.empty(envs.shape, int)
        normals = {
            name: np.empty((*envs.shape, *shape), np.float32)
            for name, shape in (noise or {}).items()
        }
        for env, rng in enumerate(self.rngs):
            own, count = envs == env, rows[:, env].sum()
            slots[own] = self._draw_slots(env, count)
            for drawn in normals.values():
                drawn[own] = rng.standard_normal((count, *drawn.shape[2:]), np.float32)

        next_obs = _take(self.obs, (slots + 1) % self.slots, envs)
        for row in zip(*np.nonzero(self.ended[slots, envs]), strict=True):
            next_obs[row] = self.final_obs[int(slots[row]), int(envs[row])]
        return dict(
            obs=_take(self.obs, slots, envs),
            act=_take(self.act, slots, envs),
            rew=_take(self.rew, slots, envs),
            terminated=_take(self.terminated, slots, envs),
            next_obs=next_obs,
            **normals,
        )

    def _draw_slots(self, env, count):
        """Draw the slots of `count` steps of environment `env`; lost steps are drawn again."""
        draw = lambda size: self._slots_of(self.rngs[env].integers(len(self), size=size))  # noqa: E731
        slots = draw(count)
        again = self.lost[slots, env]
        if again.any() and self.lost[self._slots_of(np.arange(len(self))), env].all():
            raise EnvironmentFailure(
                f"Environment {env} of this process has failed in each of its {len(self)} steps; "
                "there is nothing to learn from. Repair it before you use env_retries."
            )
        while again.any():
            slots[again] = draw(again.sum())
            again = self.lost[slots, env]
        return slots

    def _slots_of(self, ages):
        """Return the slots of steps that are counted from the oldest one."""
        return (self.steps - len(self) + ages) % self.slots


def _take(array, rows, columns):
    """Return the elements `[rows[...], columns[...]]`, faster than with two indices."""
    elements = array.reshape(-1, *array.shape[2:])
    return elements.take(rows * array.shape[1] + columns, axis=0)


def batch_rows(
    batch_size: int, num_envs: int, indices: Sequence[int], numbers: Sequence[int]
) -> np.ndarray:
    """Return how many rows of each minibatch are sampled from each environment in `indices`.

    The rows are spread as evenly as possible, and in a way that does not depend on how environments
    are spread over ranks, provided that these have equal shares. The remainder goes to different
    environments each time: in any `num_envs` consecutive minibatches, every environment has
    `batch_size` rows.

    Args:
        batch_size: Rows of a minibatch, of all MPI ranks together.
        num_envs: Number of environments of all ranks together.
        indices: Indices of the environments of this rank.
        numbers: Numbers of the minibatches, counted from 0 since the training began.

    Returns:
        Numbers of rows, `[minibatches, environments]`.
    """
    # The latter holds because floor(x / n) + floor((x + 1) / n) + ... + floor((x + n - 1) / n) = x.
    shift = -1 - np.asarray(numbers)[:, None]
    first = np.asarray(indices) * batch_size + shift % num_envs
    return (first + batch_size) // num_envs - first // num_envs
