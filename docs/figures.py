"""Draws pictures of the pages: two diagrams, and the learning curves of each algorithm's page.

    python docs/figures.py              # all of them, in docs/images
    python docs/figures.py kinds dqn    # these

The curves are those of the files in benchmarks/results/learning. Other pictures are drawn by the
commands beside them.
"""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import learning_figure  # noqa: E402
import matplotlib as mpl  # noqa: E402
from learning_data import protocols, read  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from spinup_tf2.results import figures  # noqa: E402

IMAGES = ROOT / "docs" / "images"

# For each picture the protocol whose runs it shows, and the algorithms.
CURVES = {
    "vpg": ("on-policy", ["vpg"]),
    "trpo": ("on-policy", ["trpo"]),
    "ppo": ("on-policy", ["ppo"]),
    "ppg": ("ppg-pong", ["ppo", "ppg"]),
    "a2c": ("a2c-pong", ["a2c"]),
    "ddpg": ("off-policy", ["ddpg"]),
    "td3": ("off-policy", ["td3"]),
    "sac": ("off-policy", ["sac"]),
    "dqn": ("dqn-classic", ["dqn"]),
    "pendulum": ("classic-continuous", ["ddpg", "td3", "sac"]),
}


def curves(picture):
    """The learning curves of a page."""
    name, shown = CURVES[picture]
    protocol = replace(protocols()[name], algorithms=shown)
    if picture == "pendulum":
        protocol = replace(protocol, environments=["Pendulum-v1"])
    learning_figure.figure(protocol, read(protocol), IMAGES / f"{picture}.svg")


def blank(width, height):
    """A figure, and its axes in inches with the origin at the top left."""
    figures.set_theme()
    figure = Figure((width, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def box(axes, x, y, text, edge="0.4", fill="white", **style):
    """A text in a frame around (x, y)."""
    frame = dict(boxstyle="round,pad=0.45", facecolor=fill, edgecolor=edge, linewidth=1.2)
    style = dict(ha="center", va="center", size=11, parse_math=True) | style
    return axes.text(x, y, text, bbox=frame, zorder=3, **style)


def loop():
    """Agent and environment, which take turns."""
    figure, axes = blank(6.6, 2.2)
    blue, orange, *_ = mpl.colormaps["tab10"].colors
    for x, text, color in (
        (1.3, "Agent\n\n" r"policy $\pi(a \mid s)$", blue),
        (5.3, "Environment\n\n" r"$P(s' \mid s, a)$", orange),
    ):
        box(axes, x, 1.1, text, color, (*color, 0.12), linespacing=1.1, size=13)
    arrow = dict(arrowstyle="-|>,head_width=0.3,head_length=0.6", color="0.3", linewidth=1.6)
    axes.annotate("", (4.4, 0.75), (2.2, 0.75), arrowprops=arrow)
    axes.annotate("", (2.2, 1.45), (4.4, 1.45), arrowprops=arrow)
    label = dict(ha="center", size=12, parse_math=True)
    axes.text(3.3, 0.62, "action $a_t$", va="bottom", **label)
    axes.text(3.3, 1.58, "reward $R_t$,\nnext state $s_{t+1}$", va="top", **label)
    figures.save_figure(figure, IMAGES / "loop.svg")


# The kinds of algorithms: (name, what tells them apart, ours, others).
MODEL_FREE = [
    ("Policy optimization", "on-policy", ["VPG", "TRPO", "PPO", "PPG", "A2C"], ["A3C"]),
    ("Policy and Q-function", "off-policy", ["DDPG", "TD3", "SAC"], []),
    ("Q-learning", "off-policy", ["DQN"], ["C51"]),
]
MODEL_BASED = [
    ("The model is learned", "", [], ["PETS", "MBPO", "Dreamer"]),
    ("The model is given", "", [], ["AlphaZero"]),
]


def kinds():
    """The kinds of algorithms as a tree, with those of this package in color."""
    figure, axes = blank(9.2, 4.0)
    [blue, *_] = mpl.colormaps["tab10"].colors
    line = dict(color="0.6", linewidth=1.2, zorder=1)
    box(axes, 4.6, 0.3, "Reinforcement-learning algorithms", size=12)
    x = 0.95
    for title, families in ("Without a model", MODEL_FREE), ("With a model", MODEL_BASED):
        places = [x + 1.82 * i for i in range(len(families))]
        middle = sum(places) / len(places)
        axes.plot([4.6, 4.6, middle, middle], [0.3, 0.7, 0.7, 1.05], **line)
        box(axes, middle, 1.05, title)
        for place, (name, data, ours, others) in zip(places, families, strict=True):
            axes.plot([middle, middle, place, place], [1.05, 1.42, 1.42, 1.8], **line)
            box(axes, place, 1.8, name, size=9.5)
            axes.text(place, 2.14, data, ha="center", va="center", size=9.5, style="italic")
            for i, each in enumerate([*ours, *others]):
                row, column = divmod(i, 2)
                alone = len([*ours, *others]) == 1 or each == "AlphaZero"
                at = place + (0 if alone else (column - 0.5) * 0.8), 2.55 + 0.47 * row
                own = each in ours
                look = (blue, (*blue, 0.15)) if own else ("0.6", "white")
                box(axes, *at, each, *look, size=10, color="0.1" if own else "0.45")
        x = places[-1] + 1.82
    figures.save_figure(figure, IMAGES / "kinds.svg")


DIAGRAMS = {"loop": loop, "kinds": kinds}


def main(names):
    for name in names or [*DIAGRAMS, *CURVES]:
        if name in DIAGRAMS:
            DIAGRAMS[name]()
        else:
            curves(name)


if __name__ == "__main__":
    main(sys.argv[1:])
