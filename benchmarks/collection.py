"""How fast PPO is on an environment, and how fast the part of it that collects experience."""

import os
import tempfile
import time

from spinup_tf2.tensorflow_import import quiet_tensorflow

quiet_tensorflow()

from spinup_tf2 import ppo  # noqa: E402
from spinup_tf2.core import on_policy  # noqa: E402
from spinup_tf2.parallel.mpi import broadcast_object, mpi_op  # noqa: E402
from spinup_tf2.utils.run_utils import EnvFn  # noqa: E402


def training(env_fn: EnvFn, settings: dict, epochs: int) -> tuple[float, float]:
    """Steps per second of collection, and of all of PPO, of all processes together.

    The first of `epochs` + 1 does not count: functions are compiled in it.
    """
    collect, collected = on_policy.collect, []

    def timed(*args, **kwargs):
        began = time.perf_counter()
        result = collect(*args, **kwargs)
        collected.append(time.perf_counter() - began)
        return result

    on_policy.collect = timed
    with tempfile.TemporaryDirectory() as folder:
        folder = broadcast_object(folder)
        logger_kwargs = dict(output_dir=folder, quiet=True)
        ppo(env_fn, **settings | dict(epochs=epochs + 1), logger_kwargs=logger_kwargs)
        with open(os.path.join(folder, "progress.txt"), encoding="utf-8") as file:
            header, *rows = (line.split("\t") for line in file.read().splitlines())
        slowest = mpi_op(sum(collected[1:]), "MAX")  # and only now the file may go
    seconds = [float(row[header.index("Time")]) for row in rows]
    steps = epochs * settings["steps_per_epoch"]
    return steps / slowest, steps / (seconds[-1] - seconds[0])
