"""The learning benchmark: what it trains, collects, and says."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.algos import ALGORITHMS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SOURCE = "Spinning Up, TensorFlow 1"


with pytest.MonkeyPatch.context() as patched:
    patched.syspath_prepend(BENCHMARKS)
    import learning
    import learning_data as files
    import learning_figure
    import learning_statistics as statistics
    import learning_tables as tables


@pytest.fixture(autouse=True)
def results(monkeypatch, tmp_path):
    """Where results are written: not among those that are kept."""
    monkeypatch.setattr(files, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(files, "PAGE", tmp_path / "results.md")
    files.PAGE.write_text("before\n<!-- overview -->\nold\n<!-- end of overview -->\nafter\n")
    files.RESULTS.mkdir()
    return files.RESULTS


def protocol(**changes):
    small = dict(
        name="small",
        algorithms=["vpg"],
        environments=["HalfCheetah-v5"],
        seeds=[0, 1],
        steps=1_000_000,
        arguments=dict(steps_per_epoch=100_000),
        published=[SOURCE],
    )
    return files.Protocol(**{**small, **changes})


def rows(returns, algorithm="vpg", variant="", seed=0, environment="HalfCheetah-v5"):
    """What `collect` writes of a run of epochs of 100,000 steps."""
    return pd.DataFrame(
        {
            "algorithm": algorithm,
            "environment": environment,
            "variant": variant,
            "seed": seed,
            "interactions": 100_000 * np.arange(1, len(returns) + 1),
            "return": np.asarray(returns, float),
        }
    )


def test_every_protocol_names_what_exists():
    for each in files.protocols().values():
        assert {*each.algorithms} <= {*ALGORITHMS}
        surplus = -each.steps % each.arguments["steps_per_epoch"]
        assert surplus < each.steps / 100
        assert len({*each.runs()}) == len([*each.runs()])
        for source in each.published:
            known = [
                files.published(source, algorithm, environment)
                for algorithm in each.algorithms
                for environment in each.environments
            ]
            assert any(known)
            for cell in known:
                assert all(len(pair) == 2 and pair[1] > 0 for pair in cell.values())


def test_published_numbers():
    """Two that other sources confirm: Tianshou's reading of TD3 and SAC at 1,000,000 steps."""
    assert files.published("Spinning Up, PyTorch", "td3", "HalfCheetah-v5")[1_000_000][0] == 9755
    assert files.published("Spinning Up, PyTorch", "sac", "HalfCheetah-v5")[1_000_000] == (
        11496,
        792,
    )
    assert files.published(SOURCE, "a2c", "HalfCheetah-v5") == {}


def test_what_a_run_reaches_is_its_mean_over_the_last_tenth():
    data = pd.concat([rows(range(10), seed=0), rows([0] * 9 + [11], seed=1), rows([5] * 7, seed=2)])
    finals = statistics.performance(data, 1_000_000)
    assert finals.to_dict() == {
        ("vpg", "HalfCheetah-v5", "", 0): 9,
        ("vpg", "HalfCheetah-v5", "", 1): 11,
    }
    assert statistics.performance(data, 500_000).to_list() == [4, 0, 5]


def test_or_a_point_of_a_curve_that_is_smoothed_over_eleven_epochs():
    """Of which only six are left at the end."""
    returns = np.random.default_rng(0).normal(size=30)
    data = rows(returns)
    for epoch, window in (10, slice(4, 15)), (30, slice(24, 30)), (28, slice(22, 30)):
        [final] = statistics.performance(data, epoch * 100_000, "smoothed", 100_000)
        np.testing.assert_allclose(final, returns[window].mean())


def test_or_its_return_when_the_mean_over_the_runs_is_the_largest():
    """Not the largest return of each; and means over 30,000 steps."""
    first, second = rows([1, 9, 5, 0, 7], seed=0), rows([1, 2, 8, 0, 7], seed=1)
    alone = rows([3, 4, 2, 1, 9], "ppo")
    data = pd.concat([first, second, alone])
    finals = statistics.performance(data, 400_000, "largest")
    assert finals["vpg"].to_list() == [5, 8]
    assert finals["ppo"].to_list() == [4]
    data["interactions"] //= 10
    assert statistics.performance(data, 50_000, "largest")["vpg"].to_list() == [5, 11 / 3]


def test_cells_stand_beside_what_is_published():
    """VPG in HalfCheetah: -337 +- 71 at 500,000 steps, -183 +- 75 at 1,000,000."""
    flat = [-340] * 10 + [-300] * 10
    each = protocol(algorithms=["vpg", "ppo"], arguments=dict(steps_per_epoch=8_000))
    data = pd.concat([rows(flat, seed=seed) for seed in range(3)])
    data["interactions"] //= 2
    table = statistics.cells(each, data)  # PPO has no run
    assert table["mean"].to_list() == [-340, -300]
    assert table["seeds"].to_list() == [3, 3]
    verdicts = [statistics.verdict(row, SOURCE) for row in table.to_dict("records")]
    assert verdicts == ["within 1 sd", "below"]
    text = tables.markdown(each, table, data)
    assert "| vpg | 1,000,000 | -300 | -300 to -300 | 3 | -300, -300, -300 | -183 ± 75 |" in text
    assert "not finished" not in text


def test_the_pooled_difference_is_the_mean_of_those_of_the_environments():
    """At 3,000,000 steps VPG has 641 +- 361 in HalfCheetah, and 907 +- 150 in Hopper."""
    each = protocol(environments=["HalfCheetah-v5", "Hopper-v5", "Ant-v5"], steps=3_000_000)
    data = pd.concat(
        [
            *(rows([641 + 361] * 30, seed=seed) for seed in range(2)),
            rows([907 - 150 / 2] * 30, environment="Hopper-v5"),
        ]
    )
    [row] = statistics.pooled(each, statistics.cells(each, data)).to_dict("records")
    half = 1.96 * math.sqrt(1 / 2 + 1 / 10 + 1 + 1 / 10) / 2
    assert row["cells"] == 2
    np.testing.assert_allclose(
        [row["difference"], row["low"], row["high"]], [0.25, 0.25 - half, 0.25 + half]
    )
    text = tables.markdown(each, statistics.cells(each, data), data)
    assert f"| 2 | +0.25 ({0.25 - half:+.2f} to {0.25 + half:+.2f}) |" in text


def test_a_source_with_few_seeds_has_no_pooled_difference_and_its_own_measure():
    each = protocol(algorithms=["ppo"], published=["Tianshou", "CleanRL"])
    data = pd.concat([rows([0, 2000, *[1500] * 8], "ppo", seed=seed) for seed in range(3)])
    table = statistics.cells(each, data)
    assert statistics.pooled(each, table)["source"].to_list() == ["Tianshou"]
    assert "| 5784 ± 1244 | below | 1443 ± 46 | ours: 1500, above |" in tables.markdown(
        each, table, data
    )


def test_a_run_below_all_that_can_have_been_published_is_named():
    """No run of ten is further from their mean than three deviations: -183 - 3 * 75 = -408."""
    each = protocol()
    data = pd.concat([rows([final] * 10, seed=seed) for seed, final in enumerate([-410, 0, 0, 0])])
    text = tables.markdown(each, statistics.cells(each, data), data)
    assert "VPG in HalfCheetah-v5: 1 of 4 runs is below -408, as none of the 10 published" in text
    assert f"(p = {4 / 14:.2g})" in text
    better = data.assign(**{"return": data["return"] + 10})
    assert "published runs" not in tables.markdown(each, statistics.cells(each, better), better)


def test_the_overview_has_ours_above_the_published_ones(monkeypatch):
    each = protocol(environments=["HalfCheetah-v5", "Hopper-v5"], steps=3_000_000)
    monkeypatch.setattr(tables, "protocols", lambda: dict(small=each))
    assert tables.overview(["small"]) == "No run is finished.\n"
    data = pd.concat([rows([1002] * 30, seed=seed) for seed in range(3)])
    data.to_csv(files.file_of(each), index=False)
    ours, theirs, _, words = tables.overview(["small"]).splitlines()[2:]
    assert ours == "| VPG, 3M steps | ours (seeds) | 1002 (3) | - |  |"
    assert theirs.startswith("|  | TensorFlow 1 | 641 ± 361, above | 907 ± 150 | +1.00 (")
    assert words.startswith("Better, with an interval above 0: none. No difference shown, with")
    assert "around 0: VPG (TensorFlow 1)." in words
    monkeypatch.setattr(learning_figure, "protocols", lambda: dict(small=each))
    learning_figure.overview(["small"], files.RESULTS / "overview.svg")
    text = (files.RESULTS / "overview.svg").read_text()
    for title in ("HalfCheetah-v5", "Hopper-v5", "All environments"):
        assert f"<!-- {title} -->" in text


def test_scores_are_0_for_random_actions_and_1_for_a_fixed_return():
    """CartPole is solved at 475 and random actions reach 23.7; Acrobot -100 and -497.1."""
    each = protocol(environments=["CartPole-v1", "Acrobot-v1", "Ant-v5"], published=[])
    each.algorithms.append("ppo")

    def runs(algorithm, environment, *finals):
        return [
            rows([final] * 10, algorithm, seed=seed, environment=environment)
            for seed, final in enumerate(finals)
        ]

    solved = runs("ppo", "CartPole-v1", 475, 475), runs("ppo", "Acrobot-v1", -100)
    failed = runs("vpg", "CartPole-v1", 23.7), runs("vpg", "Acrobot-v1", -497.1, -100, -497.1)
    data = pd.concat([run for group in (*solved, *failed) for run in group])
    text = tables.markdown(each, statistics.cells(each, data), data)
    # An environment counts once, however many runs it has.
    assert f"| vpg | {1 / 6:.2f} |  | 4 |" in text
    assert "| ppo | 1.00 |  | 3 |" in text
    assert "Returns with a score of 1: 475 in CartPole-v1, -100 in Acrobot-v1." in text
    assert statistics.scores(each, data[data["algorithm"] == "ppo"]).empty  # nothing to compare


def test_scores_of_five_runs_have_an_interval_with_the_environments_as_strata():
    """That an algorithm is better in one of them is no uncertainty."""
    each = protocol(algorithms=["vpg", "ppo"], environments=["CartPole-v1", "Acrobot-v1"])
    each.published.clear()
    finals = {"CartPole-v1": (475, 475), "Acrobot-v1": (-497.1, -100)}
    data = pd.concat(
        rows([np.linspace(*finals[environment], 5)[seed]] * 10, algorithm, "", seed, environment)
        for algorithm in each.algorithms
        for environment in each.environments
        for seed in range(5)
    )
    scores = statistics.scores(each, data).set_index("algorithm").loc["vpg"]
    np.testing.assert_allclose(scores["score"], 0.75)
    np.testing.assert_allclose([scores["low"], scores["high"]], [0.6, 0.9], atol=0.051)


@pytest.mark.slow
def test_trains_what_is_missing_collects_and_reports(tmp_path, capsys):
    each = protocol(
        environments=["CartPole-v1"],
        seeds=[0],
        steps=400,
        arguments=dict(steps_per_epoch=200, train_v_iters=2),
        variants={"init": ["glorot", "torch"]},
        evaluations={"usual": {}, "other rewards": {"sutton_barto_reward": True}},
    )
    learning.run(each, tmp_path / "data", workers=1)
    [*runs] = each.runs()
    assert len(runs) == 2
    progress = [tmp_path / "data" / each.run_directory(*one) / "progress.txt" for one in runs]
    before = [path.read_text() for path in progress]
    learning.run(each, tmp_path / "data", workers=1)  # nothing is missing
    assert [path.read_text() for path in progress] == before
    path = learning.collect(each, tmp_path / "data")
    data = files.read(each)
    assert [*data.columns] == files.COLUMNS
    assert data["interactions"].to_list() == [200, 400] * 2
    logged = pd.read_table(progress[0])["AverageEpRet"]
    np.testing.assert_allclose(data["return"][:2], logged, rtol=1e-4)
    capsys.readouterr()
    learning.run(each, tmp_path / "another machine", workers=1)  # what is collected is enough
    assert "0 runs are missing" in capsys.readouterr().out
    learning.evaluate(each, tmp_path / "data", episodes=4)
    played = pd.read_csv(files.evaluations_of(each), dtype=str)
    learning.evaluate(each, tmp_path / "another machine", episodes=4)  # nothing is missing
    pd.testing.assert_frame_equal(pd.read_csv(files.evaluations_of(each), dtype=str), played)
    returns = played.pivot(columns="evaluation", index="variant", values="return").astype(float)
    assert (returns["other rewards"] == -1).all()
    assert returns["usual"].between(8, 500).all()
    learning.report(each)
    text = path.with_suffix(".md").read_text()
    assert text.count("-1.00") == 2
    assert text in capsys.readouterr().out
    assert text.count("| CartPole-v1 |") == 4
    assert path.with_suffix(".svg").stat().st_size > 10_000


def test_collecting_keeps_what_was_trained_elsewhere(tmp_path):
    each = protocol(steps=500_000)

    def log(seed, returns):
        path = tmp_path / "data" / each.run_directory("vpg", "HalfCheetah-v5", "", seed)
        path.mkdir(parents=True, exist_ok=True)
        lines = [f"{100_000 * (i + 1)}\t{value}" for i, value in enumerate(returns)]
        text = "\n".join(["TotalEnvInteracts\tAverageEpRet", *lines])
        (path / "progress.txt").write_text(f"{text}\n")

    rows([1, 2, 3, 4, 5], seed=0).to_csv(files.file_of(each), index=False)
    assert files.finished(each) == {("vpg", "HalfCheetah-v5", "", 0)}
    log(0, [9, 9])  # begun anew: it has not come as far
    log(1, [6, 7])
    learning.collect(each, tmp_path / "data")
    data = files.read(each)
    assert data.groupby("seed")["return"].apply(list).to_dict() == {0: [1, 2, 3, 4, 5], 1: [6, 7]}
    log(1, [6, "", 8, 9, ""])  # no episode ended in the second epoch, nor in the last
    learning.collect(each, tmp_path / "data")
    data = files.read(each)
    assert data["return"].dropna().to_list() == [1, 2, 3, 4, 5, 6, 8, 9]
    assert data["interactions"].to_list() == [int(1e5 * n) for n in (1, 2, 3, 4, 5, 1, 3, 4, 5)]
    assert len(files.finished(each)) == 2


def test_what_is_trained_anew_replaces_what_was_collected(tmp_path):
    """And what its former agent has reached elsewhere is dropped, but not that of the others."""
    each = protocol(steps=200_000, evaluations={"usual": {}})
    pd.concat([rows([1, 2], seed=0), rows([3, 4], seed=1)]).to_csv(files.file_of(each), index=False)
    evaluated = pd.DataFrame(
        [["vpg", "HalfCheetah-v5", "", seed, "usual", 200, 5.0] for seed in (0, 1)],
        columns=files.EVALUATED,
    )
    evaluated.to_csv(files.evaluations_of(each), index=False)
    for returns, seeds in ("1 2", [0, 1]), ("9 8", [1]):
        path = tmp_path / "data" / each.run_directory("vpg", "HalfCheetah-v5", "", 0)
        path.mkdir(parents=True, exist_ok=True)
        first, second = returns.split()
        text = f"TotalEnvInteracts\tAverageEpRet\n100000\t{first}\n200000\t{second}\n"
        (path / "progress.txt").write_text(text)
        learning.collect(each, tmp_path / "data")
        data = files.read(each)
        assert data["return"].to_list() == [*map(float, returns.split()), 3, 4]
        assert pd.read_csv(files.evaluations_of(each))["seed"].to_list() == seeds


def test_smoothing_is_over_eleven_epochs_however_many_have_a_return():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    smooth = learning_figure._smooth(np.arange(1, 41) * 4000, y, 4000, 11)
    slow = [y[max(i - 5, 0) : i + 6].mean() for i in range(40)]
    np.testing.assert_allclose(smooth, slow)
    x = np.arange(1, 41) * 64_000  # episodes end in every sixteenth epoch
    np.testing.assert_allclose(learning_figure._smooth(x, y, 4000, 11), y)
    np.testing.assert_array_equal(
        learning_figure._smooth(x[:10], y[:10], 64_000, 11), y[:10]
    )  # too short
