"""VPG: its loss by hand, its columns, and that it learns the identity."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import stats
from spinup_tf2.core.gradient_steps import GradientSteps

from spinup_tf2 import vpg
from spinup_tf2.algos.vpg import policy_loss
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from tests.on_policy_runs import COLUMNS, Identity, positional_defaults, train

VPG_COLUMNS = [
    *(*COLUMNS, "LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL", "Time"),
]


def test_signature_is_spinning_ups_with_additions_by_keyword_only():
    expected = dict(
        env_fn=inspect.Parameter.empty,
        actor_critic=MLPActorCritic,
        ac_kwargs=None,
        seed=0,
        steps_per_epoch=4000,
        epochs=50,
        gamma=0.99,
        pi_lr=3e-4,
        vf_lr=1e-3,
        train_v_iters=80,
        lam=0.97,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=10,
    )
    assert positional_defaults(vpg) == list(expected.items())


def test_policy_loss_by_hand():
    """Probabilities 1/2 and 1/4, advantages 1 and -2: -(log(1/2) - 2 log(1/4)) / 2."""
    logp = np.log([0.5, 0.25]).astype(np.float32)
    loss, info = policy_loss(tf.constant(logp), tf.math.log([0.25, 0.25]), tf.constant([1.0, -2]))
    assert float(loss) == pytest.approx(-(np.log(1 / 2) - 2 * np.log(1 / 4)) / 2, rel=1e-6)
    assert float(info["KL"]) == pytest.approx((np.log(0.25 / 0.5) + 0) / 2, rel=1e-6)
    assert float(info["Entropy"]) == pytest.approx(np.log(2 * 4) / 2, rel=1e-6)


def test_gradient_is_the_policy_gradient():
    """Of mean(A grad log pi); for softmax logits grad log pi(a) = onehot(a) - pi (by hand)."""
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=3))
    act, adv = rng.integers(3, size=50), rng.normal(size=50)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        logp = tf.gather(tf.nn.log_softmax(logits), act)
        loss, _ = policy_loss(logp, logp, tf.constant(adv))
    pi = np.exp(logits) / np.exp(logits).sum()
    expected = np.mean(adv[:, None] * (np.eye(3)[act] - pi), axis=0)
    np.testing.assert_allclose(tape.gradient(loss, logits), -expected, rtol=1e-9)


def test_entropy_and_kl_estimate_those_of_scipy():
    """From 200,000 actions of a Gaussian, within four standard errors."""
    old, new = stats.norm(0, 0.5), stats.norm(0.1, 0.6)
    act = old.rvs(200_000, random_state=0)
    _, info = policy_loss(
        *(tf.constant(p.logpdf(act)) for p in (new, old)), tf.zeros(1, tf.float64)
    )
    kl = np.log(0.6 / 0.5) + (0.5**2 + 0.1**2) / (2 * 0.6**2) - 0.5
    assert float(info["KL"]) == pytest.approx(kl, abs=4 * 0.3 / np.sqrt(len(act)))
    # Entropy: of the policy that is given, from the actions of the one that acted.
    _, info = policy_loss(*[tf.constant(old.logpdf(act))] * 2, tf.zeros(1, tf.float64))
    assert float(info["Entropy"]) == pytest.approx(old.entropy(), abs=4 / np.sqrt(len(act)))


def test_columns_and_numbers(tmp_path):
    _, rows = train(vpg, tmp_path / "run")
    assert [list(row) for row in rows] == [VPG_COLUMNS] * 2
    assert [row["TotalEnvInteracts"] for row in rows] == ["200", "400"]
    for row in rows:
        assert float(row["DeltaLossPi"]) < 0  # one small step down the loss
        assert 0.6 < float(row["Entropy"]) <= 0.70  # of about log 2
        assert float(row["KL"]) != 0  # after the step


def test_same_seed_same_numbers(tmp_path):
    (_, first), (_, second) = (train(vpg, tmp_path / name, seed=3) for name in ("a", "b"))
    for row in first + second:
        del row["Time"]
    assert first == second


def test_everything_is_compiled_once(tmp_path, monkeypatch):
    made, init = [], GradientSteps.__init__

    def remember(self, *args, **kwargs):
        init(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(GradientSteps, "__init__", remember)
    train(vpg, tmp_path / "run", epochs=4)
    [policy_and_value_steps] = [loop for steps in made for loop in steps.compiled_passes.values()]
    assert policy_and_value_steps.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("action_space", "solved"),
    [(spaces.Discrete(3), 9.5), (spaces.Box(-1, 1, (1,), np.float32), -0.5)],
    ids=["Discrete", "Box"],
)
def test_learns_the_identity(tmp_path, action_space, solved):
    """Ten steps an episode. At first the returns are about 10 / 3 and -10 (1/3 + exp(-1))."""
    kwargs = dict(steps_per_epoch=400, epochs=40, pi_lr=0.05, vf_lr=0.01)
    kwargs |= dict(ac_kwargs=dict(hidden_sizes=(16,)))
    _, rows = train(vpg, tmp_path / "run", lambda: Identity(action_space), **kwargs)
    assert float(rows[-1]["AverageEpRet"]) > solved
