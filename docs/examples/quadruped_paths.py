"""Where a quadruped walks in 20 s when it is given one command, undisturbed and pushed."""

import sys

import numpy as np
from matplotlib.figure import Figure

from spinup_tf2.utils.test_policy import load_policy_and_env

# m/s forward, m/s to the left, rad/s to the left
COMMANDS = [(0.8, 0.0, 0.0), (0.4, 0.0, 0.0), (-0.3, 0.0, 0.0), (0.4, 0.0, 0.2)]


def follow(env, get_action, command):
    """Return positions `[n, 2]` in m, and how far the robot was from its heading, in degrees."""
    obs, _ = env.reset(seed=0, options={"command": command})
    begin, over, path, off = env.unwrapped.robot.base().yaw, False, [], []
    while not over:
        obs, _, terminated, truncated, _ = env.step(get_action(obs))
        over, base = terminated or truncated, env.unwrapped.robot.base()
        turned = base.yaw - begin - command[2] * env.unwrapped.t
        path.append(base.position[:2])
        off.append(np.degrees(np.arctan2(np.sin(turned), np.cos(turned))))
    return np.array(path), np.array(off)


run, file = sys.argv[1:]
figure = Figure(figsize=(9, 6), layout="constrained")
paths, headings = figure.subplots(2, 1)
for push, style in ((0.0, "-"), (60.0, "--"), (100.0, ":")):
    env, get_action = load_policy_and_env(
        run, deterministic=True, env_kwargs={"domain_randomization": {"push": push}}
    )
    for i, command in enumerate(COMMANDS):
        path, off = follow(env, get_action, command)
        name = f"{command[0]:g} m/s, {command[2]:g} rad/s" if push == 0 else None
        paths.plot(*path.T, style, color=f"C{i}", label=name)
        headings.plot(env.unwrapped.dt * np.arange(1, len(off) + 1), off, style, color=f"C{i}")
        end, mean = path[-1].round(1), np.abs(off).mean()
        print(f"{command}, pushes of {push:g} N: {end} m, {mean:.0f} degrees")
    env.close()
paths.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
headings.set(xlabel="s", ylabel="degrees from the heading")
figure.legend(loc="outside upper center", ncols=4, frameon=False)
figure.savefig(file)
