"""PPO on 1,000 levels of bigfish, evaluated along the way on these and on levels it has not seen.

    python benchmarks/procgen_levels.py data    # three to five hours of a core; can be stopped

Writes the table, and a figure of it, to benchmarks/results. What the table holds is not done again.
"""

import subprocess
import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.results import figures

RESULTS = Path(__file__).parent / "results"
TABLE = RESULTS / "procgen-levels.csv"
STEPS_PER_EPOCH, EPOCHS, EPISODES = 16384, 490, 100
RANDOM = 0.8  # what random actions reach

TRAIN = f"""ppo --preset procgen --env procgen/bigfish --exp_name bigfish_long --resume
    --steps_per_epoch {STEPS_PER_EPOCH} --env_kwargs:num_levels 1000 --env_kwargs:frameskip 4
    --max_ep_len 1500 --minibatch_size 1024 --gamma 0.99 --pi_lr 1.5e-3 --ent_coef 0.003
    --vf_coef 0.25 --ac_kwargs:conv [[16,8,4],[32,4,2]] --ac_kwargs:background 0.49"""


def evaluate(run, env_kwargs):
    """Return the mean returns of greedy and of sampled actions, and their standard errors."""
    rows = evaluate_run(run, EPISODES, env_kwargs=env_kwargs)
    numbers = [(rows[how]["EpRet"], rows[how]["StdEpRet"]) for how in ("greedy", "sampled")]
    return [x for mean, std in numbers for x in (mean, std / EPISODES**0.5)]


def train(data_dir):
    run = data_dir / "bigfish_long" / "bigfish_long_s0"
    columns = ["interactions", "levels", "greedy", "greedy_error", "sampled", "sampled_error"]
    table = pd.read_csv(TABLE) if TABLE.exists() else pd.DataFrame(columns=columns)
    for epochs in range(49, EPOCHS + 1, 49):
        interactions = epochs * STEPS_PER_EPOCH
        if interactions in set(table["interactions"]):
            continue
        arguments = [*TRAIN.split(), "--data_dir", str(data_dir), "--epochs", str(epochs)]
        subprocess.run([sys.executable, "-m", "spinup_tf2.run", *arguments], check=True)
        for levels, env_kwargs in ("seen", {}), ("unseen", {"num_levels": 0}):
            table.loc[len(table)] = [interactions, levels, *evaluate(run, env_kwargs)]
        table.to_csv(TABLE, index=False, float_format="%.4g", lineterminator="\n")


def draw():
    figures.set_theme()
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for i, (levels, rows) in enumerate(pd.read_csv(TABLE).groupby("levels")):
        for how, style in ("greedy", "-"), ("sampled", "--"):
            x, mean, error = (rows[name] for name in ("interactions", how, f"{how}_error"))
            axes.plot(x, mean, style, color=f"C{i}", label=f"{levels} levels, {how}")
            axes.fill_between(x, mean - error, mean + error, color=f"C{i}", alpha=0.15)
    axes.axhline(RANDOM, color="0.5", linestyle=":", label="random actions")
    axes.set(xlabel="interactions", ylabel="return", ylim=(0, 5.5))
    axes.legend(loc="upper left", ncols=2)
    figures.save_figure(figure, RESULTS / "procgen-levels.svg")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
    draw()
