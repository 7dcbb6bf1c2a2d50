"""SAC: its signature, its losses by hand, a run's updates once more, slowly; its temperature."""

import inspect
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special, stats
from spinup_tf2.core.update_block import UpdateBlock
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training.saver import export_meta_graph

from spinup_tf2 import sac
from spinup_tf2.algos.sac import (
    policy_loss,
    q_loss,
    soft_choice_value,
    soft_value,
    temperature_loss,
)
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from spinup_tf2.errors import UserError
from tests.off_policy_runs import (
    COLUMNS,
    UNEQUAL_BOUNDS,
    Adam,
    assert_all_close,
    assert_all_moved,
    dense,
    differences,
    followed,
    four,
    gradient,
    halves,
    minibatches,
    q_of,
    train,
    two_blocks_of_seven,
)
from tests.on_policy_runs import Identity, make, positional_defaults


def test_signature_is_spinning_ups_with_additions_by_keyword_only():
    expected = dict(
        env_fn=inspect.Parameter.empty,
        actor_critic=MLPQActorCritic,
        ac_kwargs=None,
        seed=0,
        steps_per_epoch=4000,
        epochs=100,
        replay_size=1_000_000,
        gamma=0.99,
        polyak=0.995,
        lr=1e-3,
        alpha=0.2,
        batch_size=100,
        start_steps=10000,
        update_after=1000,
        update_every=50,
        num_test_episodes=10,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=1,
    )
    assert positional_defaults(sac) == list(expected.items())


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_columns(tmp_path, env_id):
    """Spinning Up's (of its TensorFlow version, with two LossQ), and Alpha."""
    _, (row,) = train(sac, tmp_path / "run", make(env_id), epochs=1)
    quantities = [name for q in ("Q1Vals", "Q2Vals", "LogPi") for name in four(q)]
    assert [*row] == [*COLUMNS, *quantities, "LossPi", "LossQ1", "LossQ2", "Alpha", "Time"]
    assert all(row.values())


# --------------------------------------------------------------------------------- the losses


def test_soft_value_equals_numpy():
    q1, q2, logp = np.random.default_rng(0).normal(size=(3, 20))
    expected = [min(a, b) - 0.3 * c for a, b, c in zip(q1, q2, logp, strict=True)]
    np.testing.assert_allclose(soft_value(q1, q2, logp, 0.3), expected)


def test_soft_value_of_choices_equals_numpy():
    """And where both Q-functions agree and pi ~ exp(Q / alpha), it is alpha log sum exp(Q / alpha):

    the largest value that any policy can have.
    """
    rng = np.random.default_rng(0)
    q1, q2, logits = rng.normal(size=(3, 20, 4))
    probs = special.softmax(logits, axis=1)
    expected = [
        sum(probs[i, a] * (min(q1[i, a], q2[i, a]) - 0.3 * np.log(probs[i, a])) for a in range(4))
        for i in range(20)
    ]
    np.testing.assert_allclose(soft_choice_value(q1, q2, probs, np.log(probs), 0.3), expected)

    best = special.softmax(q1 / 0.3, axis=1)
    maximum = 0.3 * special.logsumexp(q1 / 0.3, axis=1)
    np.testing.assert_allclose(soft_choice_value(q1, q1, best, np.log(best), 0.3), maximum)
    assert (soft_choice_value(q1, q1, probs, np.log(probs), 0.3) < maximum).numpy().all()


def test_losses_by_hand():
    """Squared errors 1 and 9 of Q1, 0 and 4 of Q2: half the means are 2.5 and 1."""
    q1, q2 = tf.constant([1.0, 2.0]), tf.constant([0.0, 3.0])
    loss, info = q_loss(q1, q2, tf.constant([0.0, 5.0]))
    assert (loss, info["LossQ1"], info["LossQ2"]) == (3.5, 2.5, 1)
    np.testing.assert_array_equal(info["Q1Vals"], q1)
    np.testing.assert_array_equal(info["Q2Vals"], q2)
    logp = tf.constant([-1.0, 0.5])
    loss, info = policy_loss(tf.constant([2.0, 4.0]), logp)
    assert loss == info["LossPi"] == -3
    np.testing.assert_array_equal(info["LogPi"], logp)


def test_temperature_loss_by_hand():
    """Entropy 2 (LogPi -2 on average) above its target 1: a step down its slope lowers log alpha.

    L = -log(alpha) (-2 + 1) = log(alpha), whatever log alpha is; the policy is not moved by it.
    """
    for entropy, slope in ((2.0, 1.0), (1.0, 0.0), (-0.5, -1.5)):
        log_alpha, logp = tf.Variable(-0.7), tf.Variable([-entropy - 1, -entropy + 1])
        with tf.GradientTape() as tape:
            loss = temperature_loss(log_alpha, logp, 1.0)
        assert float(loss) == pytest.approx(-0.7 * slope)
        by_log_alpha, by_logp = tape.gradient(loss, [log_alpha, logp])
        assert float(by_log_alpha) == pytest.approx(slope)
        assert by_logp is None


def test_gradients_equal_finite_differences():
    q1, q2, x, backup = np.random.default_rng(0).normal(size=(4, 6))
    probs, log_probs = np.full((2, 3), 1 / 3), np.full((2, 3), np.log(1 / 3))
    choices = lambda x: tf.reshape(x, (2, 3))  # noqa: E731
    for loss in (
        lambda x: q_loss(x, q2, backup)[0],
        lambda x: q_loss(q1, x, backup)[0],
        lambda x: policy_loss(x, q1)[0],
        lambda x: policy_loss(soft_value(q1, q2, x, 0.3), x)[0],
        lambda x: policy_loss(soft_value(x, q2, q1, 0.3), q1)[0],
        lambda x: tf.reduce_sum(
            soft_choice_value(choices(q1), choices(q2), choices(x), log_probs, 0.3)
        ),
        lambda x: tf.reduce_sum(soft_choice_value(choices(x), choices(q2), probs, choices(x), 0.3)),
    ):
        _, (grad,) = gradient(lambda params, loss=loss: loss(params[0]), [x])
        numeric = differences(lambda x, loss=loss: float(loss(tf.constant(x))), x)
        np.testing.assert_allclose(grad, numeric, atol=1e-8)


# ------------------------------------------------------------------------ a run's updates


def squashed(params, obs, noise):
    """Action and log-probability of tanh(u), u = mean + std * noise, with Spinning Up's formula:

    log N(u) - sum(2 (log 2 - u - softplus(-2 u)))
    """
    mean, log_std = tf.split(dense(params, obs), 2, axis=1)
    std = tf.exp(tf.clip_by_value(log_std, -20, 2))
    u = mean + std * noise
    log_density = -0.5 * ((u - mean) / std) ** 2 - tf.math.log(std) - 0.5 * np.log(2 * np.pi)
    correction = 2 * (np.log(2) - u - tf.math.softplus(-2 * u))
    return tf.tanh(u), tf.reduce_sum(log_density - correction, axis=1)


def test_the_formula_of_the_slow_version_is_a_density():
    """Its exponential is a change of variables of the normal density, in one dimension."""
    params, noise = [np.array([[0.3, -0.5]]), np.zeros(2)], np.linspace(-2, 2, 9)[:, None]
    act, logp = squashed(params, tf.ones((9, 1), tf.float64), noise)
    u = np.arctanh(act.numpy()[:, 0])
    density = stats.norm.pdf(u, 0.3, np.exp(-0.5)) / (1 - np.tanh(u) ** 2)
    np.testing.assert_allclose(np.exp(logp), density)


def continuous_value(pi, q, obs, noise, alpha):
    """V(s) and log pi(a|s)."""
    act, logp = squashed(pi, obs, noise)
    return tf.minimum(*[q_of(each, obs, act) for each in halves(q)]) - alpha * logp, logp


def discrete_value(pi, q, obs, noise, alpha):
    """V(s) and sum_a pi(a|s) log pi(a|s), choice by choice."""
    logits = dense(pi, obs)
    probs = tf.exp(logits) / tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True)
    q1, q2 = [dense(each, obs) for each in halves(q)]
    val = logp = 0
    for a in range(3):
        log_prob = tf.math.log(probs[:, a])
        val += probs[:, a] * (tf.minimum(q1[:, a], q2[:, a]) - alpha * log_prob)
        logp += probs[:, a] * log_prob
    return val, logp


def discrete_q(params, obs, act):
    return tf.reduce_sum(dense(params, obs) * np.eye(3)[act.astype(int)], axis=1)


CONTINUOUS = SimpleNamespace(space=UNEQUAL_BOUNDS, value=continuous_value, q=q_of)
DISCRETE = SimpleNamespace(space=spaces.Discrete(3), value=discrete_value, q=discrete_q)


@pytest.mark.parametrize(
    ("kind", "kwargs", "target_entropy"),
    [
        (CONTINUOUS, dict(alpha=0.3), None),
        (CONTINUOUS, dict(alpha="auto"), -3),
        (CONTINUOUS, dict(alpha="auto", target_entropy=0.5), 0.5),
        (DISCRETE, dict(alpha=0.3), None),
        (DISCRETE, dict(alpha="auto"), 0.98 * np.log(3)),
    ],
    ids=["alpha", "auto", "target_entropy", "discrete alpha", "discrete auto"],
)
def test_updates_by_hand(tmp_path, monkeypatch, kind, kwargs, target_entropy):
    """The backup is of the policy and the temperature before their steps."""
    kwargs = dict(kwargs, lr=0.02)
    recorded, _ = two_blocks_of_seven(sac, tmp_path / "run", monkeypatch, kind.space, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam, alpha_adam = dict(start), Adam(0.02), Adam(0.02), Adam(0.02)
    log_alpha = np.array(0.0 if target_entropy is not None else np.log(0.3))
    for _, batches, info, after in recorded.blocks:
        for j, b in enumerate(minibatches(batches)):
            alpha = np.exp(log_alpha)
            noise, next_noise = (getattr(b, name, None) for name in ("noise", "next_noise"))
            next_val, _ = kind.value(now["pi"], now["target_q"], b.next_obs, next_noise, alpha)
            backup = b.rew + 0.9 * (1 - b.terminated) * next_val

            def losses_q(params, b=b, backup=backup):
                errors = [kind.q(q, b.obs, b.act) - backup for q in halves(params)]
                return [tf.reduce_mean(error**2) / 2 for error in errors]

            def loss_pi(pi, b=b, noise=noise, alpha=alpha):
                return -tf.reduce_mean(kind.value(pi, now["q"], b.obs, noise, alpha)[0])

            for i, q in enumerate(halves(now["q"])):
                np.testing.assert_allclose(
                    info[f"Q{i + 1}Vals"][j], kind.q(q, b.obs, b.act), atol=1e-5
                )
                loss = float(losses_q(now["q"])[i])
                assert info[f"LossQ{i + 1}"][j] == pytest.approx(loss, rel=1e-4)
            _, grads = gradient(lambda params, f=losses_q: sum(f(params)), now["q"])
            now["q"] = q_adam(now["q"], grads)

            _, logp = kind.value(now["pi"], now["q"], b.obs, noise, alpha)
            loss, grads = gradient(loss_pi, now["pi"])
            assert info["LossPi"][j] == pytest.approx(loss, rel=1e-4, abs=1e-5)
            assert info["Alpha"][j] == pytest.approx(alpha, rel=1e-5)
            np.testing.assert_allclose(info["LogPi"][j], logp, atol=1e-4)
            now["pi"] = pi_adam(now["pi"], grads)
            if target_entropy is not None:
                slope = np.array(-(np.mean(logp) + target_entropy))
                (log_alpha,) = alpha_adam([log_alpha], [slope])
            now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert_all_close({**after, "target_pi": []}, {**now, "target_pi": []})
    del now["target_pi"]  # is not used, and stays as it is
    assert_all_moved(start, now)


# --------------------------------------------------------------------------- the temperature


def test_fixed_alpha_is_logged_as_it_is(tmp_path):
    _, rows = train(sac, tmp_path / "run", alpha=0.125)
    assert [row["Alpha"] for row in rows] == ["0.125"] * 2


@pytest.mark.parametrize(("alpha", "start"), [("auto", 1), ("auto_0.25", 0.25), ("auto_2", 2)])
def test_where_learned_alpha_starts(tmp_path, alpha, start):
    _, (row,) = train(sac, tmp_path / "run", alpha=alpha, lr=0, epochs=1)
    assert float(row["Alpha"]) == pytest.approx(start, rel=1e-6)
    _, (row,) = train(sac, tmp_path / "learned", alpha=alpha, lr=1e-3, epochs=1)
    assert float(row["Alpha"]) != pytest.approx(start, rel=1e-4)


@pytest.mark.parametrize(
    ("action_space", "target_entropy", "expected"),
    [
        (spaces.Box(-1, 1, (2,)), None, -2),
        (spaces.Box(-1, 1, (2,)), 0.5, 0.5),
        (spaces.Discrete(3), 0.3, 0.3),
    ],
)
def test_learned_alpha_brings_the_entropy_to_its_target(
    tmp_path, action_space, target_entropy, expected
):
    """Which is far from that of a uniform policy (log 4 and log 3), and of the best one: none."""
    kwargs = dict(alpha="auto", target_entropy=target_entropy, lr=0.01, gamma=0.0)
    kwargs |= dict(steps_per_epoch=500, epochs=3, ac_kwargs=dict(hidden_sizes=(32,)))
    _, rows = train(sac, tmp_path / "run", lambda: Identity(action_space), **kwargs)
    assert -float(rows[-1]["AverageLogPi"]) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(
    "alpha",
    ["foo", -1, None, float("nan"), True, "auto_", "auto_0", "auto_-1", "auto_inf", "auto_x", "_1"],
)
def test_wrong_alpha_is_refused(tmp_path, alpha):
    with pytest.raises(UserError, match=r"alpha is .*; it must be a number.*or 'auto'"):
        train(sac, tmp_path / "run", alpha=alpha)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------ what it trains


def test_discrete_actions_are_learned(tmp_path):
    """The best return is 10; a policy that does not look at what is shown gets 2.5."""
    kwargs = dict(alpha=0.05, lr=0.01, gamma=0.5, polyak=0.9, ac_kwargs=dict(hidden_sizes=(32,)))
    ac, rows = train(
        sac, tmp_path / "run", lambda: Identity(spaces.Discrete(4)), epochs=4, **kwargs
    )
    assert float(rows[-1]["AverageTestEpRet"]) == 10
    np.testing.assert_array_equal(ac.act(np.eye(4, dtype=np.float32), deterministic=True), range(4))


def test_the_temperature_is_read_before_it_is_written(tmp_path, monkeypatch):
    """Nothing but that order connects its use in the Q-functions' loss with its own step.

    It must be kept by TensorFlow's optimizers, too, or equal runs end in different digits.
    """
    options = {}
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", options.update)
    recorded, _ = two_blocks_of_seven(sac, tmp_path / "run", monkeypatch, alpha="auto")
    log_alpha = recorded.steps[1].variables[-1]
    assert log_alpha.name == "log_alpha"
    update = tf.function(partial(UpdateBlock(recorded.steps)._updates, phase=0))
    _, batches, _, _ = recorded.blocks[0]
    signature = {key: tf.TensorSpec((1, *x.shape[1:]), x.dtype) for key, x in batches.items()}
    function = update.get_concrete_function(signature)
    assert not reads_that_may_come_late(function, log_alpha, options)
    # The test can fail: it does with what TensorFlow does by itself.
    assert reads_that_may_come_late(function, log_alpha, {})


def reads_that_may_come_late(function, variable, options):
    """Reads of a variable before which, in the optimized graph, it may be written."""
    [handle] = [x.name for h, x in function.graph.captures if h is variable.value.handle]
    fetches = [x.name for x in [*function.graph.outputs, *function.graph.control_outputs]]
    graph = export_meta_graph(
        graph_def=function.graph.as_graph_def(add_shapes=True), graph=function.graph
    )
    graph.collection_def["train_op"].node_list.value.extend(fetches)
    config = config_pb2.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.min_graph_nodes = -1
    if options.get("dependency_optimization") is False:
        rewriting.dependency_optimization = rewriting.OFF
    nodes = {node.name: node for node in tf_optimizer.OptimizeGraph(config, graph).node}
    handle = handle.split(":")[0]
    uses = [n for n in nodes.values() if any(x.split(":")[0] == handle for x in n.input)]
    reads = {n.name for n in uses if n.op == "ReadVariableOp"}
    [write] = [n for n in uses if n.op == "AssignSubVariableOp"]
    before, waiting = set(), [write]
    while waiting:
        for name in (x.lstrip("^").split(":")[0] for x in waiting.pop().input):
            if name not in before:
                before.add(name)
                waiting.append(nodes[name])
    return reads - before
