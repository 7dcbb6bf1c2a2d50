"""All streams of random numbers of a run.

Each is derived from the run's seed, the index of an environment among those of all processes, and
what it is for, through NumPy's SeedSequence. So it does not matter how environments are spread over
processes, nor in which order numbers are drawn.
"""

import random
from dataclasses import dataclass

import numpy as np

from spinup_tf2.envs.spaces import ActionSpec

FIRST_TEST_ENV = 2**31  # indices of test environments begin here, far from those that train


def environment_seed(seed: int, index: int, epoch: int = 0, step: int = 0) -> int:
    """The seed of environment `index` in a run with `seed`, if it is reset at this moment."""
    entropy = [seed, index, epoch, step] if epoch or step else [seed, index]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def seed_after(seed: int) -> int:
    """The first seed of a new environment, where one has failed whose last seed was `seed`.

    It depends on nothing else, so that a run that is resumed finds the same one.
    """
    return int(np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1)[0] >> 1)


def seed_global_generators(seed: int) -> None:
    """Seed Python's and NumPy's own generators, from which nothing here draws.

    Environments and callbacks may, and would get the same numbers in every process.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002


@dataclass(frozen=True)
class Randomness:
    """What is drawn for the environments of this process; the same at every call.

    Args:
        seed: The run's.
        indices: Of the environments, among those of all processes.
        action_spec: What their actions are.
    """

    seed: int
    indices: range
    action_spec: ActionSpec

    def environment_seeds(self, epoch: int = 0, step: int = 0) -> list[int]:
        """A seed for each environment, for a reset at this moment."""
        return [environment_seed(self.seed, i, epoch, step) for i in self.indices]

    def noise(self, epoch: int, steps: int) -> np.ndarray:
        """Action noise for a whole epoch, `[steps, n, *noise_shape]`."""
        rngs = [np.random.default_rng([self.seed, i, epoch]) for i in self.indices]
        return np.stack([self.action_spec.draw_noise(rng, steps) for rng in rngs], axis=1)

    def minibatches(
        self, epoch: int, steps: int, passes: int, count: int, stream: int = 1
    ) -> np.ndarray:
        """How to cut an epoch's `[steps, n]` data into `count` minibatches, `passes` times anew.

        Returns:
            int32 `[passes, count, steps * n / count]`: rows of the data as one batch `[steps * n]`,
            in which step t of the i-th environment is row t * n + i. Each minibatch holds equally
            many steps of every environment, in the order that the environment's own stream gives
            them, so that minibatches do not depend on how environments are spread over processes
            either. `stream` tells apart what minibatches are for; noise is drawn without one, and
            `generators` uses 2.
        """
        rows = []
        for i, index in enumerate(self.indices):
            rng = np.random.default_rng([self.seed, index, epoch, stream])
            times = rng.permuted(np.tile(np.arange(steps, dtype=np.int32), (passes, 1)), axis=1)
            own = times * len(self.indices) + i
            rows.append(own.reshape(passes, count, steps // count))
        return np.concatenate(rows, axis=2)

    def generators(self) -> list[np.random.Generator]:
        """A generator for each environment, for what is drawn from its past while learning."""
        return [np.random.default_rng([self.seed, i, 0, 2]) for i in self.indices]
