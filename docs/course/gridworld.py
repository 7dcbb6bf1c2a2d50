"""Gridworlds: their exact values by dynamic programming, and what PPO finds without the model.

python docs/course/gridworld.py docs/images/course_gridworld.svg
"""

import sys
import tempfile

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from matplotlib.figure import Figure

from spinup_tf2.results import figures

CORRIDOR = ["1...3"]
# fmt: off
GRID = [
    "..x3",
    ".#..",
    "1...",
]
# fmt: on
ARROWS = "<>^v"
MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0)]  # left, right, up, down: (row, column)


class Gridworld(gym.Env):
    """Walk on a map until a prize or the pit ends the episode.

    On the map, `.` is a free cell, `#` a wall, a digit a prize of this size, and `x` a pit, which
    costs 1. An episode begins in a random free cell. The observation is the number of the cell.

    Attributes:
        P: `[S, A, S]`, P[s, a, s2] = P(s2 | s, a). Nothing follows an end: its rows are 0.
        R: `[S, A]`, the expected reward of action a in state s.

    Args:
        rows: The map, a string for each row.
        slip: Probability of a step in a random direction instead of the chosen one.
        pay: What every step pays in addition.
    """

    def __init__(self, rows, slip=0.0, pay=0.0):
        self.rows, self.slip, self.pay = rows, slip, pay
        moves = MOVES if len(rows) > 1 else MOVES[:2]
        self.cells = [
            (i, j) for i, row in enumerate(rows) for j, mark in enumerate(row) if mark != "#"
        ]
        marks = [rows[i][j] for i, j in self.cells]
        self.free = np.array([mark == "." for mark in marks])
        self.prize = np.array([float({".": 0, "x": -1}.get(mark, mark)) for mark in marks])

        self.P = np.zeros((len(self.cells), len(moves), len(self.cells)))
        for s in np.flatnonzero(self.free):
            for a, move in enumerate(moves):
                self.P[s, a, self._neighbor(s, move)] += 1 - slip
                for other in moves:
                    self.P[s, a, self._neighbor(s, other)] += slip / len(moves)
        # A reward is what lies in the cell that is entered, and what the step pays.
        self.R = self.P @ self.prize + pay * self.free[:, None]

        self.observation_space = spaces.Discrete(len(self.cells))
        self.action_space = spaces.Discrete(len(moves))

    def _neighbor(self, s, move):
        cell = self.cells[s][0] + move[0], self.cells[s][1] + move[1]
        return self.cells.index(cell) if cell in self.cells else s  # a wall: stay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(np.flatnonzero(self.free)))
        return self.s, {}

    def step(self, action):
        self.s = int(self.np_random.choice(len(self.cells), p=self.P[self.s, action]))
        rew = self.prize[self.s] + self.pay
        return self.s, rew, not self.free[self.s], False, {}


def sweep(env, pi, v, gamma):
    """The right-hand side of the Bellman equation, for all states at once."""
    q = env.R + gamma * env.P @ v
    return (pi * q).sum(axis=1)


def policy_values(env, pi, gamma):
    """The values of a policy, which solve its Bellman equation: it is linear in them."""
    P_pi = np.einsum("sa,sat->st", pi, env.P)
    R_pi = (pi * env.R).sum(axis=1)
    return np.linalg.solve(np.eye(len(P_pi)) - gamma * P_pi, R_pi)


def value_iteration(env, gamma, tolerance=1e-10):
    """The optimal values, and the optimal action of each state."""
    v = np.zeros(len(env.cells))
    while True:
        q = env.R + gamma * env.P @ v
        if np.abs(q.max(axis=1) - v).max() < tolerance:
            return v, q.argmax(axis=1)
        v = q.max(axis=1)


def learn(env, gamma, epochs=40):
    """PPO, without P and R: what its networks say of all states, `[S, A]` and `[S]`."""
    from spinup_tf2 import ppo  # here, since TensorFlow takes its time

    with tempfile.TemporaryDirectory() as directory:
        ac = ppo(
            lambda: Gridworld(env.rows, env.slip, env.pay),
            ac_kwargs=dict(hidden_sizes=(32,)),
            gamma=gamma,
            num_envs=10,
            steps_per_epoch=1000,
            epochs=epochs,
            pi_lr=0.01,
            vf_lr=0.01,
            max_ep_len=100,
            logger_kwargs=dict(output_dir=directory, quiet=True),
        )
    one_hot = np.eye(len(env.cells), dtype=np.float32)
    return ac.pi(one_hot).probs_parameter().numpy(), ac.v(one_hot).numpy()


def show(env, title, values, actions=None):
    """Print a number for each free cell, and the arrow of its action; the map's own marks else."""
    print(f"\n{title}")
    for i, row in enumerate(env.rows):
        line = ""
        for j, mark in enumerate(row):
            if mark == ".":
                s = env.cells.index((i, j))
                arrow = " " if actions is None else ARROWS[actions[s]]
                line += f"{values[s]:7.3f} {arrow}"
            else:
                line += f"{mark:>7}  "
        print(line.rstrip())


def exact():
    corridor = Gridworld(CORRIDOR)
    random = np.full(corridor.R.shape, 0.5)
    v = np.zeros(5)
    for k in (1, 2, 3):
        v = sweep(corridor, random, v, 0.9)
        show(corridor, f"Corridor, random policy, gamma 0.9: after sweep {k}", v)
    show(corridor, "the solution of the equations", policy_values(corridor, random, 0.9))
    for gamma in (0.9, 0.5):
        show(corridor, f"Corridor, optimal, gamma {gamma}", *value_iteration(corridor, gamma))
    for slip in (0.0, 0.4):
        grid = Gridworld(GRID, slip)
        show(grid, f"Grid, slip {slip}, optimal, gamma 0.9", *value_iteration(grid, 0.9))


def learned():
    corridor = Gridworld(CORRIDOR)
    for gamma in (0.9, 0.5):
        pi, v = learn(corridor, gamma)
        show(corridor, f"Corridor, PPO's policy and value function, gamma {gamma}", v, pi.argmax(1))
    grid = Gridworld(GRID, slip=0.4)
    pi, v = learn(grid, 0.9)
    show(grid, "Grid, slip 0.4: PPO's policy and value function", v, pi.argmax(1))
    show(grid, "exact values of PPO's policy", policy_values(grid, pi, 0.9))


def draw():
    """The best values and actions of the grid, without and with slipping."""
    figures.set_theme()
    figure = Figure(figsize=(9, 3.7), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, slip in zip(panels, (0.0, 0.4), strict=True):
        env = Gridworld(GRID, slip)
        values, actions = value_iteration(env, 0.9)
        shown = np.full((len(GRID), len(GRID[0])), np.nan)  # a wall is gray
        for s, (i, j) in enumerate(env.cells):
            shown[i, j] = values[s] if env.free[s] else env.prize[s]
            text = f"{values[s]:.2f}" if env.free[s] else f"{env.prize[s]:+.0f}"
            axes.text(
                j, i, text, ha="center", va="center", weight="normal" if env.free[s] else "bold"
            )
            if env.free[s]:
                down, right = MOVES[actions[s]]
                at = (j + 0.3 * right, i + 0.3 * down)
                ends = dict(xytext=at, xy=(j + 0.47 * right, i + 0.47 * down))
                axes.annotate("", **ends, arrowprops=dict(arrowstyle="-|>", color="0.2"))
        image = axes.imshow(shown, cmap="RdYlGn", vmin=-3, vmax=3, alpha=0.75)
        axes.set(title=f"Probability of slipping {slip:g}", xlabel="Column", ylabel="Row")
        axes.set(xticks=range(len(GRID[0])), yticks=range(len(GRID)), facecolor="0.6")
        axes.grid(visible=False)
    figure.colorbar(image, ax=panels, label="Value")
    return figure


if __name__ == "__main__":
    exact()
    learned()
    figures.save_figure(draw(), sys.argv[1])
