"""Exports a trained policy for other programs: `spinup_tf2.export(run_dir, "numpy")`.

The exported policy is checked before it gets its final name. The run's actions are computed with
its Keras networks, gymnasium's flattening of observations, and the ActionSpec, none of which the
exported policy has. Sampling policies are functions of observation and noise, so both policies are
given the same noise.
"""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from spinup_tf2.core.nets.checks import two_observations
from spinup_tf2.core.nets.distributions import choice_logits
from spinup_tf2.core.nets.normalization import Normalized
from spinup_tf2.envs.modules import import_named
from spinup_tf2.envs.spaces import ActionSpec, network_observation_space, to_network
from spinup_tf2.errors import UserError, reason_of
from spinup_tf2.exporting.formats import (
    DTYPES,
    FILES,
    SIGNATURE,
    Act,
    parts_of,
    put_together,
    read_numpy,
    read_savedmodel,
    write_numpy,
    write_savedmodel,
)
from spinup_tf2.files.disk import atomic_output
from spinup_tf2.files.saves import find_save
from spinup_tf2.training.saved_policy import LoadedPolicy, load_networks

OBSERVATIONS = 1000
TOLERANCE = 1e-5
ROUNDINGS = 10  # tolerated multiple of the effect of rounding observations on the run's actions
_CHUNK = 50  # observations at a time, each of which may be a large image


@dataclass(frozen=True)
class Exported:
    """A policy that `export` has written. As a string, it is a report on all of this.

    Attributes:
        path: Path of the directory.
        sample: Whether the policy samples its actions.
        sizes: Size in bytes of each file.
        difference: Largest difference between its actions and the run's, as a share of their size.
        seconds: Median time of one action, in seconds.
        use: Python code that computes its action for an observation `obs`.
    """

    path: Path
    sample: bool
    sizes: dict[str, int]
    difference: float
    seconds: float
    use: str

    def __str__(self) -> str:
        kind = "sampling" if self.sample else "deterministic"
        sizes = ", ".join(f"{name} ({size / 1000:,.1f} kB)" for name, size in self.sizes.items())
        equal = f"the largest difference is {self.difference:.1e}" if self.difference else "equal"
        return (
            f"Exported the {kind} policy to {self.path}: {sizes}\n"
            f"Compared with the run's actions on {OBSERVATIONS:,} observations: {equal}\n"
            f"Time for one action: {self.seconds * 1e6:.0f} microseconds (median)\n\n"
            f"Use it:\n\n{self.use}"
        )


def export(
    run_dir: str | os.PathLike,
    format: str,
    output: str | os.PathLike | None = None,
    *,
    sample: bool = False,
    itr: int | str = "last",
    best: bool = False,
    overwrite: bool = False,
    allow_pickle: bool = False,
    modules: Iterable[str] = (),
) -> Exported:
    """Export the policy of a run for programs that do not have this package.

    The exported policy takes observations as the environment returns them, and returns actions for
    its `step`. It is compared with the run's policy before it is moved to `output`.

    Args:
        run_dir: Directory of the run.
        format: 'numpy', policy.npz and policy.py, which need only NumPy; or 'savedmodel'.
        output: Directory to write; by default the run's name, with `_` and the format, in the
            current directory.
        sample: Whether the policy samples its actions as in training, instead of taking the most
            likely one each time.
        itr: Number of the save, or 'last' (or less than 0) for the last.
        best: Whether to use the best weights so far, from the newest checkpoint, instead of those
            of a save.
        overwrite: Whether to replace an existing exported policy.
        allow_pickle: Whether networks other than this package's own may be loaded from their
            SavedModel. That runs code in it: only for runs of people you trust.
        modules: Modules of yours to import first, such as that of the run's networks.

    Raises:
        UserError: There is no such run, its policy cannot be exported to this format, or `output`
            exists already.
    """
    if format not in FILES:
        raise UserError(f"There is no format {format!r}; the formats are {', '.join(FILES)}.")
    import_named(modules)
    save_dir = find_save(run_dir, itr)
    path = Path(output if output is not None else f"{Path(run_dir).resolve().name}_{format}")
    _check_place(path, format, overwrite)
    loaded = load_networks(save_dir, allow_pickle=allow_pickle, best=best)
    if loaded.state_size:
        raise UserError(
            "This policy has a memory (lstm or gru), and what is exported would have none. Use "
            "spinup_tf2's load_policy, or the SavedModel in the run's tf2_save, which takes and "
            "returns the state."
        )
    if sample and _is_deterministic(loaded):
        raise UserError("This policy is deterministic: there is nothing to sample from.")
    write = write_numpy if format == "numpy" else write_savedmodel
    read = read_numpy if format == "numpy" else read_savedmodel
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(path) as temporary:
            write(loaded, sample, Path(temporary))
            act = read(Path(temporary), parts_of(loaded.observation_space))
            difference, seconds = check(loaded, act, sample)
    except (OSError, tf.errors.OpError) as error:  # TensorFlow's error for a full disk
        raise UserError(f"{path} cannot be written ({reason_of(error)}).") from error
    files = sorted(each for each in path.rglob("*") if each.is_file())
    sizes = {str(each.relative_to(path)): each.stat().st_size for each in files}
    return Exported(path, sample, sizes, difference, seconds, _use(loaded, format, sample, path))


def _check_place(path, format, overwrite):
    """Raise UserError if `path` exists, unless it is an exported policy to be overwritten."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UserError(
            f"{path} is there already; give another --output, or --overwrite (overwrite=True) to "
            "replace it."
        )
    theirs = {each.name for each in path.iterdir()} if path.is_dir() else {path.name}
    if path.is_symlink() or theirs - {*FILES[format]}:
        raise UserError(
            f"{path} is not replaced, since it is not only an exported policy of this format (it "
            f"has {', '.join(sorted(theirs)[:3])}); give another --output."
        )


def _is_deterministic(loaded):
    obs = two_observations(network_observation_space(loaded.observation_space))
    return loaded.ac is not None and tf.is_tensor(loaded.ac.pi(obs))


def _use(loaded, format, sample, path):
    """Return Python code that uses the policy."""
    if format == "numpy":
        return 'from policy import Policy  # policy.py\nact = Policy("policy.npz").act(obs)'
    inputs = []
    for part in parts_of(loaded.observation_space):
        entry = "".join(f"[{key!r}]" for key in part.path)
        inputs.append(f"{part.name}=np.asarray(obs{entry}, np.{DTYPES[part.kind].name})[None]")
    if sample:
        inputs.append("noise=np.asarray(noise, np.float32)")
    lines = inputs[0] if len(inputs) == 1 else "".join(f"\n    {each}," for each in inputs) + "\n"
    quoted = json.dumps(path.name, ensure_ascii=False)  # which is Python as well
    return (
        "import numpy as np\n"
        "import tensorflow as tf\n\n"
        f"model = tf.saved_model.load({quoted})\n"
        f'policy = model.signatures["{SIGNATURE}"]\n'
        f'act = policy({lines})["act"][0].numpy()'
    )


# ---------------------------------------------------------------------------------- the check


def check(loaded: LoadedPolicy, act: Act, samples: bool) -> tuple[float, float]:
    """Compare an exported policy with the run's on random observations.

    Other libraries compute the sums in a network in another order, and so round differently. If
    large weights amplify that to more than TOLERANCE, actions may differ by up to ROUNDINGS times
    the difference that changing the last bit of each observation makes to the run's own actions.

    Args:
        loaded: The run's policy.
        act: The exported policy.
        samples: Whether the exported policy samples its actions.

    Returns:
        The largest difference between two actions (see `largest_difference`), and the median time
        of one action in seconds.

    Raises:
        UserError: An action differs by more.
    """
    spec, rng = loaded.action_spec, np.random.default_rng(0)
    differences, seconds, roundings = [], [], [TOLERANCE]
    for _ in range(OBSERVATIONS // _CHUNK):
        values = random_values(loaded, rng)
        noise = spec.draw_noise(rng, _CHUNK)
        expected, margin, rounded = _expected(loaded, values, noise if samples else 0 * noise)
        if spec.num_choices is None:
            roundings.append(ROUNDINGS * largest_difference(spec, rounded, expected, margin))
        for rows in (slice(None), *(slice(i, i + 1) for i in range(_CHUNK))):
            inputs = [value[rows] for value in values], noise[rows] if samples else None
            began = time.perf_counter()
            actions = act(*inputs)
            seconds.append(time.perf_counter() - began)
            differences.append(largest_difference(spec, actions, expected[rows], margin[rows]))
    difference, allowed = float(np.max(differences)), float(np.max(roundings))
    if not difference <= allowed:  # NaN
        raise UserError(
            f"The exported policy's actions are not those of the run: they differ by up to "
            f"{difference:.3g} of their size, more than {allowed:.3g}. Nothing has been written."
        )
    return difference, float(np.median(seconds))


def random_values(loaded: LoadedPolicy, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random values `[_CHUNK, ...]` of each part of observations.

    They are uniform between bounds of at most 1,000, and otherwise normal. If the policy normalizes
    observations, numbers are normal with twice the standard deviation seen in training.
    """
    parts, values, end = parts_of(loaded.observation_space), [], 0
    for part in parts:
        space, end = batch_space(part.space, _CHUNK), end + part.width
        if part.kind == "numbers" and space.dtype.kind == "f":
            low = np.where(space.low < -1000, -np.inf, space.low)
            high = np.where(space.high > 1000, np.inf, space.high)
            space = spaces.Box(low, high, dtype=space.dtype)
        space.seed(int(rng.integers(2**31)))
        value = space.sample()
        pi = None if loaded.ac is None else loaded.ac.pi
        if part.kind == "numbers" and isinstance(pi, Normalized):
            shift, scale = (x[end - part.width : end] for x in pi.normalizer.shift_and_scale())
            normal = shift + 2 / scale * rng.standard_normal((_CHUNK, part.width))
            value = np.clip(normal.reshape(value.shape), space.low, space.high).astype(value.dtype)
        values.append(value)
    return values


def _expected(loaded, values, noise):
    """Return the run's actions `[n, ...]`, the margin by which each discrete choice was made, and
    the actions for observations that differ in the last bit."""
    spec, space = loaded.action_spec, loaded.observation_space
    singles = [put_together(parts_of(space), each) for each in zip(*values, strict=True)]
    x = np.stack([to_network(space, obs) for obs in singles])
    # With zero noise, the result is the most likely action.
    expected = rounded = spec.to_env(loaded.outputs(x, noise)["pi"].numpy())
    if np.issubdtype(x.dtype, np.floating):
        up = np.arange(x.size).reshape(x.shape) % 2
        beside = np.nextafter(x, np.where(up, np.inf, -np.inf).astype(x.dtype))
        rounded = spec.to_env(loaded.outputs(beside, noise)["pi"].numpy())
    margin = np.full(expected.shape, np.inf)
    if spec.num_choices is not None and loaded.ac is not None:
        pi = loaded.ac.pi(x)
        values = loaded.ac.q_values(x)[0] if tf.is_tensor(pi) else choice_logits(pi) + noise
        best = np.sort(values, axis=-1)[..., -2:]
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
