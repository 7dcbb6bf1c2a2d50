"""Environments of this package, which `import spinup_tf2` registers with gymnasium.

Two of them are here. They are so small that the solution is known, and serve to debug algorithms.
"""

import warnings
from typing import Any

import gymnasium as gym
import numpy as np

# Arguments of `gymnasium.register`, by id.
_PROBES = {
    f"{name}-v0": dict(entry_point=f"spinup_tf2.envs:{name}", max_episode_steps=20)
    for name in ("ProbeReward", "ProbeGoal")
}
_QUADRUPED = {
    f"Quadruped{task.capitalize()}-v0": dict(
        entry_point="spinup_tf2.envs.quadruped.env:QuadrupedEnv", kwargs=dict(task=task)
    )
    for task in ("walk", "command", "recover")
}
_PROCGEN = {
    f"procgen/{game}": dict(
        entry_point="spinup_tf2.envs.envpool.procgen:ProcgenEnv", kwargs=dict(game=game)
    )
    for game in (
        *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball"),
        *("fruitbot", "heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder"),
        "starpilot",
    )
}
_ENVPOOL = {"EnvPool-v0": dict(entry_point="spinup_tf2.envs.envpool.env:EnvPoolEnv")}
_STAGES = [f"{world}-{stage}" for world in range(1, 9) for stage in range(1, 5)]
_MARIO = {
    f"{name}-v{version}": dict(
        entry_point="spinup_tf2.envs.mario.env:MarioEnv", kwargs=dict(stages=stages, rom=rom)
    )
    for version, rom in enumerate(("vanilla", "downsample", "pixel", "rectangle"))
    for name, stages in {
        "SuperMarioBros": None,
        "SuperMarioBrosRandomStages": _STAGES,
        **{f"SuperMarioBros-{stage}": [stage] for stage in _STAGES},
    }.items()
}


def register_envs() -> None:
    """Register every environment of the package; calling it again does nothing."""
    # v0 to v3 are different versions of the game, but gymnasium takes v3 for the newest.
    warnings.filterwarnings("ignore", r".*The environment SuperMarioBros.* is out of date")
    for env_id, spec in (_PROBES | _QUADRUPED | _PROCGEN | _ENVPOOL | _MARIO).items():
        if env_id not in gym.registry:
            gym.register(id=env_id, **spec)


class ProbeReward(gym.Env):
    """Constant observation, reward 1 whatever the action, and episodes that only a time limit ends.

    Because a time limit is not a terminal state, the value of every policy is 1 / (1 - gamma).
    An algorithm that treats the limit as a termination learns a smaller value.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's convention)

    def __init__(self):
        self.observation_space = gym.spaces.Box(-1, 1, shape=(1,), dtype=np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 1.0, False, False, {}


class ProbeGoal(gym.Env):
    """Corridor of nine cells with a goal at one end; both parts of the Dict observation are needed.

    Observation: `position`, Discrete(9), and `goal`, Box(1), which is -1 or +1 for the left or
    right end of the corridor. Actions: 0 is left, 1 is right. Episodes begin in the middle. Each
    step costs 0.1, except the last, which gives 1 at the goal and -1 at the other end; both ends
    are terminal. The best return is 1 - 0.1 * 3 = 0.7.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's convention)
    length = 9

    def __init__(self):
        self.observation_space = gym.spaces.Dict(
            goal=gym.spaces.Box(-1, 1, shape=(1,), dtype=np.float32),
            position=gym.spaces.Discrete(self.length),
        )
        self.action_space = gym.spaces.Discrete(2)

    def _observation(self):
        return {"goal": np.array([self.goal], np.float32), "position": self.position}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.position = self.length // 2
        self.goal = float(self.np_random.choice([-1, 1]))
        return self._observation(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        self.position += 1 if action == 1 else -1
        at_end = self.position in (0, self.length - 1)
        reward = -0.1
        if at_end:
            right_end = self.position == self.length - 1
            reward = 1.0 if right_end == (self.goal > 0) else -1.0
        return self._observation(), reward, at_end, False, {}
