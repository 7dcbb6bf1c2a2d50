r"""The initial weights of networks, and what PPO makes of them.

A dense layer y = x W + b has a kernel W, [fan_in, fan_out], and a bias b, [fan_out]. Three usual
ways to draw them:

    glorot      W uniform within +-sqrt(6 / (fan_in + fan_out)), b = 0         TensorFlow's default
    torch       W and b uniform within +-1 / sqrt(fan_in)                      PyTorch's default
    orthogonal  W^T W = gain^2 I if fan_in >= fan_out, W W^T = gain^2 I if not; b = 0

For the last one take a matrix of standard normal numbers, and of its QR decomposition the factor
with orthonormal columns (numpy.linalg.qr), multiplied by gain. A wide W is the transpose of a tall
one. For PPO the gain is sqrt(2) in hidden layers and 0.01 in the policy's last one, so that the
first policy prefers no action.

When both functions are right, predict which of the three learns fastest, and look:

    python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name init --epochs 10 \
        --init glorot torch orthogonal --seed 0 1 2
    python -m spinup_tf2.run plot data/init_ --table
"""

import numpy as np

from spinup_tf2.exercises.checking import expect


def draw(
    init: str, fan_in: int, fan_out: int, gain: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a kernel, [fan_in, fan_out], and a bias, [fan_out].

    Args:
        init: 'glorot', 'torch' or 'orthogonal'.
        fan_in, fan_out: Numbers of inputs and outputs of the layer.
        gain: Gain of orthogonal kernels; the others do not use it.
        rng: Generator for all random numbers.
    """
    # answer
    shape = (fan_in, fan_out)
    if init == "torch":
        limit = 1 / np.sqrt(fan_in)
        return rng.uniform(-limit, limit, shape), rng.uniform(-limit, limit, fan_out)
    if init == "glorot":
        limit = np.sqrt(6 / (fan_in + fan_out))
        return rng.uniform(-limit, limit, shape), np.zeros(fan_out)
    tall, _ = np.linalg.qr(rng.normal(size=(max(shape), min(shape))))
    return gain * (tall if fan_in >= fan_out else tall.T), np.zeros(fan_out)


def recognize(kernel: np.ndarray, bias: np.ndarray) -> str:
    """Return the name of the method by which a layer was drawn. The gain is sqrt(2)."""
    # answer
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


def _expect_uniform(what, values, limit):
    """Check that numbers are uniform within +-limit."""
    measured = np.abs(values).max()
    expect(
        0.97 < measured / limit < 1.0001,
        f"{what} reaches to {measured:.4g}; the limit should be {limit:.4g}.",
    )
    expect(
        abs(values.mean()) < 0.1 * limit and abs(values.std() * 3**0.5 / limit - 1) < 0.06,
        f"{what} is not uniform around 0: its mean is {values.mean():.3g}, its standard deviation "
        f"{values.std():.3g}; it should be 0 and {limit / 3**0.5:.3g}.",
    )


def check_glorot(student):
    for shape in _SIZES:
        kernel, bias = _drawn(student, "glorot", shape)
        _expect_uniform("The kernel of 'glorot'", kernel, np.sqrt(6 / sum(shape)))
        expect(not bias.any(), "The bias of 'glorot' should be 0.")


def check_torch(student):
    for shape in _SIZES:
        drawn = [_drawn(student, "torch", shape, seed) for seed in range(10)]
        limit = 1 / np.sqrt(shape[0])
        _expect_uniform("The kernel of 'torch'", drawn[0][0], limit)
        _expect_uniform("The bias of 'torch'", np.concatenate([bias for _, bias in drawn]), limit)


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
