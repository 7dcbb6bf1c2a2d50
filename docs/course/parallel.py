"""How much 80 steps tell, in one environment one after the other or in many at the same time.

python docs/course/parallel.py docs/images/course_parallel.svg
"""

import sys

import numpy as np
from gridworld import Gridworld, policy_values
from matplotlib.figure import Figure

from spinup_tf2.results import figures

ENV = Gridworld(["1.........3"])
PI = np.full(ENV.R.shape, 0.5)
BATCH = 80


def states(steps, num_envs, batches, rng, warm_up=200):
    """Cells visited by coin flips, `[steps, num_envs, batches]`.

    After the warm-up each environment is at a different point of its episode.
    """
    s = rng.choice(np.flatnonzero(ENV.free), size=(num_envs, batches))
    visited = []
    for _ in range(warm_up + steps):
        visited.append(s)
        s = s + 2 * rng.integers(2, size=s.shape) - 1
        s = np.where(ENV.free[s], s, rng.choice(np.flatnonzero(ENV.free), size=s.shape))
    return np.stack(visited[warm_up:])


def spread(num_envs, batches=2000, seed=0):
    """Standard deviation, over batches of 80 steps, of the mean value of the cells visited."""
    v = policy_values(ENV, PI, gamma=1.0)
    visited = states(BATCH // num_envs, num_envs, batches, np.random.default_rng(seed))
    return v[visited].mean(axis=(0, 1)).std()


def report():
    for num_envs in (1, 4, 16, 80):
        print(f"{num_envs:3} x {BATCH // num_envs:2} steps: deviation {spread(num_envs):.3f}")


def draw():
    """One batch of a single environment and one of 16, and how much the means of many scatter."""
    figures.set_theme()
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    *walks, bars = figure.subplots(1, 3)
    for axes, num_envs in zip(walks, (1, 16), strict=True):
        [visited] = states(BATCH // num_envs, num_envs, 1, np.random.default_rng(0)).T
        for number, cells in enumerate(visited):
            first = number * len(cells)
            axes.plot(range(first, first + len(cells)), cells, ".-", lw=1, color="C0")
        title = f"{num_envs} x {BATCH // num_envs} steps"
        axes.set(title=title, xlabel="Number of the sample", ylabel="Cell", ylim=(0.5, 9.5))
    numbers = (1, 4, 16, 80)
    bars.bar([*map(str, numbers)], [*map(spread, numbers)], color="C0")
    bars.set(title="80 steps in all", xlabel="Environments", ylabel="Deviation of the mean")
    return figure


if __name__ == "__main__":
    report()
    figures.save_figure(draw(), sys.argv[1])
