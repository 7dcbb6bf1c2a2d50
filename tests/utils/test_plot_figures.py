"""Whole figures: panels, legends, styles, files, and watching runs that go on."""

import os
import re
import signal
import subprocess
import sys
import time

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from spinup_tf2.cli.plot import main
from spinup_tf2.errors import UserError
from spinup_tf2.results import look
from spinup_tf2.utils import plot
from tests.results.runs import add_run, spinning_up_run

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
    figures = {}
    monkeypatch.setattr(look, "save_figure", lambda fig, path: figures.update({str(path): fig}))
    return figures


def legend_of(figure):
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


# ---------------------------------------------------------------- panels


def test_a_panel_for_each_environment_with_one_legend(data, saved):
    main(["data", "--by", "env", "--savefig", "x.png"])
    left, right = saved["x.png"].axes
    assert (left.get_title(), right.get_title()) == ("Acrobot-v1", "CartPole-v1")
    assert (left.get_ylabel(), right.get_ylabel()) == ("Average return", "")
    assert (left.get_xlabel(), right.get_xlabel()) == ("Environment steps",) * 2
    for ax in (left, right):
        assert [line.get_label() for line in ax.lines] == ["ppo", "vpg"]
        assert len(ax.collections) == 2
        assert ax.get_legend() is None
    assert [line.get_color() for line in left.lines] == [line.get_color() for line in right.lines]
    assert legend_of(saved["x.png"]) == ["ppo", "vpg"]


def test_without_panels_the_names_stay(data, saved):
    main(["data", "--savefig", "x.png"])
    [ax] = saved["x.png"].axes
    names = [f"{name}_env{env.lower()}" for name in ("ppo", "vpg") for env in sorted(ENVS)]
    assert legend_of(saved["x.png"]) == [line.get_label() for line in ax.lines] == names


def test_experiments_in_some_of_the_environments_keep_their_colours(data, saved):
    add_run(data / "sac" / "sac_s0", exp_name="sac", env_name="CartPole-v1")
    add_run(data / "who" / "who_s0", exp_name="ppo")
    main(["data", "--by", "env", "--savefig", "x.png"])
    panels = {ax.get_title(): ax for ax in saved["x.png"].axes}
    assert [*panels] == ["Acrobot-v1", "CartPole-v1", "unknown environment"]
    lines = [line for ax in panels.values() for line in ax.lines]
    colors = {(line.get_label(), line.get_color()) for line in lines}
    assert len(lines) == 6
    assert len(colors) == len({color for _, color in colors}) == 3
    assert [line.get_label() for line in panels["unknown environment"].lines] == ["ppo"]
    assert legend_of(saved["x.png"]) == ["ppo", "vpg", "sac"]


def test_environments_without_the_column_have_no_panel(data, saved, capsys):
    header = ("Entropy", "LossPi", "TotalEnvInteracts")
    add_run(data / "loss", header=header, exp_name="loss", env_name="Ant-v5")
    main(["data", "--by", "env", "--savefig", "x.png"])
    assert [ax.get_title() for ax in saved["x.png"].axes] == sorted(ENVS)
    main(["data", "--by", "env", "-y", "LossPi", "--savefig", "y.png"])
    assert [ax.get_title() for ax in saved["y.png"].axes] == ["Ant-v5"]


def test_a_curve_of_several_environments_is_warned_of(data, saved, capsys):
    main(["data", "-l", "all", "--savefig", "x.png"])
    out = capsys.readouterr().out
    assert "Warning: all has runs of Acrobot-v1, CartPole-v1 in one curve; --by env" in out
    for apart in (["--savefig", "x.png", "--by", "env"], ["--table"]):
        main(["data", "-l", "all", *apart])
        assert "Warning" not in capsys.readouterr().out


def test_a_curve_of_several_settings_is_warned_of(tmp_path, saved, capsys):
    common = dict(exp_name="cmd_ppo", env_name="CartPole-v1", ac_kwargs={"hidden_sizes": [64]})
    own = dict(env_fn="<function make at 0x7f1>", actor_critic="<class Net at 0x7f2>", lam=0.97)
    add_run(tmp_path / "monday" / "s0", **common, **own, gamma=0.99, seed=0, epochs=3)
    own["actor_critic"] = "<class Net at 0x7f3>"
    add_run(tmp_path / "monday" / "s1", **common, **own, gamma=0.99, seed=1, epochs=9)
    main([f"{tmp_path}/monday/", "--savefig", "x.png"])
    assert "Warning" not in capsys.readouterr().out
    common["ac_kwargs"] = {"hidden_sizes": [32]}
    add_run(tmp_path / "friday" / "s0", **common, gamma=0.9, seed=0, new_option=1)
    main([f"{tmp_path}/monday/", f"{tmp_path}/friday/", "--savefig", "x.png"])
    out = capsys.readouterr().out
    assert "Warning: the runs of cmd_ppo differ in ac_kwargs, gamma, and count as one" in out
    for where in (["--savefig", "x.png", "--by", "env"], ["--table"], ["--table", "--count"]):
        main([f"{tmp_path}/monday/", f"{tmp_path}/friday/", *where])
        assert (
            "Warning: the runs of cmd_ppo in CartPole-v1 differ in ac_kwargs, gamma, and count"
        ) in capsys.readouterr().out
    main([f"{tmp_path}/monday/", f"{tmp_path}/friday/", "-l", "a", "b", "--savefig", "x.png"])
    assert "Warning" not in capsys.readouterr().out


def test_arguments_of_the_environment_are_settings_and_resume_is_none(tmp_path, saved, capsys):
    def add(seed, env_kwargs, **config):
        env_fn = f"EnvFn(env_name='CartPole-v1', env_kwargs={env_kwargs})"
        add_run(tmp_path / f"x_s{seed}", exp_name="x", env_fn=env_fn, seed=seed, **config)

    add(0, {"a": (1, 2)}, resume=False)
    add(1, {"a": (1, 2)}, resume=True)
    main([f"{tmp_path}/", "--savefig", "x.png"])
    assert "Warning" not in capsys.readouterr().out
    add(2, None, resume=False)
    main([f"{tmp_path}/", "--savefig", "x.png"])
    assert "Warning: the runs of x differ in env_kwargs, and" in capsys.readouterr().out


def test_several_algorithms_are_not_one_experiment(tmp_path, saved, capsys):
    common = dict(exp_name="x", env_name="CartPole-v1")
    add_run(tmp_path / "x_s0", **common, clip_ratio=0.2, train_v_iters=80)
    add_run(tmp_path / "x_s1", **common, train_v_iters=80)
    add_run(tmp_path / "x_s2", **common)  # whose algorithm nothing tells
    main([f"{tmp_path}/x_s0", f"{tmp_path}/x_s1", "--savefig", "x.png"])
    assert "Warning: the runs of x differ in algorithm, and" in capsys.readouterr().out
    main([f"{tmp_path}/x_s1", f"{tmp_path}/x_s2", "--savefig", "x.png"])
    assert "Warning" not in capsys.readouterr().out


def test_one_text_may_stand_for_a_list_of_one(data):
    runs = {
        run.attrs["path"]
        for run in plot.get_all_datasets("data/", select="ppo", exclude="acrobot", legend="mine")
    }
    expected = plot.get_all_datasets(["data/"], select=["ppo"], exclude=["acrobot"])
    assert runs == {run.attrs["path"] for run in expected}
    assert len(runs) == 2


def test_names_that_begin_with_an_underscore(tmp_path):
    """Matplotlib leaves lines of such names out of its legends."""
    add_run(tmp_path / "a", exp_name="_a")
    for style in look.STYLES:
        _, ax = plt.subplots()
        plot.plot_data(plot.get_datasets(tmp_path), style=style, ax=ax)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_a"]
        plt.close()


def test_titles_stay_as_they_were_given(data, capsys):
    main(["data/ppo", "-l", "ppo_acrobot-v1", "ppo_cartpole-v1", "--table"])
    table = capsys.readouterr().out
    assert "| ppo_acrobot-v1 " in table
    assert "| ppo_cartpole-v1 " in table


def test_smoothing_is_checked_for_tables_too(data, saved, capsys):
    with pytest.raises(UserError, match="Cannot smooth over 0 rows"):
        main(["data/ppo", "--smooth", "0", "--table"])
    main(["data/ppo", "--smooth", "2", "--count", "--table"])
    out = capsys.readouterr().out
    for name in ("smooth", "count"):
        assert f"Warning: {name} is of figures, and has no effect on the table." in out
    main(["data/ppo", "--smooth", "2", "--count", "--table", "--savefig", "x.png"])
    assert "has no effect" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (8, 2, 4), (9, 3, 3)]
)
def test_the_grid_of_panels(number, rows, columns):
    figure = Figure()
    axes = look.panels(figure, number, "paper")
    grid = axes[0].get_gridspec()
    assert (len(axes), grid.nrows, grid.ncols) == (number, rows, columns)
    assert figure.get_figwidth() <= 17


def test_every_run_of_spinning_up_is_read(tmp_path, saved, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        for env in ("hopper-v2", "ant-v2"):
            name = f"ppo-pyt_env{env}"
            spinning_up_run(tmp_path / f"d/{name}/{name}_s{seed}", exp_name=name, seed=seed)
    main(["d", "--by", "env", "--errorbar", "ci", "--est", "median", "--savefig", "x.png"])
    assert [ax.get_title() for ax in saved["x.png"].axes] == ["ant-v2", "hopper-v2"]
    assert legend_of(saved["x.png"]) == ["ppo-pyt"]


# ---------------------------------------------------------------- the look


def test_styles(data, saved):
    main(["data", "--savefig", "paper.png"])
    main(["data", "--savefig", "spinup.png", "--style", "spinup"])
    [paper], [spinup] = saved["paper.png"].axes, saved["spinup.png"].axes
    assert paper.get_facecolor() == (1, 1, 1, 1)
    assert spinup.get_facecolor() != (1, 1, 1, 1)
    assert paper.xaxis.label.get_size() < spinup.xaxis.label.get_size()
    assert paper.get_legend() is None
    assert spinup.get_legend() is not None
    assert spinup.get_legend().get_draggable()
    assert saved["spinup.png"].legends == []


def test_colours_beyond_the_palette_differ(tmp_path, saved, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i in range(14):
        add_run(tmp_path / f"d/{i}", exp_name=f"e{i}")
    main(["d", "--savefig", "x.png"])
    [ax] = saved["x.png"].axes
    assert len({line.get_color() for line in ax.lines}) == 14


@pytest.mark.parametrize("names", [["a"], ["W" * 20] * 3, ["short"] * 14, ["W" * 300, "a"]])
@pytest.mark.parametrize("by", [None, "env"])
def test_the_shared_legend_is_within_the_figure_and_above_the_axes(
    tmp_path, saved, monkeypatch, names, by
):
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(names):
        for env in ENVS:
            add_run(tmp_path / f"d/{i}{env}", exp_name=f"{name}{i}", env_name=env)
    plot.make_plots(["d"], savefig="x.png", by=by)
    figure = saved["x.png"]
    figure.draw_without_rendering()
    [legend] = figure.legends
    extent = legend.get_window_extent()
    assert -1 <= extent.x0 < extent.x1 <= figure.bbox.x1 + 1
    for ax in figure.axes:
        axes = ax.get_tightbbox()  # with its title
        assert axes.y1 <= extent.y0 + 1
        assert extent.y1 <= figure.bbox.y1 + 1
        assert ax.get_window_extent().height > 150


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "begin"), [("x.png", b"\x89PNG"), ("x.SVG", b"<?xml"), ("x.pdf", b"%PDF")]
)
def test_the_same_curves_are_the_same_file(data, name, begin):
    main(["data", "--savefig", name])
    with open(name, "rb") as file:
        first = file.read()
    assert first.startswith(begin)
    main(["data", "--savefig", name])
    with open(name, "rb") as file:
        assert file.read() == first
    assert sorted(os.listdir()) == ["data", name]


def test_a_figure_that_cannot_be_written_leaves_the_old_one(data, monkeypatch):
    main(["data", "--savefig", "x.png"])
    before = (data.parent / "x.png").read_bytes()

    def full(figure, path, **kwargs):
        with open(path, "w") as file:
            file.write("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(UserError, match=r"Cannot write the plot to x.png: No space left"):
        main(["data", "--savefig", "x.png"])
    assert (data.parent / "x.png").read_bytes() == before
    assert sorted(os.listdir()) == ["data", "x.png"]


# ---------------------------------------------------------------- watching


def append_row(path, epoch, ret):
    with open(path, "a") as file:
        file.write(f"{epoch}\t{ret}\t{4000 * (epoch + 1)}\n")


def test_watch_draws_what_has_changed_and_nothing_else(tmp_path, saved, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = add_run(tmp_path / "d/run", [], exp_name="run")
    drawn, looks = [], []

    def look_again(seconds):
        """What happens between two looks."""
        drawn.append([len(line.get_xdata()) for ax in figures() for line in ax.lines])
        looks.append(seconds)
        if len(looks) == 1:
            append_row(run / "progress.txt", 0, 1.0)
        elif len(looks) == 2:
            append_row(run / "progress.txt", 1, 2.0)
        elif len(looks) == 4:
            add_run(tmp_path / "d/new", exp_name="new")
        elif len(looks) == 5:
            os.rename("d", "elsewhere")
        elif len(looks) == 6:
            os.rename("elsewhere", "d")
        elif len(looks) == 7:
            raise KeyboardInterrupt

    def figures():
        return saved["x.png"].axes if saved else []

    monkeypatch.setattr(time, "sleep", look_again)
    main(["d", "--savefig", "x.png", "--watch", "2.5"])
    assert looks == [2.5] * 7
    assert drawn == [[], [1], [2], [2], [3, 2], [3, 2], [3, 2]]
    out = capsys.readouterr().out
    assert out.startswith("Looking for new results every 2.5 s; Ctrl-C ends it.\n")
    assert re.search(r"\d\d:\d\d:\d\d: No run with results .* in d. Waiting for it.\n", out)
    assert re.search(r"\d\d:\d\d:\d\d: No directory .* begins with 'd'.* Waiting for it.\n", out)
    assert out.count("up to date") == 4
    assert out.count("Plotting from") == 1
    assert out.endswith("Stopped watching.\n")


def test_watch_goes_on_when_a_new_directory_has_no_title(tmp_path, saved, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    add_run(tmp_path / "d/a", exp_name="a")
    looks = []

    def look_again(seconds):
        looks.append(len(saved["x.png"].axes[0].lines))
        if len(looks) == 1:
            add_run(tmp_path / "d/a2", exp_name="a2")
        elif len(looks) == 3:
            os.rename("d/a2", "a2")
            append_row(tmp_path / "d/a/progress.txt", 5, 9.0)
        elif len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", look_again)
    main(["d/a", "--legend", "A", "--savefig", "x.png", "--watch", "1"])
    out = capsys.readouterr().out
    assert looks == [1, 1, 1, 1]
    assert out.count("Must give a legend title") == 1
    assert "Still watching." in out
    assert out.count("up to date") == 2


@pytest.mark.parametrize("seconds", ["0", "nan", "inf", "1e12"])
def test_watch_refuses_what_is_no_time_to_wait(data, seconds):
    with pytest.raises(UserError, match=r"every .* seconds; give more than 0, and at most 86400"):
        main(["data", "--savefig", "x.png", "--watch", seconds])


def test_watch_refuses_what_it_cannot_draw_at_once(data):
    for arguments, message in (
        (["nowhere/x", "--savefig", "x.png"], "no directory nowhere"),
        (["data", "-y", "Reward", "--savefig", "x.png"], "no column|No run has a column 'Reward'"),
    ):
        with pytest.raises(UserError, match=message):
            main([*arguments, "--watch", "0.01"])


def test_watch_in_a_window_ends_when_it_is_closed(data, monkeypatch, capsys):
    pauses = []

    def pause(seconds):
        pauses.append(len(plt.get_fignums()))
        if len(pauses) == 2:
            plt.close("all")

    monkeypatch.setattr(plt, "pause", pause)
    plot.make_plots(["data"], values=["Performance", "Epoch"], watch=1)
    assert pauses == [2, 2]
    assert capsys.readouterr().out.endswith("Stopped watching.\n")


def test_watch_ends_cleanly_on_ctrl_c(data):
    command = ["-m", "spinup_tf2.run", "plot", "data", "--savefig", "x.png", "--watch", "0.1"]
    with subprocess.Popen(
        [sys.executable, "-u", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if "up to date" in line:
                break
        before = (data.parent / "x.png").stat().st_ino
        append_row(next(data.rglob("progress.txt")), 5, 9.0)
        assert "up to date" in process.stdout.readline()
        assert (data.parent / "x.png").stat().st_ino != before  # a new file in the place of it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "Stopped watching.\n", "")


def test_directories_after_watch(data, capsys):
    with pytest.raises(SystemExit):
        main(["--savefig", "x.png", "--watch", "data"])
    message = "'data' is not a number of seconds (directories with runs come before --watch)"
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- many runs


@pytest.mark.slow
def test_many_runs_are_plotted_quickly(tmp_path, saved, monkeypatch):
    """Of processor time: 300 runs of 500 rows with 20 columns in less than 15 seconds."""
    monkeypatch.chdir(tmp_path)
    columns = ["Epoch", "AverageEpRet", "TotalEnvInteracts", *(f"C{i}" for i in range(17))]
    rest = "\t".join(map(str, np.random.default_rng(0).normal(size=17)))
    returns = np.random.default_rng(1).normal(size=(300, 500))
    for i, row in enumerate(returns):
        run = tmp_path / f"d/e{i // 10}/s{i}"
        run.mkdir(parents=True)
        (run / "config.json").write_text(f'{{"exp_name": "e{i // 10}"}}')
        lines = [f"{n}\t{ret}\t{4000 * (n + 1)}\t{rest}" for n, ret in enumerate(row)]
        (run / "progress.txt").write_text("\n".join(["\t".join(columns), *lines]) + "\n")
    start = time.process_time()
    main(["d", "--errorbar", "ci", "--est", "iqm", "--savefig", "x.png"])
    assert time.process_time() - start < 15
    assert len(saved["x.png"].axes[0].lines) == 30
