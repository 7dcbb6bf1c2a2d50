"""Checks that an exported policy acts like the run's policy, and measures how long it takes.

The run's actions are computed with its Keras networks, gymnasium's flattening of observations, and
the ActionSpec, none of which the exported policy has. Sampling policies are functions of
observation and noise, so both policies are given the same noise.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from spinup_tf2.core.nets.distributions import choice_logits
from spinup_tf2.core.nets.normalization import Normalized
from spinup_tf2.envs.spaces import ActionSpec, to_network
from spinup_tf2.errors import UserError
from spinup_tf2.exporting.described import bounds_of, part_in, parts_of, put_together, widths_of
from spinup_tf2.training.saved_policy import LoadedPolicy

OBSERVATIONS = 1000
TOLERANCE = 1e-5
ROUNDINGS = 10  # tolerated multiple of the effect of rounding observations on the run's actions
_CHUNK = 50  # observations at a time, each of which may be a large image

Act = Callable[[Any, Any], np.ndarray]


class Checked(NamedTuple):
    """Results of a check.

    Attributes:
        difference: Largest difference between two actions, as a share of their size (see
            `largest_difference`); 0 for discrete actions, which are equal.
        seconds: Median time of one action, in seconds.
    """

    difference: float
    seconds: float


def check(loaded: LoadedPolicy, act: Act, samples: bool) -> Checked:
    """Compare `act(observations, noise)` with the run's policy on random observations.

    Other libraries compute the sums in a network in another order, and so round differently. If
    large weights amplify that to more than TOLERANCE, actions may differ by up to ROUNDINGS times
    the difference that changing the last bit of each observation makes to the run's own actions.

    Args:
        loaded: The run's policy.
        act: The exported policy.
        samples: Whether the exported policy samples its actions.

    Raises:
        UserError: An action differs by more.
    """
    spec, rng = loaded.action_spec, np.random.default_rng(0)
    differences, seconds, roundings = [], [], []
    for observations in random_observations(loaded, rng):
        noise = spec.draw_noise(rng, _CHUNK)
        drawn = noise if samples else 0 * noise
        expected, margin, rounded = _expected(loaded, observations, drawn)
        roundings.append(largest_difference(spec, rounded, expected, margin))
        for i in range(_CHUNK):
            row = slice(i, i + 1)
            inputs = _rows(loaded, observations, row), noise[row] if samples else None
            began = time.perf_counter()
            one = act(*inputs)
            seconds.append(time.perf_counter() - began)
            differences.append(largest_difference(spec, one, expected[row], margin[row]))
        together = act(observations, noise if samples else None)
        differences.append(largest_difference(spec, together, expected, margin))
    difference = float(np.max(differences))
    allowed = TOLERANCE
    if spec.num_choices is None:
        allowed = max(TOLERANCE, ROUNDINGS * float(np.max(roundings)))
    if not difference <= allowed:  # NaN
        raise UserError(
            f"The exported policy's actions are not those of the run: they differ by up to "
            f"{difference:.3g} of their size, more than {allowed:.3g}. Nothing has been written. "
            "Export to another format."
        )
    return Checked(difference, float(np.median(seconds)))


def random_observations(loaded: LoadedPolicy, rng: np.random.Generator) -> Iterator[Any]:
    """Yield batches of random observations, OBSERVATIONS in total.

    Bytes and one-hot entries are uniformly distributed. Numbers are uniform if their bounds are at
    most 2,000 apart, and otherwise normal. If the policy normalizes observations, numbers are
    normal with twice the standard deviation seen in training.
    """
    parts = parts_of(loaded.observation_space)
    ends = np.cumsum(widths_of(parts))
    for _ in range(OBSERVATIONS // _CHUNK):
        each = zip(parts, ends, strict=True)
        yield put_together(parts, [_random(loaded, part, end, rng) for part, end in each])


def _random(loaded, part, end, rng):
    shape = (_CHUNK, *part.shape)
    if part.kind == "image":
        return rng.integers(0, 256, shape, np.uint8)
    if part.kind == "one_hot":
        sizes, start = (np.reshape(each, part.shape) for each in (part.sizes, part.start))
        return start + rng.integers(0, sizes, shape)
    low, high = bounds_of(loaded.observation_space, part)
    dtype = low.dtype
    low, high = low.astype(np.float64), high.astype(np.float64)
    normal = 3 * rng.standard_normal(shape)
    pi = None if loaded.ac is None else loaded.ac.pi
    if isinstance(pi, Normalized):
        shift, scale = pi.normalizer.shift_and_scale()
        mine = slice(end - int(np.prod(part.shape)), end)
        normal = normal * 2 / 3 / scale[mine].reshape(part.shape) + shift[mine].reshape(part.shape)
        return np.clip(normal, low, high).astype(dtype)
    whole = 1 if np.issubdtype(dtype, np.integer) else 0
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = high - low <= 2000
        uniform = low + rng.random(shape) * (high - low + whole)
    if whole:
        uniform, normal = np.floor(uniform), np.round(normal)
    return np.where(narrow, uniform, np.clip(normal, low, high)).astype(dtype)


def _rows(loaded, observations, rows):
    parts = parts_of(loaded.observation_space)
    return put_together(parts, [part_in(part, observations)[rows] for part in parts])


def _expected(loaded, observations, noise):
    """Return the run's actions `[n, ...]`, the margin by which each discrete choice was made, and
    the actions for observations that differ in the last bit."""
    spec = loaded.action_spec
    each = (_rows(loaded, observations, i) for i in range(_CHUNK))
    x = np.stack([to_network(loaded.observation_space, one) for one in each])
    # With zero noise, the result is the most likely action.
    expected = spec.to_env(loaded.outputs(x, noise)["pi"].numpy())
    rounded = expected
    if np.issubdtype(x.dtype, np.floating):
        up = np.arange(x.size).reshape(x.shape) % 2
        beside = np.nextafter(x, np.where(up, np.inf, -np.inf).astype(x.dtype))
        rounded = spec.to_env(loaded.outputs(beside, noise)["pi"].numpy())
    margin = np.full((_CHUNK, *spec.shape), np.inf)
    if spec.num_choices is not None and loaded.ac is not None:
        best = np.sort(choice_logits(loaded.ac.pi(x)).numpy() + noise, axis=-1)[..., -2:]
        if best.shape[-1] == 2:
            margin = (best[..., 1] - best[..., 0]) / np.maximum(1, np.abs(best[..., 1]))
    return expected, margin.reshape(expected.shape), rounded


def largest_difference(spec: ActionSpec, acts, expected, margin) -> float:
    """Return the largest difference between actions `[n, ...]`, as a share of their size.

    The size is the absolute value of the expected number, but at least 1 and at least half of the
    distance between the bounds to which actions are scaled. For discrete actions the result is 0
    if they are equal, and 1 if not; where the best and the second best choice are closer than
    TOLERANCE, any action is accepted.
    """
    if acts.shape != expected.shape:
        return np.inf
    if spec.num_choices is not None:
        return float(np.any((acts != expected) & (margin > TOLERANCE)))
    half = (spec.space.high - spec.space.low) / 2 if spec.bounded else 1
    size = np.maximum(np.abs(expected), np.maximum(half, 1))
    return float(np.max(np.abs(acts - expected) / size))
