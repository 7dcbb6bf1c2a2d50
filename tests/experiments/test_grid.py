"""Grids: names, variants, what is printed, and how they stop."""

import os
import re

import pytest

from spinup_tf2 import user_config
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.experiments import calling
from spinup_tf2.experiments import grid as grids
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid, valid_str
from spinup_tf2.parallel.stopping import SIGNALS


def tanh(*args, **kwargs):
    pass


def relu(*args, **kwargs):
    pass


def names_of(grid):
    return [grid.variant_name(variant) for variant in grid.variants()]


# ---------------------------------------------------------------- names and variants


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.001, "0-001"),
        (1e-05, "1e-05"),
        ((64, 32), "64-32"),
        ([64, (1, 2)], "64-1-2"),
        ("HalfCheetah-v2", "halfcheetah-v2"),
        (None, "none"),
        (-1, "-1"),
        (tanh, "tanh"),
        ("a b/c:d", "a-b-c-d"),
        ({"act": tanh}, "--act----tanh--"),
    ],
)
def test_valid_str(value, expected):
    assert valid_str(value) == expected


class Maker:
    def __init__(self, env_id):
        self.env_id = env_id


def test_names_have_no_memory_addresses():
    names = [valid_str(Maker(env_id)) for env_id in ("a", "a", "b")]
    assert "0x" in str(Maker("a"))
    assert "0x" not in names[0]
    assert names[0] == names[1] != names[2]


def test_names_without_shorthands(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_SHORTHAND", False)
    grid = ExperimentGrid("g")
    grid.add("ac_kwargs:hidden_sizes", [1], in_name=True)
    assert names_of(grid) == ["g_ac_kwargs-hidden_sizes1"]


def test_names_of_a_benchmark():
    grid = ExperimentGrid(name="ppo-bench")
    grid.add("env_name", "CartPole-v0", "", True)
    grid.add("seed", [0, 10])
    grid.add("epochs", 10)
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    grid.add("ac_kwargs:activation", [tanh, relu], "")
    assert names_of(grid) == 2 * [
        "ppo-bench_cartpole-v0_hid32_tanh",
        "ppo-bench_cartpole-v0_hid32_relu",
        "ppo-bench_cartpole-v0_hid64-64_tanh",
        "ppo-bench_cartpole-v0_hid64-64_relu",
    ]
    assert grid.variants()[0] == {
        "env_name": "CartPole-v0",
        "seed": 0,
        "epochs": 10,
        "ac_kwargs": {"hidden_sizes": (32,), "activation": tanh},
    }


def test_variants_are_all_combinations_and_the_first_key_is_slowest():
    grid = ExperimentGrid(base=dict(test=dict(b=0, c={"d": 7}), huh=6))
    grid.add("test:a", [1, 2, 3], "ta", True)
    grid.add("test:b", [1, 2, 3])
    grid.add("some", [4, 5])
    grid.add("why", [True, False])  # of which a name shows only that it is there
    grid.add("huh", 5)
    grid.add("no", 6, in_name=True)
    variants = grid.variants()
    assert len(variants) == 36
    own = {"a": 1, "b": 1, "c": {"d": 7}}
    assert variants[0] == {"test": own, "some": 4, "why": True, "huh": 5, "no": 6}
    assert variants[1]["why"] is False
    assert grid.variant_name(variants[1]) == "ta1_tes-b1_som4_no6"
    assert variants[-1]["test"] == own | {"a": 3, "b": 3}
    assert grid.variant_name(variants[0]) == "ta1_tes-b1_som4_why_no6"
    variants[0]["test"]["c"]["d"] = 8  # nobody else sees it
    assert variants[1]["test"]["c"] == grid.variants()[0]["test"]["c"] == {"d": 7}
    assert ExperimentGrid("g").variants() == [{}]


@pytest.mark.parametrize("keys", [("a", "a"), ("a", "a:b"), ("a:b", "a"), ("a:b:c", "a:b")])
def test_a_key_has_one_value(keys):
    grid = ExperimentGrid()
    grid.add(keys[0], 1)
    with pytest.raises(UserError, match="You can't assign multiple values to the same key"):
        grid.add(keys[1], 2)
    grid.add("ab:c", 2)  # a key that only begins alike
    with pytest.raises(UserError, match="seed has no values; give at least one"):
        grid.add("seed", [])


# ---------------------------------------------------------------- what is printed


def run_printed_grid(monkeypatch, tmp_path, terminal=False, **options):
    started = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setattr(calling, "run_experiment", lambda *args: started.append(args))
    grid = ExperimentGrid("ppo_ant")
    grid.add("clip_ratio", [0.1, 0.2])
    grid.add("seed", [0, 10])
    grid.add("ac_kwargs:hidden_sizes", [[32, 32], [64, 32]], "h")
    grid.run(tanh, data_dir=str(tmp_path), **options)
    assert len(started) == 8


@pytest.mark.parametrize("terminal", [False, True])
def test_a_printed_grid(monkeypatch, tmp_path, capsys, terminal):
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", 0)
    run_printed_grid(monkeypatch, tmp_path, terminal)
    out = capsys.readouterr().out
    assert ("\x1b[" in out) == terminal
    out = re.sub(r"\x1b\[[\d;]+m", "", out)
    assert re.search(
        r"ExperimentGrid \[ppo_ant\] .*clip_ratio +\[cli\] \n\n\t0.1\n\t0.2\n", out, re.S
    )
    assert re.search(r"Variants, counting seeds: +8\n Variants, not counting seeds: +4\n", out)
    names = [f"ppo_ant_cli0-{clip}_h{hid}-32" for clip in (1, 2) for hid in (32, 64)]
    assert "experiments...\n\n" + "\n".join(names) + "\n\n" in out
    run_printed_grid(monkeypatch, tmp_path, terminal, quiet=True)
    assert capsys.readouterr().out == ""


def test_a_single_experiment_is_not_announced_and_does_not_wait(monkeypatch, tmp_path, capsys):
    """What runs it says what it is."""
    slept = []
    monkeypatch.setattr(grids.time, "sleep", slept.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(calling, "run_experiment", lambda *args: print("it runs"))
    ExperimentGrid("one", base=dict(x=1)).run(tanh, data_dir=str(tmp_path), note="a note")
    assert capsys.readouterr().out == "a note\nit runs\n"
    assert slept == []


@pytest.mark.parametrize("seconds", [0, 5])
def test_launch_is_delayed_on_a_terminal(monkeypatch, tmp_path, capsys, seconds):
    slept = []
    monkeypatch.setattr(grids.time, "sleep", slept.append)
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", seconds)
    run_printed_grid(monkeypatch, tmp_path, terminal=True)
    assert sum(slept) == pytest.approx(seconds)
    assert ("Launch delayed to give you a few seconds" in capsys.readouterr().out) == (seconds > 0)


# ---------------------------------------------------------------- what is run


def test_functions_as_values_of_the_grid(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(calling, "run_experiment", lambda run, *_: started.append(run))
    grid = ExperimentGrid("g")
    grid.add("algorithm", [tanh, relu])
    grid.add("x", 1)
    grid.run("algorithm", data_dir=str(tmp_path))
    named = [(run.exp_name, run.thunk) for run in started]
    assert named == [("g_algtanh", tanh), ("g_algrelu", relu)]
    assert all(run.kwargs == {"x": 1, "seed": 0} for run in started)


def test_a_grid_with_a_bad_last_variant_does_not_start(tmp_path):
    grid = ExperimentGrid("name")
    grid.add("env_name", ["Pendulum-v1", "Pendulum-v77"])
    with pytest.raises(UserError, match=r"Pendulum-v77 is not registered"):
        grid.run(tanh, data_dir=str(tmp_path))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_stopped_grid_says_how_it_goes_on(monkeypatch, tmp_path, capsys, signum):
    statuses = iter([0, 128 + signum])
    monkeypatch.setattr(Processes, "run", lambda self, arguments: next(statuses))
    grid = ExperimentGrid("g", base=dict(env_name="CartPole-v1"))
    grid.add("seed", [1, 2, 3])
    with pytest.raises(Interrupted) as left:
        grid.run(NamedAlgorithm("ppo"), data_dir=str(tmp_path), command=["ppo", "--x", "1"])
    assert left.value.signum == signum
    said = capsys.readouterr().out.split("3 experiments: 1 finished, 1 stopped, 1 not begun")[1]
    states = [line.split("  ")[:2] for line in map(str.strip, said.splitlines())]
    assert [state for state in states if state[-1].startswith(str(tmp_path))] == [
        ["finished", f"{tmp_path}/g/g_s1"],
        ["stopped", f"{tmp_path}/g/g_s2"],
        ["not begun", f"{tmp_path}/g/g_s3"],
    ]
    assert "run ppo --x 1 --resume --skip_finished\n" in said


@pytest.mark.parametrize(
    ("seeds", "overwrite", "left"),
    [([0, 1], True, []), ([0, 1], False, None), ([0], True, [0, 1])],  # one replaces it itself
)
def test_a_grid_moves_what_it_replaces_before_it_starts(
    monkeypatch, tmp_path, seeds, overwrite, left
):
    runs = [tmp_path / "g" / f"g_s{seed}" / "progress.txt" for seed in (0, 1)]
    for rows in runs:
        rows.parent.mkdir(parents=True)
        rows.touch()
    seen = []
    monkeypatch.setattr(
        calling,
        "run_experiment",
        lambda *_: seen.append([seed for seed in (0, 1) if runs[seed].exists()]),
    )
    grid = ExperimentGrid("g")
    grid.add("seed", seeds)
    if left is None:
        with pytest.raises(UserError, match="already holds a run"):
            grid.run(tanh, data_dir=tmp_path, overwrite=overwrite)
        assert all(rows.exists() for rows in runs)
    else:
        grid.run(tanh, data_dir=tmp_path, overwrite=overwrite)
        assert seen == [left] * len(seeds)
