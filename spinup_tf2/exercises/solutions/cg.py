"""Conjugate gradients: solve H x = b without ever seeing H."""

from collections.abc import Callable

import numpy as np


def conjugate_gradient(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, num_iters: int
) -> np.ndarray:
    x = np.zeros_like(b)
    r, p = b, b
    error = r @ r
    for _ in range(num_iters):
        if error == 0:
            break
        h_p = product(p)
        alpha = error / (p @ h_p)
        x = x + alpha * p
        r = r - alpha * h_p
        last_error, error = error, r @ r
        p = r + error / last_error * p
    return x
