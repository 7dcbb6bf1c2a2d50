"""The loop: what it logs, beyond what the tests of the algorithms see."""

import gymnasium as gym

from spinup_tf2 import vpg
from tests.runs import train


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
