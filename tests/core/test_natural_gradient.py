"""Conjugate gradients against a direct solver, Fisher products against finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.algos.trpo import policy_loss
from spinup_tf2.core.natural_gradient import PolicyObjective, conjugate_gradient
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks

# ------------------------------------------------------------------------ conjugate gradients


def system(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, n))
    return a @ a.T + 0.1 * np.eye(n), rng.normal(size=n)


def test_conjugate_gradient_solves_a_system():
    """In exact arithmetic n steps solve n equations."""
    h, b = system(8)
    x = conjugate_gradient(lambda v: h @ v, b, 16)
    np.testing.assert_allclose(x, np.linalg.solve(h, b), rtol=1e-5)


def test_two_steps_by_hand():
    """H = diag(1, 3), b = (1, 1).

    Step 1: p = b, alpha = 2 / 4: x = (1/2, 1/2), r = (1/2, -1/2).
    Step 2: beta = (1/2) / 2, p = (3/4, -1/4), alpha = (1/2) / (9/16 + 3/16) = 2/3: x = (1, 1/3).
    """
    b = np.ones(2)
    product = lambda v: np.array([1, 3]) * v  # noqa: E731
    np.testing.assert_allclose(conjugate_gradient(product, b, 1), [1 / 2, 1 / 2])
    np.testing.assert_allclose(conjugate_gradient(product, b, 2), [1, 1 / 3])


def test_nothing_to_solve_is_zero():
    calls = []

    def product(v):
        calls.append(v)
        return v

    np.testing.assert_array_equal(conjugate_gradient(product, np.zeros(3), 10), np.zeros(3))
    assert not calls


def test_ranks_that_round_differently_end_together():
    """Each product is a collective call. By itself rank 0 needs eight, and rank 1 nine."""
    h, b = system(8)

    def solve():
        calls = []

        def product(v):
            calls.append(mpi.mpi_sum(1))
            noise = 1e-10 * mpi.proc_id() * np.sin(len(calls) * np.arange(8))
            return h @ v * (1 + noise)

        return conjugate_gradient(product, b, 30), len(calls)

    (x, count), (y, same) = run_ranks(2, solve)
    assert count == same == 8
    np.testing.assert_allclose(x, y, rtol=1e-3)
    # By itself rank 1 would have nothing to solve.
    found = run_ranks(
        2, lambda: conjugate_gradient(mpi.mpi_avg, np.full(2, 1.0 - mpi.proc_id()), 1)
    )
    np.testing.assert_array_equal(found, [[2, 2], [0, 0]])


def test_directions_without_curvature_are_not_followed():
    b = np.array([0.0, 1.0])
    x = conjugate_gradient(lambda v: np.array([1.0, 0.0]) * v, b, 10)
    np.testing.assert_array_equal(x, [0, 0])


# --------------------------------------------------------------------------- Fisher products

SPACES = [spaces.Box(-1, 1, (2,)), spaces.Discrete(3), spaces.MultiDiscrete([2, 3])]
IDS = ["Gaussian", "Categorical", "MultiDiscrete"]


def make(action_space, n=40, seed=0):
    """A policy, its objective and a batch of `n` steps."""
    keras.utils.set_random_seed(seed)
    ac = MLPActorCritic(spaces.Box(-1, 1, (3,)), action_space, hidden_sizes=(4,))
    objective = PolicyObjective(
        lambda b: policy_loss(ac.pi(b["obs"]), b["pi_old"], b["act"], b["adv"]),
        ac.pi.trainable_variables,
    )
    rng = np.random.default_rng(seed)
    obs = tf.constant(rng.normal(size=(n, 3)), tf.float32)
    adv = tf.constant(rng.normal(size=n), tf.float32)
    return ac, objective, dict(obs=obs, act=ac.pi(obs).sample(seed=1), adv=adv, pi_old=ac.pi(obs))


def kl_gradient(ac, batch):
    with tf.GradientTape() as tape:
        kl = tf.reduce_mean(batch["pi_old"].kl_divergence(ac.pi(batch["obs"])))
    gradients = tape.gradient(kl, ac.pi.trainable_variables)
    return np.concatenate([np.ravel(g) for g in gradients])


@pytest.mark.parametrize("action_space", SPACES, ids=IDS)
def test_fisher_product_is_the_finite_difference_of_the_gradient_of_kl(action_space):
    ac, objective, batch = make(action_space)
    params = objective.params
    for seed in range(3):
        v = np.random.default_rng(seed).normal(size=params.shape)
        product = objective.fisher_product(batch, v)
        h = 1e-2
        gradients = []
        for side in (1, -1):
            objective.params = params + side * h * v
            gradients.append(kl_gradient(ac, batch))
        objective.params = params
        numeric = (gradients[0] - gradients[1]) / (2 * h)
        assert np.abs(product).max() > 0.1
        np.testing.assert_allclose(product, numeric, atol=2e-3 * np.abs(numeric).max())


# ----------------------------------------------------------------- a loss of flat parameters


def test_a_variable_that_the_loss_does_not_use_has_gradient_zero():
    used, unused = keras.Variable([1.0]), keras.Variable([2.0])

    def loss(batch):
        return tf.reduce_sum(used * batch["x"]), dict(KL=tf.reduce_sum(tf.square(used)))

    objective = PolicyObjective(loss, [used, unused])
    batch = dict(x=tf.constant([3.0]))
    np.testing.assert_array_equal(objective.gradient(batch)[0], [3, 0])
    np.testing.assert_array_equal(objective.fisher_product(batch, np.array([1.0, 1.0])), [2, 0])


def test_ranks_with_parts_of_a_batch_equal_one_with_the_whole():
    _, objective, batch = make(spaces.Discrete(3))
    gradient, info = objective.gradient(batch)
    product = objective.fisher_product(batch, gradient)
    parts = []
    for rows in (slice(0, 20), slice(20, 40)):
        ac, of_rank, _ = make(spaces.Discrete(3))
        part = {key: batch[key][rows] for key in ("obs", "act", "adv")}
        parts.append((of_rank, part | dict(pi_old=ac.pi(part["obs"]))))

    def gradient_and_product():
        of_rank, part = parts[mpi.proc_id()]
        return *of_rank.gradient(part), of_rank.fisher_product(part, gradient)

    for rank_gradient, rank_info, rank_product in run_ranks(2, gradient_and_product):
        np.testing.assert_allclose(rank_gradient, gradient, atol=1e-6)
        assert rank_info == pytest.approx(info, abs=1e-6)
        np.testing.assert_allclose(rank_product, product, atol=1e-6)
