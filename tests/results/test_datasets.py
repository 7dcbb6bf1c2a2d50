"""Which runs are found, and what becomes of damaged and unfinished ones."""

import math
import os

import numpy as np
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.results.datasets import get_all_datasets, get_datasets, numbers
from spinup_tf2.results.ls import find_runs
from spinup_tf2.results.statistics import get_curves
from tests.results.runs import add_run


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three experiments with two runs each, in ./data."""
    for name in ("ppo", "ppo_big", "my_ppo"):
        for seed in range(2):
            add_run(tmp_path / "data" / name / f"{name}_s{seed}", exp_name=name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def conditions(datasets, column="Condition1"):
    return [data[column].iloc[0] for data in datasets]


ALL = ["my_ppo", "my_ppo", "ppo", "ppo", "ppo_big", "ppo_big"]


@pytest.mark.parametrize(
    ("logdir", "found"),
    [
        ("data/ppo", ["ppo", "ppo", "ppo_big", "ppo_big"]),  # a beginning; not my_ppo
        ("data/ppo/", ["ppo", "ppo"]),
        ("data/ppo/ppo_s1", ["ppo"]),
        ("dat", ALL),
        (".", ALL),
        ("data/..", ALL),
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
    ("logdirs", "legend", "found"),
    [
        (["data/ppo", "data/ppo_big"], ["A", "B"], list("AABB")),  # data/ppo stands for both
        (["data/ppo", "./data/../data/ppo/", "data/ppo_big/"], ["A", "B"], list("AABB")),
        (["data", "data/ppo_big", "data/ppo/ppo_s1"], None, ALL),
        (["data/ppo/", "data/ppo/ppo_s1"], ["both", "one"], ["both", "both", "one"]),
    ],
)
def test_what_is_found_twice_counts_once_for_each_title(data, logdirs, legend, found):
    datasets = get_all_datasets(logdirs, legend)
    assert conditions(datasets) == found
    assert conditions(datasets, "Unit") == list(range(len(found)))


@pytest.mark.parametrize(
    ("logdirs", "arguments", "found"),
    [
        (["data/ppo", "data/my"], dict(select=["ppo", "big"]), ["ppo_big"] * 2),
        (["data/ppo", "data/my"], dict(exclude=["big", "my"]), ["ppo"] * 2),
        (["data/"], dict(exclude=["ppo_big"]), ["my_ppo"] * 2 + ["ppo"] * 2),
        ("data/", dict(select="my_ppo_s1", exclude="big", legend="mine"), ["mine"]),
        # Only directories of which runs are left need a title.
        (["data/ppo", "data/my"], dict(legend=["A", "B", "B"]), list("AABBBB")),
        (["data/ppo/", "data/my_ppo/"], dict(exclude=["my"], legend=["A"]), ["A"] * 2),
    ],
)
def test_select_exclude_and_legend(data, logdirs, arguments, found):
    (data / "my_notes").mkdir()  # no run is in it
    assert conditions(get_all_datasets(logdirs, **arguments)) == found


@pytest.mark.parametrize(
    ("logdir", "arguments", "message"),
    [
        ("data/xyz", {}, "There is no directory data/xyz, and none whose name begins like that"),
        ("nowhere/", {}, "no directory nowhere/"),
        ("empty", {}, r"No run with results \(progress.txt\) is left in empty"),
        ("data/", dict(select=["Big"]), "No run with results"),
        ("data/ppo", dict(legend=["A"]), "a legend title for each set .*1 titles for 2 dir"),
    ],
)
def test_what_is_not_there(data, logdir, arguments, message):
    (data.parent / "empty").mkdir()
    with pytest.raises(UserError, match=message):
        get_all_datasets([logdir], **arguments)


def test_links_are_not_followed(tmp_path):
    """In a stranger's data, they may lead anywhere; what they lead to in the directory counts."""
    data = tmp_path / "data"
    real = add_run(data / "z" / "ppo" / "ppo_s0", exp_name="ppo").parent
    (data / "a").symlink_to(real)
    (real / "back").symlink_to(data)  # round and round
    add_run(tmp_path / "elsewhere" / "ppo_s2", exp_name="ppo")
    (data / "out").symlink_to(tmp_path / "elsewhere")
    paths = [run.attrs["path"] for run in get_datasets(data)]
    assert paths == [str(real / "ppo_s0")]
    assert [run.path for run in find_runs(data)] == paths


# ---------------------------------------------------------------- damaged and unfinished runs


def test_damaged_rows_are_skipped_and_counted_and_text_is_no_number(tmp_path, capsys):
    run = add_run(tmp_path / "run", [1.0, 2.0, "#!", 4.0, None, "nan"], exp_name="run")
    lines = (run / "progress.txt").read_text().splitlines()
    lines[2:2] = ["1\t2.0", "1\t2.0\t8000\t", "\0" * 30]
    lines.append("6\t4.0\t160")  # of 16000, which is still being written
    (run / "progress.txt").write_text("\n".join(lines))
    (table,) = get_datasets(run)
    assert list(table["Epoch"]) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(numbers(table["Performance"]), [1, 2, np.nan, 4, np.nan, np.nan])
    expected = f"Skipped 3 rows of {run}/progress.txt with a wrong number of fields\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"Epoch\tAverageEpRet\n",
        b"Epoch\tAver",
        bytes(range(256)),
        b"\t" * 10_000 + b"\n" + b"1\t" * 10_000 + b"\n",
    ],
)
def test_runs_without_rows_are_left_out(tmp_path, capsys, contents):
    add_run(tmp_path / "good", exp_name="good")
    bad = add_run(tmp_path / "bad", exp_name="bad")
    (bad / "progress.txt").write_bytes(contents)
    assert conditions(get_datasets(tmp_path)) == ["good"]
    assert f"Could not read from {bad}/progress.txt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "Without its settings: {run} ([Errno 2]"),
        ("[1]", "Without its settings: {run} ({run}/config.json is not a JSON object)\n"),
        ('{"exp_name": null}', ""),
    ],
)
def test_without_a_name_the_runs_are_called_exp(tmp_path, capsys, config, said):
    run = add_run(tmp_path / "run")
    if config is not None:
        (run / "config.json").write_text(config)
    assert conditions(get_datasets(run)) == ["exp"]
    assert capsys.readouterr().out.startswith(said.format(run=run))


@pytest.mark.parametrize(
    ("header", "rows", "performance"),
    [
        (("AverageTestEpRet", "AverageEpRet"), ["1\t3.0", "2\t4.0"], [1, 2]),
        (("AverageTestEpRet", "AverageEpRet"), ["\t3.0", "\t4.0"], [3, 4]),  # no tests
        (("Epoch", "AverageEpRet"), ["1\t3.0", "2\t4.0"], [3, 4]),
        (("Epoch", "LossPi"), ["1\t3.0", "2\t4.0"], None),
    ],
)
def test_performance_is_the_test_return_if_there_is_one(tmp_path, header, rows, performance):
    path = add_run(tmp_path / "run") / "progress.txt"
    path.write_text("\n".join(["\t".join(header), *rows, ""]))
    [table], [run] = get_datasets(tmp_path), find_runs(tmp_path)
    assert (list(table["Performance"]) if "Performance" in table else None) == performance
    assert run.last == (performance[-1] if performance else None)


def test_a_run_without_tests_so_far_is_not_mixed_with_tested_ones(tmp_path, capsys):
    for name, test in (("ddpg_s0", "100.0"), ("ddpg_s1", ""), ("td3_s0", "")):
        run = add_run(tmp_path / name, exp_name=name.partition("_")[0])
        header = "AverageTestEpRet\tAverageEpRet\tTotalEnvInteracts"
        (run / "progress.txt").write_text(f"{header}\n{test}\t10.0\t4000\n")
    runs = get_datasets(tmp_path)
    performance = [(*run["Condition1"], *run["Performance"]) for run in runs]
    # No run of td3 is tested: its returns in training are all there is.
    np.testing.assert_equal(performance, [("ddpg", 100.0), ("ddpg", math.nan), ("td3", 10.0)])
    young = os.path.join(tmp_path, "ddpg_s1")
    assert f"Left out of Performance: {young} has no test" in capsys.readouterr().out
    assert get_curves(runs)["ddpg"].estimate == [100]
    np.testing.assert_array_equal(get_curves(runs, value="AverageEpRet")["ddpg"].estimate, [10])
