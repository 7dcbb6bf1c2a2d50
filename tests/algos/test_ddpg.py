"""DDPG: its signature, its losses by hand, and a run's updates once more, slowly."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import ddpg
from spinup_tf2.algos.ddpg import policy_loss, q_loss
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from tests.off_policy_runs import (
    COLUMNS,
    Adam,
    assert_all_close,
    assert_all_moved,
    dense,
    differences,
    followed,
    four,
    gradient,
    minibatches,
    q_of,
    train,
    two_blocks_of_seven,
)
from tests.on_policy_runs import positional_defaults


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
        pi_lr=1e-3,
        q_lr=1e-3,
        batch_size=100,
        start_steps=10000,
        update_after=1000,
        update_every=50,
        act_noise=0.1,
        num_test_episodes=10,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=1,
    )
    assert positional_defaults(ddpg) == list(expected.items())


def test_columns(tmp_path):
    _, (row,) = train(ddpg, tmp_path / "run", epochs=1)
    assert [*row] == [*COLUMNS, *four("QVals"), "LossPi", "LossQ", "Time"]
    assert all(row.values())


# --------------------------------------------------------------------------------- the losses


def test_losses_by_hand():
    """Errors 1 and -3: (1 + 9) / 2 = 5. Values 2 and 4 of the policy's actions: -3."""
    loss, info = q_loss(tf.constant([1.0, 2.0]), tf.constant([0.0, 5.0]))
    assert loss == info["LossQ"] == 5
    np.testing.assert_array_equal(info["QVals"], [1, 2])
    loss, info = policy_loss(tf.constant([2.0, 4.0]))
    assert loss == info["LossPi"] == -3


def test_gradients_equal_finite_differences():
    q, backup = np.random.default_rng(0).normal(size=(2, 6))
    for loss in (lambda x: q_loss(x, backup)[0], lambda x: policy_loss(x)[0]):
        _, (grad,) = gradient(lambda params, loss=loss: loss(params[0]), [q])
        numeric = differences(lambda x, loss=loss: float(loss(tf.constant(x))), q)
        np.testing.assert_allclose(grad, numeric, atol=1e-8)


# ------------------------------------------------------------------------ a run's updates


def policy(params, obs):
    return tf.tanh(dense(params, obs))


def test_updates_by_hand(tmp_path, monkeypatch):
    kwargs = dict(pi_lr=0.01, q_lr=0.02)
    recorded, _ = two_blocks_of_seven(ddpg, tmp_path / "run", monkeypatch, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam = dict(start), Adam(0.01), Adam(0.02)
    for _, batches, info, after in recorded.blocks:
        for j, b in enumerate(minibatches(batches)):
            next_act = policy(now["target_pi"], b.next_obs)
            backup = b.rew + 0.9 * (1 - b.terminated) * q_of(now["target_q"], b.next_obs, next_act)
            np.testing.assert_allclose(info["QVals"][j], q_of(now["q"], b.obs, b.act), atol=1e-5)

            def loss_q(q, b=b, backup=backup):
                return tf.reduce_mean((q_of(q, b.obs, b.act) - backup) ** 2)

            def loss_pi(pi, b=b):
                return -tf.reduce_mean(q_of(now["q"], b.obs, policy(pi, b.obs)))

            loss, grads = gradient(loss_q, now["q"])
            assert info["LossQ"][j] == pytest.approx(loss, abs=1e-5)
            now["q"] = q_adam(now["q"], grads)
            loss, grads = gradient(loss_pi, now["pi"])  # of the Q-function after its step
            assert info["LossPi"][j] == pytest.approx(loss, abs=1e-5)
            now["pi"] = pi_adam(now["pi"], grads)
            now["target_pi"] = followed(now["target_pi"], now["pi"], 0.8)
            now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert_all_close(after, now)
    assert_all_moved(start, now)
