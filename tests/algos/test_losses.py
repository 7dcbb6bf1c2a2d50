"""Losses of all algorithms: by hand, against scipy, and their gradients by finite differences."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import special, stats

from spinup_tf2.algos import a2c, ddpg, dqn, ppg, ppo, sac, td3, trpo, vpg
from spinup_tf2.core.gradient_steps import value_loss
from spinup_tf2.core.nets.heads import CategoricalPolicy
from spinup_tf2.core.nets.layers import mlp
from tests.off_policy_runs import differences, gradient

tfd = tfp.distributions

# ------------------------------------------------------------------------ finite differences

RNG = np.random.default_rng(0)
X, Y, Z, W = RNG.normal(size=(4, 6))
OLD = X + RNG.normal(size=6, scale=0.1)  # log-probabilities before
LOGITS, ACT = RNG.normal(size=(2, 3)), np.array([0, 2])
PROBS = np.full((2, 3), 1 / 3)


def of_logits(loss):
    """A loss of two policies, of which the new one has the logits x."""
    old = tfd.Categorical(logits=tf.constant(LOGITS))
    return lambda x: loss(tfd.Categorical(logits=tf.reshape(x, (2, 3))), old)


def penalty(pi, old):
    kl = old.kl_divergence(pi)
    return ppo.penalty_loss(pi.log_prob(ACT), old.log_prob(ACT), tf.constant(Y[:2]), kl, 3.0)[0]


def choices(x):
    return tf.reshape(x, (2, 3))


OF_X = {
    "value": lambda x: value_loss(x, Y)[0],
    "vpg": lambda x: vpg.policy_loss(x, OLD, Y)[0],
    "ppo": lambda x: ppo.policy_loss(x, OLD, Y, 0.2)[0],
    "ppo, penalty": of_logits(penalty),
    "trpo": of_logits(lambda pi, old: trpo.policy_loss(pi, old, ACT, tf.constant(Y[:2]))[0]),
    "trpo, divergence": of_logits(
        lambda pi, old: trpo.policy_loss(pi, old, ACT, tf.constant(Y[:2]))[1]["KL"]
    ),
    "a2c": lambda x: a2c.policy_loss(x, Y)[0],
    "ppg": lambda x: ppg.auxiliary_loss(Y, [x, x * Z], W, 3.0)[0],
    "ppg, divergence": lambda x: ppg.auxiliary_loss(x, [Y], Z, 3.0)[0],
    "ddpg, q": lambda x: ddpg.q_loss(x, Y)[0],
    "ddpg, pi": lambda x: ddpg.policy_loss(x)[0],
    "dqn": lambda x: dqn.q_loss(2 * x, Y)[0],  # errors on both sides of 1
    "dqn, value": lambda x: tf.reduce_sum(dqn.value_of_best(choices(Y), choices(x))),
    "td3, q1": lambda x: td3.q_loss(x, Y, Z)[0],
    "td3, q2": lambda x: td3.q_loss(Y, x, Z)[0],
    "td3, pi": lambda x: td3.policy_loss(x)[0],
    "sac, q1": lambda x: sac.q_loss(x, Y, Z)[0],
    "sac, q2": lambda x: sac.q_loss(Y, x, Z)[0],
    "sac, pi by logp": lambda x: sac.policy_loss(sac.soft_value(Y, Z, x, 0.3), x)[0],
    "sac, pi by q": lambda x: sac.policy_loss(sac.soft_value(x, Z, W, 0.3), W)[0],
    "sac, probabilities": lambda x: tf.reduce_sum(
        sac.soft_choice_value(choices(Y), choices(Z), choices(x), np.log(PROBS), 0.3)
    ),
    "sac, choices by q": lambda x: tf.reduce_sum(
        sac.soft_choice_value(choices(x), choices(Z), PROBS, choices(x), 0.3)
    ),
}


@pytest.mark.parametrize("name", OF_X)
def test_gradients_equal_finite_differences_and_compiled_losses_eager_ones(name):
    loss = OF_X[name]
    value, (grad,) = gradient(lambda params: loss(params[0]), [X])
    numeric = differences(lambda x: float(loss(tf.constant(x))), X)
    np.testing.assert_allclose(grad, numeric, atol=1e-8)
    assert float(tf.function(loss)(tf.constant(X))) == pytest.approx(value, rel=1e-12)


# ------------------------------------------------------------------------------ value, policy


def test_value_loss_by_hand():
    loss, _ = value_loss(tf.constant([1.0, 2.0]), tf.constant([0.0, 4.0]))
    assert loss == 2.5


def test_vpg_by_hand():
    """Probabilities 1/2 and 1/4, advantages 1 and -2: -(log(1/2) - 2 log(1/4)) / 2."""
    logp = np.log([0.5, 0.25]).astype(np.float32)
    old, adv = tf.math.log([0.25, 0.25]), tf.constant([1.0, -2])
    loss, info = vpg.policy_loss(tf.constant(logp), old, adv)
    assert float(loss) == pytest.approx(-(np.log(1 / 2) - 2 * np.log(1 / 4)) / 2, rel=1e-6)
    assert float(info["KL"]) == pytest.approx((np.log(0.25 / 0.5) + 0) / 2, rel=1e-6)
    assert float(info["Entropy"]) == pytest.approx(np.log(2 * 4) / 2, rel=1e-6)


def test_clipped_objective_by_hand():
    """eps = 0.2. Ratios 2, 2, 0.5, 0.25, 1.1 and advantages 2, -1, 3, -4, 10:

    min(2 * 2, 1.2 * 2) = 2.4     min(2 * -1, 1.2 * -1) = -2         1.1 * 10 = 11
    min(.5 * 3, .8 * 3) = 1.5     min(.25 * -4, .8 * -4) = -3.2
    """
    ratio, adv = np.float32([2, 2, 0.5, 0.25, 1.1]), tf.constant([2.0, -1, 3, -4, 10])
    old = np.float32([-1, -0.5, -2, -0.1, -0.4])
    loss, info = ppo.policy_loss(tf.constant(old + np.log(ratio)), old, adv, 0.2)
    assert float(loss) == pytest.approx(-(2.4 - 2 + 11 + 1.5 - 3.2) / 5, rel=1e-6)
    assert float(info["ClipFrac"]) == pytest.approx(4 / 5)
    assert float(info["KL"]) == pytest.approx(np.log(2 / 1.1) / 5, rel=1e-5)
    assert float(info["Entropy"]) == pytest.approx(4 / 5 + np.log(2 / 1.1) / 5, rel=1e-5)


def test_penalty_by_hand():
    """Ratios 2 and 0.5, advantages 1 and -2: r A = 2, -1. KL 0.1 and 0.3, beta = 5.

    -(2 - 1) / 2 + 5 * 0.2 = 0.5
    """
    old = tf.constant([-1.0, -0.5])
    adv, kl = tf.constant([1.0, -2.0]), tf.constant([0.1, 0.3])
    loss, info = ppo.penalty_loss(old + tf.math.log([2.0, 0.5]), old, adv, kl, 5.0)
    assert float(loss) == pytest.approx(0.5, rel=1e-6)
    assert float(info["KL"]) == pytest.approx(0.2, rel=1e-6)
    assert float(info["Entropy"]) == pytest.approx(0.75)  # -(-1 - 0.5 + log 2 - log 2) / 2


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        (0.031, 6),  # above 1.5 * 0.02 = 0.03
        (1.5 * 0.02, 3),
        (0.02 / 1.5, 3),
        (0.0133, 1.5),  # below 0.02 / 1.5 = 0.01333
        (0, 1.5),
    ],
)
def test_beta_follows_the_divergence(kl, expected):
    assert ppo.adapted_beta(3, kl, target_kl=0.02) == expected


def test_a2c_by_hand():
    loss, info = a2c.policy_loss(tf.constant([-1.0, -2.0]), tf.constant([3.0, -1.0]))
    assert loss == -(-1 * 3 + -2 * -1) / 2
    assert info["Entropy"] == 1.5


def test_auxiliary_loss_by_hand():
    """V - R = 2, 0: 2 on average; V_aux - R = 1, -3: 5; KL 0.1, 0.3: 0.2. 1 + 2.5 + 10 * 0.2."""
    ret, kl = tf.constant([1.0, 2.0]), tf.constant([0.1, 0.3])
    vals = [tf.constant([3.0, 2.0]), tf.constant([2.0, -1.0])]
    loss, info = ppg.auxiliary_loss(kl, vals, ret, 10.0)
    assert float(loss) == pytest.approx(5.5)
    assert {key: float(x) for key, x in info.items()} == pytest.approx(
        dict(AuxLossV=2, AuxLossVPi=5, AuxKL=0.2)
    )
    loss, info = ppg.auxiliary_loss(kl, vals[:1], ret, 10.0)  # one network: one value function
    assert float(loss) == pytest.approx(3)
    assert float(info["AuxLossV"]) == float(info["AuxLossVPi"]) == 2


# ------------------------------------------------------------------- surrogate and divergence


def test_surrogate_by_hand():
    """Action 0 has probability 1/2 now and had 1/4: ratio 2. Action 1: 1/2 and 3/4, ratio 2/3."""
    pi = tfd.Categorical(probs=np.full((2, 2), 0.5))
    pi_old = tfd.Categorical(probs=np.array([[0.25, 0.75]] * 2))
    adv = tf.constant([3.0, -1.5], tf.float64)
    loss, info = trpo.policy_loss(pi, pi_old, tf.constant([0, 1]), adv)
    assert float(loss) == pytest.approx(-(2 * 3 - 2 / 3 * 1.5) / 2)
    # KL(old || new) = 1/4 log(1/2) + 3/4 log(3/2), not the other way round.
    assert float(info["KL"]) == pytest.approx(np.log(0.5) / 4 + 3 / 4 * np.log(1.5))


def stored_and_divergence(old, new, obs):
    """What `old` says, out of one compiled function, and into another one, its divergence."""
    stored = tf.function(lambda obs: old(obs))(obs)
    return stored, tf.function(lambda stored, obs: stored.kl_divergence(new(obs)))(stored, obs)


@pytest.mark.parametrize("num_choices", [[4], [2, 3]])
def test_divergence_and_entropy_of_categorical_policies(num_choices):
    """Sums over the choices, of different size in the second case; scipy has one at a time."""
    obs = tf.constant(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    old, new = (
        CategoricalPolicy(mlp(3, (8,), sum(num_choices)), num_choices, len(num_choices) == 1)
        for _ in range(2)
    )
    stored, kl = stored_and_divergence(old, new, obs)
    splits = np.cumsum(num_choices)[:-1]
    p, q = (
        [special.softmax(x, axis=-1) for x in np.split(net.numpy(), splits, -1)]
        for net in (old.net(obs), new.net(obs))
    )
    expected = sum(stats.entropy(a, b, axis=-1) for a, b in zip(p, q, strict=True))
    np.testing.assert_allclose(kl, expected, rtol=1e-4)
    expected = sum(stats.entropy(a, axis=-1) for a in p)
    np.testing.assert_allclose(stored.entropy(), expected, rtol=1e-4)


# --------------------------------------------------------------------------------- off-policy


def test_off_policy_by_hand():
    """Squared errors 1 and 9 of Q1, 0 and 4 of Q2: means 5 and 2. The policy's values: 3."""
    q1, q2, backup = (tf.constant(x) for x in ([1.0, 2.0], [0.0, 3.0], [0.0, 5.0]))
    loss, info = ddpg.q_loss(q1, backup)
    assert loss == info["LossQ"] == 5
    np.testing.assert_array_equal(info["QVals"], q1)
    loss, of_td3 = td3.q_loss(q1, q2, backup)
    assert loss == of_td3["LossQ"] == 7
    loss, of_sac = sac.q_loss(q1, q2, backup)  # half the means
    assert (loss, of_sac["LossQ1"], of_sac["LossQ2"]) == (3.5, 2.5, 1)
    for info in (of_td3, of_sac):
        np.testing.assert_array_equal([info["Q1Vals"], info["Q2Vals"]], [q1, q2])

    val, logp = tf.constant([2.0, 4.0]), tf.constant([-1.0, 0.5])
    of_all = ddpg.policy_loss(val), td3.policy_loss(val), sac.policy_loss(val, logp)
    for loss, info in of_all:
        assert loss == info["LossPi"] == -3
    np.testing.assert_array_equal(info["LogPi"], logp)


def test_smoothed_action_by_hand():
    """sigma 0.2, c 0.5. Noise 1 is 0.2; 3 and -10 are cut to 0.5 and -0.5; then +-1 cuts:

    0.1 + 0.2 = 0.3     0.1 + 0.5 = 0.6     0.9 + 0.5 -> 1     -0.8 - 0.5 -> -1     1 - 0.2 = 0.8
    """
    act = np.array([[0.1], [0.1], [0.9], [-0.8], [1.0]], np.float32)
    noise = np.array([[1.0], [3.0], [3.0], [-10.0], [-1.0]], np.float32)
    smoothed = td3.smoothed_action(act, noise, 0.2, 0.5)
    np.testing.assert_allclose(smoothed, [[0.3], [0.6], [1], [-1], [0.8]], rtol=1e-6)


def test_dqn_by_hand():
    """Errors -0.5, 1, 3 and -2: (1/8 + 1/2 + 5/2 + 3/2) / 4; squared, (1/8 + 1/2 + 9/2 + 2) / 4.

    One network chooses, the other judges.
    """
    q, backup = tf.constant([1.0, 2.0, 5.0, 1.0]), tf.constant([1.5, 1.0, 2.0, 3.0])
    for huber, expected in ((True, 4.625), (False, 7.125)):
        loss, info = dqn.q_loss(q, backup, huber)
        assert float(loss) == float(info["LossQ"]) == pytest.approx(expected / 4)
    np.testing.assert_array_equal(info["QVals"], q)
    choosing, judging = np.random.default_rng(0).normal(size=(2, 20, 4))
    expected = [judging[i, max(range(4), key=lambda a: choosing[i, a])] for i in range(20)]
    np.testing.assert_array_equal(dqn.value_of_best(choosing, judging), expected)


def test_soft_value_equals_numpy():
    q1, q2, logp = np.random.default_rng(0).normal(size=(3, 20))
    expected = [min(a, b) - 0.3 * c for a, b, c in zip(q1, q2, logp, strict=True)]
    np.testing.assert_allclose(sac.soft_value(q1, q2, logp, 0.3), expected)


def test_soft_value_of_choices_equals_numpy():
    """And where both Q-functions agree and pi ~ exp(Q / alpha), it is alpha log sum exp(Q / alpha):

    the largest value that any policy can have.
    """
    q1, q2, logits = np.random.default_rng(0).normal(size=(3, 20, 4))
    probs = special.softmax(logits, axis=1)
    expected = [
        sum(probs[i, a] * (min(q1[i, a], q2[i, a]) - 0.3 * np.log(probs[i, a])) for a in range(4))
        for i in range(20)
    ]
    np.testing.assert_allclose(sac.soft_choice_value(q1, q2, probs, np.log(probs), 0.3), expected)

    best = special.softmax(q1 / 0.3, axis=1)
    maximum = 0.3 * special.logsumexp(q1 / 0.3, axis=1)
    np.testing.assert_allclose(sac.soft_choice_value(q1, q1, best, np.log(best), 0.3), maximum)
    assert (sac.soft_choice_value(q1, q1, probs, np.log(probs), 0.3) < maximum).numpy().all()


def test_temperature_loss_by_hand():
    """Entropy 2 (LogPi -2 on average) above its target 1: a step down its slope lowers log alpha.

    L = -log(alpha) (-2 + 1) = log(alpha), whatever log alpha is; the policy is not moved by it.
    """
    for entropy, slope in ((2.0, 1.0), (1.0, 0.0), (-0.5, -1.5)):
        log_alpha, logp = tf.Variable(-0.7), tf.Variable([-entropy - 1, -entropy + 1])
        with tf.GradientTape() as tape:
            loss = sac.temperature_loss(log_alpha, logp, 1.0)
        assert float(loss) == pytest.approx(-0.7 * slope)
        by_log_alpha, by_logp = tape.gradient(loss, [log_alpha, logp])
        assert float(by_log_alpha) == pytest.approx(slope)
        assert by_logp is None
