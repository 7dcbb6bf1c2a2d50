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

from spinup_tf2.exercises.checking import compare, expect


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
    # answer
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


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(4)


def _matrix(n):
    a = _RNG.normal(size=(n, n))
    return a @ a.T / n + 0.5 * np.eye(n)


_CASES = {
    "the identity, 1 iteration": (np.eye(3), np.array([1.0, -2.0, 3.0]), 1),
    "3 times the identity, 1 iteration": (3 * np.eye(3), np.array([1.0, -2.0, 3.0]), 1),
    "5 unknowns, 1 iteration": (_matrix(5), _RNG.normal(size=5), 1),
    "5 unknowns, 2 iterations": (_matrix(5), _RNG.normal(size=5), 2),
    "8 unknowns, 4 iterations": (_matrix(8), _RNG.normal(size=8), 4),
    "5 unknowns, 5 iterations": (_matrix(5), _RNG.normal(size=5), 5),
}


def _right(h, b, num_iters):
    """Return the x that minimizes x.Hx/2 - b.x among combinations of b, Hb, ..., H^(k-1) b."""
    powers = [b]
    for _ in range(num_iters - 1):
        powers.append(h @ powers[-1])
    basis, _ = np.linalg.qr(np.stack(powers, axis=1))
    return basis @ np.linalg.solve(basis.T @ h @ basis, basis.T @ b)


_MISTAKES = {
    "You make one iteration too few.": "range(num_iters) => range(num_iters - 1)",
    "You make one iteration too many.": "range(num_iters) => range(num_iters + 1)",
    "Your directions are the residuals, as in steepest descent.": "r + error / last_error * p => r",
    "The factor of p is always 1: r is overwritten too early.": "error / last_error * p => p",
    "You add alpha H p to the residual: subtract it.": "r - alpha => r + alpha",
}


def check_solution(student):
    def answer(module, h, b, num_iters):
        return module.conjugate_gradient(lambda v: h @ v, b, num_iters)

    compare(student, answer, _CASES, _right, _MISTAKES)


def check_number_of_products(student):
    calls = []  # False for a call of product with a zero vector
    b = np.arange(1.0, 9.0)

    def product(v):
        calls.append(np.any(v))
        return 2.0 * v + np.roll(v, 1) / 2 + np.roll(v, -1) / 2

    student.conjugate_gradient(product, b, 3)
    expect(
        sum(calls) <= 3,
        f"3 iterations call product {len(calls)} times: it is the expensive part. Compute H p once "
        "in an iteration, and use it twice.",
    )
    expect(
        all(calls),
        "product is called for x = 0, and it is the expensive part. With x = 0 the first residual "
        "is b: no product is needed for it.",
    )
    expect(
        np.array_equal(b, np.arange(1.0, 9.0)),
        "You change b, which belongs to the caller: r -= ... writes into the array that r names. "
        "Begin with r = b.copy(), or write r = r - alpha * h_p.",
    )


def check_nothing_to_solve(student):
    with np.errstate(all="ignore"):
        x = np.asarray(student.conjugate_gradient(lambda v: 2 * v, np.zeros(3), 4))
    expect(
        not np.isnan(x).any(),
        "b = 0 gives nan, because r . r = 0 is divided by 0. End the loop if there is nothing left "
        "to solve.",
    )
    compare(student, lambda _: x, {"b = 0": ()}, lambda: np.zeros(3))
