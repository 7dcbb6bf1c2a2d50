"""The agent in data/: made by the presets as they are, and as good as is said of it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from spinup_tf2.presets import PRESETS
from spinup_tf2.utils.evaluate import evaluate_run

DATA = Path(__file__).parents[3] / "data"

PARTS = {
    "mario-1-1": ("mario", dict(epochs=800)),  # stopped after the preset's 190
    "mario-1-1-finish": ("mario-finish", {}),
    "mario-1-1-last": ("mario-finish", dict(pi_lr=1e-4, epochs=50)),
}


@pytest.mark.parametrize("name", PARTS)
def test_presets_are_what_the_agent_was_trained_with(name):
    preset, changes = PARTS[name]
    config = json.loads((DATA / name / f"{name}_s0" / "config.json").read_text())
    expected = json.loads(json.dumps(PRESETS[preset].settings | changes))
    assert {key: config[key] for key in expected} == expected
    assert str(PRESETS[preset].env_kwargs) in config["env_fn"]


def test_the_log_has_all_epochs():
    for name, rows in zip(PARTS, (190, 80, 50), strict=True):
        text = (DATA / name / f"{name}_s0" / "progress.txt").read_text()
        assert len(text.splitlines()) == 1 + rows


@pytest.mark.slow
@pytest.mark.mario
@pytest.mark.skipif(find_spec("nes_py") is None, reason="needs the mario extra")
def test_the_agent_clears_the_level():
    rows = evaluate_run(DATA / "mario-1-1-last" / "mario-1-1-last_s0", episodes=2, noops=4)
    # All of them, where it was trained; other processors may round otherwise.
    assert rows["greedy, after no-ops"]["SuccessRate"] >= 0.6
