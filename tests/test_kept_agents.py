"""The agents in data/: made by the presets as they are, and as good as is said of them."""

import ast
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.experiments.presets import load

DATA = Path(__file__).parents[1] / "data"

# The preset of each run, PPO's if not SAC's, what was changed, and how many epochs there have been.
FIFTH_PART = dict(epochs=40, lr=2e-4, update_after=20_000)
SAC_RUNS = {"quadruped-command/quadruped-command_s0": ("quadruped-command", FIFTH_PART, 23)}
RUNS = {
    "mario-1-1/mario-1-1_s0": ("mario", dict(epochs=800), 190),  # stopped after the preset's
    "mario-1-1-finish/mario-1-1-finish_s0": ("mario-finish", {}, 80),
    "mario-1-1-last/mario-1-1-last_s0": ("mario-finish", dict(pi_lr=1e-4, epochs=50), 50),
    "mario-simple/mario-simple_s0": ("mario-simple", dict(epochs=300), 250),
    "quadruped-recover-demo/quadruped-recover-demo_s0": ("quadruped-recover", dict(epochs=30), 30),
}
for seed in (0, 10, 20):
    RUNS |= {
        f"quadruped-walk/quadruped-walk_s{seed}": ("quadruped-walk", {}, 80),
        f"quadruped-walk-demo/quadruped-walk-demo_s{seed}": ("quadruped-walk", dict(epochs=60), 60),
    }

needs_emulator = pytest.mark.skipif(find_spec("nes_py") is None, reason="needs the mario extra")
needs_pybullet = pytest.mark.skipif(find_spec("pybullet") is None, reason="needs quadruped extra")


@pytest.mark.parametrize("run", [*RUNS, *SAC_RUNS])
def test_presets_are_what_the_agent_was_trained_with(run):
    name, changes, epochs = (RUNS | SAC_RUNS)[run]
    preset = load("sac" if run in SAC_RUNS else "ppo", name)
    config = json.loads((DATA / run / "config.json").read_text())
    orthogonal = config.pop("orthogonal_init", False)  # what there was before init
    if config.get("init") is None:  # the default was TensorFlow's
        config["init"] = "orthogonal" if orthogonal else "glorot"
    expected = json.loads(json.dumps(preset.settings | changes))
    assert {key: config[key] for key in expected} == expected
    assert preset.env in config["env_fn"]
    given = ast.literal_eval(config["env_fn"].partition("env_kwargs=")[2].rstrip(")") or "{}")
    # Pairs are tuples or lists, depending on where they are from.
    assert json.dumps(given) == json.dumps(preset.env_kwargs)
    assert len((DATA / run / "progress.txt").read_text().splitlines()) == 1 + epochs


# Thresholds leave room for processors that round otherwise than the one that it was trained on.


@pytest.mark.slow
@pytest.mark.mario
@needs_emulator
def test_mario_clears_the_level():
    rows = evaluate_run(DATA / "mario-1-1-last" / "mario-1-1-last_s0", episodes=2, noops=4)
    assert rows["greedy, after no-ops"]["SuccessRate"] >= 0.6


@pytest.mark.learning
@pytest.mark.mario
@needs_emulator
def test_mario_clears_eight_levels():
    """Also after frames of doing nothing, and with sampled actions."""
    run = DATA / "mario-eight-clone" / "mario-eight-clone_s0"
    rows = evaluate_run(run, episodes=2, noops=2, max_ep_len=600)
    assert len(rows) == 3 * 9  # and their means
    assert rows["mean: greedy"]["SuccessRate"] >= 0.75
    assert rows["mean: greedy, after no-ops"]["SuccessRate"] >= 0.6
    assert rows["mean: sampled"]["SuccessRate"] >= 0.6
    assert rows["1-1: greedy, after no-ops"]["SuccessRate"] == 1.0


@pytest.mark.slow
@needs_pybullet
@pytest.mark.parametrize("name", ["quadruped-walk", "quadruped-walk-demo"])
def test_the_quadruped_walks(name):
    row = evaluate_run(DATA / name / f"{name}_s0", episodes=4)["greedy"]
    assert row["EpLen"] == 400  # 20 s without a fall
    assert row["X"] > 10.0  # m


@pytest.mark.slow
@needs_pybullet
@pytest.mark.parametrize(
    ("conditions", "commands"),
    [
        ({}, {}),
        ({"latency": 0.02}, {}),
        ({}, dict(forward=-0.3, sideways=0.0, turning=0.0, standing=0.0)),
        ({"push": 60.0}, dict(forward=0.8, sideways=0.0, turning=0.0, standing=0.0)),
        ({"push": 60.0}, dict(forward=0.4, sideways=0.0, turning=-0.8, standing=0.0)),
    ],
)
def test_the_quadruped_follows_commands(conditions, commands):
    run = DATA / "quadruped-command" / "quadruped-command_s0"
    changed = dict(domain_randomization=dict(push=0.0) | conditions, command_ranges=commands)
    row = evaluate_run(run, episodes=4, env_kwargs=changed)["greedy"]
    assert row["EpLen"] >= 300  # one of twenty falls; which one depends on the machine
    assert row["VelError"] < 0.2  # m/s; to stand would be 0.3 and more
    assert row["HeadError"] < 0.5  # rad


@pytest.mark.slow
@needs_pybullet
def test_the_quadruped_gets_up():
    name = "quadruped-recover-demo"
    row = evaluate_run(DATA / name / f"{name}_s0", episodes=20)["greedy"]
    assert row["SuccessRate"] >= 0.7
