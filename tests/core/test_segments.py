"""Batches of segments, against a slow walk through the episodes of each environment."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.nets.checks import check_memory
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.recurrent import Sequences
from spinup_tf2.core.nets.recurrent_acting import RecurrentActor, segments
from spinup_tf2.core.on_policy import actor_for, collect
from spinup_tf2.core.trajectories import TrajectoryBuffer
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError
from tests.on_policy_runs import Walk

STEPS, SEGMENT = 20, 5


def make_ac(memory="lstm"):
    ac = MLPActorCritic(
        Walk.observation_space, Walk.action_space, (6,), memory=memory, memory_size=4, seq_len=5
    )
    rng = np.random.default_rng(3)
    for variable in ac.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.5))
    return ac


class Collected(SimpleNamespace):
    """Two batches, what `returns` was given for each, and what was recorded on the way."""


def collected(ac, num_envs=3, vectorization="sync", batches=2, use_stored=True):
    steps, given = [], []

    def returns(*args):
        given.append(args)
        return args[0], args[0]

    with VectorEnv(Walk, num_envs, seed=3, vectorization=vectorization) as envs:
        actor = actor_for(ac, envs)
        assert isinstance(actor, RecurrentActor)
        actor.refresh()
        buffer, critic = TrajectoryBuffer(STEPS), actor.critic()
        obs, results = envs.reset(), []
        for epoch in range(batches):
            obs = collect(envs, actor, buffer, obs, envs.randomness.noise(epoch, STEPS))
            steps.append((buffer.rows["obs"].copy(), {(t, i): x for t, i, x in buffer.final_obs}))
            batch = segments(buffer.get(critic, obs, returns, fresh=not use_stored), SEGMENT)
            results.append(tf.nest.map_structure(np.array, batch))  # a copy
            last = actor.state.copy()
    return Collected(batches=results, given=given, steps=steps, last_obs=obs, last=last)


def slowly(ac, found):
    """V of all steps and of what followed them, from one pass through each environment."""
    count, num_envs = len(found.steps), found.steps[0][0].shape[1]
    val, next_val = np.zeros((2, count * STEPS, num_envs), np.float32)
    obs = np.concatenate([each for each, _ in found.steps] + [found.last_obs[None]])
    ends = enumerate(each for _, each in found.steps)
    final = {(k * STEPS + t, i): x for k, each in ends for (t, i), x in each.items()}
    step, value = compiled(ac.memory.step), compiled(ac.memory.value)
    states = []
    for i in range(num_envs):
        state = ac.memory.begin(1)
        for t in range(count * STEPS):
            _, v, state = step(obs[t, i][None], state)
            val[t, i] = v[0]
            following = final.get((t, i), obs[t + 1, i])
            next_val[t, i] = value(following[None], state)[0]
            if (t, i) in final:
                state = ac.memory.begin(1)
        states.append(state[0])
    return val, next_val, states, final


@pytest.mark.parametrize("memory", ["lstm", "gru"])
@pytest.mark.parametrize("use_stored", [True, False])
def test_values_are_those_of_a_walk_through_the_episodes(memory, use_stored):
    """Computed while acting, or again from the states at the segments' beginnings."""
    ac = make_ac(memory)
    found = collected(ac, use_stored=use_stored)
    val, next_val, states, final = slowly(ac, found)
    assert any(t % STEPS == STEPS - 1 for t, _ in final), "no episode ends with a batch"
    assert any(t % SEGMENT == SEGMENT - 1 for t, _ in final)
    for k, (_, given_val, given_next_val, terminated, truncated, _) in enumerate(found.given):
        rows = slice(k * STEPS, (k + 1) * STEPS)
        np.testing.assert_allclose(given_val, val[rows], rtol=1e-4, atol=1e-5)
        counts = ~terminated  # what follows a death is not asked for
        assert truncated.any()
        assert terminated.any()
        np.testing.assert_allclose(
            given_next_val[counts], next_val[rows][counts], rtol=1e-4, atol=1e-5
        )
    for i, state in enumerate(states):
        if (2 * STEPS - 1, i) not in final:  # there nobody has acted since
            np.testing.assert_allclose(found.last[i], state, rtol=1e-4, atol=1e-5)


def test_the_networks_see_segments_with_the_states_of_acting():
    """The pass over the batch gives the values and the actions of acting, in the same order."""
    ac = make_ac()
    found = collected(ac)
    for k, batch in enumerate(found.batches):
        obs = batch["obs"]
        assert isinstance(obs, Sequences)
        assert obs.obs.shape == (4 * 3, SEGMENT, 2)
        assert batch["adv"].shape == (12, SEGMENT)
        val = ac.v(Sequences(*map(tf.constant, obs))).numpy()
        np.testing.assert_allclose(val, batch["val"], rtol=1e-4, atol=1e-5)
        shown, final = found.steps[k]
        for number in range(4):
            for i in range(3):
                rows = range(number * SEGMENT, (number + 1) * SEGMENT)
                np.testing.assert_array_equal(obs.obs[number * 3 + i], shown[rows, i])
                for t, first in zip(rows, obs.first[number * 3 + i], strict=True):
                    before = final if t else found.steps[k - 1][1]
                    ended = k == t == 0 or ((t - 1) % STEPS, i) in before
                    assert first == ended


@pytest.mark.parametrize("vectorization", ["async", "threads"])
def test_groups_of_environments_give_the_same(vectorization):
    ac = make_ac()
    expected, found = (collected(ac, 4, kind) for kind in ("sync", vectorization))
    for one, other in zip(expected.batches, found.batches, strict=True):
        for x, y in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def settings_of(steps, arguments):
    shared = dict(steps_per_epoch=steps, local_steps=steps // 2, num_envs=2)
    return SimpleNamespace(**shared, arguments=arguments)


REFUSED = {
    "segments": ({}, 102, "seq_len is 5; it must divide the 51 steps"),
    "segments of a2c": (dict(n_steps=6), 102, "must divide the 6 steps"),
    "minibatches": (dict(minibatch_size=4), 100, "minibatch_size is 4,.* multiple of 10 "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    arguments, steps, expected = REFUSED[name]
    with pytest.raises(UserError, match=re.compile(expected, re.DOTALL)):
        check_memory(make_ac().memory, settings_of(steps, arguments))


def test_not_refused():
    check_memory(make_ac().memory, settings_of(100, dict(minibatch_size=20)))
    check_memory(make_ac().memory, settings_of(100, dict(n_steps=2)))  # shorter than a segment
