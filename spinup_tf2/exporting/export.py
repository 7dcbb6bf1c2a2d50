"""Exports a trained policy for other programs: `spinup_tf2.export(run_dir, "numpy")`."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets.checks import two_observations
from spinup_tf2.envs.modules import import_named
from spinup_tf2.envs.spaces import network_observation_space
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.exporting.checking import OBSERVATIONS, check
from spinup_tf2.exporting.described import parts_of
from spinup_tf2.exporting.to_numpy import ARRAYS, PROGRAM, read_numpy, write_numpy
from spinup_tf2.exporting.to_tensorflow import (
    DTYPES,
    SIGNATURE,
    input_names,
    read_savedmodel,
    read_tflite,
    write_savedmodel,
    write_tflite,
)
from spinup_tf2.files.run_directory import atomic_output
from spinup_tf2.files.saves import find_save
from spinup_tf2.training.saved_policy import LoadedPolicy, load_networks


class _Format(NamedTuple):
    """How a format is written and read back.

    Attributes:
        suffix: Suffix that is added to the run's name for the default of `output`.
        files: Names in the directory that is written; empty if a single file is written.
        write: `write(loaded, sample, path)` writes the policy.
        read: `read(path, loaded)` returns the function `act(observations, noise)`.
        use: Python code that uses it, with placeholders for the file's `name` and the `inputs`.
    """

    suffix: str
    files: tuple[str, ...]
    write: Callable[[LoadedPolicy, bool, Path], None]
    read: Callable[[Path, LoadedPolicy], Callable[[Any, Any], Any]]
    use: str


_FORMATS = {
    "numpy": _Format(
        "_numpy",
        (ARRAYS, PROGRAM, "__pycache__"),
        write_numpy,
        lambda path, _: read_numpy(path).act,
        'from policy import Policy  # policy.py\nact = Policy("policy.npz").act(obs)',
    ),
    "tflite": _Format(
        ".tflite",
        (),
        write_tflite,
        read_tflite,
        "from ai_edge_litert.interpreter import Interpreter\n"
        "import numpy as np\n\n"
        'runner = Interpreter("{name}").get_signature_runner()\n'
        'act = runner({inputs})["act"][0]',
    ),
    "savedmodel": _Format(
        "_savedmodel",
        ("saved_model.pb", "fingerprint.pb", "variables", "assets"),
        write_savedmodel,
        read_savedmodel,
        "import numpy as np\n"
        "import tensorflow as tf\n\n"
        'model = tf.saved_model.load("{name}")\n'
        f'policy = model.signatures["{SIGNATURE}"]\n'
        'act = policy({inputs})["act"][0].numpy()',
    ),
}


@dataclass(frozen=True)
class Exported:
    """A policy that `export` has written. As a string, it is a report on all of this.

    Attributes:
        path: Path of the file or directory.
        format: 'numpy', 'tflite' or 'savedmodel'.
        sample: Whether the policy samples its actions.
        sizes: Size in bytes of each file.
        difference: Largest difference between its actions and the run's, as a share of their size.
        seconds: Median time of one action, in seconds.
        use: Python code that computes its action for an observation `obs`.
    """

    path: Path
    format: str
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
        format: 'numpy', a directory with policy.npz and policy.py, which needs only NumPy;
            'tflite', a TensorFlow Lite file; or 'savedmodel', a SavedModel's directory.
        output: Path to write to; by default the run's name, with a suffix for the format, in the
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
    if format not in _FORMATS:
        raise UserError(f"There is no format {format!r}; the formats are {', '.join(_FORMATS)}.")
    how = _FORMATS[format]
    import_named(modules)
    save_dir = find_save(run_dir, itr)
    name = Path(run_dir).resolve().name
    path = Path(output if output is not None else f"{name}{how.suffix}")
    _check_place(path, how, overwrite)
    if format == "savedmodel" and "[" in path.name:
        raise UserError(
            f"{path.name} has a bracket in its name, and TensorFlow finds no SavedModel in such a "
            "directory; give another --output."
        )
    loaded = load_networks(save_dir, allow_pickle=allow_pickle, best=best)
    if loaded.state_size:
        raise UserError(
            "This policy has a memory (lstm or gru), and what is exported would have none. Use "
            "spinup_tf2's load_policy, or the SavedModel in the run's tf2_save, which takes and "
            "returns the state."
        )
    if sample and _is_deterministic(loaded):
        raise UserError(
            "This policy is deterministic, as those of DDPG and TD3 are: there is nothing to "
            "sample from. Leave --sample (sample=True) out."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(path) as temporary:
            how.write(loaded, sample, Path(temporary))
            checked = check(loaded, how.read(Path(temporary), loaded), sample)
    except (OSError, tf.errors.OpError) as error:  # TensorFlow's error for a full disk
        raise UserError(f"{path} cannot be written ({one_line(error)}).") from error
    return Exported(
        path, format, sample, _sizes(path), *checked, use=_use(how, loaded, sample, path)
    )


def _check_place(path, how, overwrite):
    """Raise UserError if `path` exists, unless it is an exported policy to be overwritten."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UserError(
            f"{path} is there already; give another --output, or --overwrite (overwrite=True) to "
            "replace it."
        )
    if not how.files:
        if not path.is_file():
            raise UserError(f"{path} is not a file, and this format is one; give another --output.")
        with open(path, "rb") as file:
            if file.read(8)[4:] != b"TFL3":
                raise UserError(f"{path} is no TensorFlow Lite file; give another --output.")
        return
    others = {each.name for each in path.iterdir()} - {*how.files} if path.is_dir() else {path.name}
    if path.is_symlink() or others:
        raise UserError(
            f"{path} is not replaced, since it is not only an exported policy of this format (it "
            f"has {', '.join(sorted(others)[:3]) or 'another name'}); give another --output."
        )


def _is_deterministic(loaded):
    """Return whether the policy's actions do not depend on noise."""
    obs = two_observations(network_observation_space(loaded.observation_space))
    if loaded.ac is not None:
        return tf.is_tensor(loaded.ac.pi(obs))
    noise = 1000 * loaded.action_spec.draw_noise(np.random.default_rng(0), 2)
    outputs = loaded.outputs(obs, noise)
    return np.array_equal(outputs["pi"], outputs["mu"])


def _sizes(path):
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    base = path.parent if path.is_file() else path
    return {str(each.relative_to(base)): each.stat().st_size for each in files}


def _use(how, loaded, sample, path):
    inputs = "" if how.files[:1] == (ARRAYS,) else _inputs(loaded, sample)
    return how.use.format(name=path.name, inputs=inputs)


def _inputs(loaded, sample):
    """Return code for a signature's arguments, which converts observations to the right types."""
    parts, inputs = parts_of(loaded.observation_space), []
    for part, name in zip(parts, input_names(parts), strict=True):
        entry = "".join(f"[{key!r}]" for key in part.path)
        inputs.append(f"{name}=np.asarray(obs{entry}, np.{DTYPES[part.kind].name})[None]")
    if sample:
        inputs.append("noise=np.asarray(noise, np.float32)")
    return inputs[0] if len(inputs) == 1 else "".join(f"\n    {each}," for each in inputs) + "\n"
