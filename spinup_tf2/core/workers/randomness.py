"""All streams of random numbers of a run.

Each stream is derived through NumPy's SeedSequence from the run's seed, the index of an environment
among those of all processes, and its purpose. So it does not matter how environments are spread
over processes, nor in which order numbers are drawn.
"""

import random
import threading
from dataclasses import dataclass

import numpy as np

from spinup_tf2.envs.spaces import ActionSpec

# Held while they are seeded, and while initial weights are drawn from them.
GLOBAL_GENERATORS = threading.Lock()

FIRST_TEST_ENV = 2**31  # indices of test environments begin here, far from the training ones


def environment_seed(seed: int, index: int, epoch: int = 0, step: int = 0) -> int:
    """Return the seed with which environment `index` is reset before step `step` of an epoch.

    Args:
        seed: The run's seed.
        index: Index of the environment, among those of all processes.
        epoch: Number of the epoch, from 0.
        step: How many steps of the epoch the environment has taken.
    """
    return int(np.random.SeedSequence([seed, index, epoch, step]).generate_state(1)[0] >> 1)


def seed_after(seed: int) -> int:
    """Return the first seed of the replacement for a failed environment whose last was `seed`.

    It depends on nothing else, so that a resumed run arrives at the same seed.
    """
    return int(np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1)[0] >> 1)


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of Python and NumPy, which environments and callbacks may use.

    Seeded alike, they would give the same numbers in every process.
    """
    with GLOBAL_GENERATORS:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002


@dataclass(frozen=True)
class Randomness:
    """Random numbers for the environments of this process; the same in every call.

    Args:
        seed: The run's seed.
        indices: Indices of the environments, among those of all processes.
        action_spec: Description of the actions.
    """

    seed: int
    indices: range
    action_spec: ActionSpec

    def environment_seeds(self, epoch: int = 0, step: int = 0) -> list[int]:
        """Return a seed for each environment; see `environment_seed`."""
        return [environment_seed(self.seed, i, epoch, step) for i in self.indices]

    def noise(self, epoch: int, steps: int) -> np.ndarray:
        """Return the action noise of a whole epoch, `[steps, n, *noise_shape]`."""
        rngs = [np.random.default_rng([self.seed, i, epoch]) for i in self.indices]
        return np.stack([self.action_spec.draw_noise(rng, steps) for rng in rngs], axis=1)

    def minibatches(
        self, epoch: int, steps: int, passes: int, count: int, stream: int = 1
    ) -> np.ndarray:
        """Draw the partition of `[steps, n]` data into `count` minibatches, again for each pass.

        Args:
            epoch: Number of the epoch, from 0.
            steps: Rows of each environment.
            passes: Number of passes over the data.
            count: Number of minibatches; it divides `steps`.
            stream: Number that tells apart the purposes of minibatches; noise is drawn without one,
                and `generators` uses 2.

        Returns:
            int32 `[passes, count, steps * n / count]`: rows of the data as one batch `[steps * n]`,
            in which step t of the i-th environment is row t * n + i. Each minibatch holds equally
            many steps of every environment, in the order that the environment's own stream gives
            them, so that minibatches do not depend on how environments are spread over processes
            either.
        """
        rows = []
        for i, index in enumerate(self.indices):
            rng = np.random.default_rng([self.seed, index, epoch, stream])
            times = rng.permuted(np.tile(np.arange(steps, dtype=np.int32), (passes, 1)), axis=1)
            own = times * len(self.indices) + i
            rows.append(own.reshape(passes, count, steps // count))
        return np.concatenate(rows, axis=2)

    def generators(self) -> list[np.random.Generator]:
        """Return a generator for each environment, with which its replay buffer is sampled."""
        return [np.random.default_rng([self.seed, i, 0, 2]) for i in self.indices]
