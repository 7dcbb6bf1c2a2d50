"""A trained policy that needs nothing but NumPy (1.20 or newer, on Python 3.8 or newer).

    from policy import Policy

    policy = Policy("policy.npz")
    act = policy.act(obs)

The command `export` of spinup_tf2 writes this file as policy.py, and next to it policy.npz, which
holds the weights and, as JSON in its entry `description`, the functions below that use them.
"""

from __future__ import annotations  # Python 3.8 cannot evaluate `dict[str, ...]`

import json
from collections.abc import Callable
from functools import partial, reduce
from operator import getitem
from typing import Any

import numpy as np

VERSION = 2  # of the format of policy.npz

# ------------------------------------------------------------------------------ activations

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    # Its two constants are those of Klambauer et al. 2017, equation 14.
    "selu": lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(np.minimum(x, 0))),
}

# ------------------------------------------------------------------ layers, for batches [n, ...]


def normalize(x, shift, scale, clip):
    """Normalize observations with the statistics of the training, and clip them."""
    return ((x - shift) * scale).clip(-clip, clip)


def rescale(x, scale, offset):
    """Scale bytes of images: `x * scale + offset`."""
    return x * np.float32(scale) + np.float32(offset)


def transpose(x, axes):
    """Permute axes, such as those of images from channels first to channels last."""
    return x.transpose(axes)


def flatten(x):
    """Reshape `[n, ...]` to `[n, features]`."""
    return x.reshape(len(x), -1)


def dense(x, kernel, bias, activation):
    """Apply a fully connected layer."""
    x = x @ kernel
    x += bias
    return ACTIVATIONS[activation](x)


def conv2d(x, kernel, bias, activation, stride, same):
    """Apply a convolution to images `[n, height, width, channels]`.

    Args:
        kernel: `[rows, columns, channels, filters]`.
        same: Whether to pad the images with zeros (TensorFlow's padding of that name).
    """
    rows, columns = kernel.shape[:2]
    if same:
        around = [_zeros(x.shape[1], rows, stride), _zeros(x.shape[2], columns, stride)]
        x = np.pad(x, [(0, 0), *around, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), axis=(1, 2))
    windows = windows[:, ::stride, ::stride]  # [n, height, width, channels, rows, columns]
    x = np.tensordot(windows, kernel, axes=((4, 5, 3), (0, 1, 2)))
    x += bias
    return ACTIVATIONS[activation](x)


def _zeros(pixels, size, stride):
    """Return how many zeros TensorFlow's padding adds before and after so many pixels."""
    total = max((-(-pixels // stride) - 1) * stride + size - pixels, 0)
    return total // 2, total - total // 2


# -------------------------------------------------- heads: from the network's output to actions
# With noise 0, each of them returns the most likely action.


def gaussian(mean, noise, std):
    """Return a sample of a Gaussian, from standard normal noise."""
    return mean + std * noise


def squashed_gaussian(output, noise, log_std_min, log_std_max):
    """Return the tanh of a sample of a Gaussian, in [-1, 1], from standard normal noise."""
    mean, log_std = np.split(output, 2, axis=-1)
    return np.tanh(mean + np.exp(log_std.clip(log_std_min, log_std_max)) * noise)


def deterministic(act, noise):
    """Return the network's output itself, in [-1, 1]."""
    return act


def greedy(values, noise):
    """Return the action of the largest value, counted from 0."""
    return values.argmax(-1)


def categorical(logits, noise):
    """Return a sample of one discrete action, counted from 0, from Gumbel noise `[n, values]`."""
    return (logits + noise).argmax(-1)


def categoricals(logits, noise, index, padding):
    """Return a sample of k discrete actions, from Gumbel noise `[n, k, values]`.

    Args:
        logits: `[n, sum of the numbers of values]`.
        index: `[k, values]`, the column of the logit of each value of each action.
        padding: Bool of the same shape, True where an action has fewer values than others.
    """
    return (np.where(padding, -np.inf, logits[:, index]) + noise).argmax(-1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(normalize, rescale, transpose, flatten, dense, conv2d),
        *(gaussian, squashed_gaussian, deterministic, greedy, categorical, categoricals),
    )
}

# --------------------------------------------------------------------------------- the policy


class Policy:
    """An exported policy, from observations of the environment to actions for its `step`.

    Args:
        path: The .npz file.
        seed: Seed of the samples, if the policy was exported with `--sample`; None gives different
            ones every time.

    Attributes:
        low, high: The bounds of the environment's actions, in the shape of an action; None if there
            are none. Actions of `act` may exceed them if the policy was trained that way.

    Raises:
        ValueError: The file was written by another version of the program.
    """

    def __init__(self, path, seed=None):
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        description = json.loads(str(arrays["description"]))
        if description["version"] != VERSION:
            raise ValueError(
                f"{path} has version {description['version']}, and this file reads {VERSION}: use "
                "the policy.py that was written with it."
            )
        self.observation = description["observation"]
        self.action = description["action"]
        self.noise = description["noise"]  # None if the policy is deterministic
        self.start, self.low, self.high = (arrays.get(name) for name in ("start", "low", "high"))
        *self.layers, self.head = [
            partial(
                FUNCTIONS[step["function"]],
                **step["arguments"],
                **{name: arrays[f"{i}.{name}"] for name in step["arrays"]},
            )
            for i, step in enumerate(description["steps"])
        ]
        self.rng = np.random.default_rng(seed)

    def act(self, obs, noise=None):
        """Return the action for an observation, or the actions for a batch of observations.

        Args:
            obs: An array, a number, or a dict, as the environment returns it; or several in one
                array (a dict of arrays) with an additional first axis.
            noise: Noise that selects the samples: `draw_noise(n)` for n observations, or
                `draw_noise(1)` for a single one. None draws new noise.

        Raises:
            ValueError: The observation does not have the form that the policy was trained on, or
                the noise not that of `draw_noise`, or one of them contains NaN or infinity.
        """
        x, single = self._to_network(obs)
        if noise is None:
            noise = 0.0 if self.noise is None else self.draw_noise(len(x))
        else:
            noise = _finite(np.asarray(noise), "noise")
            if noise.shape != self._noise_shape(len(x)):  # it could be broadcast
                raise ValueError(f"The noise must be draw_noise({len(x)}), not {noise.shape}.")
        for layer in self.layers:
            x = layer(x)
        act = self._to_env(self.head(x, noise))
        return act[0] if single else act

    def draw_noise(self, n):
        """Draw noise for n actions, `[n, ...]`: standard normal, or Gumbel for discrete actions.

        Raises:
            ValueError: The policy is deterministic.
        """
        shape = self._noise_shape(n)
        if self.noise["kind"] == "normal":
            return self.rng.standard_normal(shape, dtype=np.float32)
        return self.rng.gumbel(size=shape).astype(np.float32)

    def _noise_shape(self, n):
        if self.noise is None:
            raise ValueError("This policy is deterministic: it has no noise and takes no noise.")
        return (n, *self.noise["shape"])

    def _to_network(self, obs):
        """Return the input of the first layer, `[n, ...]`, and whether it is one observation."""
        values = [reduce(getitem, part["path"], obs) for part in self.observation]
        parts, singles = zip(*map(_encode, self.observation, values))  # noqa: B905  (Python 3.8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), singles[0]

    def _to_env(self, act):
        act = act.reshape(len(act), *self.action["shape"])
        if self.action["bounded"]:  # from [-1, 1] to the environment's bounds
            act = (1 - act) / 2 * self.low + (1 + act) / 2 * self.high
            act = act.clip(self.low, self.high)
        if self.start is not None:
            act = act + self.start
        return act.astype(self.action["dtype"])


def _encode(part, value):
    """Return a part of observations as the network sees it, and whether it is a single one."""
    x, shape = np.asarray(value), tuple(part["shape"])
    single = x.shape == shape
    if single:
        x = x[None]
    elif x.shape[1:] != shape or x.ndim != len(shape) + 1:
        raise ValueError(
            f"The observation{part['path']} has shape {x.shape}; the policy was trained on {shape}."
        )
    if part["kind"] == "image":
        if x.dtype not in (np.uint8, np.bool_):
            raise ValueError(f"Images are bytes, 0 to 255 (uint8), or Booleans, not {x.dtype}.")
        return x.astype(np.uint8), single
    x = flatten(x) if len(x) else x.reshape(0, int(np.prod(shape)))
    if part["kind"] == "one_hot":
        return _one_hot(part, x), single
    return _finite(x, f"observation{part['path']}"), single


@np.errstate(over="ignore")  # numbers that are too large become infinite, which is refused
def _finite(x, name):
    """Convert numbers to float32, in which they must be finite."""
    x = x.astype(np.float32)
    if not np.isfinite(x).all():
        raise ValueError(
            f"The {name} has a NaN or an infinity in it, for which no action is known; give finite "
            "numbers."
        )
    return x


@np.errstate(invalid="ignore")  # the remainder of an infinity
def _one_hot(part, x):
    """Return the concatenated one-hot vectors of the numbers in each row."""
    sizes = np.array(part["sizes"])
    x = x - np.array(part["start"])
    if not ((x >= 0) & (x < sizes) & (x % 1 == 0)).all():  # NaN fails, too
        raise ValueError(f"The observation{part['path']} has a value that was not there before.")
    columns = (x + np.cumsum([0, *sizes[:-1]])).astype(int)
    one_hot = np.zeros((len(x), sizes.sum()), np.float32)
    np.put_along_axis(one_hot, columns, 1, axis=1)
    return one_hot
