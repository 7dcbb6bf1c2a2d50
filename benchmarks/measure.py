"""What every run measures in the same way: its clocks, its memory, its versions, its epochs."""

import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
OFF_POLICY = ("sac", "td3", "ddpg")


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
