"""How a quadruped walks: a gait diagram, which shows when each foot is on the ground.

    python -m spinup_tf2.examples.quadruped_gait RUN --savefig gait.png

Time runs from left to right, and a bar stands for a foot on the ground (Hildebrand 1965). In a trot
the bars of diagonal feet coincide; where no foot has a bar, the robot is in the air.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spinup_tf2.envs.quadruped.gait import LEGS
from spinup_tf2.results.figures import save_figure
from spinup_tf2.utils.test_policy import load_policy_and_env

DIAGONALS = [(LEGS.index(a), LEGS.index(b)) for a, b in (("FR", "RL"), ("FL", "RR"))]


def footfalls(
    env: gym.Env,
    get_action: Callable[[Any], Any],
    repeat: int,
    steps: int,
    seed: int,
    command: Sequence[float] | None = None,
) -> np.ndarray:
    """Return whether each foot touches the ground after each step, bool `[steps, 4]`, as in LEGS.

    There are fewer steps if the episode ends earlier.

    Args:
        env: A quadruped with `action_repeat=1`, because feet may touch and leave the ground within
            the duration of an action.
        repeat: Number of steps for which an action is held.
        command: For the task `command`, the commanded velocity and turning; None to draw them.
    """
    obs, _ = env.reset(seed=seed, options=None if command is None else {"command": command})
    feet = []
    for step in range(steps):
        if step % repeat == 0:
            act = get_action(obs)
        obs, _, terminated, truncated, _ = env.step(act)
        feet.append(env.unwrapped.feet_on_ground)
        if terminated or truncated:
            break
    return np.array(feet)


def measures(feet: np.ndarray) -> dict[str, float]:
    """Return measures of a gait, as shares of the time.

    They are `stance`, with a foot on the ground (mean over the four feet, the duty factor);
    `flight`, with no foot on the ground; and `diagonal`, with both feet of a diagonal in the same
    state (mean over the two diagonals). The last one is 1 in a trot, and 1/2 if the feet move
    independently and are up half of the time.
    """
    return {
        "stance": feet.mean(),
        "flight": (~feet.any(1)).mean(),
        "diagonal": np.mean([feet[:, a] == feet[:, b] for a, b in DIAGONALS]),
    }


def draw(ax: Axes, feet: np.ndarray, dt: float) -> None:
    """Draw a gait diagram of `feet` `[steps, 4]`, with `dt` seconds per step."""
    for row in range(len(LEGS)):
        changes = np.flatnonzero(np.diff(feet[:, row], prepend=False, append=False))
        bars = [(dt * down, dt * (up - down)) for down, up in changes.reshape(-1, 2)]
        ax.broken_barh(bars, (row - 0.4, 0.8), color="C0")
        ax.axhline(row, color="C0", lw=0.5, alpha=0.5, zorder=0)
    ax.set(yticks=range(len(LEGS)), yticklabels=LEGS, xlim=(0, dt * len(feet)))
    ax.invert_yaxis()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", nargs="+", help="directories of runs of a quadruped")
    parser.add_argument("--savefig", required=True, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=4.0, help="that are drawn; default 4")
    parser.add_argument("--after", type=float, default=2.0, help="seconds before; default 2")
    parser.add_argument("--seed", type=int, default=0)
    command_help = "for QuadrupedCommand-v0: m/s forward, m/s to the left, rad/s to the left"
    parser.add_argument("--command", type=float, nargs=3, metavar="X", help=command_help)
    args = parser.parse_args(argv)

    figure = Figure(figsize=(8, 1 + 1.6 * len(args.run)))
    axes = figure.subplots(len(args.run), squeeze=False)
    for ax, run in zip(axes[:, 0], args.run, strict=True):
        env, get_action = load_policy_and_env(run, deterministic=True)
        env.close()
        repeat = env.unwrapped.action_repeat
        dt = env.unwrapped.dt / repeat
        first, last = round(args.after / dt), round((args.after + args.seconds) / dt)
        env = gym.make(env.spec, action_repeat=1, max_episode_steps=last)
        feet = footfalls(env, get_action, repeat, last, args.seed, args.command)[first:]
        env.close()
        shares = ", ".join(f"{name} {share:.2f}" for name, share in measures(feet).items())
        print(f"{run}: {shares}", flush=True)
        draw(ax, feet, dt)
        ax.set_title(f"{run}: {shares}", fontsize="small", loc="left")
    axes[-1, 0].set_xlabel("s")
    figure.tight_layout()
    save_figure(figure, args.savefig)


if __name__ == "__main__":
    main()
