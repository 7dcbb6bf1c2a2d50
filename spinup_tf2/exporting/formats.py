"""The formats of exported policies: arrays with a NumPy program, or a SavedModel.

An observation is described by its parts: the entries of a Dict, or the observation itself.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.acting import numpy_steps
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.envs.spaces import is_image
from spinup_tf2.envs.spaces import parts_of as entries_of
from spinup_tf2.errors import UserError
from spinup_tf2.files.unpickling import load_saved_model
from spinup_tf2.training.saved_policy import LoadedPolicy

# Given the values `[n, ...]` of each part of n observations, and noise or None, returns n actions.
Act = Callable[[list[np.ndarray], np.ndarray | None], np.ndarray]

# The names in the directory that each format writes.
FILES = {
    "numpy": ("policy.npz", "policy.py", "__pycache__"),
    "savedmodel": ("saved_model.pb", "fingerprint.pb", "variables", "assets"),
}
SIGNATURE = "serving_default"
DTYPES = {"image": tf.uint8, "one_hot": tf.int64, "numbers": tf.float32}


@dataclass(frozen=True)
class Part:
    """A part of an observation.

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
    return tuple(made.values()) if isinstance(next(iter(made)), int) else made


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
    reason = "these networks are not this package's own, and were loaded as a SavedModel"
    if loaded.ac is not None:
        try:
            steps = numpy_steps(loaded.ac.pi)
            known = numpy_policy.FUNCTIONS.values()
            if all(getattr(each, "func", None) in known and not each.args for each in steps):
                return steps
            reason = "its numpy_head is none of the functions in spinup_tf2.core.nets.numpy_policy"
        except UserError as error:
            reason = str(error)
    raise UserError(
        f"The policy cannot be exported to NumPy: {reason}. Export it with --format savedmodel."
    )


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
        return sample(loaded.ac.pi(x), tf.zeros([1, *shape]) if noise is None else noise)
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
