"""The initial weights of networks, and what PPO makes of them."""

import numpy as np

from spinup_tf2.exercises.checking import expect


def draw(init, fan_in, fan_out, gain, rng):
    shape = (fan_in, fan_out)
    if init == "torch":
        limit = 1 / np.sqrt(fan_in)
        return rng.uniform(-limit, limit, shape), rng.uniform(-limit, limit, fan_out)
    if init == "glorot":
        limit = np.sqrt(6 / (fan_in + fan_out))
        return rng.uniform(-limit, limit, shape), np.zeros(fan_out)
    tall, _ = np.linalg.qr(rng.normal(size=(max(shape), min(shape))))
    return gain * (tall if fan_in >= fan_out else tall.T), np.zeros(fan_out)


def recognize(kernel, bias):
    if bias.any():
        return "torch"
    fan_in, fan_out = kernel.shape
    gram = kernel.T @ kernel if fan_in >= fan_out else kernel @ kernel.T
    return "orthogonal" if np.allclose(gram, 2 * np.eye(len(gram)), atol=1e-4) else "glorot"


# ---------------------------------------------------------------- checks

_SIZES = [(200, 100), (100, 300)]
_GAIN = 0.5


def _drawn(student, init, shape, seed=0):
    """Return a kernel and a bias drawn by the student's function, after checking their shapes."""
    rng = np.random.default_rng([5, seed])
    kernel, bias = student.draw(init, *shape, _GAIN, rng)
    for name, array, expected in (("kernel", kernel, shape), ("bias", bias, shape[1:])):
        expect(
            np.shape(array) == expected,
            f"With '{init}', fan_in {shape[0]} and fan_out {shape[1]} the {name} has the shape "
            f"{[*np.shape(array)]}; it should be {[*expected]}.",
        )
    return np.asarray(kernel), np.asarray(bias)


def _expect_uniform(what, values, limit, mistakes):
    """Check that numbers are uniform within +-limit; `mistakes` maps sentences to wrong limits."""
    measured = np.abs(values).max()
    expect(
        values.min() < -0.9 * measured and values.max() > 0.9 * measured,
        f"{what} reaches from {values.min():.3g} to {values.max():.3g}: it should be spread evenly "
        "around 0.",
    )
    expect(
        abs(values.std() * 3**0.5 / measured - 1) < 0.06,
        f"{what} is not uniform. Is it drawn from a normal distribution?",
    )
    for sentence, other in mistakes.items():
        expect(not 0.97 < measured / other < 1.0001, f"{what}: {sentence}")
    expect(
        0.97 < measured / limit < 1.0001,
        f"{what} reaches to {measured:.4g}; the limit should be {limit:.4g}.",
    )


def check_glorot(student):
    for shape in _SIZES:
        kernel, bias = _drawn(student, "glorot", shape)
        fan_in, total = shape[0], sum(shape)
        _expect_uniform(
            "The kernel of 'glorot'",
            kernel,
            np.sqrt(6 / total),
            {
                "you divide by fan_in alone: it is fan_in + fan_out.": np.sqrt(6 / fan_in),
                "the square root is missing.": 6 / total,
                "sqrt(2 / (fan_in + fan_out)) is its standard deviation; the limit is sqrt(3) "
                "times that.": np.sqrt(2 / total),
                "this is the limit of 'torch'.": 1 / np.sqrt(fan_in),
            },
        )
        expect(not bias.any(), "The bias of 'glorot' should be 0.")


def check_torch(student):
    for shape in _SIZES:
        kernel, bias = _drawn(student, "torch", shape)
        mistakes = {
            "you use fan_out: it is 1 / sqrt(fan_in).": 1 / np.sqrt(shape[1]),
            "the square root is missing: it is 1 / sqrt(fan_in).": 1 / shape[0],
            "this is the limit of 'glorot'.": np.sqrt(6 / sum(shape)),
        }
        limit = 1 / np.sqrt(shape[0])
        _expect_uniform("The kernel of 'torch'", kernel, limit, mistakes)
        expect(
            bias.any(),
            "The bias of 'torch' is 0: PyTorch draws it as well, within 1 / sqrt(fan_in).",
        )
        biases = [_drawn(student, "torch", shape, seed)[1] for seed in range(10)]
        _expect_uniform("The bias of 'torch'", np.concatenate(biases), limit, mistakes)


def check_orthogonal(student):
    for shape in _SIZES:
        kernel, bias = _drawn(student, "orthogonal", shape)
        tall = shape[0] >= shape[1]
        gram = kernel.T @ kernel if tall else kernel @ kernel.T
        size = np.diag(gram).mean()
        name = "W^T W" if tall else "W W^T"
        expect(
            np.allclose(gram, size * np.eye(len(gram)), atol=1e-4 * max(size, 1)),
            f"{name} is not a multiple of the identity for a kernel of {shape[0]} x {shape[1]}.",
        )
        mistakes = {
            "The gain is missing: multiply the kernel by it.": 1,
            "You multiply by sqrt(gain): multiply the kernel by the gain.": _GAIN,
            "You multiply by gain^2: multiply the kernel by the gain.": _GAIN**4,
        }
        for sentence, other in mistakes.items():
            expect(not np.isclose(size, other), sentence)
        expect(
            np.isclose(size, _GAIN**2),
            f"With gain {_GAIN} the diagonal of {name} should be {_GAIN**2}; it is {size:.4g}.",
        )
        expect(not bias.any(), "The bias of 'orthogonal' should be 0.")


def check_random_numbers(student):
    for init in ("glorot", "torch", "orthogonal"):
        first, again, other = (_drawn(student, init, (20, 10), seed)[0] for seed in (0, 0, 1))
        expect(
            np.array_equal(first, again),
            f"'{init}' gives other weights with the same rng: draw all numbers from rng.",
        )
        expect(
            not np.array_equal(first, other),
            f"'{init}' gives the same weights with another rng: draw all numbers from rng.",
        )


def _layer(init, shape, rng):
    """Draw a layer without the student's code; orthogonal ones by singular value decomposition."""
    fan_in, fan_out = shape
    bias = np.zeros(fan_out)
    if init == "orthogonal":
        u, _, v = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
        return np.sqrt(2) * u @ v, bias
    if init == "glorot":
        return np.sqrt(6 / sum(shape)) * rng.uniform(-1, 1, shape), bias
    limit = fan_in**-0.5
    return limit * rng.uniform(-1, 1, shape), limit * rng.uniform(-1, 1, fan_out)


def check_recognize(student):
    hints = {
        "torch": "Only this one has a bias that is not 0.",
        "glorot": "Its columns are not orthogonal, and no number is beyond its limit.",
        "orthogonal": "W^T W is 2 I if the kernel is tall, W W^T if it is wide.",
    }
    rng = np.random.default_rng(6)
    for shape in ((4, 64), (64, 64), (64, 2), (17, 64), (6, 3)):
        for init, hint in hints.items():
            answer = student.recognize(*_layer(init, shape, rng))
            expect(
                answer == init,
                f"A kernel of {shape[0]} x {shape[1]} drawn with '{init}' is taken for "
                f"{answer!r}. {hint}",
            )
