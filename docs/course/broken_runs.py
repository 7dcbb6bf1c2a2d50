"""Runs that fail for a known reason, beside healthy ones: what progress.txt shows of it.

Runs that are in the directory already are not made again.

python docs/course/broken_runs.py data/broken docs/images/course_broken.svg
"""

import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure

from spinup_tf2.results import figures

UNIT = np.array([1e6, 1e6, 1, 1], np.float32)


class InMicrometers(gym.ObservationWrapper):
    """CartPole, whose position and speed are given in micrometers instead of meters."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, observation):
        return observation * UNIT


def ppo_run(output_dir, env_fn="CartPole-v1", epochs=16, **changes):
    from spinup_tf2 import ppo  # here, since TensorFlow takes its time

    settings = dict(pi_lr=1e-3, steps_per_epoch=4000, epochs=epochs) | changes
    logger_kwargs = dict(output_dir=output_dir, quiet=True, overwrite=True)
    ppo(env_fn, **settings, logger_kwargs=logger_kwargs)


def sac_run(output_dir, epochs=16, **changes):
    from spinup_tf2 import sac

    settings = dict(lr=3e-3, steps_per_epoch=500, epochs=epochs, start_steps=2000, init="glorot")
    settings |= dict(ac_kwargs=dict(hidden_sizes=(64, 64)), update_after=500, num_test_episodes=5)
    logger_kwargs = dict(output_dir=output_dir, quiet=True, overwrite=True)
    sac("Pendulum-v1", **(settings | changes), logger_kwargs=logger_kwargs)


RUNS = {
    "ppo": ppo_run,
    "steps": partial(ppo_run, pi_lr=1.0, target_kl=None),
    "limit": partial(ppo_run, pi_lr=0.1),
    "gamma": partial(ppo_run, gamma=0.3),
    "critic": partial(ppo_run, vf_lr=0.0),
    "units": partial(ppo_run, env_fn=InMicrometers),
    "units-cured": partial(ppo_run, env_fn=InMicrometers, normalize_obs=True),
    "sac": sac_run,
    "sac-alpha": partial(sac_run, alpha=20.0),
}

# Of each broken run: its title, the healthy run, the column that tells, its title, and its scale.
PANELS = {
    "steps": ("pi_lr 1, no KL limit", "ppo", "Entropy", "linear"),
    "limit": ("pi_lr 0.1, KL limit 0.01", "ppo", "KL", "log"),
    "gamma": ("gamma 0.3", "ppo", "AverageVVals", "linear"),
    "critic": ("vf_lr 0", "ppo", "LossV", "log"),
    "units": ("Observations in micrometers", "ppo", "Entropy", "linear"),
    "sac-alpha": ("SAC with alpha 20", "sac", "AverageLogPi", "linear"),
}


def read(directory, name):
    """The columns of a run, `[epochs]` each: `read(...)["Entropy"]`."""
    return np.genfromtxt(Path(directory) / name / "progress.txt", names=True, delimiter="\t")


def performance(rows):
    tested = "AverageTestEpRet" in rows.dtype.names
    return rows["AverageTestEpRet" if tested else "AverageEpRet"]


def make(directory, epochs=16):
    """Make the runs that are not there yet."""
    for name, run in RUNS.items():
        progress = Path(directory) / name / "progress.txt"
        if not progress.exists() or len(progress.read_text().splitlines()) <= epochs:
            run(str(Path(directory) / name), epochs=epochs)


def report(directory):
    """One line for each run: the columns in its last epoch, but KL where it was largest."""
    ppo_columns = ("Entropy", "KL", "ClipFrac", "StopIter", "AverageVVals", "LossV")
    sac_columns = ("AverageQ1Vals", "LossQ1", "AverageLogPi")
    for columns in (ppo_columns, sac_columns):
        titles = [title.replace("Average", "").replace("KL", "max KL") for title in columns]
        print(f"{'last epoch':12}", *(f"{title:>9}" for title in ["return", *titles]))
        for name in RUNS:
            rows = read(directory, name)
            if columns[0] in rows.dtype.names:
                numbers = [performance(rows)[-1]]
                for column in columns:
                    numbers.append(rows[column].max() if column == "KL" else rows[column][-1])
                print(f"{name:12}", *(f"{x + 0.0:9.4g}" for x in numbers))
        print()


def draw(directory):
    figures.set_theme(0.9)
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(3, 4).reshape(6, 2)
    for (name, (title, healthy, column, scale)), pair in zip(PANELS.items(), axes, strict=True):
        for run, color in ((healthy, "C0"), (name, "C3")):
            rows = read(directory, run)
            steps = rows["TotalEnvInteracts"] / 1000
            pair[0].plot(steps, performance(rows), color=color)
            pair[1].plot(steps, rows[column], color=color)
        pair[0].set(title=title, ylabel="Average return")
        pair[1].set(title=column, ylabel=column, yscale=scale)
        if scale == "log":
            pair[1].yaxis.set_major_formatter("{x:g}")
    for each in axes.flat:
        each.set_xlabel("Thousand steps")
    lines = axes[0, 0].lines
    figure.legend(lines, ["healthy", "broken"], loc="outside upper center", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    make(sys.argv[1])
    report(sys.argv[1])
    figures.save_figure(draw(sys.argv[1]), sys.argv[2])
