"""Whether an exported policy acts as the run's does, and how long that takes.

The run's own action is that of its Keras networks, between gymnasium's flattening of observations
and the ActionSpec: the exported policy has none of these. Sampling policies are functions of
observation and noise, so that both are given the same noise.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from spinup_tf2.core.nets.distributions import choice_logits
from spinup_tf2.core.nets.normalization import Normalized
from spinup_tf2.core.runs.saved_policy import LoadedPolicy
from spinup_tf2.envs.spaces import ActionSpec, to_network
from spinup_tf2.errors import UserError
from spinup_tf2.exporting.described import bounds_of, part_in, parts_of, put_together, widths_of

OBSERVATIONS = 1000
TOLERANCE = 1e-5
ROUNDINGS = 10  # how often as far as roundings of observations carry the run's own actions
_CHUNK = 50  # observations at a time, of which each may be a large image

Act = Callable[[Any, Any], np.ndarray]


class Checked(NamedTuple):
    """What has been measured.

    Attributes:
        difference: The largest one between two actions, as a share of the actions' size (see
            `largest_difference`); 0 for discrete actions, which are equal.
        seconds: The median time of one action, in seconds.
    """

    difference: float
    seconds: float


def check(loaded: LoadedPolicy, act: Act, samples: bool) -> Checked:
    """Compare `act(observations, noise)` with the run's policy on random observations.

    The sums of a network have another order in another library, so that they are rounded otherwise.
    Where large weights make more of that than TOLERANCE, actions may differ by as much as the run's
    own do if the last bit of each observation is changed, ROUNDINGS times.

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
    """Batches of observations, OBSERVATIONS in all.

    Bytes and one-hot entries are uniform. Numbers are uniform between bounds that are at most
    2,000 apart, and else normal. Where the policy normalizes observations, they are normal with
    twice the standard deviation of those in training.
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
    """The run's actions `[n, ...]`, with how far each discrete choice was from being another, and
    the actions for observations that differ in the last bit."""
    spec = loaded.action_spec
    each = (_rows(loaded, observations, i) for i in range(_CHUNK))
    x = np.stack([to_network(loaded.observation_space, one) for one in each])
    # With noise of zeros, what is picked is the most likely action.
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
    """The largest difference between actions `[n, ...]`, as a share of their size.

    The size is that of the expected number or, if that is more, 1 or half of the distance between
    the bounds to which actions are scaled. Discrete actions must be equal, and differ by 1 where
    they are not; but where the best choice and the next are closer than TOLERANCE, either will do.
    """
    if acts.shape != expected.shape:
        return np.inf
    if spec.num_choices is not None:
        return float(np.any((acts != expected) & (margin > TOLERANCE)))
    half = (spec.space.high - spec.space.low) / 2 if spec.bounded else 1
    size = np.maximum(np.abs(expected), np.maximum(half, 1))
    return float(np.max(np.abs(acts - expected) / size))
