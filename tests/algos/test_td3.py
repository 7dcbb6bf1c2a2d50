"""TD3: its signature, its losses by hand, and a run's updates once more, slowly."""

import inspect
from collections import Counter
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from spinup_tf2.core.update_block import UpdateBlock

from spinup_tf2 import td3
from spinup_tf2.algos.td3 import policy_loss, q_loss, smoothed_action
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
    halves,
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
        target_noise=0.2,
        noise_clip=0.5,
        policy_delay=2,
        num_test_episodes=10,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=1,
    )
    assert positional_defaults(td3) == list(expected.items())


def test_columns(tmp_path):
    _, (row,) = train(td3, tmp_path / "run", epochs=1)
    expected = [*COLUMNS, *four("Q1Vals"), *four("Q2Vals"), "LossPi", "LossQ", "Time"]
    assert [*row] == expected
    assert all(row.values())


# --------------------------------------------------------------------------------- the losses


def test_smoothed_action_by_hand():
    """sigma 0.2, c 0.5. Noise 1 is 0.2; 3 and -10 are cut to 0.5 and -0.5; then +-1 cuts:

    0.1 + 0.2 = 0.3     0.1 + 0.5 = 0.6     0.9 + 0.5 -> 1     -0.8 - 0.5 -> -1     1 - 0.2 = 0.8
    """
    act = np.array([[0.1], [0.1], [0.9], [-0.8], [1.0]], np.float32)
    noise = np.array([[1.0], [3.0], [3.0], [-10.0], [-1.0]], np.float32)
    smoothed = smoothed_action(act, noise, 0.2, 0.5)
    np.testing.assert_allclose(smoothed, [[0.3], [0.6], [1], [-1], [0.8]], rtol=1e-6)


def test_losses_by_hand():
    """Squared errors 1 and 9 of Q1, 0 and 4 of Q2: 5 + 2 = 7. The policy's values: -(2 + 4) / 2."""
    q1, q2 = tf.constant([1.0, 2.0]), tf.constant([0.0, 3.0])
    loss, info = q_loss(q1, q2, tf.constant([0.0, 5.0]))
    assert loss == info["LossQ"] == 7
    np.testing.assert_array_equal(info["Q1Vals"], q1)
    np.testing.assert_array_equal(info["Q2Vals"], q2)
    loss, info = policy_loss(tf.constant([2.0, 4.0]))
    assert loss == info["LossPi"] == -3


def test_gradients_equal_finite_differences():
    q1, q2, backup = np.random.default_rng(0).normal(size=(3, 6))
    for loss in (
        lambda x: q_loss(x, q2, backup)[0],
        lambda x: q_loss(q1, x, backup)[0],
        lambda x: policy_loss(x)[0],
    ):
        _, (grad,) = gradient(lambda params, loss=loss: loss(params[0]), [q1])
        numeric = differences(lambda x, loss=loss: float(loss(tf.constant(x))), q1)
        np.testing.assert_allclose(grad, numeric, atol=1e-8)


# ------------------------------------------------------------------------ a run's updates


def policy(params, obs):
    return tf.tanh(dense(params, obs))


@pytest.mark.parametrize(("policy_delay", "delayed"), [(2, range(0, 14, 2)), (3, range(0, 14, 3))])
def test_updates_by_hand(tmp_path, monkeypatch, policy_delay, delayed):
    """Policy and targets move in the updates `delayed` of all fourteen of two blocks."""
    kwargs = dict(pi_lr=0.01, q_lr=0.02, policy_delay=policy_delay)
    kwargs |= dict(target_noise=0.4, noise_clip=0.3)
    recorded, _ = two_blocks_of_seven(td3, tmp_path / "run", monkeypatch, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam = dict(start), Adam(0.01), Adam(0.02)
    for block, (_, batches, info, after) in enumerate(recorded.blocks):
        assert (np.abs(0.4 * batches["target_noise"]) > 0.3).any()
        loss_pi_of = iter(info["LossPi"])
        for j, b in enumerate(minibatches(batches)):
            noise = np.clip(0.4 * b.target_noise, -0.3, 0.3)
            next_act = np.clip(policy(now["target_pi"], b.next_obs) + noise, -1, 1)
            next_q = [q_of(q, b.next_obs, next_act) for q in halves(now["target_q"])]
            backup = b.rew + 0.9 * (1 - b.terminated) * np.minimum(*next_q)

            def loss_q(params, b=b, backup=backup):
                errors = [q_of(q, b.obs, b.act) - backup for q in halves(params)]
                return sum(tf.reduce_mean(error**2) for error in errors)

            def loss_pi(pi, b=b):
                return -tf.reduce_mean(q_of(halves(now["q"])[0], b.obs, policy(pi, b.obs)))

            for name, q in zip(("Q1Vals", "Q2Vals"), halves(now["q"]), strict=True):
                np.testing.assert_allclose(info[name][j], q_of(q, b.obs, b.act), atol=1e-5)
            loss, grads = gradient(loss_q, now["q"])
            assert info["LossQ"][j] == pytest.approx(loss, abs=1e-5)
            now["q"] = q_adam(now["q"], grads)
            if 7 * block + j in delayed:
                loss, grads = gradient(loss_pi, now["pi"])
                assert next(loss_pi_of) == pytest.approx(loss, abs=1e-5)
                now["pi"] = pi_adam(now["pi"], grads)
                now["target_pi"] = followed(now["target_pi"], now["pi"], 0.8)
                now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert not [*loss_pi_of]
        assert_all_close(after, now)
    assert_all_moved(start, now)


@pytest.mark.parametrize("update_every", [1, 5])
def test_the_policy_learns_equally_often_in_blocks_of_any_size(tmp_path, update_every):
    """40 updates, 20 of them of the policy; also where the run is resumed after the fifth."""
    run = dict(steps_per_epoch=5, start_steps=5, update_after=20, update_every=update_every)
    run |= dict(num_test_episodes=0, deterministic_resume=True, checkpoint_freq=3, save_freq=100)
    taken = Counter()

    def counting(self, batches, first):
        info = call(self, batches, first)
        taken["q"] += len(info["LossQ"])
        taken["pi"] += len(info.get("LossPi", ()))
        return info

    call = UpdateBlock.__call__
    with mock.patch.object(UpdateBlock, "__call__", counting):
        whole, _ = train(td3, tmp_path / "whole", **run, epochs=12)
        assert taken == Counter(q=40, pi=20)
        train(td3, tmp_path / "run", **run, epochs=5)
        resumed, _ = train(td3, tmp_path / "run", **run, epochs=12, resume=True)
    assert taken == Counter(q=80, pi=40)
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
