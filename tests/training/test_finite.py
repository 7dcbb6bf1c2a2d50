"""What is not finite is named. Environments are numbered from 2, so that columns are no numbers."""

import platform
import re
import warnings

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.training.finite import (
    NonFiniteError,
    check_experience,
    check_info,
    check_step,
    check_variables,
)

HOST = f"rank 0 on {platform.node()}"
bad_values = pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])


@pytest.fixture(scope="module")
def envs():
    with VectorEnv(lambda: gym.make("CartPole-v1"), 2, first_env=2) as envs:
        yield envs


def experience(steps=5, shape=(4,), dtype=np.float32):
    """obs, rew, final_obs and last_obs of two environments: ones."""
    obs, last_obs = np.ones((steps, 2, *shape), dtype), np.ones((2, *shape), dtype)
    return obs, np.ones((steps, 2), np.float32), [(1, 0, np.ones(shape, dtype))], last_obs


def told(envs, epoch, first_step, *args, **kwargs):
    """What check_experience has to say."""
    with pytest.raises(NonFiniteError) as error:
        check_experience(envs, epoch, first_step, *args, **kwargs)
    return str(error.value)


# --------------------------------------------------------------------------------- experience


@bad_values
def test_an_observation_is_named(envs, value):
    """Seen before step 3 of these, counted from 0; 100 steps of epoch 7 have been taken before."""
    obs, *others = experience()
    obs[3, 1, 2] = value
    message = told(envs, 7, 100, obs, *others)
    assert message.startswith(
        f"The observation of environment 3 (CartPole-v1, {HOST}), component 2, is {value} after "
        "step 103 of epoch 7. Training has stopped; "
    )


@bad_values
def test_a_reward_is_named(envs, value):
    obs, rew, *others = experience()
    rew[3, 0] = value
    message = told(envs, 0, 0, obs, rew, *others)
    assert message.startswith(
        f"The reward of environment 2 (CartPole-v1, {HOST}) is {value} after step 4 of epoch 0."
    )


@bad_values
def test_last_observations_are_named(envs, value):
    """Of an episode that ended in step 1, counted from 0; and of all steps."""
    obs, rew, _, last_obs = experience()
    ended = np.array([1, 1, 1, value], np.float32)
    message = told(envs, 0, 0, obs, rew, [(1, 0, np.ones(4)), (1, 1, ended)], last_obs)
    assert re.search(rf"environment 3 .*component 3, is {value} after step 2 of", message)
    last_obs[0, 1] = value
    message = told(envs, 0, 0, obs, rew, [], last_obs)
    assert re.search(rf"environment 2 .*component 1, is {value} after step 5 of", message)


def test_the_first_one_is_named(envs):
    """Step by step: the last observation of all, a reward before it, an observation before that."""
    obs, rew, final_obs, last_obs = experience()
    last_obs[:] = np.nan
    assert "after step 5" in told(envs, 0, 0, obs, rew, final_obs, last_obs)
    rew[3:] = np.nan
    message = told(envs, 0, 0, obs, rew, final_obs, last_obs)
    assert "The reward of environment 2" in message
    assert "after step 4" in message
    obs[4, 1] = np.nan  # what that step has led to in the other environment
    assert "The reward of environment 2" in told(envs, 0, 0, obs, rew, final_obs, last_obs)
    final_obs[0][2][:] = np.nan
    assert "The observation of environment 2" in told(envs, 0, 0, obs, rew, final_obs, last_obs)
    obs[0, 1] = np.nan
    message = told(envs, 0, 0, obs, rew, final_obs, last_obs)
    assert "The observation of environment 3" in message
    assert "after step 0" in message


def test_large_numbers_are_none_of_that(envs):
    """Sums and squares of them are infinite."""
    obs, rew, final_obs, last_obs = experience()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (3e38, -3e38):
            arrays = [np.full_like(x, value) for x in (obs, rew, last_obs)]
            check_experience(envs, 0, 0, *arrays[:2], final_obs, arrays[2])
            check_step(envs, 0, 1, arrays[2], np.full(2, value), {0: arrays[2][0]})


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_rewards_that_float32_cannot_hold_are(envs, value):
    with pytest.raises(NonFiniteError) as error:
        check_step(envs, 4, 9, np.ones((2, 4), np.float32), np.array([value, -value]), {})
    message = f"is {value:g}, which float32 cannot hold, after step 9 of epoch 4"
    assert message in str(error.value)
    stored = np.ones((1, 2, 4), np.float32), np.float32([[value, 0]]), [], np.ones((2, 4))
    assert "float32, which ends at 3.4e+38." in told(envs, 4, 0, *stored)


def test_a_policy_that_is_not_finite_is_to_blame_itself(envs):
    obs, *others = experience()
    fine, broken = keras.Variable([1.0], name="fine"), keras.Variable([np.nan], name="broken")
    assert "numbers in broken " in told(envs, 0, 0, np.nan * obs, *others, acting=[fine, broken])
    assert "The observation of" in told(envs, 0, 0, np.nan * obs, *others, acting=[fine])
    check_experience(envs, 0, 0, obs, *others, acting=[broken])  # nobody has been looked at


# ------------------------------------------------------------------------------------- a step


@bad_values
def test_each_part_of_a_step(envs, value):
    fine = np.ones((2, 4), np.float32)
    bad = fine.copy()
    bad[1, 2] = value
    check_step(envs, 4, 9, fine, np.ones(2), {0: fine[0]})
    for args, what in (
        ((bad, np.ones(2), {}), r"observation of environment 3 .*, component 2, is"),
        ((fine, np.array([value, 1]), {}), "reward of environment 2 .* is"),
        ((fine, np.ones(2), {0: fine[0], 1: bad[1]}), r"observation of environment 3 .*nt 2, is"),
    ):
        with pytest.raises(NonFiniteError, match=f"The {what} {value} after step 9 of epoch 4"):
            check_step(envs, 4, 9, *args)


# ------------------------------------------------------------------------------------ updates


@bad_values
def test_columns_are_named(value):
    info = dict(LossV=1.0, StopIter=3, Blank="", None_=None, QVals=np.ones(3), Empty=[])
    check_info(info, 4)
    with pytest.raises(NonFiniteError) as error:
        check_info(dict(info, LossPi=np.float32(value), LossQ=value), 4)
    assert str(error.value).startswith(f"LossPi is {value} in the update of epoch 4 ({HOST}). ")
    with pytest.raises(NonFiniteError, match=r"^LossQ \(number 2 of 3\) is "):
        check_info(dict(info, LossQ=tf.constant([1.0, value, 1.0])), 4)


def test_the_column_that_failed_first_is_named():
    """In the second of four updates on minibatches of three, if the array has its samples."""
    info = dict(Q1Vals=np.ones((4, 3)), LossQ=np.ones(4), LossPi=np.ones(2), KL=1.0)

    def first(**bad):
        spoiled = {name: np.array(x) for name, x in info.items()}
        for name, place in bad.items():
            spoiled[name].flat[place] = np.nan
        with pytest.raises(NonFiniteError) as error:
            check_info(spoiled, 4)
        return str(error.value).split(" is nan ")[0]

    assert first(Q1Vals=3, LossQ=1) == "LossQ (number 2 of 4)"
    assert first(Q1Vals=3, LossQ=2) == "Q1Vals (number 4 of 12)"
    assert first(Q1Vals=6, LossQ=1, LossPi=1) == "LossQ (number 2 of 4)"
    assert first(Q1Vals=6, LossQ=2, LossPi=1) == "LossPi (number 2 of 2)"
    assert first(Q1Vals=6, KL=0) == "KL"


@bad_values
def test_variables_are_named(value):
    layer = keras.layers.Dense(3, name="last")
    layer.build((None, 2))
    steps = keras.Variable(0, dtype="int64", name="iteration", trainable=False)
    variables = [steps, *layer.variables]
    check_variables(variables, 4)
    layer.bias.assign([1.0, value, value])
    with pytest.raises(NonFiniteError) as error:
        check_variables(variables, 4)
    message = f"2 of the 3 numbers in last/bias are not finite in epoch 4 ({HOST}): a gradient was"
    assert str(error.value).startswith(message)
