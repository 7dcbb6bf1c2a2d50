"""CartPole in a wrapper of our own, registered when this module is imported."""

import gymnasium as gym


class HalfReward(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 2


def make_env(**kwargs):
    return HalfReward(gym.make("CartPole-v1", **kwargs))


gym.register("HalfReward-v0", entry_point=make_env)
