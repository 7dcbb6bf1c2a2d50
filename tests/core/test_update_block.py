"""Compiled blocks of updates against the obvious eager loop, and numbers by hand."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.gradient_steps import adam
from spinup_tf2.core.nets.checks import make_q_actor_critic
from spinup_tf2.core.nets.distributions import sample_and_log_prob
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from spinup_tf2.core.update_block import (
    HardCopy,
    Minimize,
    PolyakAverage,
    UpdateBlock,
    bellman_backup,
)
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks

OBS, ACT = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))
GAMMA, ALPHA, POLYAK, LR = 0.9, 0.2, 0.95, 3e-3


def minibatches(updates, batch=20, seed=0):
    rng = np.random.default_rng(seed)
    shape = (updates, batch)
    normals = dict(obs=3, next_obs=3, noise=2, next_noise=2)
    return dict(
        {key: rng.standard_normal((*shape, dim), np.float32) for key, dim in normals.items()},
        act=rng.uniform(-1, 1, (*shape, 2)).astype(np.float32),
        rew=rng.standard_normal(shape, np.float32),
        terminated=rng.random(shape) < 0.2,
    )


class Learner:
    """A small soft actor-critic: two networks' losses and target networks."""

    def __init__(self):
        keras.utils.set_random_seed(0)
        networks = (MLPQActorCritic, OBS, ACT, dict(hidden_sizes=(16,)))
        self.ac, self.target = (
            make_q_actor_critic(*networks, stochastic=True, num_q=2) for _ in range(2)
        )
        for to, variable in zip(self.target.q_variables, self.ac.q_variables, strict=True):
            to.assign(variable)
        self.calls = Counter()  # of Python, that is, tracings where it is compiled

    def loss_of_q(self, batch):
        self.calls["q"] += 1
        act, logp = sample_and_log_prob(self.ac.pi(batch["next_obs"]), batch["next_noise"])
        val = tf.minimum(*self.target.q_values(batch["next_obs"], act)) - ALPHA * logp
        backup = batch["rew"] + GAMMA * tf.where(batch["terminated"], 0.0, val)
        errors = [tf.square(q - backup) for q in self.ac.q_values(batch["obs"], batch["act"])]
        loss = sum(map(tf.reduce_mean, errors))
        return loss, dict(Errors=errors[0], LossQ=loss)

    def loss_of_pi(self, batch):
        self.calls["pi"] += 1
        act, logp = sample_and_log_prob(self.ac.pi(batch["obs"]), batch["noise"])
        val = tf.minimum(*self.ac.q_values(batch["obs"], act)) - ALPHA * logp
        return -tf.reduce_mean(val), dict(LogPi=logp)

    def update_block(self, pi_every=1, jit_compile=False):
        ac, target = self.ac, self.target
        return UpdateBlock(
            [
                Minimize(self.loss_of_q, ac.q_variables, adam(LR)),
                Minimize(self.loss_of_pi, ac.pi.trainable_variables, adam(LR), pi_every),
                PolyakAverage(target.q_variables, ac.q_variables, POLYAK, pi_every),
            ],
            jit_compile,
        )

    def update_eagerly(self, batches, pi_every=1):
        """The same, one after the other and nothing compiled; returns what the losses logged."""
        ac, target = self.ac, self.target
        parts = [
            (self.loss_of_q, ac.q_variables, adam(LR), 1),
            (self.loss_of_pi, ac.pi.trainable_variables, adam(LR), pi_every),
        ]
        infos = {}
        for j in range(len(batches["rew"])):
            batch = {key: tf.constant(x[j]) for key, x in batches.items()}
            for loss_of, variables, optimizer, every in parts:
                if j % every == 0:
                    with tf.GradientTape() as tape:
                        loss, info = loss_of(batch)
                    optimizer.apply(tape.gradient(loss, variables), variables)
                    for key, x in info.items():
                        infos.setdefault(key, []).append(x.numpy())
            if j % pi_every == 0:
                for to, variable in zip(target.q_variables, ac.q_variables, strict=True):
                    to.assign(POLYAK * to.numpy() + (1 - POLYAK) * variable.numpy())
        return {key: np.stack(xs) for key, xs in infos.items()}

    def numbers(self):
        """All variables, of the actor-critic and of the targets, as one vector."""
        variables = [*self.ac.trainable_variables, *self.target.q_variables]
        return np.concatenate([np.ravel(variable) for variable in variables])


@pytest.mark.parametrize("num_procs", [1, 2])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_every_third_update_ends_with_a_copy(jit_compile, num_procs):
    """Also where blocks of four begin in between. Each update adds 1 to the variable."""

    def run():
        variable, target = keras.Variable(0.0), keras.Variable(-1.0)
        loss = lambda batch: (-variable, dict(Target=tf.identity(target)))  # noqa: E731
        counting = Minimize(loss, [variable], keras.optimizers.SGD(1.0))
        block = UpdateBlock([counting, HardCopy([target], [variable], 3)], jit_compile)
        return [block(dict(x=np.zeros((4, 1))), first)["Target"].tolist() for first in (0, 4)]

    assert run_ranks(num_procs, run) == [[[-1, -1, -1, 3], [3, 3, 6, 6]]] * num_procs


def test_backup_equals_numpy_and_is_a_constant():
    rng = np.random.default_rng(0)
    (rew, next_val), terminated = rng.normal(size=(2, 50)), rng.random(50) < 0.5
    next_val[terminated] = np.inf  # whatever it is
    expected = [r if end else r + 0.9 * v for r, end, v in zip(rew, terminated, next_val)]  # noqa: B905
    with tf.GradientTape() as tape:
        x = tf.constant(next_val)
        tape.watch(x)
        backup = bellman_backup(rew, terminated, x, 0.9)
    np.testing.assert_allclose(backup, expected)
    assert tape.gradient(backup, x) is None


@pytest.mark.parametrize(("pi_every", "updates"), [(1, 20), (2, 11)])
def test_a_block_equals_updates_one_by_one(pi_every, updates):
    """In TensorFlow's own compilation; in XLA's too, once, because that takes seconds."""
    batches = minibatches(updates)
    reference = Learner()
    start = reference.numbers()
    expected = reference.update_eagerly(batches, pi_every)
    assert np.abs(reference.numbers() - start).max() > LR * updates / 5  # they do learn
    for jit_compile in (False, True) if pi_every == 1 else (False,):
        learner = Learner()
        info = learner.update_block(pi_every, jit_compile)(batches)
        np.testing.assert_allclose(learner.numbers(), reference.numbers(), atol=1e-5)
        assert info.keys() == expected.keys()
        for key, x in expected.items():
            assert info[key].shape == x.shape
            np.testing.assert_allclose(info[key], x, rtol=1e-4, atol=1e-4, err_msg=key)


def test_compiles_once_for_each_phase():
    """Blocks of one update, of which the policy's step is due in every second."""
    learner = Learner()
    update = learner.update_block(pi_every=2)
    for first in range(2):
        update(minibatches(1), first)
    traced = learner.calls.copy()
    assert traced == Counter(q=2, pi=1)
    for first in range(2, 8):
        update(minibatches(1), first)
    assert learner.calls == traced


# -------------------------------------------------------------------------------- by hand


def powers(updates):
    """The minibatches (1), (2), (4), ...: what a sum of some of them is made of can be seen."""
    return dict(x=2.0 ** np.arange(updates, dtype=np.float32)[:, None])


def slide(every=1, name="w"):
    """A number from which each step takes the minibatch, and the step: loss w x, rate 1."""
    w = keras.Variable(0.0)
    loss = lambda batch: (w * tf.reduce_mean(batch["x"]), {name: tf.identity(w)})  # noqa: E731
    return w, Minimize(loss, [w], keras.optimizers.SGD(1.0), every)


@pytest.mark.parametrize(
    ("every", "before_each_step", "end"),
    [
        (1, [0, -1, -3, -7, -15, -31, -63], -127),
        (2, [0, -1, -5, -21], -85),  # updates 1, 3, 5, 7: 1 + 4 + 16 + 64
        (3, [0, -1, -9], -73),  # updates 1, 4, 7: 1 + 8 + 64
        (9, [0], -1),
    ],
)
def test_which_steps_are_taken(every, before_each_step, end):
    """The first and then every so many; the info is from before the step."""
    w, minimize = slide(every)
    info = UpdateBlock([minimize])(powers(7))
    np.testing.assert_array_equal(info["w"], before_each_step)
    assert float(w) == end


@pytest.mark.parametrize(("size", "num_procs"), [(1, 1), (2, 1), (5, 1), (7, 1), (3, 2)])
def test_blocks_of_any_size_take_the_same_steps(size, num_procs):
    """Every second and every third of seven updates, as in one block of seven."""
    ranks = [[slide(every, name) for every, name in ((2, "b"), (3, "c"))] for _ in range(num_procs)]
    blocks = [UpdateBlock([minimize for _, minimize in rank]) for rank in ranks]
    batches, infos = powers(7), []

    def take():
        block = blocks[mpi.proc_id()]
        return [
            block({"x": batches["x"][first : first + size]}, first) for first in range(0, 7, size)
        ]

    for rank, infos in zip(ranks, run_ranks(num_procs, take), strict=True):
        assert [float(w) for w, _ in rank] == [-85, -73]
        seen = {key: [x for info in infos for x in info.get(key, ())] for key in "bc"}
        assert seen == {"b": [0, -1, -5, -21], "c": [0, -1, -9]}


# ----------------------------------------------------------------------------- over ranks


def test_ranks_with_parts_of_each_minibatch_equal_one_with_the_whole():
    whole = minibatches(10, batch=24)
    parts = [{key: x[:, 12 * r : 12 * (r + 1)] for key, x in whole.items()} for r in range(2)]
    one, ranks = Learner(), [Learner() for _ in range(2)]
    blocks = [learner.update_block(pi_every=2) for learner in ranks]
    expected = one.update_block(pi_every=2)(whole)
    infos = run_ranks(2, lambda: blocks[mpi.proc_id()](parts[mpi.proc_id()]))
    for learner in ranks:
        np.testing.assert_array_equal(learner.numbers(), ranks[0].numbers())
        np.testing.assert_allclose(learner.numbers(), one.numbers(), atol=1e-4)
    # What was logged for single rows, side by side, is what was logged for the whole.
    for key in ("Errors", "LogPi"):
        together = np.concatenate([info[key] for info in infos], axis=1)
        np.testing.assert_allclose(together, expected[key], rtol=1e-3, atol=1e-3, err_msg=key)
