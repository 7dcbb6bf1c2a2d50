"""TRPO and NPG: loss and divergence by hand, the step, the line search, learning the identity."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces
from scipy import stats
from spinup_tf2.core.natural_gradient import PolicyObjective

from spinup_tf2 import trpo
from spinup_tf2.algos.trpo import policy_loss
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.nets.heads import GaussianPolicy
from spinup_tf2.errors import UserError
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import flat_concat
from tests.on_policy_runs import COLUMNS, Identity, make, positional_defaults, train

tfd = tfp.distributions
LOSSES = ["LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "KL"]


def test_signature_is_spinning_ups_with_additions_by_keyword_only():
    expected = dict(
        env_fn=inspect.Parameter.empty,
        actor_critic=MLPActorCritic,
        ac_kwargs=None,
        seed=0,
        steps_per_epoch=4000,
        epochs=50,
        gamma=0.99,
        delta=0.01,
        vf_lr=1e-3,
        train_v_iters=80,
        damping_coeff=0.1,
        cg_iters=10,
        backtrack_iters=10,
        backtrack_coeff=0.8,
        lam=0.97,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=10,
        algo="trpo",
    )
    assert positional_defaults(trpo) == list(expected.items())


# ------------------------------------------------------------------- surrogate and divergence


def test_surrogate_by_hand():
    """Action 0 has probability 1/2 now and had 1/4: ratio 2. Action 1: 1/2 and 3/4, ratio 2/3."""
    pi = tfd.Categorical(probs=np.full((2, 2), 0.5))
    pi_old = tfd.Categorical(probs=np.array([[0.25, 0.75]] * 2))
    loss, info = policy_loss(pi, pi_old, tf.constant([0, 1]), tf.constant([3.0, -1.5], tf.float64))
    assert float(loss) == pytest.approx(-(2 * 3 - 2 / 3 * 1.5) / 2)
    # KL(old || new) = 1/4 log(1/2) + 3/4 log(3/2), not the other way round.
    assert float(info["KL"]) == pytest.approx(np.log(0.5) / 4 + 3 / 4 * np.log(1.5))
    assert float(info["KL"]) == pytest.approx(stats.entropy([0.25, 0.75], [0.5, 0.5]))


def test_divergence_of_gaussians_goes_from_old_to_new():
    """KL(N0 || N1) = sum log(s1 / s0) + (s0^2 + (m0 - m1)^2) / (2 s1^2) - 1/2, by numpy."""
    rng = np.random.default_rng(0)
    m_old, m_new = rng.normal(size=(2, 6, 2))
    s_old, s_new = np.array([0.5, 2.0]), np.array([1.0, 0.7])
    old = tfd.MultivariateNormalDiag(m_old, s_old)
    new = tfd.MultivariateNormalDiag(m_new, s_new)
    act = rng.normal(size=(6, 2))
    loss, info = policy_loss(new, old, tf.constant(act), tf.ones(6, tf.float64))
    kl = np.log(s_new / s_old) + (s_old**2 + (m_old - m_new) ** 2) / (2 * s_new**2) - 0.5
    assert float(info["KL"]) == pytest.approx(kl.sum(axis=1).mean())
    ratio = stats.norm(m_new, s_new).pdf(act) / stats.norm(m_old, s_old).pdf(act)
    assert float(loss) == pytest.approx(-ratio.prod(axis=1).mean())


def test_divergence_of_several_choices_is_the_sum_over_them():
    rng = np.random.default_rng(0)
    p_old, p_new = rng.dirichlet(np.ones(3), size=(2, 5, 2))
    old, new = (tfd.Independent(tfd.Categorical(probs=p), 1) for p in (p_old, p_new))
    _, info = policy_loss(new, old, tf.zeros((5, 2), tf.int32), tf.zeros(5, tf.float64))
    expected = stats.entropy(p_old, p_new, axis=-1).sum(axis=1).mean()
    assert float(info["KL"]) == pytest.approx(expected)


# --------------------------------------------------------------------------- the line search


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


# ---------------------------------------------------------------------------- a run as a whole


@pytest.mark.parametrize(("algo", "search"), [("trpo", ["BacktrackIters"]), ("npg", [])])
def test_columns(tmp_path, algo, search):
    _, rows = train(trpo, tmp_path / "run", algo=algo)
    assert [list(row) for row in rows] == [[*COLUMNS, *LOSSES, *search, "Time"]] * 2
    assert all(float(row["KL"]) > 0 for row in rows)


def test_same_seed_same_numbers(tmp_path):
    (_, first), (_, second) = (train(trpo, tmp_path / name, seed=3) for name in ("a", "b"))
    for row in first + second:
        del row["Time"]
    assert first == second


def test_everything_is_compiled_once(tmp_path, monkeypatch):
    """More epochs do not call the policy's Python code more often."""
    calls, call = [], GaussianPolicy.call

    def count(self, obs):
        calls.append(obs)
        return call(self, obs)

    monkeypatch.setattr(GaussianPolicy, "call", count)
    train(trpo, tmp_path / "short", make("Pendulum-v1"), epochs=1)
    short = len(calls)
    train(trpo, tmp_path / "long", make("Pendulum-v1"), epochs=4)
    assert len(calls) == 2 * short


@pytest.mark.parametrize("algo", ["trpo", "npg"])
@pytest.mark.parametrize(
    ("action_space", "solved"),
    [(spaces.Discrete(3), 9.0), (spaces.Box(-1, 1, (1,), np.float32), -0.5)],
    ids=["Discrete", "Box"],
)
def test_learns_the_identity(tmp_path, algo, action_space, solved):
    """Ten steps an episode. At first the returns are about 10 / 3 and -10 (1/3 + exp(-1))."""
    kwargs = dict(steps_per_epoch=400, epochs=20, delta=0.05, vf_lr=0.01, algo=algo)
    kwargs |= dict(ac_kwargs=dict(hidden_sizes=(16,)))
    _, rows = train(trpo, tmp_path / "run", lambda: Identity(action_space), **kwargs)
    assert max(float(row["AverageEpRet"]) for row in rows[-3:]) > solved


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(algo="ppo"), "algo is 'ppo'; it must be 'trpo' or 'npg'"),
        (dict(delta=0), "delta is 0; it must be a number above 0"),
        (dict(damping_coeff=-0.1), "damping_coeff is -0.1"),
        (dict(cg_iters=0), "cg_iters is 0; it must be a whole number of at least 1"),
        (dict(backtrack_iters=2.5), "backtrack_iters is 2.5"),
        (dict(backtrack_coeff=1), "backtrack_coeff is 1; it must be a number above 0 and below 1"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, kwargs, message):
    with pytest.raises(UserError, match=message):
        train(trpo, tmp_path / "run", **kwargs)
    assert not (tmp_path / "run").exists()
