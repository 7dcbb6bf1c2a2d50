"""Tables of final performance."""

import csv
import os

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.results import figures
from spinup_tf2.results.plot import main
from spinup_tf2.utils.plot import final_performance, get_datasets
from tests.results.runs import add_run


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """A grid of two environments, three seeds each, of 20 epochs; and one run more."""
    monkeypatch.chdir(tmp_path)
    for env, level in (("Ant-v5", 0.0), ("Hopper-v5", 1000.0)):
        for seed in range(3):
            name = f"ppo_env{env.lower()}"
            add_run(
                tmp_path / "data" / name / f"{name}_s{seed}",
                [*np.zeros(18), level + seed, level + 3 * seed],
                exp_name=name,
                env_fn=f"EnvFn(env_name='{env}', env_kwargs=None)",
            )
    add_run(tmp_path / "data" / "sac", [None, -0.5, None], exp_name="a|b", env_name="Ant-v5")
    return get_datasets("data")


FINALS = np.array([0.0, 2.0, 4.0])  # of the seeds: means of the last two rows


def test_final_performance(grid):
    expected = pd.DataFrame(
        [
            ("Performance", "Ant-v5", "a|b", -0.5, np.nan, np.nan, 1),
            ("Performance", "Ant-v5", "ppo", 2.0, 0.0, 4.0, 3),
            ("Performance", "Hopper-v5", "ppo", 1002.0, 1000.0, 1004.0, 3),
        ],
        columns=["value", "environment", "experiment", "estimate", "low", "high", "seeds"],
    )
    assert np.std(FINALS, ddof=1) == 2
    pd.testing.assert_frame_equal(final_performance(grid), expected)
    best = final_performance(grid, "Performance", "max", "ci").iloc[2]
    # Of three runs the best is missing in (2/3)^3 = 30 % of the resamples, the two best in 4 %.
    assert (best["estimate"], best["low"], best["high"]) == (1004, 1000, 1004)
    several = final_performance(grid, ["Performance", "Epoch"], errorbar="none")
    assert list(several["estimate"]) == [-0.5, 2, 1002, 2, 18.5, 18.5]
    assert several["low"].isna().all()


def test_experiments_keep_titles_and_long_names_where_short_ones_would_be_the_same(
    tmp_path, capsys
):
    add_run(tmp_path / "a", exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "b", exp_name="ppo_envant-v5", env_name="Ant-v5")
    table = final_performance(get_datasets(tmp_path))
    assert list(table["experiment"]) == ["ppo", "ppo_envant-v5"]
    main([f"{tmp_path}/b/", "-l", "x_ant-v5", "--table"])
    assert "| x_ant-v5 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("errorbar", "heading", "interval"),
    [("sd", "SD", "2"), ("se", "SE", "1.155"), ("ci", "95 % CI", "[0, 4]")],
)
def test_markdown(grid, errorbar, heading, interval):
    table = final_performance(grid, errorbar=errorbar)
    lines = figures.markdown(table, errorbar=errorbar).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    assert cells[0] == ["| Environment", "Experiment", "Average return (mean)", heading, "Seeds |"]
    assert cells[2][1:] == ["a\\|b", "-0.5", "-", "1 |"]
    assert cells[3][1:] == ["ppo", "2", interval, "3 |"]


def test_tables_are_printed_or_written(grid, tmp_path, capsys):
    main(["data", "--table", "--est", "iqm", "--errorbar", "none"])
    out = capsys.readouterr().out
    assert "| Environment | Experiment | Average return (IQM) | Seeds |\n" in out
    assert "| Hopper-v5   | ppo        |                 1002 |     3 |\n" in out
    main(["data", "--by", "env", "--table", "t.csv", "--savefig", "f.svg", "--errorbar", "se"])
    assert "Saved t.csv" in capsys.readouterr().out
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[2]["experiment"] == "ppo"
    assert (rows[2]["estimator"], rows[2]["errorbar"], rows[2]["seeds"]) == ("mean", "se", "3")
    assert float(rows[2]["high"]) - float(rows[2]["estimate"]) == pytest.approx(2 / np.sqrt(3))
    main(["data", "--table", "t.md"])
    assert "| Ant-v5      | ppo        |" in (tmp_path / "t.md").read_text()
    assert sorted(os.listdir()) == ["data", "f.svg", "t.csv", "t.md"]
    with pytest.raises(UserError, match="no numbers in column 'Reward' to make a table of"):
        final_performance(grid, "Reward")


def test_what_is_left_out_is_said(tmp_path, capsys):
    add_run(tmp_path / "a", [1.0] * 3, exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "b", [2.0] * 3000, exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "c", [None] * 3, exp_name="ppo", env_name="Hopper-v5")
    header = ("Epoch", "Loss", "TotalEnvInteracts")
    add_run(tmp_path / "d", [1.0] * 3, header=header, exp_name="sac", env_name="Ant-v5")
    (row,) = final_performance(get_datasets(tmp_path)).itertuples()
    assert (row.estimate, row.seeds) == (1.5, 2)
    assert capsys.readouterr().out.splitlines() == [
        f"Left out of the table: {tmp_path / name} has no numbers in column 'Performance'."
        for name in "cd"
    ]
