"""What algorithms need is looked for before anything is removed or started."""

import sys

import numpy as np
import pytest

from spinup_tf2.envs import rendering
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling, needs
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.needs import check_needs
from spinup_tf2.tracking import tracker


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules of a user, which must not be imported here."""
    written = {
        "own_callbacks.py": "raise SystemExit\nclass Thing: pass\n",
        "own_names.py": "from elsewhere import *\n",
        "own_broken.py": "class Thing\n",
        "own_package/__init__.py": "raise SystemExit\n",
        "own_package/inner.py": "from elsewhere import Thing\n",
    }
    for name, source in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("own_callbacks:Thing", "own_names:Thing", "own_package.inner:Thing"),
        "spinup_tf2.callbacks:StopAtReturn",
    ],
)
def test_callbacks_that_may_be_had(modules, name):
    check_needs([dict(callbacks=[name]), dict(callbacks=None), dict(callbacks=[object()])])
    assert not {"own_callbacks", "own_names", "own_package", "own_package.inner"} & {*sys.modules}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nosuchmodule:Thing", "ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("nosuchmodule.inner:Thing", "No module named 'nosuchmodule.inner'"),
        ("own_package.other:Thing", "No module named 'own_package.other'"),
        ("own_callbacks.inner:Thing", "No module named 'own_callbacks.inner'"),
        ("own_callbacks:Other", "AttributeError: module 'own_callbacks' has no attribute 'Other'"),
        ("own_broken:Thing", "SyntaxError"),
        ("spinup_tf2.callbacks:Other", "has no attribute 'Other'"),
    ],
)
def test_callbacks_that_cannot_be_had(modules, name, reason):
    with pytest.raises(UserError, match=rf"the callback {name} cannot be had \(.*{reason}"):
        check_needs([dict(), dict(callbacks=[name])])


def test_what_recording_and_windows_need(monkeypatch):
    monkeypatch.setattr(rendering, "has_display", lambda: False)
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    check_needs([dict(record_every=None)])
    with pytest.raises(UserError, match="record_every needs imageio-ffmpeg; install it with"):
        check_needs([dict(record_every=2)])
    with pytest.raises(UserError, match=r"no display to show .* Train without render_every"):
        check_needs([dict(render_every=2)])


def test_the_run_to_begin_with(tmp_path):
    run_dir = tmp_path / "first"
    with pytest.raises(UserError, match=f"There is no directory {run_dir}"):
        check_needs([dict(init_from=run_dir)])
    check_needs([dict(init_from=run_dir, resume=True)])  # which has weights of its own
    (run_dir / "tf2_save").mkdir(parents=True)
    with pytest.raises(UserError, match="no complete saved policy"):
        check_needs([dict(init_from=run_dir)])
    np.savez(run_dir / "tf2_save" / "weights.npz", **{"0": np.zeros(2)})
    check_needs([dict(init_from=run_dir)])


def test_each_is_looked_for_once(monkeypatch):
    seen = []
    monkeypatch.setattr(needs, "check_installed", seen.append)
    check_needs([dict(track=["wandb", "mlflow"], seed=seed) for seed in range(3)])
    assert seen == ["wandb", "mlflow"]


def old_runs(tmp_path):
    """Two runs that a grid called g would replace; the first has a policy."""
    runs = [tmp_path / "g" / f"g_s{seed}" for seed in (0, 1)]
    for run_dir in runs:
        (run_dir / "tf2_save").mkdir(parents=True)
        (run_dir / "progress.txt").write_text("Epoch\n")
        np.savez(run_dir / "tf2_save" / "weights.npz", **{"0": np.zeros(2)})
    return runs


@pytest.mark.parametrize(
    ("needed", "message"),
    [
        (dict(callbacks=["nosuchmodule:Thing"]), "the callback nosuchmodule:Thing cannot be had"),
        (dict(init_from="nowhere"), "There is no directory nowhere"),
        (dict(track=["wandb"]), "track names wandb, which is not installed"),
        (dict(record_every=1), "record_every needs imageio-ffmpeg"),
        (dict(init_from="{}/g/g_s0"), "init_from is .*g_s0, whose run is to be replaced"),
    ],
)
def test_old_runs_stay_if_something_is_missing(tmp_path, monkeypatch, needed, message):
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    monkeypatch.setattr(calling, "run_experiment", lambda *_: pytest.fail("it has started"))
    runs = old_runs(tmp_path)
    grid = ExperimentGrid("g", base=dict(env_name="CartPole-v1"))
    for name, value in needed.items():
        value = value.format(tmp_path) if isinstance(value, str) else value
        grid.add(name, [value])
    grid.add("seed", [0, 1])
    with pytest.raises(UserError, match=message):
        grid.run(NamedAlgorithm("ppo"), data_dir=tmp_path, overwrite=True)
    assert all((run_dir / "progress.txt").exists() for run_dir in runs)


def test_another_function_needs_what_it_needs(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(calling, "run_experiment", lambda *_: started.append(1))
    grid = ExperimentGrid("g", base=dict(track=["nothing"], init_from="nowhere"))
    grid.add("seed", [0, 1])
    grid.run(lambda **_: None, data_dir=tmp_path, overwrite=True)
    assert started == [1, 1]
