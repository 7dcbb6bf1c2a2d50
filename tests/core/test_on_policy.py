"""The loop: what it logs, beyond what the tests of the algorithms see."""

import json
import threading
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import user_config, vpg
from spinup_tf2.core.on_policy import Demonstrations, collect
from spinup_tf2.core.trajectories import TrajectoryBuffer
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.training.replay import ActionLog
from spinup_tf2.training.rows import Rows
from spinup_tf2.training.run import Run
from spinup_tf2.utils.logx import EpochLogger
from tests.on_policy_runs import Walk, train


class Acting:
    """Actions that depend on the observation, and values. `before` is called before each."""

    stateless = True

    def __init__(self, before=lambda obs: None):
        self.before = before

    def __call__(self, obs, noise):
        self.before(obs)
        return (noise + obs[:, 1:]).argmax(-1), dict(val=obs.sum(-1))


def collected(num_envs, vectorization, demonstrate=None, stop=None, steps=40):
    """Everything that collecting leaves behind."""
    with VectorEnv(Walk, num_envs, seed=3, vectorization=vectorization) as envs:
        buffer, obs = TrajectoryBuffer(steps), envs.reset()
        envs.log = ActionLog(envs)
        calls, interruption = [], SimpleNamespace(requested=False)

        def count(obs):
            calls.append(len(obs))
            interruption.requested = stop is not None and sum(calls) >= stop * num_envs

        actor = Acting(count)
        if demonstrate:
            actor = Demonstrations(actor, demonstrate, envs)
        run = SimpleNamespace(interruption=interruption)
        noise = Run.until_stopped(run, envs.randomness.noise(0, steps))
        obs = collect(envs, actor, buffer, obs, noise)
        assert sum(calls) == buffer.t * num_envs
        remembered = [envs.log.env_state(i)["actions"] for i in range(num_envs)]
        final = sorted((t, i, *last) for t, i, last in buffer.final_obs)
        names = ("obs", "act", "rew", "val", "terminated", "truncated")
        rows = [buffer.rows[name][: buffer.t] for name in names]
        return [*rows, obs, np.array(remembered), np.array(final)]


@pytest.mark.parametrize("vectorization", ["threads", "async"])
@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_collecting_in_groups_gives_what_collecting_at_once_does(num_envs, vectorization):
    ours, expected = (collected(num_envs, each) for each in (vectorization, "sync"))
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    *_, terminated, truncated, _, _, final = expected
    assert terminated.any()
    assert truncated.any()
    assert len(final) == (terminated | truncated).sum()


def test_demonstrations_and_a_stop_are_the_same_in_groups():
    def demonstrate(t, obs):
        return t % 3 if t % 2 else None

    for stop in (None, 1, 13):
        ours, expected = (collected(4, each, demonstrate, stop) for each in ("threads", "sync"))
        for one, other in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(expected[0]) == (stop or 40)


def test_the_policy_acts_for_one_half_while_the_other_steps():
    """The second environment's step waits until the policy has acted for the first one again."""
    acted, made, waited = threading.Semaphore(0), [], []

    class Waits(Walk):
        def __init__(self):
            made.append(self)

        def step(self, action):
            if self is made[2]:  # the first is the prototype
                waited.append(acted.acquire(timeout=20))
            return super().step(action)

    def count(obs):
        if len(calls) % 2 == 0 and calls:
            acted.release()
        calls.append(len(obs))
        if len(calls) == 2 * steps:
            acted.release()  # for the last step, after which nobody acts

    calls, steps = [], 5
    with VectorEnv(Waits, 2, vectorization="threads") as envs:
        obs = envs.reset()
        noise = envs.randomness.noise(0, steps)
        collect(envs, Acting(count), TrajectoryBuffer(steps), obs, noise)
    assert calls == [1] * 2 * steps
    assert waited == [True] * steps


def test_episodes_that_the_environment_records_are_what_is_logged(tmp_path):
    """The learner sees a tenth of each reward; the log shows whole ones, as recorded inside."""

    def tenth():
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
        return gym.wrappers.TransformReward(env, lambda rew: rew / 10)

    _, expected = train(vpg, tmp_path / "whole", num_envs=2)
    _, rows = train(vpg, tmp_path / "tenth", tenth, num_envs=2)
    columns = ("AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen")
    assert [rows[0][name] for name in columns] == [expected[0][name] for name in columns]
    assert rows[0]["AverageEpRet"] == rows[0]["EpLen"]  # reward 1 in each step
    assert float(rows[0]["LossV"]) < float(expected[0]["LossV"])


def test_what_is_saved_when(tmp_path, monkeypatch):
    """Policies in epochs 2 and 4 of 5, and in the last; checkpoints after 0, 3 and the last."""
    saved, position = [], []
    save_state, save = EpochLogger.save_state, Checkpoints.save

    def remember_policy(self, *args):
        saved.append(len((tmp_path / "progress.txt").read_text().splitlines()) - 1)  # the header
        return save_state(self, *args)

    def remember_checkpoint(self, run, counters, *args, **kwargs):
        position.append(counters["epoch"])
        return save(self, run, counters, *args, **kwargs)

    monkeypatch.setattr(EpochLogger, "save_state", remember_policy)
    monkeypatch.setattr(Checkpoints, "save", remember_checkpoint)
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0)
    train(vpg, tmp_path, steps_per_epoch=20, epochs=5, save_freq=2, checkpoint_freq=3)
    assert saved == [1, 3, 5]  # after epochs 0, 2 and 4
    assert position == [0, 3, 5]


@pytest.fixture
def rows(tmp_path):
    return Rows(EpochLogger(output_dir=tmp_path, quiet=True), {}, (), tests=False)


def test_what_updates_return_is_kept_as_numbers_of_python(rows):
    """As a checkpoint, which is JSON, holds those of an epoch that is not over."""
    given = dict(a=np.float32(0.5), b=tf.constant(2), c=np.array(3.0), d=4, e=None, f="")
    rows.record(given)
    [kept] = json.loads(json.dumps(rows.infos))
    assert kept == dict(a=0.5, b=2, c=3.0, d=4, e=None, f="")


def test_what_updates_return_is_scalars(rows):
    with pytest.raises(UserError, match=r"'Ratio' is to be .* of shape \(3,\); log its mean"):
        rows.record(dict(Ratio=np.ones(3)))
