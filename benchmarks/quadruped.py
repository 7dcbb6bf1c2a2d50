"""Steps of the quadruped per second of processor time, and what they are spent on.

    python benchmarks/quadruped.py [--task walk] [--steps 3000]

Actions are random; a step is 25 substeps with PD control, observation, reward and, at the end of an
episode, the reset. Physics is the time in PyBullet's stepSimulation, measured in a second pass.

    python benchmarks/quadruped.py --train
    mpirun -np 2 python benchmarks/quadruped.py --train

Steps of all processes in a second of real time, with the preset: of collection and of all of PPO.
"""

import argparse
import time

import numpy as np
from measure import collecting_and_training

from spinup_tf2.envs.quadruped.env import QuadrupedEnv
from spinup_tf2.experiments.presets import Preset, load
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.utils.run_utils import EnvFn


def run(env: QuadrupedEnv, steps: int) -> float:
    """Take that many steps; returns the processor time in seconds."""
    actions = 0.3 * np.random.default_rng(0).normal(size=(steps, 12))
    env.reset(seed=0)
    began, length = time.process_time(), 0
    for action in actions:
        _, _, terminated, _, _ = env.step(action)
        length += 1
        if terminated or length == 400:
            env.reset()
            length = 0
    return time.process_time() - began


def train(preset: Preset) -> None:
    """Five epochs of the preset."""
    settings = preset.settings | dict(num_test_episodes=0)
    collection, everything = collecting_and_training(
        EnvFn(preset.env, preset.env_kwargs), settings, epochs=5
    )
    if proc_id() == 0:
        print(f"{collection:.0f} steps/s of collection, {everything:.0f} of all of PPO")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="walk")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--train", action="store_true")
    args = parser.parse_args()
    if args.train:
        train(load("ppo", f"quadruped-{args.task}"))
        return
    env = QuadrupedEnv(args.task)
    seconds = run(env, args.steps)

    robot, physics = env.robot, 0.0
    step_simulation = robot.p.stepSimulation

    def timed():
        nonlocal physics
        began = time.perf_counter()
        step_simulation()
        physics += time.perf_counter() - began

    robot.p.stepSimulation = timed
    began = time.perf_counter()
    run(env, args.steps)
    share = physics / (time.perf_counter() - began)
    env.close()
    print(f"{args.steps / seconds:.0f} steps per second of processor time, {share:.0%} physics")


if __name__ == "__main__":
    main()
