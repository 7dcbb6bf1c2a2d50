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
    raise NotImplementedError


def recognize(kernel: np.ndarray, bias: np.ndarray) -> str:
    """Return the name of the method by which a layer was drawn. The gain is sqrt(2)."""
    raise NotImplementedError
