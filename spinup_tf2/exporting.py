"""Exports a trained policy for other programs: `spinup_tf2.export(run_dir, "numpy")`.

There are two formats: arrays with a NumPy program, or a SavedModel. The exported policy is checked
before it gets its final name. The run's actions are computed with its Keras networks, gymnasium's
flattening of observations, and the ActionSpec, none of which the exported policy has. Sampling
policies are functions of observation and noise, so both policies are given the same noise.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.acting import numpy_steps
from spinup_tf2.core.nets.checks import two_observations
from spinup_tf2.core.nets.distributions import choice_logits
from spinup_tf2.core.nets.distributions import sample as sample_of
from spinup_tf2.core.nets.normalization import Normalized
from spinup_tf2.envs.modules import import_named
from spinup_tf2.envs.spaces import ActionSpec, is_image, network_observation_space, to_network
from spinup_tf2.envs.spaces import parts_of as entries_of
from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import atomic_output
from spinup_tf2.files.saves import find_save
from spinup_tf2.files.unpickling import load_saved_model
from spinup_tf2.training.saved_policy import LoadedPolicy, load_networks

OBSERVATIONS = 1000
TOLERANCE = 1e-3  # other libraries add in another order, which large weights amplify
_CHUNK = 50  # observations at a time, each of which may be a large image

SIGNATURE = "serving_default"
DTYPES = {"image": tf.uint8, "one_hot": tf.int64, "numbers": tf.float32}

# Given the values `[n, ...]` of each part of n observations, and noise or None, returns n actions.
Act = Callable[[list[np.ndarray], np.ndarray | None], np.ndarray]


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
    files, write, read = FORMATS[format]
    import_named(modules)
    save_dir = find_save(run_dir, itr)
    path = Path(output if output is not None else f"{Path(run_dir).resolve().name}_{format}")
    _check_place(path, files, overwrite)
    loaded = load_networks(save_dir, allow_pickle=allow_pickle, best=best)
    if loaded.state_size:
        raise UserError(
            "This policy has a memory (lstm or gru), and what is exported would have none. Use "
            "spinup_tf2's load_policy, or the SavedModel in the run's tf2_save, which takes and "
            "returns the state."
        )
    two = two_observations(network_observation_space(loaded.observation_space))
    if sample and loaded.ac is not None and tf.is_tensor(loaded.ac.pi(two)):
        raise UserError("This policy is deterministic: there is nothing to sample from.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_output(path) as temporary:
        write(loaded, sample, Path(temporary))
        act = read(Path(temporary), parts_of(loaded.observation_space))
        difference, seconds = check(loaded, act, sample)
    written = sorted(each for each in path.rglob("*") if each.is_file())
    sizes = {str(each.relative_to(path)): each.stat().st_size for each in written}
    return Exported(path, sample, sizes, difference, seconds, _use(loaded, format, sample, path))


def _check_place(path, files, overwrite):
    """Raise UserError if `path` exists, unless it is an exported policy to be overwritten."""
    if not os.path.lexists(path):
        return
    directory = path.is_dir() and not path.is_symlink()
    theirs = {each.name for each in path.iterdir()} if directory else {path.name}
    if not overwrite or theirs - files:
        raise UserError(
            f"{path} is there already; give another --output, or --overwrite (overwrite=True), "
            "which replaces an exported policy of this format, but nothing else."
        )


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

    Args:
        loaded: The run's policy.
        act: The exported policy.
        samples: Whether the exported policy samples its actions.

    Returns:
        The largest difference between two actions (see `largest_difference`), and the median time
        of one action in seconds.

    Raises:
        UserError: An action differs by more than TOLERANCE.
    """
    spec, rng = loaded.action_spec, np.random.default_rng(0)
    differences, seconds = [], []
    for _ in range(OBSERVATIONS // _CHUNK):
        values = _random_values(loaded, rng)
        noise = spec.draw_noise(rng, _CHUNK)
        expected, margin = _expected(loaded, values, noise if samples else 0 * noise)
        for rows in (slice(None), *(slice(i, i + 1) for i in range(_CHUNK))):
            inputs = [value[rows] for value in values], noise[rows] if samples else None
            began = time.perf_counter()
            actions = act(*inputs)
            seconds.append(time.perf_counter() - began)
            differences.append(largest_difference(spec, actions, expected[rows], margin[rows]))
    difference = float(np.max(differences))
    if not difference <= TOLERANCE:  # NaN
        raise UserError(
            f"The exported policy's actions are not those of the run: they differ by up to "
            f"{difference:.3g} of their size, more than {TOLERANCE}. Nothing has been written."
        )
    return difference, float(np.median(seconds))


def _random_values(loaded, rng):
    """Return random values `[_CHUNK, ...]` of each part of observations.

    They are uniform between bounds of at most 1,000, and otherwise normal. If the policy normalizes
    observations, numbers are normal with twice the standard deviation seen in training.
    """
    values, end = [], 0
    pi = None if loaded.ac is None else loaded.ac.pi
    for part in parts_of(loaded.observation_space):
        space, end = batch_space(part.space, _CHUNK), end + part.width
        if part.kind == "numbers" and space.dtype.kind == "f":
            low = np.where(space.low < -1000, -np.inf, space.low)
            high = np.where(space.high > 1000, np.inf, space.high)
            space = spaces.Box(low, high, dtype=space.dtype)
        space.seed(int(rng.integers(2**31)))
        value = space.sample()
        if part.kind == "numbers" and isinstance(pi, Normalized):
            shift, scale = (x[end - part.width : end] for x in pi.normalizer.shift_and_scale())
            normal = shift + 2 / scale * rng.standard_normal((_CHUNK, part.width))
            value = np.clip(normal.reshape(value.shape), space.low, space.high).astype(value.dtype)
        values.append(value)
    return values


def _expected(loaded, values, noise):
    """Return the run's actions `[n, ...]`, and the margin by which each discrete one was chosen."""
    spec, space = loaded.action_spec, loaded.observation_space
    singles = [put_together(parts_of(space), each) for each in zip(*values, strict=True)]
    x = np.stack([to_network(space, obs) for obs in singles])
    # With zero noise, the result is the most likely action.
    expected = spec.to_env(loaded.outputs(x, noise)["pi"].numpy())
    margin = np.full(expected.shape, np.inf)
    if spec.num_choices is not None and loaded.ac is not None:
        pi = loaded.ac.pi(x)
        values = loaded.ac.q_values(x)[0] if tf.is_tensor(pi) else choice_logits(pi) + noise
        best = np.sort(values, axis=-1)[..., -2:]
        if best.shape[-1] == 2:
            margin = (best[..., 1] - best[..., 0]) / np.maximum(1, np.abs(best[..., 1]))
    return expected, margin.reshape(expected.shape)


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


# ----------------------------------------------------------------------- parts of observations


@dataclass(frozen=True)
class Part:
    """A part of an observation: an entry of a Dict or Tuple, or the observation itself.

    Attributes:
        path: Keys and numbers that lead to the part through nested Dicts and Tuples.
        space: Its space.
        kind: How it is passed to the networks: 'image' as it is, 'numbers' flattened, 'one_hot' as
            zeros and ones.
    """

    path: tuple[str | int, ...]
    space: spaces.Space
    kind: str

    @property
    def sizes(self) -> list[int]:
        """For 'one_hot', the number of values of each entry; otherwise empty."""
        sizes = getattr(self.space, "n" if isinstance(self.space, spaces.Discrete) else "nvec", ())
        return np.ravel(sizes).tolist() if self.kind == "one_hot" else []

    @property
    def start(self) -> list[int]:
        """For 'one_hot', the lowest value of each entry; otherwise empty."""
        return np.ravel(self.space.start).tolist() if self.kind == "one_hot" else []

    @property
    def width(self) -> int:
        """Number of network inputs."""
        return sum(self.sizes) or int(np.prod(self.space.shape))

    @property
    def name(self) -> str:
        """Name of the input for this part in a SavedModel."""
        return re.sub(r"\W", "_", "_".join(map(str, ["obs", *self.path])), flags=re.ASCII)


def parts_of(space: spaces.Space, path: tuple[str | int, ...] = ()) -> list[Part]:
    """Return the parts of an observation, in the order in which the networks take them."""
    if entries := entries_of(space):
        return [part for key, each in entries for part in parts_of(each, (*path, key))]
    if not path and is_image(space):
        return [Part(path, space, "image")]
    choices = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    return [Part(path, space, "one_hot" if choices else "numbers")]


def put_together(parts: list[Part], values: list[Any]) -> Any:
    """Compose an observation from the values of its parts: one, or nested dicts and tuples."""
    observation: Any = {}
    for part, value in zip(parts, values, strict=True):
        if not part.path:
            return value
        *outer, last = part.path
        entry = observation
        for key in outer:
            entry = entry.setdefault(key, {})
        entry[last] = value
    return _with_tuples(observation)


def _with_tuples(entries):
    if not isinstance(entries, dict):
        return entries
    made = {key: _with_tuples(each) for key, each in entries.items()}
    return tuple(made.values()) if [*made] == [*range(len(made))] else made


def action_arrays(action_space: spaces.Space) -> dict[str, np.ndarray]:
    """Return arrays that describe an action space: finite `low` and `high`, or `start`."""
    if isinstance(action_space, spaces.Box):
        bounds = dict(low=action_space.low, high=action_space.high)
        return {name: bound for name, bound in bounds.items() if np.isfinite(bound).any()}
    start = getattr(action_space, "start", None)
    return {} if start is None else dict(start=np.asarray(start))


# -------------------------------------------------------------------------------------- NumPy


def write_numpy(loaded: LoadedPolicy, samples: bool, path: Path) -> None:
    """Create the directory `path` with policy.npz, the weights, and policy.py, which uses them.

    Raises:
        UserError: The networks contain something that has no NumPy implementation.
    """
    spec = loaded.action_spec
    steps, arrays = [], action_arrays(spec.space)
    for i, step in enumerate(_numpy_steps(loaded)):
        mine = {name: x for name, x in step.keywords.items() if isinstance(x, np.ndarray)}
        plain = {name: x for name, x in step.keywords.items() if name not in mine}
        steps.append(dict(function=step.func.__name__, arguments=plain, arrays=[*mine]))
        arrays |= {f"{i}.{name}": value for name, value in mine.items()}
    kind = "gumbel" if spec.num_choices else "normal"
    parts = [
        dict(path=p.path, kind=p.kind, shape=p.space.shape, sizes=p.sizes, start=p.start)
        for p in parts_of(loaded.observation_space)
    ]
    description = dict(
        version=numpy_policy.VERSION,
        observation=parts,
        steps=steps,
        action=dict(shape=spec.space.shape, dtype=spec.space.dtype.name, bounded=spec.bounded),
        noise=dict(kind=kind, shape=spec.noise_shape) if samples else None,
    )
    path.mkdir()
    np.savez(path / "policy.npz", description=np.array(json.dumps(description)), **arrays)
    shutil.copyfile(numpy_policy.__file__, path / "policy.py")


def _numpy_steps(loaded):
    """Return the policy's layers and its head, as partials of functions of numpy_policy."""
    steps = [] if loaded.ac is None else numpy_steps(loaded.ac.pi)
    known = numpy_policy.FUNCTIONS.values()
    if not steps or not all(getattr(each, "func", None) in known for each in steps):
        raise UserError(
            "The policy has networks, or a numpy_head, that spinup_tf2.core.nets.numpy_policy does "
            "not have. Export it with --format savedmodel."
        )
    return steps


def read_numpy(path: Path, parts: list[Part]) -> Act:
    """Return the function of a policy that `write_numpy` has written."""
    policy = numpy_policy.Policy(path / "policy.npz")
    return lambda values, noise: policy.act(put_together(parts, values), noise)


# --------------------------------------------------------------------------------- SavedModel


def write_savedmodel(loaded: LoadedPolicy, samples: bool, path: Path) -> None:
    """Write a SavedModel with the single signature `serving_default`.

    Its inputs are `obs`, or `obs_KEY` for each entry of a Dict, and `noise` if it samples; its
    output is `act`. Images are uint8; one-hot entries and discrete actions are int64; all else is
    float32. If an observation or its noise contains NaN or infinity, a continuous action is NaN.
    """
    parts, spec = parts_of(loaded.observation_space), loaded.action_spec
    names = [part.name for part in parts]
    if len({*names}) < len(names):
        raise UserError(
            f"the keys of observations give inputs the same names: {', '.join(names)}; use "
            "--format numpy, which does not need names."
        )
    inputs = [tf.TensorSpec([None, *p.space.shape], DTYPES[p.kind], name=p.name) for p in parts]
    if samples:
        inputs.append(tf.TensorSpec([None, *spec.noise_shape], tf.float32, name="noise"))

    def act(*inputs):
        observed = [_encode(*each) for each in zip(parts, inputs, strict=False)]
        x = observed[0] if len(observed) == 1 else tf.concat(observed, axis=1)
        noise = inputs[-1] if samples else None
        chosen = _choose(loaded, x, noise)
        act = _to_env(spec, chosen)
        if spec.num_choices is None:  # discrete actions have no value for NaN
            finite = tf.reshape(_finite(x, noise, chosen), [-1, *(1 for _ in spec.space.shape)])
            act = tf.where(finite, act, np.nan)
        return {"act": act}

    policy = tf.Module()
    if loaded.ac is None:
        policy.model = loaded.saved_model
    else:
        # Not the Keras models: their functions return distributions, which cannot be saved.
        policy.parameters = [variable.value for variable in loaded.ac.pi.variables]
    policy.act = tf.function(act, input_signature=inputs)
    signatures = {SIGNATURE: policy.act.get_concrete_function()}
    tf.saved_model.save(policy, str(path), signatures=signatures)


def _encode(part, x):
    """Convert an input to the networks' form, `[batch, ...]`."""
    if part.kind == "image":
        return x
    x = tf.reshape(x, [-1, int(np.prod(part.space.shape))])
    if part.kind == "numbers":
        return x
    columns = enumerate(zip(part.sizes, part.start, strict=True))
    return tf.concat([tf.one_hot(x[:, i] - start, n) for i, (n, start) in columns], axis=1)


def _choose(loaded, x, noise):
    """Return the policy's action, before `_to_env`; without noise the most likely one."""
    shape = loaded.action_spec.noise_shape
    if loaded.ac is not None:
        return sample_of(loaded.ac.pi(x), tf.zeros([1, *shape]) if noise is None else noise)
    output = "pi"
    if noise is None:
        output, noise = "mu", tf.zeros(tf.concat([tf.shape(x)[:1], shape], axis=0))
    return loaded.saved_model.policy(x, noise)[output]


def _finite(*tensors):
    """Return for each row whether all numbers `[batch, n]` are finite, `[batch]`.

    Bytes and None count as finite.
    """
    numbers = [each for each in tensors if each is not None and each.dtype.is_floating]
    # TensorFlow Lite has no is_finite. Comparisons with NaN are false.
    rows = [tf.reduce_all(tf.abs(each) <= each.dtype.max, axis=1) for each in numbers]
    return reduce(tf.logical_and, rows)


def _to_env(spec, act):
    """ActionSpec.to_env for tensors."""
    act = tf.reshape(act, [-1, *spec.space.shape])
    arrays = action_arrays(spec.space)
    if spec.num_choices is not None:
        return tf.cast(act, tf.int64) + np.int64(arrays.get("start", 0))
    if spec.bounded:
        low, high = np.float32(arrays["low"]), np.float32(arrays["high"])
        act = tf.clip_by_value((1 - act) / 2 * low + (1 + act) / 2 * high, low, high)
    return act


def read_savedmodel(path: Path, parts: list[Part]) -> Act:
    """Return the function of a policy that `write_savedmodel` has written."""
    model = load_saved_model(path)
    signature = model.signatures[SIGNATURE]

    def act(values, noise):
        inputs = {
            part.name: tf.constant(np.asarray(value, DTYPES[part.kind].as_numpy_dtype))
            for part, value in zip(parts, values, strict=True)
        }
        return signature(**inputs if noise is None else inputs | {"noise": noise})["act"].numpy()

    act.model = model  # must live as long as its signature
    return act


# The names in the directory that each format writes, and its functions.
FORMATS: dict[str, tuple[set[str], Callable[..., None], Callable[..., Act]]] = {
    "numpy": ({"policy.npz", "policy.py", "__pycache__"}, write_numpy, read_numpy),
    "savedmodel": (
        {"saved_model.pb", "fingerprint.pb", "variables", "assets"},
        write_savedmodel,
        read_savedmodel,
    ),
}
