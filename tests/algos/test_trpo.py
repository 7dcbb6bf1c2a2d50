"""TRPO and NPG: the step and the line search."""

import numpy as np
import pytest

from spinup_tf2 import trpo
from spinup_tf2.core.natural_gradient import PolicyObjective
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import flat_concat
from tests.on_policy_runs import make, train

LOSSES = ["LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "KL"]


class Run:
    """A run of one epoch, and what happened in it.

    initial, final: the policy's parameters. candidates: those that were tried, in order.
    """

    def __init__(self, path, monkeypatch, env_fn=None, **kwargs):
        self.candidates, self.messages = [], []
        setter = PolicyObjective.params.fset

        def remember(objective, flat):
            setter(objective, flat)
            self.candidates.append(objective.params)

        def actor_critic(*args, **kwargs):
            ac = MLPActorCritic(*args, **kwargs)
            self.initial = flat_concat(ac.pi.trainable_variables).numpy()
            return ac

        with monkeypatch.context() as patch:
            patch.setattr(PolicyObjective, "params", PolicyObjective.params.setter(remember))
            patch.setattr(EpochLogger, "log", lambda _, text, **style: self.messages.append(text))
            kwargs = dict(epochs=1) | kwargs
            ac, rows = train(trpo, path, env_fn, actor_critic=actor_critic, **kwargs)
        self.final = flat_concat(ac.pi.trainable_variables).numpy()
        self.row = rows[-1]


def test_candidates_shrink_towards_the_old_parameters(tmp_path, monkeypatch):
    """Fisher products that are 400 times too small make the step 20 times too long."""
    product = PolicyObjective.fisher_product
    monkeypatch.setattr(
        PolicyObjective, "fisher_product", lambda *args: product(*args) / np.float32(400)
    )
    kwargs = dict(damping_coeff=0, backtrack_coeff=0.5)
    run = Run(tmp_path / "run", monkeypatch, make("Pendulum-v1"), **kwargs)
    iters = int(run.row["BacktrackIters"])
    assert iters == len(run.candidates) - 1 > 0
    assert f"Accepting new params at step {iters} of line search." in run.messages
    assert 0 < float(run.row["KL"]) <= 0.01
    assert float(run.row["DeltaLossPi"]) <= 0
    np.testing.assert_array_equal(run.final, run.candidates[-1])
    steps = [candidate - run.initial for candidate in run.candidates]
    for j, step in enumerate(steps):
        np.testing.assert_allclose(step, steps[0] * 0.5**j, atol=1e-6 * np.abs(steps[0]).max())

    # The same with one trial less: too far, refused, and nothing has changed.
    kwargs |= dict(backtrack_iters=iters)
    refused = Run(tmp_path / "refused", monkeypatch, make("Pendulum-v1"), **kwargs)
    assert "Line search failed! Keeping old params." in refused.messages
    np.testing.assert_array_equal(refused.final, refused.initial)
    assert int(refused.row["BacktrackIters"]) == iters - 1
    assert float(refused.row["KL"]) == pytest.approx(0, abs=1e-6)
    assert float(refused.row["DeltaLossPi"]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("kl", "loss", "accepted"),
    [
        (0.01, -0.1, True),
        (0.011, -0.1, False),
        (np.nan, -0.1, False),
        (0.01, 0.1, False),
        (0.01, np.nan, False),
    ],
)
def test_a_step_is_accepted_only_if_both_conditions_hold(tmp_path, monkeypatch, kl, loss, accepted):
    """The divergence must not be above delta, 0.01, nor the loss above that before, which is 0."""
    trials = iter([dict(KL=kl, LossPi=loss)] * 2)
    back = dict(KL=0.0, LossPi=0.0)  # at the old parameters
    monkeypatch.setattr(PolicyObjective, "evaluate", lambda *_: next(trials, back))
    run = Run(tmp_path / "run", monkeypatch, backtrack_iters=2)
    np.testing.assert_array_equal(run.final, run.candidates[0] if accepted else run.initial)
    assert len(run.candidates) == (1 if accepted else 3)  # two trials, and back


@pytest.mark.parametrize("algo", ["trpo", "npg"])
def test_without_a_gradient_nothing_changes(tmp_path, monkeypatch, algo):
    """Values of a zero observation are 0 at first, and every reward is 1: with lam 0 all
    advantages are equal, and 0 after normalisation."""
    run = Run(tmp_path / "run", monkeypatch, make("ProbeReward-v0"), lam=0, algo=algo)
    np.testing.assert_array_equal(run.final, run.initial)
    assert all(np.isfinite(float(run.row[name])) for name in LOSSES)
    assert float(run.row["LossPi"]) == 0
