"""The model of the scaling benchmark, against sums by hand, and what it measures, briefly."""

import dataclasses
import json

import numpy as np
import pytest
import scaling


@pytest.fixture
def model():
    """An epoch of 10 ms and 1 ms a step; ten messages of 100 numbers and one of 4."""
    alone = {4: 0.014, 100: 0.110, 4000: 4.010}
    return scaling.Model(alone, {100: 10, 4: 1}, call=1e-4, latency=1e-5, per_number=1e-7)


@pytest.mark.parametrize(
    ("ranks", "rounds"), [(2, 1), (3, 2), (4, 2), (8, 3), (1000, 10), (1024, 10)]
)
def test_messages_by_hand(model, ranks, rounds):
    gradients = 10 * (1e-4 + rounds * (1e-5 + 1e-5))
    other = 1e-4 + rounds * (1e-5 + 4e-7)
    assert model.communicating(ranks) == pytest.approx(gradients + other)
    assert model.epoch(ranks, 4) == pytest.approx(0.014 + gradients + other)
    assert model.communicating(1) == 0
    assert model.epoch(1, 100) == pytest.approx(0.110)


def test_all_wait_for_the_last_process(model):
    patient = dataclasses.replace(model, scatter=1e-3)
    waiting = {n: patient.communicating(n) - model.communicating(n) for n in (2, 1024)}
    # The expected largest of two standard normal numbers is 1/sqrt(pi); of 1,024 it is 3.25.
    assert waiting[2] == pytest.approx(11 * 1e-3 / np.sqrt(np.pi), rel=0.05)
    largest = np.random.default_rng(0).standard_normal((1000, 1024)).max(1).mean()
    assert waiting[1024] == pytest.approx(11 * 1e-3 * largest, rel=0.01)


@pytest.fixture
def measured():
    """Three repeats: one process needs 100 us a step, two need 20 ms of messages more."""

    def run(env, ranks, local_steps, slower):
        return {
            "env": env,
            "ranks": ranks,
            "local_steps": local_steps,
            "epoch": local_steps * 1e-4 * slower + 0.02 * (ranks - 1),
            "messages": {"5000": 160.0, "4": 20.0} if ranks > 1 else {},
        }

    shares = [*((1, n) for n in scaling.LOCAL_STEPS), (2, 2000)]
    return {
        "machine": "A machine.",
        "runs": [
            run(env, *share, slower)
            for slower in (1.0, 0.9, 1.5)
            for env in ("CartPole-v1", "Hopper-v5")
            for share in shares
        ],
        "messages": [
            {"seconds": {str(m): 1e-5 + 1e-9 * m for m in scaling.FLOATS}, "call": call}
            for call in (4e-5, 3e-5, 9e-5)
        ],
    }


def test_predictions_stand_beside_what_was_measured(measured):
    for env in ("CartPole-v1", "Hopper-v5"):  # equal here, so that what fits one fits the other
        rows = [row for row in scaling.rows_of(measured) if row["env"] == env and row["shared"]]
        one, two, four, *_ = rows
        assert [row["ranks"] for row in rows[:3]] == [1, 2, 4]
        assert one["speed"] == one["measured"] == pytest.approx(10_000)
        assert two["epoch"] == pytest.approx(0.22)
        assert two["speed"] == two["measured"] == pytest.approx(4000 / 0.22)
        assert two["gain"] == two["measured_gain"] == pytest.approx(0.4 / 0.22)
        # 20 ms of messages of two: 9.8 ms by the line, the rest is waiting.
        messages = 160 * (4e-5 + 1e-5 + 5e-6) + 20 * (4e-5 + 1e-5 + 4e-9)
        waiting = (0.02 - messages) * scaling.last_of(4) / scaling.last_of(2)
        rounds = 160 * (1e-5 + 5e-6) + 20 * (1e-5 + 4e-9)
        assert four["epoch"] == pytest.approx(0.1 + messages + rounds + waiting)
        assert four["measured"] is None


def test_the_report_has_a_table_for_each_way_to_share_and_a_chart(measured, tmp_path):
    text = scaling.report(measured)
    assert "latency of 10.0 us and takes 1.00 ns a number; its call takes 40 us" in text
    assert "at times that scatter by 96 us" in text
    assert "180 messages an epoch, 160 of them gradients" in text
    assert text.count("| 1,024 |") == 4
    assert text.count("| 2 | 2,000 | 220 ms | 9% | 18,182 | 18,182 | 1.82 | 1.82 |") == 2
    scaling.chart(measured, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


@pytest.mark.commands
@pytest.mark.mpi
def test_a_short_measurement(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(scaling, "LOCAL_STEPS", [4, 4000])
    output = tmp_path / "scaling.json"
    flags = ["--envs", "CartPole-v1", "--epochs", "3", "--repeats", "1"]
    scaling.main(["measure", *flags, "--output", str(output)])
    measured = json.loads(output.read_text())
    assert [(run["ranks"], run["local_steps"]) for run in measured["runs"]] == [
        (1, 4),
        (1, 4000),
        (2, 2000),
        (2, 4000),
    ]
    # 80 steps on the values' 4,545 numbers and 80 on the policy's 4,610, each with a few to log.
    sizes = measured["runs"][-1]["messages"]
    gradients = {int(size): count for size, count in sizes.items() if int(size) > 1000}
    assert [*gradients.values()] == [80, 80]
    assert [size // 10 for size in sorted(gradients)] == [454, 461]
    assert all(seconds > 0 for seconds in measured["messages"][0]["seconds"].values())
    scaling.main(["report", str(output)])
    assert "CartPole-v1, epochs of 4,000 steps of all together:" in capsys.readouterr().out
