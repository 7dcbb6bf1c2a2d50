"""Figures: the numbers in them, panels, legends, warnings, files."""

import os
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from spinup_tf2.errors import UserError
from spinup_tf2.results import figures
from spinup_tf2.results.plot import main
from spinup_tf2.utils.plot import get_datasets, make_plots, plot_data
from tests.results.runs import add_run

ENVS = ("CartPole-v1", "Acrobot-v1")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Grids of two algorithms over two environments with two seeds, in ./data."""
    monkeypatch.chdir(tmp_path)
    for algorithm in ("ppo", "vpg"):
        for env in ENVS:
            for seed in range(2):
                name = f"{algorithm}_env{env.lower()}"
                path = tmp_path / "data" / name / f"{name}_s{seed}"
                add_run(path, np.arange(5) + seed, exp_name=name, env_name=env)
    return tmp_path / "data"


@pytest.fixture
def saved(monkeypatch):
    """The figures that are saved, {name of the file: figure}."""
    saved = {}
    monkeypatch.setattr(figures, "save_figure", lambda fig, path: saved.update({str(path): fig}))
    return saved


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def curves(ax):
    """The curves of a plot: {name in the legend: y values}."""
    handles, names = ax.get_legend_handles_labels()
    by_color = {line.get_color(): line.get_ydata() for line in ax.lines}
    return {name: by_color[handle.get_color()] for handle, name in zip(handles, names, strict=True)}


def legend_of(figure):
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


# ---------------------------------------------------------------- what is drawn


def band_of(ax):
    """The lower and the upper edge of the only band: (x, low, high)."""
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    edges = [[f(vertices[vertices[:, 0] == each, 1]) for each in x] for f in (np.min, np.max)]
    return x, *map(np.array, edges)


@pytest.mark.parametrize(("errorbar", "share"), [("sd", 1.0), ("se", 1 / 2)])  # of four runs
def test_mean_and_band_over_runs(tmp_path, ax, errorbar, share):
    offsets = np.array([0.0, 1.0, 2.0, 10.0])
    for seed, offset in enumerate(offsets):
        add_run(tmp_path / f"s{seed}", np.arange(3) + offset)
    plot_data(get_datasets(tmp_path), errorbar=errorbar, ax=ax)
    mean, half = np.arange(3) + offsets.mean(), share * np.std(offsets, ddof=1)
    np.testing.assert_allclose(curves(ax)["exp"], mean)
    x, low, high = band_of(ax)
    np.testing.assert_array_equal(x, [4000, 8000, 12000])
    np.testing.assert_allclose(low, np.maximum(mean - half, np.arange(3)))
    np.testing.assert_allclose(high, mean + half)


@pytest.mark.parametrize(("estimator", "errorbar"), [("mean", "sd"), ("iqm", "ci"), ("max", "se")])
def test_bands_stay_within_the_runs(tmp_path, ax, errorbar, estimator):
    returns = np.random.default_rng(0).exponential(size=(6, 4))
    for seed, row in enumerate(returns):
        add_run(tmp_path / f"s{seed}", row)
    plot_data(get_datasets(tmp_path), estimator=estimator, errorbar=errorbar, ax=ax)
    _, low, high = band_of(ax)
    estimate = curves(ax)["exp"]
    edges = np.array([returns.min(axis=0), low, estimate, high, returns.max(axis=0)])
    assert (np.diff(edges, axis=0) >= 0).all()
    assert (low < high).any()


def test_the_band_ends_where_only_one_run_goes_on(tmp_path, ax):
    add_run(tmp_path / "a", [1.0, 2.0, 3.0, 4.0])
    add_run(tmp_path / "b", [3.0, 4.0])
    plot_data(get_datasets(tmp_path), ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], [2, 3, 3, 4])
    assert list(band_of(ax)[0]) == [4000, 8000]


@pytest.mark.parametrize("smooth", [1, 2, 7])
def test_smoothing_equals_the_original_formula(tmp_path, ax, smooth):
    """numpy's 'same' convolution, normalised at the ends (it wants no fewer rows than `smooth`)."""
    returns = np.random.default_rng(0).normal(size=7)
    add_run(tmp_path / "run", returns)
    plot_data(get_datasets(tmp_path), smooth=smooth, ax=ax)
    ones, window = np.ones(7), np.ones(smooth)
    expected = np.convolve(returns, window, "same") / np.convolve(ones, window, "same")
    np.testing.assert_allclose(curves(ax)["exp"], expected)


def test_blank_fields_are_neither_drawn_nor_averaged(tmp_path, ax, capsys):
    add_run(tmp_path / "a", [None, 2.0, "nan", 4.0])
    add_run(tmp_path / "b", [None, 4.0, 6.0, "inf"])
    add_run(tmp_path / "c", [None, None])
    add_run(tmp_path / "d", header=("Epoch", "LossPi", "TotalEnvInteracts"))
    plot_data(get_datasets(tmp_path), ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], [3.0, 6.0, 4.0])
    out = capsys.readouterr().out
    assert f"Leaving out {tmp_path / 'c'}: there are no numbers in Performance" in out
    assert f"Leaving out {tmp_path / 'd'}: it has no column Performance" in out


def test_runs_of_one_epoch_are_seen_and_names_with_an_underscore_are_in_the_legend(tmp_path, ax):
    add_run(tmp_path / "one", [3.0], exp_name="_one")  # matplotlib leaves such names out
    add_run(tmp_path / "two", [1.0, 2.0], exp_name="two")
    plot_data(get_datasets(tmp_path), ax=ax)
    markers = {len(line.get_xdata()): line.get_marker() for line in ax.lines}
    assert (markers[1], markers[2]) == ("o", "None")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_one", "two"]


# ---------------------------------------------------------------- panels and legends


def test_a_panel_for_each_environment_with_one_legend(data, saved):
    add_run(data / "sac" / "sac_s0", exp_name="sac", env_name="CartPole-v1")
    add_run(data / "who" / "who_s0", exp_name="ppo")
    main(["data", "--by", "env", "--savefig", "x.png"])
    panels = {ax.get_title(): ax for ax in saved["x.png"].axes}
    assert [*panels] == ["Acrobot-v1", "CartPole-v1", "unknown environment"]
    left, middle, right = panels.values()
    assert [ax.get_ylabel() for ax in (left, middle)] == ["Average return", ""]
    assert [ax.get_xlabel() for ax in (left, middle)] == ["Environment steps"] * 2
    assert [line.get_label() for line in left.lines] == ["ppo", "vpg"]
    assert [line.get_label() for line in right.lines] == ["ppo"]
    lines = [line for ax in panels.values() for line in ax.lines]
    assert len(lines) == 6
    assert len({(line.get_label(), line.get_color()) for line in lines}) == 3
    assert len({line.get_color() for line in lines}) == 3
    assert legend_of(saved["x.png"]) == ["ppo", "vpg", "sac"]


@pytest.mark.parametrize("names", [["a_long_name_" * 2] * 3, ["short"] * 14])
@pytest.mark.parametrize("shared", [False, True])
def test_the_legend_is_within_the_figure_and_above_the_axes(
    tmp_path, saved, monkeypatch, names, shared
):
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(names):
        for env in ENVS if shared else ENVS[:1]:
            add_run(tmp_path / f"d/{i}{env}", exp_name=f"{name}{i}", env_name=env)
    if shared:
        make_plots(["d"], savefig="x.png", by="env")
        figure = saved["x.png"]
        [legend] = figure.legends
    else:
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        legend = plot_data(get_datasets(tmp_path), ax=figure.subplots()).get_legend()
    figure.draw_without_rendering()
    extent = legend.get_window_extent()
    assert -1 <= extent.x0 < extent.x1 <= figure.bbox.x1 + 1
    for ax in figure.axes:
        top = (ax.get_tightbbox() if shared else ax.get_window_extent()).y1  # with its title
        assert top <= extent.y0 + 1
        assert extent.y1 <= figure.bbox.y1 + 1
        assert ax.get_window_extent().height > 150  # the figure has grown by what the legend takes
        assert len({line.get_color() for line in ax.lines}) == len(names)


# ---------------------------------------------------------------- warnings


def test_a_curve_of_several_environments_is_warned_of(data, saved, capsys):
    main(["data", "-l", "all", "--savefig", "x.png"])
    assert "Warning: the runs of all differ in env_name, and" in capsys.readouterr().out
    for apart in (["--savefig", "x.png", "--by", "env"], ["--table"]):
        main(["data", "-l", "all", *apart])
        assert "Warning" not in capsys.readouterr().out


CARTPOLE = "EnvFn(env_name='CartPole-v1', env_kwargs={})"
BASE = dict(exp_name="x", env_fn=CARTPOLE.format(None), lam=0.9, net="<class Net at 0x7f2>")


@pytest.mark.parametrize(
    ("changes", "different", "where", "panel"),
    [
        (dict(seed=1, epochs=9, resume=True, net="<class Net at 0x7f3>", new=1), "", "--table", ""),
        (dict(lam=0.8, net="<class Other at 0x7f2>"), "lam, net", "--savefig=x.png", ""),
        (dict(env_fn=CARTPOLE.format({"a": (1, 2)})), "env_kwargs", "--table", " in CartPole-v1"),
        (dict(clip_ratio=0.2), "algorithm", "--table", " in CartPole-v1"),
    ],
)
def test_a_curve_of_several_settings_is_warned_of(
    tmp_path, saved, capsys, changes, different, where, panel
):
    add_run(tmp_path / "a" / "s0", **BASE, train_v_iters=80, seed=0, epochs=3, resume=False)
    add_run(tmp_path / "b" / "s0", **BASE | dict(train_v_iters=80) | changes)
    main([f"{tmp_path}/", where])
    out = capsys.readouterr().out
    warning = f"Warning: the runs of x{panel} differ in {different}, and count as one"
    assert (warning in out) if different else ("Warning" not in out)
    main([f"{tmp_path}/a/", f"{tmp_path}/b/", "-l", "a", "b", where])
    assert "Warning" not in capsys.readouterr().out


# ---------------------------------------------------------------- the command and its files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--savefig", "x.xyz"], r"to x.xyz: .*name ends in .png or .svg or .pdf"),
        (["--savefig", "no/such/x.png"], "to no/such/x.png: it must be a file in a directory"),
        (["--savefig", "dir.png"], "to dir.png: it must be a file"),
        (["--table", "x.txt"], "to x.txt: .*name ends in .md or .csv"),
        (["-y", "Performance", "Reward", "--table", "x.md"], "No run has a column 'Reward'; there"),
        (["-x", "Steps", "--savefig", "x.png"], "No run has a column 'Steps'; there is Epoch, Av"),
        (["-y", "Condition1", "--savefig", "x.png"], "no numbers to plot in column 'Condition1'"),
        ([], "no display .* --savefig FILE"),  # the backend of this process is Agg
        (["nowhere/"], "There is no directory nowhere/"),  # said first
    ],
)
def test_bad_arguments(data, arguments, message):
    (data.parent / "dir.png").mkdir()
    with pytest.raises(UserError, match=message):
        main(["data", *arguments])
    assert sorted(os.listdir()) == ["data", "dir.png"]


def test_one_file_or_one_for_each_value_and_the_same_curves_are_the_same_file(data, capsys):
    first, second = [], []
    for contents in (first, second):
        main(["data/ppo", "--savefig", "one.PNG"])
        main(["data/ppo", "--savefig", "one.svg"])
        main(["data/ppo", "-y", "Epoch", "Performance", "--count", "--savefig", "two.v1.pdf"])
        assert "Saved two.v1_Epoch.pdf" in capsys.readouterr().out
        names = ["data", "one.PNG", "one.svg", "two.v1_Epoch.pdf", "two.v1_Performance.pdf"]
        assert sorted(os.listdir()) == names
        contents += [(data.parent / name).read_bytes() for name in names[1:]]
    assert first == second
    assert [text[:4] for text in first] == [b"\x89PNG", b"<?xm", b"%PDF", b"%PDF"]


def test_spinning_ups_module_is_a_program_and_its_help_is_fast():
    code = (
        "import runpy, sys; sys.argv = ['plot', '--help']\n"
        "try: runpy.run_module('spinup_tf2.utils.plot', run_name='__main__')\n"
        "except SystemExit: sys.exit(bool({'tensorflow', 'seaborn', 'pandas'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert "--savefig FILE" in done.stdout
