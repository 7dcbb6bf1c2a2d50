"""How much too high the maximum of noisy estimates is, and what bootstrapping makes of it.

python docs/course/overestimation.py docs/images/course_overestimation.svg
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from spinup_tf2.results import figures

ACTIONS = 10
RULES = {
    "maximum": "maximum: R + 0.9 max Q",
    "other": "other table: R + 0.9 Q2(best of Q1)",
    "minimum": "minimum: R + 0.9 min(Q1, Q2)(best of Q1)",
}


def value_of_best(q1, q2, rule):
    """What a rule says of the action that q1 thinks best. q1, q2: `[..., actions]`."""
    best = q1.argmax(axis=-1)[..., None]
    v1, v2 = (np.take_along_axis(q, best, axis=-1)[..., 0] for q in (q1, q2))
    return {"maximum": v1, "other": v2, "minimum": np.minimum(v1, v2)}[rule]


def bias(num_actions, rule, samples=100_000, seed=0):
    """Mean of what a rule says, where all true values are 0 and estimates N(0, 1)."""
    rng = np.random.default_rng(seed)
    q1, q2 = rng.standard_normal((2, samples, num_actions))
    return value_of_best(q1, q2, rule).mean()


def learn(rule, updates=3000, copies=200, gamma=0.9, lr=0.1, seed=0):
    """Q-learning in one state, to which every action leads back, with rewards N(0, 1).

    All true values are 0. Each of the two tables learns from samples of its own.

    Returns:
        The mean Q-value after each update of all actions, `[updates]`, averaged over copies.
    """
    rng = np.random.default_rng(seed)
    q = np.zeros((2, copies, ACTIONS))
    means = []
    for _ in range(updates):
        rew = rng.standard_normal(q.shape)
        values = [value_of_best(q[0], q[1], rule), value_of_best(q[1], q[0], rule)]
        q += lr * (rew + gamma * np.array(values)[..., None] - q)
        means.append(q.mean())
    return np.array(means)


def report(curves):
    print("actions   maximum   other table   minimum")
    for num_actions in (1, 2, 10, 100):
        row = [round(bias(num_actions, rule), 2) + 0.0 for rule in RULES]  # no -0.00
        print(f"{num_actions:7}{row[0]:10.2f}{row[1]:14.2f}{row[2]:10.2f}")
    print()
    for rule, curve in curves.items():
        print(f"{rule:8} mean Q after {len(curve)} updates: {curve[-500:].mean():6.2f}")


def draw(curves):
    figures.set_theme()
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for (rule, curve), color in zip(curves.items(), ("C3", "C0", "C2"), strict=True):
        axes.plot(curve, color=color, label=RULES[rule])
    axes.axhline(0, color="black", lw=1, ls="--", label="true value")
    axes.set(xlabel="Updates of each action", ylabel="Mean Q-value")
    axes.legend()
    return figure


if __name__ == "__main__":
    curves = {rule: learn(rule) for rule in RULES}
    report(curves)
    figures.save_figure(draw(curves), sys.argv[1])
