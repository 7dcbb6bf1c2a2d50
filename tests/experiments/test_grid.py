"""Grids: names, variants, what is printed, and how they stop."""

import functools
import os
import re

import pytest

from spinup_tf2 import user_config
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.experiments import calling, directories
from spinup_tf2.experiments import grid as grids
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid, valid_str
from spinup_tf2.experiments.processes import Processes
from spinup_tf2.parallel.stopping import SIGNALS
from tests.cli.closed_pipe import closed_pipe


def tanh(*args, **kwargs):
    pass


def relu(*args, **kwargs):
    pass


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
        (functools.partial(tanh, 0.5, (1, 2), mode="fast"), "tanh-0-5-1-2-mode-fast"),
        (functools.partial(functools.partial(tanh), relu), "tanh-relu"),
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


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("steps_per_epoch", "ste"),
        ("ac_kwargs:hidden_sizes", "ac-hid"),
        ("pi_lr", "pi"),
        ("a_b_c", "ab"),
        ("clip_ratio", "cli"),
    ],
)
def test_default_shorthand(key, expected):
    grid = ExperimentGrid("g")
    grid.add(key, [1, 2])
    assert [grid.variant_name(variant) for variant in grid.variants()] == [
        f"g_{expected}1",
        f"g_{expected}2",
    ]


def test_without_default_shorthands(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_SHORTHAND", False)
    grid = ExperimentGrid("g")
    grid.add("a:b_c", [1], in_name=True)
    assert grid.variant_name(grid.variants()[0]) == "g_a-b_c1"


def test_names_of_a_benchmark():
    grid = ExperimentGrid(name="ppo-bench")
    grid.add("env_name", "CartPole-v0", "", True)
    grid.add("seed", [0, 10])
    grid.add("epochs", 10)
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    grid.add("ac_kwargs:activation", [tanh, relu], "")
    assert [grid.variant_name(variant) for variant in grid.variants()] == 2 * [
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


def test_a_true_parameter_shows_its_name_only():
    grid = ExperimentGrid("cmd_ppo")
    grid.add("foo", [True, False])
    grid.add("lr", [1e-3, 3e-4])
    assert [grid.variant_name(variant) for variant in grid.variants()] == [
        *("cmd_ppo_foo_lr0-001", "cmd_ppo_foo_lr0-0003"),
        *("cmd_ppo_lr0-001", "cmd_ppo_lr0-0003"),
    ]


def test_variants_are_all_combinations_and_the_first_key_is_slowest():
    grid = ExperimentGrid()
    grid.add("test:a", [1, 2, 3], "ta", True)
    grid.add("test:b", [1, 2, 3])
    grid.add("some", [4, 5])
    grid.add("why", [True, False])
    grid.add("huh", 5)
    grid.add("no", 6, in_name=True)
    variants = grid.variants()
    assert len(variants) == 36
    assert variants[0] == {"test": {"a": 1, "b": 1}, "some": 4, "why": True, "huh": 5, "no": 6}
    assert variants[1]["why"] is False
    assert variants[-1]["test"] == {"a": 3, "b": 3}
    assert grid.variant_name(variants[0]) == "ta1_tes-b1_som4_why_no6"


def test_an_empty_grid_has_one_variant():
    assert ExperimentGrid("g").variants() == [{}]


@pytest.mark.parametrize("keys", [("a", "a"), ("a", "a:b"), ("a:b", "a"), ("a:b:c", "a:b")])
def test_a_key_has_one_value(keys):
    grid = ExperimentGrid()
    grid.add(keys[0], 1)
    with pytest.raises(UserError, match="You can't assign multiple values to the same key"):
        grid.add(keys[1], 2)


def test_keys_that_begin_alike_are_different_keys():
    grid = ExperimentGrid()
    grid.add("a", 1)
    grid.add("ab:c", 2)
    assert grid.variants() == [{"a": 1, "ab": {"c": 2}}]


def test_a_key_has_at_least_one_value():
    with pytest.raises(UserError, match="seed has no values; give at least one"):
        ExperimentGrid("name").add("seed", [])


def test_names_and_keys_are_strings():
    with pytest.raises(UserError, match=r"Name has to be a string\."):
        ExperimentGrid(3)
    with pytest.raises(UserError, match=r"Key must be a string\."):
        ExperimentGrid().add(3, 4)
    with pytest.raises(UserError, match=r"Shorthand must be a string\."):
        ExperimentGrid().add("a", 4, shorthand=5)


PRINTED_GRID = """\
================================================================================
<32;1>ExperimentGrid [ppo_ant] runs over parameters:
<0>
 <36;1>clip_ratio                              <0> [cli]\x20

	0.1
	0.2

 <36;1>seed                                    <0> [see]\x20

	0
	10

 <36;1>ac_kwargs:hidden_sizes                  <0> [h]\x20

	[32, 32]
	[64, 32]

 Variants, counting seeds:               8
 Variants, not counting seeds:           4

================================================================================

<32;1>Preparing to run the following experiments...<0>

ppo_ant_cli0-1_h32-32
ppo_ant_cli0-1_h64-32
ppo_ant_cli0-2_h32-32
ppo_ant_cli0-2_h64-32

================================================================================
"""


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


def test_a_printed_grid(monkeypatch, tmp_path, capsys):
    run_printed_grid(monkeypatch, tmp_path)
    assert capsys.readouterr().out == re.sub(r"<\d+(;1)?>", "", PRINTED_GRID)


def test_a_terminal_gets_colours(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", 0)
    run_printed_grid(monkeypatch, tmp_path, terminal=True)
    assert capsys.readouterr().out == re.sub(r"<(\d+(;1)?)>", "\x1b[\\1m", PRINTED_GRID)


def test_a_single_experiment_is_not_announced_and_does_not_wait(monkeypatch, tmp_path, capsys):
    """What runs it says what it is."""
    slept = []
    monkeypatch.setattr(grids.time, "sleep", slept.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(calling, "run_experiment", lambda *args: print("it runs"))
    grid = ExperimentGrid("one")
    grid.add("x", 1)
    grid.run(tanh, data_dir=str(tmp_path), note="a note")
    assert capsys.readouterr().out == "a note\nit runs\n"
    assert slept == []


def test_a_quiet_grid(monkeypatch, tmp_path, capsys):
    run_printed_grid(monkeypatch, tmp_path, quiet=True)
    assert capsys.readouterr().out == ""


def test_a_grid_runs_where_nobody_reads_what_it_prints(monkeypatch, tmp_path):
    with closed_pipe():
        run_printed_grid(monkeypatch, tmp_path, note="a note")


@pytest.mark.parametrize("seconds", [0, 5])
def test_launch_is_delayed_on_a_terminal(monkeypatch, tmp_path, capsys, seconds):
    slept = []
    monkeypatch.setattr(grids.time, "sleep", slept.append)
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", seconds)
    run_printed_grid(monkeypatch, tmp_path, terminal=True)
    assert sum(slept) == pytest.approx(seconds)
    assert ("Launch delayed to give you a few seconds" in capsys.readouterr().out) == (seconds > 0)


def test_a_long_name_has_its_own_line(capsys):
    ExperimentGrid("n" * 60).print()
    assert f"ExperimentGrid [{'n' * 60}]\n runs over parameters:\n\n" in capsys.readouterr().out


def test_functions_as_values_of_the_grid(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(calling, "run_experiment", lambda run, *_: started.append(run))
    grid = ExperimentGrid("g")
    grid.add("algorithm", [tanh, relu])
    grid.add("x", 1)
    grid.run("algorithm", data_dir=str(tmp_path))
    assert [(run.exp_name, run.thunk) for run in started] == [
        ("g_algtanh", tanh),
        ("g_algrelu", relu),
    ]
    assert all(run.kwargs == {"x": 1, "seed": 0} for run in started)


def test_a_grid_runs_a_function_and_not_a_name(tmp_path):
    with pytest.raises(UserError, match=r"'ppo' is not a parameter of this grid.*run\(spinup"):
        ExperimentGrid("name", base=dict(env_name="CartPole-v1")).run("ppo", data_dir=tmp_path)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("data_dir", r"run\(data_dir="),
        ("quiet", r"run\(quiet="),
        ("preset", r"run\(preset="),
        ("overwrite:x", r"run\(overwrite="),
        ("num_procs", r"run\(num_cpu="),
        ("exp_name", r"ExperimentGrid\(name="),
    ],
)
def test_what_run_says_of_all_experiments_is_no_parameter(key, instead):
    message = f"{key.partition(':')[0]} cannot be a parameter of a grid.* as {instead}"
    grid = ExperimentGrid("name")
    grid.add(key, ["a", "b"])
    for each in (grid, ExperimentGrid("name", base=grid.variants()[0])):
        with pytest.raises(UserError, match=message):
            each.run(tanh)


def test_a_grid_with_a_bad_last_variant_does_not_start(tmp_path):
    grid = ExperimentGrid("name")
    grid.add("env_name", ["Pendulum-v1", "Pendulum-v77"])
    with pytest.raises(UserError, match=r"Pendulum-v77 is not registered"):
        grid.run(tanh, data_dir=str(tmp_path))
    assert not os.listdir(tmp_path)


def test_the_directory_that_was_checked_is_used(monkeypatch, tmp_path):
    times = iter(range(100))
    monkeypatch.setattr(directories.time, "strftime", lambda form: f"{next(times)}-")
    checked, used = [], []
    monkeypatch.setattr(directories, "_check_writable", checked.append)
    monkeypatch.setattr(
        calling,
        "_run_in_fresh_process",
        lambda experiment, _: used.append(experiment.logger_kwargs["output_dir"]),
    )
    grid = ExperimentGrid("g")
    grid.add("seed", [0, 1])
    grid.run(tanh, data_dir=str(tmp_path), datestamp=True, quiet=True)
    assert [str(path) for path in checked] == used


@pytest.mark.parametrize("signum", SIGNALS)
def test_an_interrupted_experiment_ends_the_grid(signum, monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setattr(
        Processes, "run", lambda self, arguments: started.append(1) or 128 + int(signum)
    )
    grid = ExperimentGrid("grid")
    grid.add("x", [1, 2])
    with pytest.raises(Interrupted) as left:
        grid.run(tanh, data_dir=str(tmp_path), quiet=True)
    assert left.value.status == 128 + signum
    assert len(started) == 1
    assert capsys.readouterr().out == ""
    assert "error in your experiment" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (
            dict(command=["ppo", "--x", "1", "2", "3"]),
            "python -m spinup_tf2.run ppo --x 1 2 3 --resume --skip_finished\n",
        ),
        ({}, "grid.add('resume', True) and run(..., skip_finished=True) does the rest.\n"),
        (dict(overwrite=True), "skip_finished=True), and without overwrite, does the rest.\n"),
        (dict(thunk=tanh), "The same grid with grid.add('resume', True) does the rest.\n"),
    ],
)
def test_a_stopped_grid_says_how_it_goes_on(monkeypatch, tmp_path, capsys, options, how):
    statuses = iter([0, 130])
    monkeypatch.setattr(Processes, "run", lambda self, arguments: next(statuses))
    options = dict(thunk=NamedAlgorithm("ppo"), data_dir=str(tmp_path)) | options
    grid = ExperimentGrid("g")
    grid.add("x", [1, 2, 3])
    with pytest.raises(Interrupted):
        grid.run(**options)
    said = capsys.readouterr().out.split("3 experiments: 1 finished, 1 stopped, 1 not begun")[1]
    states = [line.split("  ")[:2] for line in map(str.strip, said.splitlines())]
    assert [state for state in states if state[-1].startswith(str(tmp_path))] == [
        ["finished", f"{tmp_path}/g_x1/g_x1_s0"],
        ["stopped", f"{tmp_path}/g_x2/g_x2_s0"],
        ["not begun", f"{tmp_path}/g_x3/g_x3_s0"],
    ]
    assert how in said


@pytest.mark.parametrize(
    ("seeds", "options", "left"),
    [
        ([0, 1], dict(overwrite=True), []),
        ([0, 1], {}, None),
        ([0], dict(overwrite=True), [0, 1]),  # its own process replaces it
    ],
)
def test_a_grid_removes_what_it_replaces_before_it_starts(
    monkeypatch, tmp_path, seeds, options, left
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
            grid.run(tanh, data_dir=tmp_path, **options)
        assert all(rows.exists() for rows in runs)
    else:
        grid.run(tanh, data_dir=tmp_path, **options)
        assert seen == [left] * len(seeds)


def test_a_stopped_experiment_is_no_grid(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Processes, "run", lambda self, arguments: 130)
    with pytest.raises(Interrupted):
        ExperimentGrid("g").run(tanh, data_dir=str(tmp_path))
    assert "experiments:" not in capsys.readouterr().out
