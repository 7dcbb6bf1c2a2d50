"""Another library trains on the environment as it is: `pip install stable-baselines3`."""

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')
sb3 = pytest.importorskip("stable_baselines3", reason="optional: pip install stable-baselines3")

from stable_baselines3.common.monitor import Monitor  # noqa: E402

from spinup_tf2.envs import register_envs  # noqa: E402

register_envs()


@pytest.mark.slow
def test_ppo_trains():
    with Monitor(gym.make("QuadrupedWalk-v0")) as env:
        agent = sb3.PPO("MlpPolicy", env, policy_kwargs=dict(log_std_init=-1.0), seed=0)
        agent.learn(20_000)
        assert agent.num_timesteps >= 20_000
        returns, lengths = env.get_episode_rewards(), env.get_episode_lengths()
    assert len(returns) >= 20
    assert max(lengths) <= 400
    assert np.mean(returns[-10:]) > np.mean(returns[:10]) + 10
