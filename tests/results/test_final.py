"""Tables of final performance."""

import csv

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.cli.plot import main
from spinup_tf2.errors import UserError
from spinup_tf2.results.final import final_performance, markdown
from spinup_tf2.utils.plot import get_datasets
from tests.results.runs import add_run, spinning_up_run


@pytest.fixture
def runs(tmp_path, monkeypatch, capsys):
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


def test_final_performance(runs):
    table = final_performance(runs)
    expected = pd.DataFrame(
        [
            ("Performance", "Ant-v5", "a|b", -0.5, np.nan, np.nan, 1),
            ("Performance", "Ant-v5", "ppo", 2.0, 0.0, 4.0, 3),
            ("Performance", "Hopper-v5", "ppo", 1002.0, 1000.0, 1004.0, 3),
        ],
        columns=["value", "environment", "experiment", "estimate", "low", "high", "seeds"],
    )
    assert np.std(FINALS, ddof=1) == 2
    pd.testing.assert_frame_equal(table, expected)


def test_estimate_and_interval_of_the_final_performance(runs):
    table = final_performance(runs, "Performance", "max", "ci")
    row = table[table["environment"] == "Hopper-v5"].iloc[0]
    # Of three runs the best is missing in (2/3)^3 = 30 % of the resamples, the two best in 4 %.
    assert (row["estimate"], row["low"], row["high"]) == (1004, 1000, 1004)


def test_several_values(runs):
    table = final_performance(runs, ["Performance", "Epoch"], errorbar="none")
    assert list(table["value"]) == ["Performance"] * 3 + ["Epoch"] * 3
    assert list(table["estimate"]) == [-0.5, 2, 1002, 2, 18.5, 18.5]
    assert table["low"].isna().all()


def test_experiments_whose_short_names_would_be_the_same_keep_the_long_ones(tmp_path):
    add_run(tmp_path / "a", exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "b", exp_name="ppo_envant-v5", env_name="Ant-v5")
    table = final_performance(get_datasets(tmp_path))
    assert list(table["experiment"]) == ["ppo", "ppo_envant-v5"]


@pytest.mark.parametrize(
    ("errorbar", "heading", "interval"),
    [("sd", "SD", "2"), ("se", "SE", "1.155"), ("ci", "95 % CI", "[0, 4]")],
)
def test_markdown(runs, errorbar, heading, interval):
    lines = markdown(final_performance(runs, errorbar=errorbar), errorbar=errorbar).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    assert cells[0] == ["| Environment", "Experiment", "Average return (mean)", heading, "Seeds |"]
    assert cells[2][1:] == ["a\\|b", "-0.5", "-", "1 |"]
    assert cells[3][1:] == ["ppo", "2", interval, "3 |"]


def test_table_is_printed_without_a_figure(runs, capsys):
    main(["data", "--table", "--est", "iqm", "--errorbar", "none"])
    out = capsys.readouterr().out
    assert "| Environment | Experiment | Average return (IQM) | Seeds |\n" in out
    assert "| Hopper-v5   | ppo        |                 1002 |     3 |\n" in out


def test_table_is_written_beside_the_figure(runs, tmp_path, capsys):
    main(["data", "--by", "env", "--table", "t.csv", "--savefig", "f.svg", "--errorbar", "se"])
    assert "Saved t.csv" in capsys.readouterr().out
    assert (tmp_path / "f.svg").exists()
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[2]["experiment"] == "ppo"
    assert (rows[2]["estimator"], rows[2]["errorbar"], rows[2]["seeds"]) == ("mean", "se", "3")
    assert float(rows[2]["high"]) - float(rows[2]["estimate"]) == pytest.approx(2 / np.sqrt(3))
    main(["data", "--table", "t.md"])
    assert "| Ant-v5      | ppo        |" in (tmp_path / "t.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "f.svg", "t.csv", "t.md"]


def test_columns_that_are_not_there(runs, tmp_path):
    with pytest.raises(UserError, match="No run has a column 'Reward'; there is Epoch"):
        main(["data", "--table", "t.md", "-y", "Performance", "Reward"])
    with pytest.raises(UserError, match="no numbers in column 'Reward' to make a table of"):
        final_performance(runs, "Reward")
    assert not (tmp_path / "t.md").exists()


def test_what_is_left_out_and_runs_of_different_lengths_are_said(tmp_path):
    add_run(tmp_path / "a", [1.0] * 3, exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "b", [2.0] * 3000, exp_name="ppo", env_name="Ant-v5")
    add_run(tmp_path / "c", [None] * 3, exp_name="ppo", env_name="Hopper-v5")
    header = ("Epoch", "Loss", "TotalEnvInteracts")
    add_run(tmp_path / "d", [1.0] * 3, header=header, exp_name="sac", env_name="Ant-v5")
    said: list[str] = []
    (row,) = final_performance(get_datasets(tmp_path), report=said.append).itertuples()
    assert (row.estimate, row.seeds) == (1.5, 2)
    warning, *left_out = said
    assert warning.startswith("Warning: runs of ppo in Ant-v5 end at 12,000 to 12,000,000 steps;")
    assert left_out == [
        f"Left out of the table: {tmp_path / name} has no numbers in column 'Performance'."
        for name in "cd"
    ]


def test_runs_of_spinning_up(tmp_path):
    for seed in range(2):
        spinning_up_run(tmp_path / f"s{seed}", [seed] * 3, exp_name="ppo_envant-v2", seed=seed)
    (row,) = final_performance(get_datasets(tmp_path)).itertuples(index=False)
    assert row[:4] == ("Performance", "ant-v2", "ppo", 0.5)
    assert row[4:] == pytest.approx((0.5 - 0.5**0.5, 0.5 + 0.5**0.5, 2))
