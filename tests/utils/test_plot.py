"""Plotting: which runs are found, what becomes of damaged ones, and the numbers in the figure."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from spinup_tf2.cli.plot import main
from spinup_tf2.errors import UserError
from spinup_tf2.results.listing import find_runs
from spinup_tf2.results.watching import changes
from spinup_tf2.utils.plot import (
    get_all_datasets,
    get_curves,
    get_datasets,
    make_plots,
    plot_data,
)

HEADER = ("Epoch", "AverageEpRet", "TotalEnvInteracts")


def add_run(directory, returns=(1.0, 2.0, 3.0), exp_name=None, header=HEADER, end="\n"):
    """A run as an algorithm writes it, with blanks where a return is None."""
    directory.mkdir(parents=True)
    if exp_name is not None:
        (directory / "config.json").write_text(json.dumps({"exp_name": exp_name}))
    lines = ["\t".join(header)]
    for epoch, ret in enumerate(returns):
        lines.append(f"{epoch}\t{'' if ret is None else ret}\t{4000 * (epoch + 1)}")
    (directory / "progress.txt").write_text("\n".join(lines) + end)
    return directory


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three experiments with two runs each, in ./data."""
    for name, level in (("ppo", 1.0), ("ppo_big", 2.0), ("my_ppo", 3.0)):
        for seed in range(2):
            returns = level * np.arange(1, 4) + seed
            add_run(tmp_path / "data" / name / f"{name}_s{seed}", returns, exp_name=name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def conditions(datasets, column="Condition1"):
    return [data[column].iloc[0] for data in datasets]


def curves(ax):
    """The curves of a plot: {name in the legend: y values}."""
    handles, names = ax.get_legend_handles_labels()
    by_color = {line.get_color(): line.get_ydata() for line in ax.lines if len(line.get_ydata())}
    return {name: by_color[handle.get_color()] for handle, name in zip(handles, names, strict=True)}


# ---------------------------------------------------------------- which runs


@pytest.mark.parametrize(
    ("logdir", "found"),
    [
        ("data/ppo", ["ppo", "ppo", "ppo_big", "ppo_big"]),  # a beginning; not my_ppo
        ("data/ppo/", ["ppo", "ppo"]),
        ("data/ppo/ppo_s1", ["ppo"]),
        ("data", ["my_ppo", "my_ppo", "ppo", "ppo", "ppo_big", "ppo_big"]),  # a bare name
        ("dat", ["my_ppo", "my_ppo", "ppo", "ppo", "ppo_big", "ppo_big"]),
        (".", ["my_ppo", "my_ppo", "ppo", "ppo", "ppo_big", "ppo_big"]),
        ("data/..", ["my_ppo", "my_ppo", "ppo", "ppo", "ppo_big", "ppo_big"]),
    ],
)
def test_names_and_beginnings_of_names(data, logdir, found, capsys):
    datasets = get_all_datasets([logdir])
    assert conditions(datasets) == found
    assert conditions(datasets, "Unit") == list(range(len(found)))
    assert conditions(datasets, "Condition2") == [f"{name}-{i}" for i, name in enumerate(found)]
    printed = capsys.readouterr().out
    assert printed.startswith("Plotting from...\n" + "=" * 50 + "\n\n")
    assert printed.endswith("\n\n" + "=" * 50 + "\n")


@pytest.mark.parametrize(
    ("logdirs", "legend"),
    [
        (["data/ppo", "data/ppo_big"], ["A", "B"]),  # data/ppo stands for both
        (["data/ppo", "./data/../data/ppo/", "data/ppo_big/"], ["A", "B"]),
        (["data", "data/ppo_big", "data/ppo/ppo_s1"], None),
    ],
)
def test_what_is_found_twice_counts_once(data, logdirs, legend):
    datasets = get_all_datasets(logdirs, legend)
    paths = [run.attrs["path"] for run in datasets]
    assert len({os.path.realpath(path) for path in paths}) == len(paths)
    assert conditions(datasets, "Unit") == list(range(len(paths)))
    if legend:
        assert conditions(datasets) == ["A", "A", "B", "B"]


def test_a_run_may_be_in_two_sets_with_titles_of_their_own(data):
    datasets = get_all_datasets(["data/ppo/", "data/ppo/ppo_s1"], ["both", "one"])
    assert conditions(datasets) == ["both", "both", "one"]


def test_select_exclude_and_legend(data):
    def found(**kwargs):
        return conditions(get_all_datasets(["data/ppo", "data/my"], **kwargs))

    assert found(select=["ppo", "big"]) == ["ppo_big"] * 2
    assert found(exclude=["big", "my"]) == ["ppo"] * 2
    assert found(legend=["A", "B", "B"]) == ["A", "A", "B", "B", "B", "B"]
    with pytest.raises(UserError, match="Must give a legend title for each set of experiments"):
        found(legend=["A", "B"])
    with pytest.raises(UserError, match="No directory is left"):
        found(exclude=["ppo"])
    Path("data/my_notes").mkdir()  # no run is in it
    assert found(legend=["A", "B", "B"]) == ["A", "A", "B", "B", "B", "B"]
    assert set(found(legend=["A", "B", "none", "C"])) == {"A", "B", "C"}


def test_select_and_exclude_look_into_directories(data):
    def found(*logdirs, **kwargs):
        return conditions(get_all_datasets(logdirs, **kwargs))

    assert found("data/", exclude=["ppo_big"]) == ["my_ppo"] * 2 + ["ppo"] * 2
    assert found("data/", select=["my", "s1"]) == ["my_ppo"]
    assert found(".", select=["ppo_s"], exclude=["my"]) == ["ppo"] * 2
    # Only directories of which runs are left have titles.
    three = ["data/ppo/", "data/my_ppo/", "data/ppo_big/"]
    assert found(*three, exclude=["big"], legend=["A", "B"]) == ["A", "A", "B", "B"]
    for nothing in (dict(exclude=["ppo_s", "big_s"]), dict(select=["Big"])):
        with pytest.raises(UserError, match="No directory is left to plot after"):
            found("data/", **nothing)


def test_only_runs_that_are_selected_are_watched(data):
    looks = changes(["data/"], exclude=["big"], seconds=0, wait=lambda _: steps.pop(0)())
    next(looks)
    steps = [
        lambda: add_run(data / "ppo_big" / "ppo_big_s2"),
        lambda: add_run(data / "ppo" / "ppo_s2"),
    ]
    next(looks)
    assert steps == []


@pytest.mark.parametrize(
    ("logdir", "message"),
    [
        ("data/xyz", r"begins with 'xyz'; there is my_ppo, ppo, ppo_big\.$"),
        ("nowhere/ppo", "no directory nowhere"),
        ("nowhere/", "no directory nowhere/"),
        ("data/ppo/ppo_s0/prog", "there is none at all"),
        ("empty", r"No run with results \(progress.txt\) in empty"),
    ],
)
def test_what_is_not_there(data, logdir, message):
    (data.parent / "empty").mkdir()
    with pytest.raises(UserError, match=f"(?i){message}"):
        main([logdir, "--savefig", "x.png"])
    assert not (data.parent / "x.png").exists()


# ---------------------------------------------------------------- damaged and unfinished runs


def test_unfinished_last_line_is_ignored(tmp_path, capsys):
    run = add_run(tmp_path / "run", end="\n3\t4.0\t160")  # of 16000
    (table,) = get_datasets(run)
    assert list(table["TotalEnvInteracts"]) == [4000, 8000, 12000]
    report = f"Skipped 1 damaged row of {run}/progress.txt: 1 unfinished at the end\n"
    assert report in capsys.readouterr().out


def test_damaged_rows_are_skipped_and_counted_in_one_sentence(tmp_path, capsys):
    run = add_run(tmp_path / "run", [1.0, 2.0, "#!", 4.0, None, "nan"], exp_name="run")
    lines = (run / "progress.txt").read_text().splitlines()
    lines[2:2] = ["1\t2.0", "1\t2.0\t8000\t", "\0" * 30, "\ufffd\t1\t1"]
    lines.append("9\t5")
    (run / "progress.txt").write_text("\n".join(lines))
    (table,) = get_datasets(run)
    assert list(table["Epoch"]) == [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(table["Performance"], [1, 2, 4, np.nan, np.nan])
    assert capsys.readouterr().out == (
        f"Skipped 6 damaged rows of {run}/progress.txt: 3 with a wrong number of fields, "
        "1 unfinished at the end, 2 with text in the place of a number\n"
    )


def test_a_column_of_text_is_no_damage(tmp_path, capsys):
    run = add_run(tmp_path / "run", ["warm up", "train", 3.0], exp_name="run")
    (table,) = get_datasets(run)
    assert list(table["AverageEpRet"]) == ["warm up", "train", "3.0"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("contents", ["", "Epoch\tAverageEpRet\n", "Epoch\tAver", "\n\n"])
def test_runs_without_rows_are_left_out(tmp_path, capsys, contents):
    add_run(tmp_path / "good", exp_name="good")
    bad = add_run(tmp_path / "bad", exp_name="bad")
    (bad / "progress.txt").write_text(contents)
    assert conditions(get_datasets(tmp_path)) == ["good"]
    assert f"Could not read from {bad}/progress.txt" in capsys.readouterr().out


def test_binary_rubbish_is_left_out(tmp_path, capsys):
    run = add_run(tmp_path / "run")
    (run / "progress.txt").write_bytes(bytes(range(256)))
    assert get_datasets(run) == []
    assert "Could not read from" in capsys.readouterr().out


@pytest.mark.parametrize("config", [None, "{", "[1]", "{}", '{"exp_name": null}'])
def test_without_a_name_the_runs_are_called_exp(tmp_path, capsys, config):
    run = add_run(tmp_path / "run")
    if config is not None:
        (run / "config.json").write_text(config)
    assert conditions(get_datasets(run)) == ["exp"]
    if config is None:
        assert f"No file named config.json in {run}" in capsys.readouterr().out


def test_performance_is_the_test_return_if_there_is_one(tmp_path):
    add_run(tmp_path / "a", header=("AverageTestEpRet", "AverageEpRet", "TotalEnvInteracts"))
    add_run(tmp_path / "b")
    add_run(tmp_path / "c", header=("Epoch", "LossPi", "TotalEnvInteracts"))
    off_policy, on_policy, neither = get_datasets(tmp_path)
    assert list(off_policy["Performance"]) == [0, 1, 2]
    assert list(on_policy["Performance"]) == [1.0, 2.0, 3.0]
    assert "Performance" not in neither


def test_performance_is_the_return_in_training_where_there_were_no_tests(tmp_path):
    header = ("AverageTestEpRet", "AverageEpRet", "TotalEnvInteracts")
    run = add_run(tmp_path / "a", header=header)
    (run / "progress.txt").write_text("\t".join(header) + "\n\t3.0\t10\n\t4.0\t20\n")
    [table] = get_datasets(tmp_path)
    assert list(table["Performance"]) == [3.0, 4.0]
    assert [(run.last, run.best) for run in find_runs(tmp_path)] == [(4.0, 4.0)]


def test_a_run_without_tests_so_far_is_not_mixed_with_tested_ones(tmp_path, capsys):
    header = ("AverageTestEpRet", "AverageEpRet", "TotalEnvInteracts")

    def add(name, seed, tested):
        run = add_run(tmp_path / name / f"{name}_s{seed}", exp_name=name)
        test = "100.0" if tested else ""
        (run / "progress.txt").write_text("\t".join(header) + f"\n{test}\t10.0\t4000\n")
        return run

    add("ddpg", 0, True)
    young = add("ddpg", 1, False)
    add("td3", 0, False)  # no run of it is tested: its returns in training are all there is
    runs = get_datasets(tmp_path)
    performance = [(*run["Condition1"], *run["Performance"]) for run in runs]
    np.testing.assert_equal(performance, [("ddpg", 100.0), ("ddpg", math.nan), ("td3", 10.0)])
    assert f"Left out of Performance: {young} has no test" in capsys.readouterr().out
    assert get_curves(runs)["ddpg"].estimate == [100]
    np.testing.assert_array_equal(get_curves(runs, value="AverageEpRet")["ddpg"].estimate, [10])


def test_runs_behind_links_count_and_each_once(tmp_path):
    real = add_run(tmp_path / "scratch" / "ppo" / "ppo_s0", exp_name="ppo").parent
    (tmp_path / "data").mkdir()
    add_run(tmp_path / "data" / "ppo_s1", exp_name="ppo")
    for link in ("a", "b"):
        (tmp_path / "data" / link).symlink_to(real)
    (real / "back").symlink_to(tmp_path / "data")  # round and round
    paths = [run.attrs["path"] for run in get_datasets(tmp_path / "data")]
    assert paths == [str(tmp_path / "data" / each) for each in ("a/ppo_s0", "ppo_s1")]
    assert [run.path for run in find_runs(tmp_path / "data")] == paths


def test_runs_without_the_column_are_left_out_and_the_others_drawn(tmp_path, ax, capsys):
    add_run(tmp_path / "a", exp_name="a")
    add_run(tmp_path / "b", exp_name="b", header=("Epoch", "LossPi", "TotalEnvInteracts"))
    plot_data(get_datasets(tmp_path), ax=ax)
    assert list(curves(ax)) == ["a"]
    out = capsys.readouterr().out
    assert f"Leaving out {tmp_path / 'b'}: it has no column Performance" in out


def test_unknown_column_lists_those_there_are(data):
    with pytest.raises(UserError, match=r"No run has a column 'Reward'.*Epoch, AverageEpRet, T"):
        main(["data/ppo", "-y", "Performance", "Reward", "--savefig", "x.png"])
    with pytest.raises(UserError, match="'Steps'"):
        main(["data/ppo", "-x", "Steps", "--savefig", "x.png"])
    assert list(data.parent.glob("x*")) == []


def test_columns_without_numbers(data):
    with pytest.raises(UserError, match="There are no numbers to plot in column 'Condition1'"):
        make_plots(["data"], values=["Condition1"], savefig="x.png")


# ---------------------------------------------------------------- what is drawn


def band_of(ax):
    """The lower and the upper edge of the only band: (x, low, high)."""
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    edges = [[f(vertices[vertices[:, 0] == each, 1]) for each in x] for f in (np.min, np.max)]
    return x, *map(np.array, edges)


SPREAD = {"none": None, "sd": 1.0, "se": 1 / 2}  # of four runs


@pytest.mark.parametrize("errorbar", SPREAD)
def test_mean_and_band_over_runs(tmp_path, ax, errorbar):
    offsets = np.array([0.0, 1.0, 2.0, 10.0])
    for seed, offset in enumerate(offsets):
        add_run(tmp_path / f"s{seed}", np.arange(3) + offset)
    plot_data(get_datasets(tmp_path), errorbar=errorbar, ax=ax)
    mean = np.arange(3) + offsets.mean()
    np.testing.assert_allclose(curves(ax)["exp"], mean)
    if errorbar == "none":
        assert len(ax.collections) == 0
        return
    half = SPREAD[errorbar] * np.std(offsets, ddof=1)
    x, low, high = band_of(ax)
    np.testing.assert_array_equal(x, [4000, 8000, 12000])
    np.testing.assert_allclose(low, np.maximum(mean - half, np.arange(3)))
    np.testing.assert_allclose(high, mean + half)


@pytest.mark.parametrize("errorbar", ["sd", "se", "ci"])
@pytest.mark.parametrize("estimator", ["mean", "median", "iqm", "min", "max"])
def test_bands_stay_within_the_runs(tmp_path, ax, errorbar, estimator):
    returns = np.random.default_rng(0).exponential(size=(6, 4))
    for seed, row in enumerate(returns):
        add_run(tmp_path / f"s{seed}", row)
    plot_data(get_datasets(tmp_path), estimator=estimator, errorbar=errorbar, ax=ax)
    _, low, high = band_of(ax)
    estimate = curves(ax)["exp"]
    assert (returns.min(axis=0) <= low).all()
    assert (high <= returns.max(axis=0)).all()
    assert (low <= estimate).all()
    assert (estimate <= high).all()
    assert (low < high).any()


@pytest.mark.parametrize("errorbar", ["sd", "se", "ci"])
def test_one_seed_has_no_band(tmp_path, ax, errorbar):
    add_run(tmp_path / "run")
    plot_data(get_datasets(tmp_path), errorbar=errorbar, ax=ax)
    assert (len(ax.lines), len(ax.collections)) == (1, 0)


def test_the_band_ends_where_only_one_run_goes_on(tmp_path, ax):
    add_run(tmp_path / "a", [1.0, 2.0, 3.0, 4.0])
    add_run(tmp_path / "b", [3.0, 4.0])
    plot_data(get_datasets(tmp_path), ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], [2, 3, 3, 4])
    assert list(band_of(ax)[0]) == [4000, 8000]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        *[("median", [2, 3, 4]), ("min", [1, 2, 3]), ("max", [9, 10, 11]), ("sum", [12, 15, 18])],
        *[("iqm", [4, 5, 6]), ("std", [np.std([1, 2, 9])] * 3)],
    ],
)
def test_estimators(tmp_path, ax, estimator, expected):
    for seed, offset in enumerate((1, 2, 9)):
        add_run(tmp_path / f"s{seed}", np.arange(3) + offset)
    plot_data(get_datasets(tmp_path), estimator=estimator, ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], expected)
    assert len(ax.collections) == (estimator not in ("sum", "std"))


def test_count_draws_every_run(data, ax):
    plot_data(get_all_datasets(["data/ppo/"]), condition="Condition2", ax=ax)
    assert {name: list(y) for name, y in curves(ax).items()} == {
        "ppo-0": [1, 2, 3],
        "ppo-1": [2, 3, 4],
    }


@pytest.mark.parametrize("smooth", [1, 2, 3, 4, 7])
def test_smoothing_equals_the_original_formula(tmp_path, ax, smooth):
    """numpy's 'same' convolution, normalised at the ends (it wants no fewer rows than `smooth`)."""
    returns = np.random.default_rng(0).normal(size=7)
    add_run(tmp_path / "run", returns)
    plot_data(get_datasets(tmp_path), smooth=smooth, ax=ax)
    ones, window = np.ones(7), np.ones(smooth)
    expected = np.convolve(returns, window, "same") / np.convolve(ones, window, "same")
    np.testing.assert_allclose(curves(ax)["exp"], expected)


def test_smoothing_over_more_rows_than_there_are(tmp_path, ax):
    add_run(tmp_path / "run", [1.0, 2.0, 6.0])
    plot_data(get_datasets(tmp_path), smooth=100, ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], [3.0, 3.0, 3.0])


def test_blank_fields_are_neither_drawn_nor_averaged(tmp_path, ax):
    add_run(tmp_path / "a", [None, 2.0, "nan", 4.0])
    add_run(tmp_path / "b", [None, 4.0, 6.0, "inf"])
    add_run(tmp_path / "c", [None, None])
    plot_data(get_datasets(tmp_path), ax=ax)
    np.testing.assert_allclose(curves(ax)["exp"], [3.0, 6.0, 4.0])


@pytest.mark.parametrize(
    ("style", "xaxis", "offset", "ticks"),
    [
        ("paper", "TotalEnvInteracts", "", ["0", "4k", "8k", "12k"]),
        ("spinup", "TotalEnvInteracts", "1e4", ["0.0", "0.4", "0.8", "1.2"]),
        ("paper", "Epoch", "", ["0", "1", "2"]),
        ("spinup", "Epoch", "", ["0", "1", "2"]),
    ],
)
def test_large_numbers_are_short(tmp_path, ax, style, xaxis, offset, ticks):
    add_run(tmp_path / "run")
    plot_data(get_datasets(tmp_path), xaxis=xaxis, style=style, ax=ax)
    ax.set_xticks([0, 4000, 8000, 12000] if xaxis != "Epoch" else [0, 1, 2])
    ax.figure.canvas.draw()
    assert ax.xaxis.get_offset_text().get_text() == offset
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ticks


@pytest.mark.parametrize(
    ("xaxis", "value", "labels"),
    [
        ("TotalEnvInteracts", "Performance", ("Environment steps", "Average return")),
        ("Epoch", "AverageEpRet", ("Epoch", "Average return")),
        ("AverageEpRet", "Epoch", ("Average return", "Epoch")),
    ],
)
def test_labels(tmp_path, ax, xaxis, value, labels):
    add_run(tmp_path / "run")
    plot_data(get_datasets(tmp_path), xaxis, value, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels


@pytest.mark.parametrize("names", [["a"], ["W" * 20] * 3, ["short"] * 14, ["W" * 200, "a"]])
def test_the_legend_is_within_the_figure_and_above_the_axes(tmp_path, names):
    for i, name in enumerate(names):
        add_run(tmp_path / f"{i}", exp_name=f"{name}{i}")
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    ax = plot_data(get_datasets(tmp_path), ax=figure.subplots())
    figure.draw_without_rendering()
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert figure.bbox.x0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert axes.y1 <= legend.y0 < legend.y1 <= figure.bbox.y1
    assert axes.height > 200  # the figure has grown by what the legend takes


def test_runs_of_one_epoch_are_seen(tmp_path, ax):
    add_run(tmp_path / "one", [3.0], exp_name="one")
    add_run(tmp_path / "two", [1.0, 2.0], exp_name="two")
    plot_data(get_datasets(tmp_path), ax=ax)
    markers = {len(line.get_xdata()): line.get_marker() for line in ax.lines}
    assert (markers[1], markers[2]) == ("o", "None")


# ---------------------------------------------------------------- the command


def test_savefig_one_file_or_one_for_each_value(data, capsys):
    main(["data", "--savefig", "one.png"])
    main(["data", "-y", "Performance", "Epoch", "--count", "-s", "2", "--savefig", "two.v1.pdf"])
    written = sorted(path.name for path in data.parent.glob("*.p*"))
    assert written == ["one.png", "two.v1_Epoch.pdf", "two.v1_Performance.pdf"]
    assert (data.parent / "one.png").read_bytes().startswith(b"\x89PNG")
    assert "Saved two.v1_Epoch.pdf" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--savefig", "x.xyz"], r"to x.xyz: its name must end in one of .png, .svg, .pdf"),
        (["--savefig", "x"], "to x: its name must end"),
        (["--savefig", "no/such/x.png"], "to no/such/x.png: there is no directory no/such"),
        (["--savefig", "dir.png"], "to dir.png: it is a directory"),
        (["--savefig", "x.png", "--errorbar", "sem"], "no interval 'sem'.*from sd, se, ci, none"),
        (["--savefig", "x.png", "--est", "std", "--errorbar", "sd"], "std of the runs has no inte"),
        (["--savefig", "x.png", "--by", "seed"], "Cannot make a panel by 'seed'; there is 'env'"),
        (["--savefig", "x.png", "--style", "x"], "no style 'x'; choose from paper, spinup"),
        (["--savefig", "x.png", "--watch", "0"], "every 0.0 seconds; give more than 0"),
        (["--table", "x.txt"], "must end in .md .* or .csv. .Directories with runs come before"),
        (["--table", "no/x.md"], "to no/x.md: there is no directory no"),
        (["--watch"], "no display .* --savefig FILE"),
        (["--savefig", "x.png", "--est", "system"], "no estimator 'system'; choose from mean, me"),
        (["--savefig", "x.png", "--smooth", "0"], "Cannot smooth over 0 rows"),
        ([], "no display .* --savefig FILE"),  # the backend of this process is Agg
    ],
)
def test_bad_arguments(data, arguments, message):
    (data.parent / "dir.png").mkdir()
    with pytest.raises(UserError, match=message):
        main(["data", *arguments])
    assert not (data.parent / "x.png").exists()


def test_without_a_directory_the_command_explains_itself(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    assert "required: logdir" in capsys.readouterr().err


def test_windows_are_shown(data, monkeypatch):
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    make_plots(["data"], values=["Performance", "Epoch"])
    assert len(shown) == 2
    plt.close("all")


def test_help_needs_neither_tensorflow_nor_seaborn():
    code = (
        "import sys; from spinup_tf2.cli.plot import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: sys.exit(bool({'tensorflow', 'seaborn', 'pandas'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
