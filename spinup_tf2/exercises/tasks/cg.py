"""Conjugate gradients: solve H x = b without ever seeing H.

TRPO needs x = H^-1 g, where H has a row and a column for each parameter of the policy: too many to
write down. But products H v are cheap. Conjugate gradients need nothing else:

    x = 0,  r = b,  p = b
    repeat:
        alpha = (r . r) / (p . H p)
        x = x + alpha p
        r_new = r - alpha H p
        p = r_new + (r_new . r_new) / (r . r) p
        r = r_new

Every direction p is conjugate to those before it (p . H q = 0), so that no progress is undone: n
iterations are enough for n unknowns. (Nocedal and Wright 2006, algorithm 5.2)
"""

from collections.abc import Callable

import numpy as np


def conjugate_gradient(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, num_iters: int
) -> np.ndarray:
    """Return x after `num_iters` iterations, [n]. If b is 0, x is 0.

    Args:
        product: Function that returns H v for a vector v, [n] to [n]. H is symmetric and positive
            definite.
        b: The right-hand side, [n].
        num_iters: Number of iterations, with one product each.
    """
    raise NotImplementedError
