"""Soft values of three actions at several temperatures; the density of a squashed Gaussian.

python docs/course/soft_values.py
"""

import numpy as np

Q = np.array([1.0, 0.9, 0.0])


def best_policy(q, alpha):
    """The policy that makes mean(Q) + alpha * entropy largest, and that maximum, the soft value."""
    largest = q.max()
    weights = np.exp((q - largest) / alpha)  # shifted, so that nothing overflows
    return weights / weights.sum(), largest + alpha * np.log(weights.sum())


def log_density(u):
    """Of a = tanh(u) with u standard normal, in float32: two ways that are equal on paper."""
    u = np.float32(u)
    logp_u = -(u**2) / 2 - np.float32(0.5 * np.log(2 * np.pi))
    with np.errstate(divide="ignore"):
        plain = logp_u - np.log(1 - np.tanh(u) ** 2)
    stable = logp_u - 2 * (np.float32(np.log(2)) - u - np.log1p(np.exp(-2 * u)))
    return plain, stable


def report():
    print("alpha    pi(1)   pi(2)   pi(3)   entropy   mean Q   soft value")
    for alpha in (10.0, 1.0, 0.1, 0.01):
        pi, value = best_policy(Q, alpha)
        entropy = -(pi * np.log(np.maximum(pi, 1e-300))).sum()
        print(f"{alpha:5}", *(f"{p:7.3f}" for p in pi), end="")
        print(f"{entropy:10.3f}{pi @ Q:9.3f}{value:13.3f}")
    print("\n   u    tanh(u)   log density, as written   without cancellation")
    for u in (0.5, 5.0, 10.0):
        plain, stable = log_density(u)
        print(f"{u:4}{np.tanh(np.float32(u)):11.6f}{plain:26.4f}{stable:23.4f}")


if __name__ == "__main__":
    report()
