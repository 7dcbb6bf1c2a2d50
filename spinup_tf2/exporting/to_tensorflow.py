"""Exports a policy as a function of tensors, in a SavedModel or in a TensorFlow Lite file.

The names of its inputs are `obs`, or `obs_KEY` for each entry of a Dict, and `noise` if it samples;
its output is `act`. Images are uint8; one-hot entries and discrete actions are int64; all else is
float32. If an observation or its noise contains NaN or infinity, a continuous action is NaN.
"""

import re
import tempfile
import warnings
from collections.abc import Callable
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.exporting.described import Part, action_arrays, part_in, parts_of
from spinup_tf2.files.unpickling import load_saved_model, path_for_tensorflow
from spinup_tf2.training.saved_policy import LoadedPolicy

SIGNATURE = "serving_default"
DTYPES = {"image": tf.uint8, "one_hot": tf.int64, "numbers": tf.float32}


def _policy(loaded, samples):
    """Return a tf.Module with the function `act` and the variables that it needs."""
    parts, spec = parts_of(loaded.observation_space), loaded.action_spec
    specs = [
        tf.TensorSpec([None, *part.shape], DTYPES[part.kind], name=name)
        for part, name in zip(parts, input_names(parts), strict=True)
    ]
    if samples:
        specs.append(tf.TensorSpec([None, *spec.noise_shape], tf.float32, name="noise"))

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
    policy.act = tf.function(act, input_signature=specs)
    return policy


def _choose(loaded, x, noise):
    """Return the policy's action, before `_to_env`; without noise the most likely one."""
    shape = loaded.action_spec.noise_shape
    if loaded.ac is not None:
        return sample(loaded.ac.pi(x), tf.zeros([1, *shape]) if noise is None else noise)
    output = "pi"
    if noise is None:
        output, noise = "mu", tf.zeros(tf.concat([tf.shape(x)[:1], shape], axis=0))
    return loaded.saved_model.policy(x, noise)[output]


def input_names(parts: list[Part]) -> list[str]:
    """Return the names of the inputs for an observation's parts.

    Raises:
        UserError: Two of them would have the same name.
    """
    names = [re.sub(r"\W", "_", "_".join(["obs", *part.path]), flags=re.ASCII) for part in parts]
    if len({*names}) < len(names):
        raise UserError(
            f"The entries of the observation would be inputs of the names {', '.join(names)}, of "
            "which two are the same. Export the policy with --format numpy, or rename the entries."
        )
    return names


def _encode(part, x):
    """Convert an input to the networks' form, `[batch, ...]`."""
    if part.kind == "image":
        return x
    x = tf.reshape(x, [-1, int(np.prod(part.shape))])
    if part.kind == "numbers":
        return x
    columns = enumerate(zip(part.sizes, part.start, strict=True))
    return tf.concat([tf.one_hot(x[:, i] - start, n) for i, (n, start) in columns], axis=1)


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


# ------------------------------------------------------------------------------------ writing


def write_savedmodel(loaded: LoadedPolicy, samples: bool, path: Path) -> None:
    """Write a SavedModel with the single signature `serving_default`."""
    policy = _policy(loaded, samples)
    signatures = {SIGNATURE: policy.act.get_concrete_function()}
    tf.saved_model.save(policy, str(path), signatures=signatures)


def write_tflite(loaded: LoadedPolicy, samples: bool, path: Path) -> None:
    """Write a TensorFlow Lite file in float32, with built-in operations only.

    Raises:
        UserError: The networks contain something that these do not support.
    """
    with tempfile.TemporaryDirectory() as folder, path_for_tensorflow(folder) as model:
        write_savedmodel(loaded, samples, model)
        converter = tf.lite.TFLiteConverter.from_saved_model(str(model), signature_keys=[SIGNATURE])
        try:
            contents = converter.convert()
        except Exception as error:  # TensorFlow's class for it is not public
            raise UserError(
                "TensorFlow Lite has no built-in operation for something in these networks "
                f"({one_line(error)[:300]}). Export them with --format savedmodel."
            ) from error
    path.write_bytes(contents)


# ------------------------------------------------------------------------------------ reading


def read_savedmodel(path: Path, loaded: LoadedPolicy) -> Callable[[Any, Any], np.ndarray]:
    """Return the function `act(observations, noise)` of a SavedModel written for this policy."""
    model = load_saved_model(path)
    signature = model.signatures[SIGNATURE]

    def act(inputs):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        return signature(**tensors)["act"].numpy()

    act.model = model  # must live as long as its signature
    return _with_inputs(act, loaded)


def read_tflite(path: Path, loaded: LoadedPolicy) -> Callable[[Any, Any], np.ndarray]:
    """Return the function `act(observations, noise)` of a TensorFlow Lite file."""
    if find_spec("ai_edge_litert"):
        from ai_edge_litert.interpreter import Interpreter
    else:
        Interpreter = tf.lite.Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it will move to that package
        runner = Interpreter(str(path)).get_signature_runner(SIGNATURE)
    return _with_inputs(lambda inputs: runner(**inputs)["act"], loaded)


def _with_inputs(act, loaded):
    parts = parts_of(loaded.observation_space)
    names = input_names(parts)

    def with_inputs(observations, noise):
        inputs = {
            name: np.asarray(part_in(part, observations), DTYPES[part.kind].as_numpy_dtype)
            for name, part in zip(names, parts, strict=True)
        }
        return act(inputs if noise is None else inputs | {"noise": noise})

    return with_inputs
