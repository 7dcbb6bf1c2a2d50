"""Environments that want to know how far the training is: they have a method `add_epoch`."""

import sys

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import ddpg, ppo, vpg
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.training.replay import ActionLog
from tests.off_policy_runs import train as train_off_policy
from tests.on_policy_runs import FromShow, train

# Or the processes of environments would import this file, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Curriculum(FromShow):
    """Each step shows and pays the number of epochs that are over; an episode has 30 steps.

    breaks: the number of steps after which the environment raises an exception, once in all.
    """

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, breaks=None):
        self.epoch, self.steps, self.breaks = 0, 0, breaks

    def add_epoch(self):
        self.epoch += 1

    def _show(self):
        return np.full(1, self.epoch, np.float32)

    def step(self, action):
        self.t += 1
        self.steps += 1
        if self.breaks and self.steps == self.breaks[0]:
            del self.breaks[0]
            raise OSError("broken")
        return self._show(), float(self.epoch), self.t == 30, False, {}


def wrapped():
    return gym.wrappers.TransformReward(Curriculum(), lambda rew: rew)


@pytest.mark.parametrize("vectorization", ["sync", "threads", "async"])
def test_all_environments_are_told_and_those_that_begin_later_hear_what_they_missed(vectorization):
    def paid(envs):
        return envs.step(np.zeros((2, 1)))[1].tolist()

    with VectorEnv(wrapped, 2, vectorization=vectorization) as envs:
        envs.reset()
        assert paid(envs) == [0, 0]
        envs.add_epoch()
        assert paid(envs) == [1, 1]
        envs.reset(1)
        assert paid(envs) == [1, 1]
        envs.reset(5)
        assert paid(envs) == [5, 5]


def test_an_environment_that_is_made_anew_hears_what_it_missed(capsys):
    breaks = [4]
    with VectorEnv(lambda: Curriculum(breaks), env_retries=1) as envs:
        envs.reset()
        seen = []
        for _ in range(6):
            seen.append(envs.step(np.zeros((1, 1)))[1].item())
            envs.add_epoch()
        assert seen == [0, 1, 2, 0, 4, 5]  # 0 in the step that failed
    assert "created again" in capsys.readouterr().err


def test_where_epochs_ended_is_replayed():
    """Rewards of the steps that are taken again, and of those after them."""

    def pays(envs, steps):
        rewards = [envs.step(np.zeros((1, 1)))[1].item() for _ in range(steps)]
        envs.add_epoch()
        return rewards

    with VectorEnv(Curriculum) as envs, VectorEnv(Curriculum) as other:
        envs.log, other.log = ActionLog(envs), ActionLog(other)
        envs.reset(2)
        assert pays(envs, 3) + pays(envs, 2) + pays(envs, 1) == [2, 2, 2, 3, 3, 4]
        other.log.set_env_state(0, envs.log.env_state(0))
        step, seen = other.step, []

        def watched(act):
            result = step(act)
            seen.append(result[1].item())
            return result

        other.step = watched
        other.log.replay()
        assert seen == [2, 2, 2, 3, 3, 4]
        assert pays(other, 1) == pays(envs, 1) == [5]


def mean_rewards(rows, column="AverageEpRet"):
    return [float(row[column]) / 30 for row in rows if row[column]]


def test_ppo_tells_them_after_each_update_also_when_it_is_resumed(tmp_path):
    """An epoch is two episodes long, so that each return is 30 times the epochs before.

    Test episodes are of the stage that has been trained.
    """
    more = dict(steps_per_epoch=60, deterministic_resume=True, num_test_episodes=3)
    _, rows = train(ppo, tmp_path, Curriculum, epochs=2, **more)
    assert mean_rewards(rows) == [0, 1]
    _, rows = train(ppo, tmp_path, Curriculum, epochs=4, resume=True, **more)
    assert mean_rewards(rows) == [0, 1, 2, 3]
    assert mean_rewards(rows, "AverageTestEpRet") == [0, 1, 2, 3]


def test_test_environments_hear_of_epochs_without_a_test(tmp_path):
    more = dict(steps_per_epoch=60, num_test_episodes=1, test_freq=3, train_v_iters=1)
    _, rows = train(vpg, tmp_path, Curriculum, epochs=4, **more)
    assert mean_rewards(rows, "AverageTestEpRet") == [2, 3]


def test_off_policy_epochs_count_too(tmp_path):
    more = dict(steps_per_epoch=60, num_test_episodes=3)
    _, rows = train_off_policy(ddpg, tmp_path, Curriculum, **more, epochs=2)
    _, rows = train_off_policy(ddpg, tmp_path, Curriculum, **more, epochs=4, resume=True)
    assert mean_rewards(rows) == [0, 1, 2, 3]
    assert mean_rewards(rows, "AverageTestEpRet") == [0, 1, 2, 3]
