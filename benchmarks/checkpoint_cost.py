"""What checkpoints cost: the share of a run's time that they take, at the default of one a minute.

    python benchmarks/checkpoint_cost.py

PPO on CartPole runs for 100,000 steps. SAC on HalfCheetah is measured with a buffer for 1,000,000
steps that holds 300,000: how fast it trains, and how long it takes to save the steps of a minute.
On one core, and in the time of this process, so that what else is running does not count.
"""

# ruff: noqa: E402 (threads are counted where numpy and TensorFlow are imported)

import os

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import argparse
import tempfile
import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np

import spinup_tf2
from spinup_tf2 import user_config
from spinup_tf2.core.replay_buffer import ReplayBuffer
from spinup_tf2.training import run as runs


def measured_saves():
    """Have all saves timed; returns the list that their times are added to."""
    save, times = runs.Run._save_checkpoint, []

    def timed(self, position):
        start = time.process_time()
        saved = save(self, position)
        times.append(time.process_time() - start)
        return saved

    runs.Run._save_checkpoint = timed
    # A minute is one of this process' time, too.
    runs.time = SimpleNamespace(time=time.time, monotonic=time.process_time)
    return times


def ppo(steps):
    times = measured_saves()
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        spinup_tf2.ppo(
            lambda: gym.make("CartPole-v1"),
            epochs=steps // 4000,
            logger_kwargs=dict(output_dir=folder, quiet=True),
        )
    total = time.process_time() - start
    print(
        f"PPO on CartPole, {steps} steps: {len(times)} checkpoints took {sum(times):.2f} s of "
        f"{total:.1f} s, {sum(times) / total:.2%}"
    )


def sac(stored, epochs=3, steps_per_epoch=1000):
    times, store = measured_saves(), ReplayBuffer.store
    user_config.CHECKPOINT_INTERVAL = 0.0
    clock = SimpleNamespace(start=0.0, steps=0, rate=0.0)

    def fill(self, steps):
        """Store random steps of episodes of 1000."""
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(1, 17)).astype(np.float32)
        act, zero = rng.uniform(-1, 1, (1, 6)).astype(np.float32), np.zeros(1)
        for t in range(steps):
            store(self, obs, act, zero, zero, obs, {0: obs[0]} if t % 1000 == 999 else {})

    def store_or_fill(self, *step):
        if self.steps == 0:
            fill(self, stored)
            self.saved = self.steps  # in checkpoints long ago
        if clock.steps == steps_per_epoch:  # everything has been compiled
            clock.start = time.process_time() - sum(times)
        clock.steps += 1
        if clock.steps == epochs * steps_per_epoch:  # the last save is that of a whole minute
            seconds = time.process_time() - sum(times) - clock.start
            clock.rate = (clock.steps - steps_per_epoch) / seconds
            fill(self, int(60 * clock.rate) - (self.steps - self.saved))
        store(self, *step)

    ReplayBuffer.store = store_or_fill
    with tempfile.TemporaryDirectory() as folder:
        spinup_tf2.sac(
            lambda: gym.make("HalfCheetah-v5"),
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            start_steps=0,
            update_after=0,
            num_test_episodes=0,
            save_freq=1000,
            logger_kwargs=dict(output_dir=folder, quiet=True),
        )
    seconds = times[-1]
    print(
        f"SAC on HalfCheetah, {stored} steps stored: {clock.rate:.0f} steps/s; the checkpoint with "
        f"{60 * clock.rate:.0f} new steps took {seconds:.2f} s of a minute, {seconds / 60:.2%}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="*", default=["ppo", "sac"], help="ppo, sac, or both")
    parser.add_argument("--steps", type=int, default=100_000, help="of PPO")
    parser.add_argument("--stored", type=int, default=300_000, help="steps in SAC's buffer")
    options = parser.parse_args()
    save = runs.Run._save_checkpoint
    for name in options.run:
        runs.Run._save_checkpoint = save
        ppo(options.steps) if name == "ppo" else sac(options.stored)
