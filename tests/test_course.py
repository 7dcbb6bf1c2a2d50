"""The course: what its pages say the scripts print, they print; and it is right."""

import importlib
import re
from functools import partial
from math import comb
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from spinup_tf2.core.trajectories import gae
from spinup_tf2.results.datasets import get_all_datasets
from spinup_tf2.results.statistics import final_performance

DOCS = Path(__file__).parent.parent / "docs"
COURSE = DOCS / "course"
SCRIPTS = sorted(path.stem for path in COURSE.glob("*.py"))
PAGES = sorted(path.stem for path in COURSE.glob("*.md"))


def page(name):
    return (COURSE / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def script(monkeypatch):
    """script(name) imports it, as its own folder's scripts import each other."""
    monkeypatch.syspath_prepend(COURSE)
    return importlib.import_module


def lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_its_command_on_a_page(name):
    commands = "".join(page(each) for each in PAGES)
    assert re.search(rf"^python docs/course/{name}.py", commands, re.MULTILINE)


def assert_shown(printed, where):
    shown = lines(page(where))
    assert [line for line in lines(printed) if line not in shown] == []


@pytest.mark.parametrize(
    ("name", "where", "arguments"),
    [
        ("gridworld", "problem", {}),
        pytest.param("policy_gradient", "policy_gradients", {}, marks=pytest.mark.slow),
        ("trust_region", "trust_regions", {}),
        ("parallel", "parallel", {}),
        ("q_learning", "off_policy", {}),
        ("soft_values", "off_policy", {}),
        pytest.param("seeds", "experiments", dict(numbers=(3, 5)), marks=pytest.mark.slow),
    ],
)
def test_a_page_shows_what_its_script_prints(script, capsys, name, where, arguments):
    report = script(name).exact if name == "gridworld" else script(name).report
    report(**arguments)
    printed = capsys.readouterr().out
    if name == "trust_region":
        first, _, printed = printed.lstrip().partition("\n")
        assert "0.1201" in first
        assert "0.0025" in first
    assert_shown(printed, where)


# ---------------------------------------------------------------- the problem


def test_steps_of_the_gridworld_follow_its_model(script):
    gridworld = script("gridworld")
    env = gridworld.Gridworld(gridworld.GRID, slip=0.4)
    np.testing.assert_allclose(env.P.sum(axis=2)[env.free], 1)
    assert not env.P[~env.free].any()  # nothing follows an end
    env.reset(seed=0)
    s, a, counts, rewards = 1, 1, np.zeros(len(env.cells)), []  # left of the pit, to the right
    for _ in range(4000):
        env.s = s
        next_s, rew, terminated, truncated, _ = env.step(a)
        assert (terminated, truncated) == (not env.free[next_s], False)
        counts[next_s] += 1
        rewards.append(rew)
    np.testing.assert_allclose(counts / 4000, env.P[s, a], atol=0.03)
    assert env.P[s, a, 2] == pytest.approx(0.7)  # as an answer says
    assert env.P[s, 0, 2] == pytest.approx(0.1)
    assert np.mean(rewards) == pytest.approx(env.R[s, a], abs=0.03)


def test_the_values_that_are_solved_for_by_hand(script):
    gridworld = script("gridworld")
    env = gridworld.Gridworld(gridworld.CORRIDOR)
    v = gridworld.policy_values(env, np.full((5, 2), 0.5), 0.9)
    np.testing.assert_allclose(v[1:4], [0.5 + 0.45 * 0.9 / 0.595, 0.9 / 0.595, 2.181], atol=1e-3)
    np.testing.assert_allclose(gridworld.value_iteration(env, 0.9)[0][1:4], [2.43, 2.7, 3])
    # An answer: from a pay of 1/3 on, the prize of 3 is not taken.
    for pay, best in [(0.32, 1), (0.35, 0)]:
        env = gridworld.Gridworld(gridworld.CORRIDOR, pay=pay)
        assert gridworld.value_iteration(env, 0.9)[1][3] == best


@pytest.mark.slow
def test_ppo_finds_the_values_of_the_corridor(script):
    gridworld = script("gridworld")
    env = gridworld.Gridworld(gridworld.CORRIDOR)
    pi, v = gridworld.learn(env, 0.5)
    assert (pi[1:4].argmax(axis=1) == [0, 1, 1]).all()
    np.testing.assert_allclose(v[1:4], [1, 1.5, 3], atol=0.05)


# ---------------------------------------------------------------- policy gradients


def test_estimates_of_the_gradient_are_unbiased(script):
    policy_gradient = script("policy_gradient")
    exact = [0, 0.75, 0.5, -0.25, 0]  # by hand, on the page
    rows = policy_gradient.table(episodes=10_000, seed=1)
    for mean, std in rows.values():
        assert (np.abs(mean - exact) <= 4 * std / 100).all()
    spread = [np.linalg.norm(std) for _, std in rows.values()]
    assert (np.diff(spread) < 0).all()


def test_the_loss_of_vpg_has_this_gradient(script):
    gradient = script("policy_gradient").with_the_package(episodes=10_000, seed=1)
    np.testing.assert_allclose(gradient, [0, 0.75, 0.5, -0.25, 0], atol=0.06)


def test_bias_and_deviation_of_advantage_estimates(script, capsys):
    gae_lambda = script("gae_lambda")
    np.testing.assert_allclose(gae_lambda.difference(0.0), [-0.2, 0], atol=1e-9)
    assert gae_lambda.difference(1.0)[0] == pytest.approx(0, abs=1e-9)
    sampled = gae_lambda.measured(episodes=1000)
    exact = np.transpose([gae_lambda.difference(lam) for lam in gae_lambda.MEASURED])
    tolerance = 4 * exact[1] / np.sqrt(500) + 1e-6
    assert (np.abs(sampled - exact) <= tolerance).all()

    gae_lambda.report(sampled)
    printed = lines(capsys.readouterr().out)[: len(gae_lambda.NUMBERS)]
    assert_shown("\n".join(printed), "policy_gradients")
    assert len(gae_lambda.draw(sampled).axes) == 2


def test_the_lines_that_compute_advantages_of_one_episode():
    """The program on the page, beside the package's function."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", page("policy_gradients"), re.M | re.S)
    rng = np.random.default_rng(0)
    rew, val = rng.normal(size=5), np.append(rng.normal(size=5), 0)
    names = dict(np=np, T=5, rew=rew, val=val, gamma=0.9, lam=0.8)
    exec(program, names)
    ends = np.arange(5)[:, None] == 4
    arrays = rew[:, None], val[:-1, None], val[1:, None], ends, ends & False
    np.testing.assert_allclose(names["adv"], gae(*arrays, gamma=0.9, lam=0.8)[0][:, 0])


# ---------------------------------------------------------------- parallel


@pytest.mark.parametrize(
    ("pieces_of", "returns"),
    [
        (4, [5, 4.5, 4, 3.5]),
        (3, [3.5, 3, 2.5, 3.5]),
        (2, [3, 2.5, 4, 3.5]),
        (1, [2, 2.5, 2.5, 3.5]),
    ],
)
def test_n_step_returns(pieces_of, returns):
    """The table and an answer: cells 2, 1, 2, 3; the critic says 1.5, 2, 2 of cells 1, 2, 3."""
    rew, val = np.array([0.5, 0.5, 0.5, 3.5]), np.array([2, 1.5, 2, 2.0])
    next_val = np.array([1.5, 2, 2, 99.0])  # what follows a termination does not count
    terminated = np.array([False, False, False, True])
    for start in range(0, 4, pieces_of):
        piece = slice(start, start + pieces_of)
        arrays = [x[piece, None] for x in (rew, val, next_val, terminated)]
        _, ret = gae(*arrays, np.zeros_like(arrays[3]), gamma=1.0, lam=1.0)
        np.testing.assert_allclose(ret[:, 0], returns[piece])


# ---------------------------------------------------------------- off-policy


def test_q_learning_finds_the_best_policy_from_random_actions(script):
    gridworld, q_learning = script("gridworld"), script("q_learning")
    env = gridworld.Gridworld(gridworld.CORRIDOR)
    v, best = gridworld.value_iteration(env, 0.9)
    q = q_learning.q_learning(env, 1000, np.random.default_rng(1))
    np.testing.assert_allclose(q.max(axis=1)[1:4], v[1:4], atol=1e-3)
    assert (q.argmax(axis=1) == best)[1:4].all()


def test_one_weight_for_two_states(script):
    one_weight = script("q_learning").one_weight
    assert one_weight(100, both=False) == pytest.approx(1.08**100)
    kept = 0.9**20  # of the distance to the target 1.8 w, after 20 updates
    assert one_weight(100, both=False, refresh=20) == pytest.approx((1.8 - 0.8 * kept) ** 5)
    assert one_weight(100, both=True) == pytest.approx((1 + 0.1 * (1.8 - 1 - 4)) ** 100)


def test_overestimation(script, capsys):
    overestimation = script("overestimation")
    # The mean of the larger of two standard normals is 1 / sqrt(pi); of the smaller, minus that.
    tolerance = 4 / np.sqrt(100_000)
    assert overestimation.bias(2, "maximum") == pytest.approx(np.pi**-0.5, abs=tolerance)
    assert overestimation.bias(2, "other") == pytest.approx(0, abs=tolerance)
    assert overestimation.bias(1, "minimum") == pytest.approx(-(np.pi**-0.5), abs=tolerance)

    curves = {rule: overestimation.learn(rule) for rule in overestimation.RULES}
    one_step = overestimation.bias(10, "maximum") * np.sqrt(0.1 / 1.9)
    assert curves["maximum"][-500:].mean() == pytest.approx(9 * one_step, rel=0.02)
    overestimation.report(curves)
    assert_shown(capsys.readouterr().out, "off_policy")
    assert len(overestimation.draw(curves).axes[0].lines) == 4


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_the_soft_value_is_the_largest_that_a_policy_can_have(script, alpha):
    soft_values = script("soft_values")
    pi, value = soft_values.best_policy(soft_values.Q, alpha)

    def objective(pi):
        return (pi * (soft_values.Q - alpha * np.log(pi))).sum(axis=-1)

    assert objective(pi) == pytest.approx(value)
    others = np.random.default_rng(0).dirichlet([1, 1, 1], 1000)
    assert (objective(others) < value).all()


def test_the_density_of_a_squashed_gaussian_is_that_of_the_package(script):
    from spinup_tf2.core.nets.distributions import sample_and_log_prob, squashed_gaussian

    u = np.array([[0.5], [5.0], [10.0]], np.float32)
    _, logp = sample_and_log_prob(squashed_gaussian(0 * u, 0 * u + 1), u)
    stable = [script("soft_values").log_density(x)[1] for x in u[:, 0]]
    np.testing.assert_allclose(stable, logp, rtol=1e-5)


# ---------------------------------------------------------------- experiments


@pytest.mark.parametrize("n", [3, 5, 10])
def test_how_often_a_comparison_comes_out_wrong(script, n):
    share = 0
    for k in range(n + 1):  # failures
        total = NormalDist(480 * (n - k) + 100 * k, (10**2 * (n - k) + 40**2 * k) ** 0.5)
        share += comb(n, k) * 0.2**k * 0.8 ** (n - k) * total.cdf(380 * n)
    assert script("seeds").wrong_order(n) == pytest.approx(share, abs=0.006)


def test_the_page_shows_the_table_of_kept_runs():
    data = DOCS.parent / "data" / "classic"
    runs = get_all_datasets([f"{data}/vpg_enva", f"{data}/trpo_enva"])
    for row in final_performance(runs, errorbar="ci").itertuples():
        interval = f"[{row.low:.4g}, {row.high:.4g}]"
        line = f"| Acrobot-v1  | {row.experiment:10} | {row.estimate:21.4g} | {interval:>16} |"
        assert f"{line}     3 |" in lines(page("experiments"))
    each = [final_performance([run]).estimate.item() for run in runs]
    finals = [f" {x:.0f} |" for x in each if x < -150]
    assert len(finals) == 3  # of VPG
    assert "".join(finals) in page("experiments")


@pytest.mark.commands
def test_broken_runs_are_made_shown_and_drawn(script, tmp_path, capsys, monkeypatch):
    broken_runs = script("broken_runs")
    short = dict(ppo=dict(steps_per_epoch=200), sac=dict(steps_per_epoch=60, start_steps=60))
    runs = {
        name: partial(run, **short["sac" if name.startswith("sac") else "ppo"])
        for name, run in broken_runs.RUNS.items()
    }
    monkeypatch.setattr(broken_runs, "RUNS", runs)
    broken_runs.make(tmp_path, epochs=2)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("progress.txt")}
    assert len(made) == len(runs)
    broken_runs.make(tmp_path, epochs=2)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("progress.txt")} == made

    broken_runs.report(tmp_path)
    heads = [line for line in lines(capsys.readouterr().out) if line.startswith("last epoch")]
    assert {*heads} <= {*lines(page("experiments"))}
    assert broken_runs.read(tmp_path, "critic")["DeltaLossV"] == pytest.approx(0, abs=1e-3)
    assert len(broken_runs.draw(tmp_path).axes) == 12


def test_observations_in_micrometers(script):
    broken_runs = script("broken_runs")
    env = broken_runs.InMicrometers()
    obs, _ = env.reset(seed=0)
    plain, _ = env.unwrapped.spec.make().reset(seed=0)
    np.testing.assert_allclose(obs / plain, broken_runs.UNIT, rtol=1e-5)
    assert obs in env.observation_space
