"""Steps of plain and natural gradient, a line search, conjugate gradients; the clipped objective.

python docs/course/trust_region.py docs/images/course_clip.svg
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from spinup_tf2.core.natural_gradient import conjugate_gradient
from spinup_tf2.results import figures


def kl_gaussian(mean, std, new_mean, new_std):
    """KL(old || new) of two Gaussians over one number."""
    spread = (std**2 + (mean - new_mean) ** 2) / (2 * new_std**2)
    return np.log(new_std / std) + spread - 0.5


def kl_binary(p, q):
    """KL(old || new), where the first of two actions has probability p, and then q."""
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gaussian_steps(std, lr=0.1, delta=0.01):
    """Steps of a Gaussian policy with mean 0 whose reward is -(a - 1)^2.

    J = -(mean - 1)^2 - std^2. The parameters are the mean and log std, whose Fisher information
    matrix is diagonal.

    Returns:
        (change of the mean, KL) for a plain gradient step, and for the natural step of size delta.
    """
    gradient = np.array([2.0, -2 * std**2])
    fisher = np.diag([1 / std**2, 2.0])
    x = conjugate_gradient(lambda v: fisher @ v, gradient, num_iters=10)
    natural = np.sqrt(2 * delta / (x @ fisher @ x)) * x
    steps = lr * gradient, natural
    return [(step[0], kl_gaussian(0, std, step[0], std * np.exp(step[1]))) for step in steps]


def line_search(theta=3.0, delta=0.1, backtrack_coeff=0.8):
    """Yield (j, new probability, KL) of a policy with one logit that should get smaller."""
    p = sigmoid(theta)
    step = np.sqrt(2 * delta / (p * (1 - p)))  # p (1 - p) is the Fisher information of a logit
    for j in range(10):
        q = sigmoid(theta - backtrack_coeff**j * step)
        yield j, q, kl_binary(p, q)
        if kl_binary(p, q) <= delta:
            return


def draw():
    import tensorflow as tf  # here, since it takes its time

    from spinup_tf2.algos.ppo import policy_loss

    figures.set_theme()
    ratios = np.linspace(0.4, 1.6, 121)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, adv in zip(figure.subplots(1, 2), (1.0, -1.0), strict=True):
        losses = [
            policy_loss(tf.constant([np.log(r)]), tf.constant([0.0], tf.float64), adv, 0.2)[0]
            for r in ratios
        ]
        axes.plot(ratios, ratios * adv, "--", color="gray", label="ratio times advantage")
        axes.plot(ratios, -np.array(losses), color="C0", lw=2, label="clipped")
        axes.plot(1, adv, "o", color="C3", label="where an update begins")
        axes.axvspan(0.8, 1.2, color="C2", alpha=0.1)
        kind = "good" if adv > 0 else "bad"
        axes.set(title=f"A {kind} action, advantage {adv:+.0f}", xlabel="Probability ratio")
        axes.set_ylabel("Objective")
        axes.legend(loc="lower right" if adv > 0 else "lower left")
    return figure


def report():
    print("KL of two coins: 0.5 to 0.7311:", f"{kl_binary(0.5, sigmoid(1)):.4f},", end=" ")
    print("0.9933 to 0.9975:", f"{kl_binary(sigmoid(5), sigmoid(6)):.4f}")
    print("\n         plain, learning rate 0.1     natural, delta 0.01")
    print("  std    change of mean       KL     change of mean       KL")
    for std in (1.0, 0.3, 0.1):
        (plain, kl), (natural, natural_kl) = gaussian_steps(std)
        print(f"{std:5.1f}{plain:18.3f}{kl:9.4f}{natural:19.3f}{natural_kl:9.4f}")
    print()
    for j, q, kl in line_search():
        print(f"line search, step {j}: probability {sigmoid(3.0):.3f} -> {q:.3f}, KL {kl:.3f}")
    print()
    H, g = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([5.0, 5.0])
    for k in (1, 2):
        x = conjugate_gradient(lambda v: H @ v, g, num_iters=k)
        print(f"conjugate gradients, iteration {k}: x = {x.round(4)}, H x = {(H @ x).round(4)}")


if __name__ == "__main__":
    report()
    figures.save_figure(draw(), sys.argv[1])
