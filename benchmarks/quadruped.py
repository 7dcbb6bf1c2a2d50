"""Steps of the quadruped per second of processor time, and what they are spent on.

    python benchmarks/quadruped.py [--task walk] [--steps 3000]

Actions are random; a step is 25 substeps with PD control, observation, reward and, at the end of an
episode, the reset. Physics is the time in PyBullet's stepSimulation, measured in a second pass.
"""

import argparse
import time

import numpy as np

from spinup_tf2.envs.quadruped.env import QuadrupedEnv


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="walk")
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    env = QuadrupedEnv(args.task)
    seconds = run(env, args.steps)

    robot, physics = env.robot, 0.0
    step_simulation = robot._stepSimulation

    def timed():
        nonlocal physics
        began = time.perf_counter()
        step_simulation()
        physics += time.perf_counter() - began

    robot._stepSimulation = timed
    began = time.perf_counter()
    run(env, args.steps)
    share = physics / (time.perf_counter() - began)
    env.close()
    print(f"{args.steps / seconds:.0f} steps per second of processor time, {share:.0%} physics")


if __name__ == "__main__":
    main()
