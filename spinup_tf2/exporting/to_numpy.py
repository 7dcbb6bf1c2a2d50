"""Exports a policy as arrays (policy.npz), and a program that acts with them (policy.py)."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.acting import numpy_steps
from spinup_tf2.errors import UserError
from spinup_tf2.exporting.described import action_arrays, parts_of
from spinup_tf2.training.saved_policy import LoadedPolicy

ARRAYS, PROGRAM = "policy.npz", "policy.py"


def write_numpy(loaded: LoadedPolicy, sample: bool, path: Path) -> None:
    """Create the directory `path` with both files in it.

    Raises:
        UserError: The networks contain something that has no NumPy implementation.
    """
    spec = loaded.action_spec
    steps, arrays = [], {}
    for i, step in enumerate(_steps(loaded)):
        values = step.keywords
        mine = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in values.items() if name not in mine}
        steps.append(dict(function=step.func.__name__, arguments=plain, arrays=[*mine]))
        arrays |= {f"{i}.{name}": value for name, value in mine.items()}
    kind = "gumbel" if spec.num_choices else "normal"
    description = dict(
        version=numpy_policy.VERSION,
        observation=[asdict(part) for part in parts_of(loaded.observation_space)],
        steps=steps,
        action=dict(shape=spec.space.shape, dtype=spec.space.dtype.name, bounded=spec.bounded),
        noise=dict(kind=kind, shape=spec.noise_shape) if sample else None,
    )
    path.mkdir()
    arrays |= action_arrays(spec.space)
    np.savez(path / ARRAYS, description=np.array(json.dumps(description)), **arrays)
    shutil.copyfile(numpy_policy.__file__, path / PROGRAM)


def _steps(loaded):
    advice = "Export it with --format tflite or savedmodel."
    if loaded.ac is None:
        raise UserError(
            "These networks are not this package's own and were loaded as a SavedModel, of which "
            f"there is no copy in NumPy. {advice}"
        )
    try:
        steps = numpy_steps(loaded.ac.pi)
    except UserError as error:
        raise UserError(f"The policy cannot be exported to NumPy: {error}. {advice}") from error
    known = numpy_policy.FUNCTIONS
    for step in steps:
        function = getattr(step, "func", None)
        if function is None or known.get(function.__name__) is not function or step.args:
            raise UserError(
                f"The policy cannot be exported to NumPy: the numpy_head of "
                f"{type(loaded.ac.pi).__name__} is none of the functions in "
                f"spinup_tf2.core.nets.numpy_policy. {advice}"
            )
    return steps


def read_numpy(path: Path) -> numpy_policy.Policy:
    """Load the policy from such a directory."""
    return numpy_policy.Policy(path / ARRAYS)
