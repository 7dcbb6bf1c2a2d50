"""What every run measures in the same way: its clocks, its memory, its versions, its epochs."""

import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

STARTED = time.perf_counter()
PACKAGES = (
    "tensorflow",
    "keras",
    "tensorflow-probability",
    "torch",
    "stable-baselines3",
    "sbx-rl",
    "jax",
    "gymnasium",
    "mujoco",
    "numpy",
)

STEPS_PER_EPOCH = 4000  # Spinning Up's
UPDATE_AFTER = 1000  # Spinning Up's, for the off-policy algorithms
ON_POLICY = ("ppo", "trpo", "vpg", "a2c")
OFF_POLICY = ("sac", "td3", "ddpg", "dqn")

# CleanRL's settings of DQN, but for a shorter start, as arguments of ours.
DQN = dict(batch_size=128, replay_size=10_000, q_lr=2.5e-4, update_every=10, copy_every=50)
DQN |= dict(eps_end=0.05, eps_steps=250_000, hidden_sizes=(120, 84))


def clocks():
    """Seconds since this process began its work, imports included: of wall time, of CPU time."""
    return time.perf_counter() - STARTED, time.process_time()


def peak_memory():
    """The most memory that this process has had in RAM so far, in bytes.

    Not from getrusage, whose value begins with that of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [kibibytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kibibytes) * 1024


def versions():
    """The versions of those of `PACKAGES` that this interpreter has."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # not every contestant is installed everywhere
    return found


def epochs_for(steps, steps_per_epoch):
    """How many epochs a run needs: one to warm up, then at least `steps` steps."""
    return 1 + -(-steps // steps_per_epoch)


def last(returns):
    """The average return of the last epoch in which an episode ended; None if none did."""
    return returns[-1] if returns else None


def collecting_and_training(env_fn, settings, epochs):
    """Steps per second of collection, and of all of PPO, of all processes together.

    The first of `epochs` + 1 does not count: functions are compiled in it.
    """
    from spinup_tf2.tensorflow_import import quiet_tensorflow

    quiet_tensorflow()
    import pandas as pd

    from spinup_tf2 import ppo
    from spinup_tf2.core import on_policy
    from spinup_tf2.parallel.mpi import broadcast_object, mpi_op

    collect, collected = on_policy.collect, []

    def timed(*args, **kwargs):
        began = time.perf_counter()
        result = collect(*args, **kwargs)
        collected.append(time.perf_counter() - began)
        return result

    on_policy.collect = timed
    with TemporaryDirectory() as folder:
        folder = broadcast_object(folder)
        logger_kwargs = dict(output_dir=folder, quiet=True)
        ppo(env_fn, **settings | dict(epochs=epochs + 1), logger_kwargs=logger_kwargs)
        seconds = pd.read_table(Path(folder, "progress.txt"))["Time"]
        slowest = mpi_op(sum(collected[1:]), "MAX")  # and only now the file may go
    steps = epochs * settings["steps_per_epoch"]
    return steps / slowest, steps / (seconds.iloc[-1] - seconds.iloc[0])
