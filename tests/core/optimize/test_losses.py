"""Targets of Q-functions by hand."""

import numpy as np
import pytest
import tensorflow as tf
from spinup_tf2.core.gradient_steps import bellman_backup


def test_backup_by_hand():
    """r + 0.9 V(s'), and r alone where the episode ended in a terminal state."""
    backup = bellman_backup(
        tf.constant([1.0, 1.0, -2.0]),
        tf.constant([False, True, False]),
        tf.constant([10.0, 10.0, 0.5]),
        0.9,
    )
    np.testing.assert_allclose(backup, [10, 1, -1.55], rtol=1e-6)


def test_reward_one_for_ever_is_worth_one_over_one_minus_gamma():
    val = tf.zeros(1)
    for _ in range(200):
        val = bellman_backup(tf.ones(1), tf.constant([False]), val, 0.9)
    assert float(val[0]) == pytest.approx(10, rel=1e-5)


def test_what_follows_a_terminal_state_plays_no_part_even_if_it_is_not_finite():
    for nonsense in (np.inf, np.nan):
        backup = bellman_backup(tf.ones(1), tf.constant([True]), tf.constant([nonsense]), 0.9)
        np.testing.assert_array_equal(backup, [1])


def test_a_backup_is_a_constant():
    rew, val = tf.Variable([1.0]), tf.Variable([2.0])
    with tf.GradientTape() as tape:
        backup = bellman_backup(rew, tf.constant([False]), val, 0.9)
    assert tape.gradient(backup, [rew, val]) == [None, None]
