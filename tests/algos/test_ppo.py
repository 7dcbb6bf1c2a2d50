"""PPO: a run as a whole, minibatches, several processes, learning."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2 import ppo
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.on_policy import Rollouts
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError
from tests import on_policy_runs as runs
from tests.on_policy_runs import COLUMNS, Identity, make

PUBLISHED = dict(  # what the published MuJoCo settings switch on, made small
    minibatch_size=50, max_grad_norm=0.5, lr_schedule="linear", init="orthogonal", ent_coef=0.01
)


def train(path, env_fn=None, **kwargs):
    """A run of two epochs of 200 steps, with 5 policy and 5 value iterations each."""
    return runs.train(ppo, path, env_fn, **{"train_pi_iters": 5, **kwargs})


class Start:
    """An actor-critic that remembers the parameters it began with, the same in every process."""

    def __init__(self, seed=0):
        self.seed = seed

    def __call__(self, *args, **kwargs):
        ac = MLPActorCritic(*args, **kwargs)
        rng = np.random.default_rng(self.seed)
        for variable in ac.trainable_variables:
            if "kernel" in variable.path:
                variable.assign(rng.normal(size=variable.shape, scale=0.2))
        self.pi = [variable.numpy() for variable in ac.pi.trainable_variables]
        self.v = [variable.numpy() for variable in ac.v.trainable_variables]
        return ac


# ---------------------------------------------------------------------------- a run as a whole


def test_epoch_without_a_finished_episode_logs_blanks_and_goes_on(tmp_path):
    """Pendulum's episodes have 200 steps; epochs here have 150."""
    _, rows = train(tmp_path / "run", make("Pendulum-v1"), steps_per_epoch=150, epochs=3)
    blank = ["AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen"]
    assert all(rows[0][key] == "" for key in blank)
    assert rows[1]["EpLen"] == "200.0"  # carried over from the first epoch
    assert all(rows[0][key] != "" for key in COLUMNS if key not in blank)


def test_environments_are_closed_whatever_happens(tmp_path):
    opened, closed = [], []

    class Counted(gym.Wrapper):
        def __init__(self):
            super().__init__(gym.make("CartPole-v1"))
            opened.append(self)

        def close(self):
            closed.append(self)
            super().close()

    train(tmp_path / "run", Counted, num_envs=2)
    assert len(opened) == len(closed) == 3
    with pytest.raises(UserError, match="MLPActorCritic cannot make the networks"):
        train(tmp_path / "other", Counted, ac_kwargs=dict(hidden=3))
    assert len(opened) == len(closed)


# -------------------------------------------------------------------------------- minibatches


def minibatches(num_envs, first_env=0, epoch=3, steps=12, passes=5, count=4, seed=7):
    with VectorEnv(make(), num_envs, seed, first_env=first_env) as envs:
        return envs.randomness.minibatches(epoch, steps, passes, count)


def test_minibatches_hold_every_step_once_in_each_pass():
    index = minibatches(num_envs=2)
    assert index.shape == (5, 4, 6)
    assert index.dtype == np.int32
    for one_pass in index:
        np.testing.assert_array_equal(np.sort(one_pass.ravel()), np.arange(24))
    assert (np.sum(index % 2 == 0, axis=-1) == 3).all()  # as many steps of either environment
    assert len({tuple(one_pass.ravel()) for one_pass in index}) == 5
    np.testing.assert_array_equal(index, minibatches(num_envs=2))
    assert not np.array_equal(index, minibatches(num_envs=2, epoch=4))
    assert not np.array_equal(index, minibatches(num_envs=2, seed=8))


def test_minibatches_do_not_depend_on_the_layout():
    """As sets of (time, environment), from row t * n + i of each process."""
    whole = minibatches(num_envs=4)
    parts = [minibatches(num_envs=2, first_env=first) for first in (0, 2)]
    for p, b in np.ndindex(5, 4):
        steps = {(row // 4, row % 4) for row in whole[p, b]}
        assert len(steps) == 12
        halves = [{(row // 2, row % 2 + 2 * r) for row in parts[r][p, b]} for r in range(2)]
        assert steps == halves[0] | halves[1]


@pytest.mark.parametrize("renewed", [{}, dict(adv_normalization="minibatch", recompute_adv=True)])
def test_no_passes_leave_the_networks_alone(tmp_path, renewed):
    start, kwargs = Start(), dict(minibatch_size=50, train_pi_iters=0, train_v_iters=0) | renewed
    ac, _ = train(tmp_path / "run", actor_critic=start, **kwargs)
    for variable, before in zip(ac.trainable_variables, [*start.pi, *start.v], strict=True):
        np.testing.assert_array_equal(variable, before)


def test_only_passes_that_are_taken_are_prepared(tmp_path, monkeypatch):
    """With shared networks, train_v_iters has no meaning: 80 by default."""
    fresh, calls = Rollouts.fresh, []
    monkeypatch.setattr(Rollouts, "fresh", lambda self: calls.append(1) or fresh(self))
    kwargs = dict(ac_kwargs=dict(hidden_sizes=(8,), shared=True), train_pi_iters=3, target_kl=9)
    train(tmp_path, epochs=1, recompute_adv=True, **kwargs)
    assert len(calls) == 3


# ------------------------------------------------------------------------------------ learning


DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1, 1, (2,))
SMALL = dict(PUBLISHED, train_pi_iters=10, train_v_iters=10)


@pytest.mark.learning
@pytest.mark.parametrize(
    ("space", "variant", "good"),
    [
        (DISCRETE, SMALL, 9),
        (BOX, dict(objective="penalty", **SMALL), -7),
        (BOX, dict(coeff=0.5), -7),
    ],
    ids=["minibatches", "penalty in minibatches", "two lambdas"],
)
def test_identity_is_learned(tmp_path, space, variant, good):
    """A random choice earns 3.3 of 10. The first Gaussian earns about -14: in ten steps of two
    dimensions its own variance costs 20 / e = 7.4, and not to look 20 / 3 = 6.7.
    """
    kwargs = dict(steps_per_epoch=400, epochs=8, pi_lr=1e-2, vf_lr=1e-2, gamma=0.0)
    kwargs |= dict(train_pi_iters=20, train_v_iters=20, target_kl=0.2)
    _, rows = train(tmp_path / "run", lambda: Identity(space), **(kwargs | variant))
    assert max(float(row["AverageEpRet"]) for row in rows) > good
