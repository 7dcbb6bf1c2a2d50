"""Checks of conjugate gradients."""

import numpy as np

from spinup_tf2.exercises.checking import compare, expect

_RNG = np.random.default_rng(4)


def _matrix(n):
    a = _RNG.normal(size=(n, n))
    return a @ a.T / n + 0.5 * np.eye(n)


CASES = {
    "the identity, 1 iteration": (np.eye(3), np.array([1.0, -2.0, 3.0]), 1),
    "3 times the identity, 1 iteration": (3 * np.eye(3), np.array([1.0, -2.0, 3.0]), 1),
    "5 unknowns, 1 iteration": (_matrix(5), _RNG.normal(size=5), 1),
    "5 unknowns, 2 iterations": (_matrix(5), _RNG.normal(size=5), 2),
    "8 unknowns, 4 iterations": (_matrix(8), _RNG.normal(size=8), 4),
    "5 unknowns, 5 iterations": (_matrix(5), _RNG.normal(size=5), 5),
}


def right(h, b, num_iters):
    """Return the x that minimizes x.Hx/2 - b.x among combinations of b, Hb, ..., H^(k-1) b."""
    powers = [b]
    for _ in range(num_iters - 1):
        powers.append(h @ powers[-1])
    basis, _ = np.linalg.qr(np.stack(powers, axis=1))
    return basis @ np.linalg.solve(basis.T @ h @ basis, basis.T @ b)


def _mistaken(
    beta=lambda new, old: new / old,
    alpha=lambda rr, php, pp: rr / php,
    residual=lambda r, step: r - step,
    skipped=0,
):
    """Return conjugate gradients with one thing done differently."""

    def mistaken(h, b, num_iters):
        x, r, p = np.zeros_like(b), b, b
        for _ in range(num_iters - skipped):
            rr, h_p = r @ r, h @ p
            if rr < 1e-20:
                break
            length = alpha(rr, p @ h_p, p @ p)
            x, r = x + length * p, residual(r, length * h_p)
            p = r + beta(r @ r, rr) * p
        return x

    return mistaken


def _of_first_residual(h, b, num_iters):
    """Mistake: the initial r . r is used in all iterations."""
    x, r, p = np.zeros_like(b), b, b
    first = r @ r
    for _ in range(num_iters):
        h_p = h @ p
        alpha = first / (p @ h_p)
        x, r = x + alpha * p, r - alpha * h_p
        p = r + (r @ r) / first * p
    return x


def _last_lost(h, b, num_iters):
    """Mistake: the new residual replaces the old one before beta is computed."""
    return _mistaken(beta=lambda new, old: 1.0)(h, b, num_iters)


MISTAKES = {
    "You make one iteration too few.": _mistaken(skipped=1),
    "You make one iteration too many.": _mistaken(skipped=-1),
    "Your directions are the residuals themselves, as in steepest descent: add "
    "(r_new . r_new) / (r . r) p.": _mistaken(beta=lambda new, old: 0.0),
    "Your factor of p is always 1: r is overwritten before (r_new . r_new) / (r . r) is "
    "computed.": _last_lost,
    "Your factor of p is upside down: it is (r_new . r_new) / (r . r), the new above.": _mistaken(
        beta=lambda new, old: old / new
    ),
    "The sign of the factor of p is wrong: p = r_new + (r_new . r_new) / (r . r) p.": _mistaken(
        beta=lambda new, old: -new / old
    ),
    "You keep the r . r of the beginning: it has to be that of the present residual.": (
        _of_first_residual
    ),
    "alpha is divided by p . p: it should be p . H p.": _mistaken(
        alpha=lambda rr, php, pp: rr / pp
    ),
    "alpha is upside down: it is (r . r) / (p . H p).": _mistaken(
        alpha=lambda rr, php, pp: php / rr
    ),
    "You add alpha H p to the residual: subtract it.": _mistaken(residual=lambda r, step: r + step),
    "The residual never changes.": _mistaken(residual=lambda r, step: r),
    "The sign of x is wrong.": lambda *args: -right(*args),
}


def solution(student):
    compare(
        lambda h, b, num_iters: student.conjugate_gradient(lambda v: h @ v, b, num_iters),
        CASES,
        right,
        MISTAKES,
    )


def number_of_products(student):
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


def nothing_to_solve(student):
    with np.errstate(all="ignore"):
        x = np.asarray(student.conjugate_gradient(lambda v: 2 * v, np.zeros(3), 4))
    expect(
        not np.isnan(x).any(),
        "b = 0 gives nan, because r . r = 0 is divided by 0. End the loop if there is nothing left "
        "to solve.",
    )
    compare(lambda: x, {"b = 0": ()}, lambda: np.zeros(3), {})


CHECKS = [solution, number_of_products, nothing_to_solve]
