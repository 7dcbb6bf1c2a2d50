"""The learning benchmark: what it trains, collects, and says."""

import math
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.errors import ExperimentsFailed, Interrupted
from spinup_tf2.experiments.presets import load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SOURCE = "Spinning Up, TensorFlow 1"


@pytest.fixture
def learning(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning

    monkeypatch.setattr(learning, "RESULTS", tmp_path / "results")
    return learning


def protocol(learning, **changes):
    small = dict(
        name="small",
        algorithms=["vpg"],
        environments=["HalfCheetah-v5"],
        seeds=[0, 1],
        steps=1_000_000,
        arguments=dict(steps_per_epoch=100_000),
        published=[SOURCE],
    )
    return learning.Protocol(**{**small, **changes})


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


def test_every_protocol_names_what_exists(learning):
    for each in learning.protocols().values():
        assert {*each.algorithms} <= {*ALGORITHMS}
        surplus = -each.steps % each.arguments["steps_per_epoch"]
        assert surplus < each.steps / 100
        assert len({*each.runs()}) == len([*each.runs()])
        for source in each.published:
            known = [
                learning.published(source, algorithm, environment)
                for algorithm in each.algorithms
                for environment in each.environments
            ]
            assert any(known)
            for cell in known:
                assert all(len(pair) == 2 and pair[1] > 0 for pair in cell.values())


def test_published_numbers(learning):
    """Two that other sources confirm: Tianshou's reading of TD3 and SAC at 1,000,000 steps."""
    assert learning.published("Spinning Up, PyTorch", "td3", "HalfCheetah-v5")[1_000_000][0] == 9755
    assert learning.published("Spinning Up, PyTorch", "sac", "HalfCheetah-v5")[1_000_000] == (
        11496,
        792,
    )
    assert learning.published(SOURCE, "a2c", "HalfCheetah-v5") == {}


def test_a_cell_is_the_mean_over_the_last_tenth_of_runs_that_came_so_far(learning):
    data = pd.concat([rows(range(10), seed=0), rows([0] * 9 + [11], seed=1), rows([5] * 7, seed=2)])
    finals = learning.performance(data, 1_000_000)
    assert finals.to_dict() == {
        ("vpg", "HalfCheetah-v5", "", 0): 9,
        ("vpg", "HalfCheetah-v5", "", 1): 11,
    }
    assert learning.performance(data, 500_000).to_list() == [4, 0, 5]


def test_verdicts_against_the_published_mean_and_deviation(learning):
    """VPG in HalfCheetah: -337 +- 71 at 500,000 steps, -183 +- 75 at 1,000,000."""
    flat = [-340] * 5 + [-300] * 5
    each = protocol(learning, algorithms=["vpg", "ppo"])
    data = pd.concat([rows(flat, seed=0), rows(flat, seed=1)])
    table = learning.cells(each, data)
    vpg = table[table["algorithm"] == "vpg"].set_index("steps")
    assert vpg["mean"].to_dict() == {500_000: -340, 1_000_000: -300}
    assert vpg["seeds"].to_list() == [2, 2]
    verdicts = [learning.verdict(row, SOURCE) for row in table.to_dict("records")]
    assert verdicts == ["within 1 sd", "below", "", ""]
    z = (-340 + 337) / 71
    better = 0.5 * (1 + math.erf(z / 2**0.5))
    np.testing.assert_allclose(vpg[f"{SOURCE} better"].iloc[0], better, rtol=1e-6)
    text = learning.markdown(each, table)
    assert f"{SOURCE}: at 1,000,000 steps, 0 of 1 measured cells" in text
    assert "with the earlier numbers of steps, 1 of 2." in text
    last = 0.5 * (1 + math.erf((-300 + 183) / 75 / 2**0.5))
    assert f"a run of ours is better than a published one with probability {last:.2f}." in text
    assert "| HalfCheetah-v5 | ppo | 500,000 | not finished |  | 0 | 404 ± 288 |  |" in text
    assert "| HalfCheetah-v5 | vpg | 500,000 | -340 |  | 2 | -337 ± 71 |" in text


def test_each_variant_is_set_beside_what_is_published(learning):
    each = protocol(learning, steps=500_000, variants={"init": ["a", "b"]})
    data = pd.concat([rows([-300] * 5, variant="a"), rows([-500] * 5, variant="b")])
    text = learning.markdown(each, learning.cells(each, data))
    assert f"{SOURCE}, a: at 500,000 steps, 1 of 1 measured cells" in text
    assert f"{SOURCE}, b: at 500,000 steps, 0 of 1 measured cells" in text
    assert "earlier" not in text


def test_intervals_of_the_mean_hold_it_as_often_as_they_say(learning):
    """Also of three runs, of which the bootstrap would give the range."""
    rng = np.random.default_rng(0)
    for runs in 3, 5:
        intervals = np.array([learning.interval(rng.normal(7, 2, runs)) for _ in range(2000)])
        assert abs(np.mean((intervals[:, 0] < 7) & (intervals[:, 1] > 7)) - 0.95) < 0.02
    low, high = learning.interval(np.array([1.0, 2, 3]))
    np.testing.assert_allclose([low, high], 2 + 4.30265 / 3**0.5 * np.array([-1, 1]), rtol=1e-4)
    assert np.isnan(learning.interval(np.array([1.0, 2]))).all()


def test_scores_are_0_for_random_actions_and_1_for_the_best_mean(learning):
    """Random actions have a mean return of -282.5 in HalfCheetah."""
    each = protocol(learning, published=[], variants={"init": ["a", "b"]})
    data = pd.concat([rows([117.5] * 10, variant="a"), rows([-82.5] * 10, variant="b")])
    text = learning.scores(each, data)
    assert "| vpg | a | 1.00 |  | 1 |" in text
    assert "| vpg | b | 0.50 |  | 1 |" in text
    assert learning.scores(each, data[data["variant"] == "a"]) == ""  # nothing to compare


def test_scores_are_those_of_environments_in_which_all_have_runs(learning):
    """Random actions have 23.7 in CartPole; the best of Ant would have a score of 1."""
    each = protocol(
        learning,
        algorithms=["vpg", "ppo"],
        environments=["CartPole-v1", "HalfCheetah-v5", "Ant-v5"],
        published=[],
    )

    def runs(algorithm, environment, *finals):
        return [
            rows([final] * 10, algorithm, seed=seed, environment=environment)
            for seed, final in enumerate(finals)
        ]

    data = pd.concat(
        [
            *runs("ppo", "CartPole-v1", 423.7, 423.7, 423.7),
            *runs("ppo", "HalfCheetah-v5", 117.5, 117.5, 117.5),
            *runs("vpg", "CartPole-v1", 123.7, 123.7, 123.7),
            *runs("vpg", "HalfCheetah-v5", -182.5, -82.5, 17.5),
            *runs("vpg", "Ant-v5", 1000, 1000, 1000),
        ]
    )
    text = learning.scores(each, data)
    # The environments are strata: that VPG is better in one is no uncertainty.
    assert "| ppo | - | 1.00 | 1.00 to 1.00 | 6 |" in text
    [line] = [line for line in text.splitlines() if line.startswith("| vpg")]
    estimate, interval, number = line.split(" | ")[2:]
    assert (estimate, number) == ("0.31", "6 |")  # of .25 (four times), .5 and .75 the middle four
    low, high = map(float, interval.split(" to "))
    assert low == 0.25
    assert 0.31 < high < 0.51
    assert text.endswith("Scores are those in CartPole-v1, HalfCheetah-v5.\n")


def test_curves_end_where_the_first_of_their_runs_does(learning, monkeypatch):
    """Else the mean would jump at the end of a run, and finished and other runs are not mixed."""
    import matplotlib.pyplot as plt

    each = protocol(learning, steps=500_000)
    learning.RESULTS.mkdir()
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)

    def curve(*runs):
        data = pd.concat(runs)
        data.to_csv(learning.file_of(each), index=False)
        learning.figure(each, learning.read(each), learning.RESULTS / "small.png")
        [axis] = drawn.pop().axes
        [line] = [line for line in axis.lines if len(line.get_xdata()) > 1]
        return [x / 1e5 for x in line.get_xdata()], [*line.get_ydata()]

    long, short = rows([1, 2, 3, 4, 5, 6], seed=0), rows([3, 4, 5], seed=1)
    assert curve(long) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert curve(long, rows([3, 4, 5, 6, 7], seed=1)) == ([1, 2, 3, 4, 5], [2, 3, 4, 5, 6])
    assert curve(long, short) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])  # the one that is finished
    assert curve(long.iloc[:4], short) == ([1, 2, 3], [2, 3, 4])


def test_a_protocol_whose_runs_have_not_come_so_far_is_reported(learning, capsys):
    """off-policy-longer shares the file of off-policy."""
    each = protocol(learning, algorithms=["ddpg", "td3"], steps=500_000)
    learning.RESULTS.mkdir()
    rows([1, 2, 3], "ddpg").to_csv(learning.file_of(each), index=False)
    learning.report(each)
    assert "| HalfCheetah-v5 | ddpg | 500,000 | not finished |  | 0 |" in capsys.readouterr().out


def test_random_actions_in_cartpole(learning):
    """Some 22 steps: Barto, Sutton and Anderson's pole falls at once."""
    each = protocol(learning, environments=["CartPole-v1"])
    head, line = learning.random_returns(each, episodes=50).splitlines()
    assert head == '["Random actions"."CartPole"]'
    mean, deviation = map(float, line.removeprefix("random = {0 = [").removesuffix("]}").split(","))
    assert 17 < mean < 28
    assert 5 < deviation < 20


@pytest.mark.slow
def test_trains_what_is_missing_collects_and_reports(learning, tmp_path, capsys):
    each = protocol(
        learning,
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
    data = learning.read(each)
    assert [*data.columns] == learning.COLUMNS
    assert data["interactions"].to_list() == [200, 400] * 2
    logged = pd.read_table(progress[0])["AverageEpRet"]
    np.testing.assert_allclose(data["return"][:2], logged, rtol=1e-4)
    capsys.readouterr()
    learning.run(each, tmp_path / "another machine", workers=1)  # what is collected is enough
    assert "0 runs are missing" in capsys.readouterr().out
    learning.evaluate(each, tmp_path / "data", episodes=4)
    played = pd.read_csv(learning.evaluations_of(each), dtype=str)
    learning.evaluate(each, tmp_path / "another machine", episodes=4)  # nothing is missing
    pd.testing.assert_frame_equal(pd.read_csv(learning.evaluations_of(each), dtype=str), played)
    returns = played.pivot(columns="evaluation", index="variant", values="return").astype(float)
    assert (returns["other rewards"] == -1).all()
    assert returns["usual"].between(8, 500).all()
    learning.report(each)
    text = path.with_suffix(".md").read_text()
    assert text.count("-1.00") == 2
    assert text in capsys.readouterr().out
    assert text.count("| CartPole-v1 |") == 4
    assert path.with_suffix(".png").stat().st_size > 10_000


def test_runs_have_the_settings_of_their_preset(learning, tmp_path, monkeypatch):
    from spinup_tf2.utils.run_utils import ExperimentGrid

    trained = []
    monkeypatch.setattr(
        ExperimentGrid, "run", lambda grid, *_, **__: trained.extend(grid.variants())
    )
    each = protocol(
        learning,
        algorithms=["ppo", "a2c"],
        environments=["CartPole-v1", "Pendulum-v1"],
        seeds=[0],
        preset="classic",
        arguments=dict(steps_per_epoch=2048),
        only=dict(a2c=dict(n_steps=64)),
    )
    learning.run(each, tmp_path, workers=1)

    def name_of(variant):
        return variant["algorithm"].__name__

    assert len(trained) == 4
    for variant in trained:
        preset = load(name_of(variant), "classic", variant["env_name"]).settings
        changed = {name for name in preset if variant[name] != preset[name]}
        assert changed - {"steps_per_epoch", "epochs"} == {*each.only.get(name_of(variant), {})}
        assert variant["steps_per_epoch"] == 2048
        assert variant["epochs"] == math.ceil(1_000_000 / 2048)


@pytest.mark.parametrize(
    ("error", "status"), [(Interrupted(signal.SIGTERM), 143), (ExperimentsFailed("one of 2"), 1)]
)
def test_a_run_that_ends_early_leaves_with_a_status(learning, tmp_path, monkeypatch, error, status):
    from spinup_tf2.utils.run_utils import ExperimentGrid

    def run(*_, **__):
        raise error

    monkeypatch.setattr(ExperimentGrid, "run", run)
    with pytest.raises(SystemExit) as left:
        learning.run(protocol(learning), tmp_path, workers=1)
    assert left.value.code == status


def test_collecting_keeps_what_was_trained_elsewhere(learning, tmp_path):
    each = protocol(learning, steps=500_000)

    def log(seed, returns):
        path = tmp_path / "data" / each.run_directory("vpg", "HalfCheetah-v5", "", seed)
        path.mkdir(parents=True, exist_ok=True)
        lines = [f"{100_000 * (i + 1)}\t{value}" for i, value in enumerate(returns)]
        text = "\n".join(["TotalEnvInteracts\tAverageEpRet", *lines])
        (path / "progress.txt").write_text(f"{text}\n")

    learning.RESULTS.mkdir()
    rows([1, 2, 3, 4, 5], seed=0).to_csv(learning.file_of(each), index=False)
    assert learning.finished(each) == {("vpg", "HalfCheetah-v5", "", 0)}
    log(0, [9, 9])  # begun anew: it has not come as far
    log(1, [6, 7])
    learning.collect(each, tmp_path / "data")
    data = learning.read(each)
    assert data.groupby("seed")["return"].apply(list).to_dict() == {0: [1, 2, 3, 4, 5], 1: [6, 7]}
    log(1, [6, "", 8, 9, ""])  # no episode ended in the second epoch, nor in the last
    learning.collect(each, tmp_path / "data")
    data = learning.read(each)
    assert data["return"].dropna().to_list() == [1, 2, 3, 4, 5, 6, 8, 9]
    assert data["interactions"].to_list() == [int(1e5 * n) for n in (1, 2, 3, 4, 5, 1, 3, 4, 5)]
    assert len(learning.finished(each)) == 2


def test_what_is_trained_anew_replaces_what_was_collected(learning, tmp_path):
    """And what its former agent has reached elsewhere is dropped, but not that of the others."""
    each = protocol(learning, steps=200_000, evaluations={"usual": {}})
    learning.RESULTS.mkdir()
    pd.concat([rows([1, 2], seed=0), rows([3, 4], seed=1)]).to_csv(
        learning.file_of(each), index=False
    )
    evaluated = pd.DataFrame(
        [["vpg", "HalfCheetah-v5", "", seed, "usual", 200, 5.0] for seed in (0, 1)],
        columns=learning.EVALUATED,
    )
    evaluated.to_csv(learning.evaluations_of(each), index=False)
    for returns, seeds in ("1 2", [0, 1]), ("9 8", [1]):
        path = tmp_path / "data" / each.run_directory("vpg", "HalfCheetah-v5", "", 0)
        path.mkdir(parents=True, exist_ok=True)
        first, second = returns.split()
        text = f"TotalEnvInteracts\tAverageEpRet\n100000\t{first}\n200000\t{second}\n"
        (path / "progress.txt").write_text(text)
        learning.collect(each, tmp_path / "data")
        data = learning.read(each)
        assert data["return"].to_list() == [*map(float, returns.split()), 3, 4]
        assert pd.read_csv(learning.evaluations_of(each))["seed"].to_list() == seeds


def test_an_evaluation_that_was_broken_off_says_how_many_agents_have_played(learning):
    each = protocol(learning, evaluations={"usual": {}, "windy": {}, "icy": {}})
    played = [("usual", 0, 1.0), ("usual", 1, 3.0), ("windy", 0, 5.0)]
    table = pd.DataFrame([("ppo", "Ant-v5", "", *row) for row in played])
    table.columns = [*learning.KEYS[:3], "evaluation", "seed", "return"]
    line = learning.evaluated(each, table).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[3:-1]] == [
        "2, 1, 0",
        "2.00",
        "",
        "5.00",
        "",
        "-",
        "",
    ]


def test_smoothing_is_over_eleven_epochs_however_many_have_a_return(learning):
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    smooth = learning._smooth(np.arange(1, 41) * 4000, y, 4000, 11)
    slow = [y[max(i - 5, 0) : i + 6].mean() for i in range(40)]
    np.testing.assert_allclose(smooth, slow)
    x = np.arange(1, 41) * 64_000  # episodes end in every sixteenth epoch
    np.testing.assert_allclose(learning._smooth(x, y, 4000, 11), y)
    np.testing.assert_array_equal(learning._smooth(x[:10], y[:10], 64_000, 11), y[:10])  # too short


def test_what_has_not_been_trained_or_collected(learning, tmp_path):
    with pytest.raises(SystemExit, match="train them first"):
        learning.collect(protocol(learning), tmp_path)
    with pytest.raises(SystemExit, match="collect the results of small first"):
        learning.read(protocol(learning))
    with pytest.raises(SystemExit, match="names no evaluations of small"):
        learning.evaluate(protocol(learning), tmp_path)
    with pytest.raises(SystemExit, match=r"No run of small in .* is finished and collected"):
        learning.evaluate(protocol(learning, evaluations={"usual": {}}), tmp_path)


def test_the_status_counts_finished_runs(learning, monkeypatch, capsys):
    small = protocol(learning, environments=["HalfCheetah-v5", "Ant-v5"])
    learning.RESULTS.mkdir()
    rows([1] * 10, seed=0).to_csv(learning.RESULTS / "small.csv", index=False)
    line = "| small | vpg | 1,000,000 | HalfCheetah 1 of 2, Ant not finished |"
    assert learning.status(dict(small=small)).splitlines()[2:] == [line]
    monkeypatch.setattr(learning, "protocols", lambda: dict(small=small, other=small))
    for names, lines in (["small"], 1), ([], 2):
        monkeypatch.setattr("sys.argv", ["learning.py", "status", *names])
        learning.main()
        assert capsys.readouterr().out.count(line) == lines
    # Only the status of everything is kept, for the docs.
    assert (learning.RESULTS / "status.md").read_text().count(line) == 2


@pytest.mark.parametrize("argv", [["report"], ["run", "unknown"]])
def test_what_is_no_protocol_is_refused(argv, learning, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["learning.py", *argv])
    with pytest.raises(SystemExit):
        learning.main()
    assert "on-policy, on-policy-ant, off-policy" in capsys.readouterr().err
