"""RecordedCartPole-v1: the first episode of each epoch becomes a video, as it is trained on."""

import gymnasium as gym
from gymnasium.wrappers import RecordVideo


class RecordFirst(RecordVideo):
    """Records the first episode that begins in an epoch."""

    def __init__(self, env, folder):
        self.due = True
        super().__init__(env, folder, episode_trigger=self._take, disable_logger=True)

    def _take(self, episode):
        due, self.due = self.due, False
        return due

    def add_epoch(self):  # is called at the end of each epoch
        self.due = True


def make(folder="episodes"):
    return RecordFirst(gym.make("CartPole-v1", render_mode="rgb_array"), folder)


gym.register("RecordedCartPole-v1", make)
