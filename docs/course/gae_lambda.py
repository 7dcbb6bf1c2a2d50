"""What lambda does to advantage estimates: bias and spread, exactly and measured, as a figure.

python docs/course/gae_lambda.py docs/images/course_gae.svg
"""

import sys

import numpy as np
from gridworld import Gridworld, policy_values
from matplotlib.figure import Figure
from policy_gradient import play

from spinup_tf2.core.trajectories import gae
from spinup_tf2.results import figures

ENV = Gridworld(["1.........3"])  # nine free cells
START, LEFT, RIGHT = 5, 0, 1
PI = np.full(ENV.R.shape, 0.5)
CRITIC = 0.5 * policy_values(ENV, PI, gamma=1.0)  # a critic that has learned half of the values
MEASURED = (0.0, 0.5, 0.8, 0.9, 0.97, 1.0)
NUMBERS = (10, 100, 1000, 10_000)  # of estimates whose mean is taken


def moments(lam, v=CRITIC):
    """Mean and standard deviation of the estimate for each state and action, both `[S, A]`.

    The estimate X is delta + lam * X', with X' that of the next step: a Bellman equation for its
    mean, and another one for the mean of its square.
    """
    delta = ENV.prize + v - v[:, None]  # [S, S2], of the step from S to S2
    mean_delta = (ENV.P * delta[:, None]).sum(axis=2)
    P = np.einsum("sa,sat->st", PI, ENV.P)
    identity = np.eye(len(P))

    mean = np.linalg.solve(identity - lam * P, (PI * mean_delta).sum(axis=1))  # [S]
    now = (ENV.P * (delta**2 + 2 * lam * delta * mean)[:, None]).sum(axis=2)
    square = np.linalg.solve(identity - lam**2 * P, (PI * now).sum(axis=1))

    means = mean_delta + lam * ENV.P @ mean
    return means, np.sqrt(np.maximum(now + lam**2 * ENV.P @ square - means**2, 0))


def difference(lam):
    """Estimate of A(right) - A(left) at the start: its bias, and standard deviation."""
    means, stds = moments(lam)
    truth = ENV.P @ policy_values(ENV, PI, gamma=1.0) + ENV.R
    gap = means[START, RIGHT] - means[START, LEFT] - (truth[START, RIGHT] - truth[START, LEFT])
    return gap, np.hypot(stds[START, RIGHT], stds[START, LEFT])


def measured(episodes=4000, seed=0):
    """The same from episodes, with the package's `gae`: bias and deviation for each of MEASURED."""
    rng = np.random.default_rng(seed)
    obs, act, rew, next_obs, alive = play(ENV, PI, rng, episodes, START)
    terminated = alive & ~ENV.free[next_obs]
    flags = terminated, np.zeros_like(terminated)
    steps = rew, CRITIC[obs], CRITIC[next_obs], *flags
    adv = np.array([gae(*steps, gamma=1.0, lam=lam)[0] for lam in MEASURED])
    right, left = (adv[:, 0, act[0] == a] for a in (RIGHT, LEFT))
    truth = 0.4  # V(right) - V(left): the values rise by 0.2 from cell to cell
    bias = right.mean(axis=1) - left.mean(axis=1) - truth
    return bias, np.hypot(right.std(axis=1), left.std(axis=1))


LAMS = np.linspace(0, 1, 101)
BIAS, STD = np.array([difference(lam) for lam in LAMS]).T


def error(number):
    """Root of the mean squared error of a mean of so many estimates, for each of LAMS."""
    return np.hypot(BIAS, STD / np.sqrt(number))


def report(sampled):
    for number in NUMBERS:
        best = error(number).argmin()
        text = f"best lambda {LAMS[best]:.2f}, error {error(number)[best]:.3f}"
        print(f"mean of {number:6,}: {text}")
    print()
    for lam, *found in zip(MEASURED, *sampled, strict=True):
        exact = "bias {:6.3f}, deviation {:.3f}".format(*difference(lam))
        print(f"lambda {lam:.2f}: {exact}, measured {found[0]:6.3f} and {found[1]:.3f}")


def draw(sampled):
    figures.set_theme()
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    one, many = figure.subplots(1, 2)
    one.plot(LAMS, np.abs(BIAS), color="C3", label="bias")
    one.plot(LAMS, STD, color="C0", label="standard deviation")
    one.plot(MEASURED, sampled[1], "o", color="C0", label="measured with gae()")
    one.plot(MEASURED, np.abs(sampled[0]), "o", color="C3")
    one.set(title="One estimate", xlabel="λ", ylabel="Bias, standard deviation")
    one.legend()
    for number, color in zip(NUMBERS, ("C1", "C2", "C4", "C5"), strict=True):
        errors = error(number)
        best = errors.argmin()
        many.plot(LAMS, errors, color=color, label=f"mean of {number:,}")
        many.plot(LAMS[best], errors[best], "v", color=color)
    many.set(title="A mean of several", xlabel="λ", ylabel="Error", ylim=(0, 0.5))
    many.legend()
    return figure


if __name__ == "__main__":
    sampled = measured()
    report(sampled)
    figures.save_figure(draw(sampled), sys.argv[1])
