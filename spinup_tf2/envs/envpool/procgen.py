"""The games of procgen (Cobbe et al. 2020), whose levels are generated from seeds."""

from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.arguments.rules import Rule, check
from spinup_tf2.envs.envpool.env import EnvPoolEnv

# What each action presses: nine positions of the joystick, then buttons, which most games ignore.
_BUTTONS = (
    *("LEFT DOWN", "LEFT", "LEFT UP", "DOWN", "NOOP", "UP", "RIGHT DOWN", "RIGHT", "RIGHT UP"),
    *("D", "A", "W", "S", "Q", "E"),
)

_LEVEL = Rule(lambda v: type(v) is int and 0 <= v < 2**31, "a whole number from 0 to 2^31 - 1")

_ZOOM = 8  # enlarges rendered frames: videos of 64 x 64 pixels would be too small to watch


def is_procgen(env_id: str) -> bool:
    """Return whether an id, with or without the prefix `spinup_tf2:`, is a game of procgen."""
    name = env_id.removeprefix("spinup_tf2:")
    return name.startswith("procgen/") and name in gym.registry


class ProcgenEnv(EnvPoolEnv):
    """A game of procgen: each episode is one level, drawn at random from a set of levels.

    Observations are color frames, uint8 `[64, 64, 3]`. There are 15 actions: nine positions of a
    joystick, and six buttons. The info of a reset and of each step has the `level_seed` from which
    the level is generated; that of an episode's last step has `is_success`, whether the goal of the
    level has been reached.

    Levels are numbered from `start_level` to `start_level + num_levels - 1`. To see whether an
    agent has learned the game, or just memorized its levels, evaluate it on other levels.

    Args:
        game: Name of the game, such as "bigfish".
        num_levels: Number of levels; 0 for all 2^31, whatever `start_level` is.
        start_level: Number of the first level.
        distribution_mode: "easy" or "hard", and for some games "extreme", "memory" or
            "exploration".
        frameskip: Number of frames for which an action is held; their rewards are summed.
        render_mode: "rgb_array", or None. Rendered frames are enlarged eight times.
        **options: Other options of EnvPool for procgen, such as `use_backgrounds=False`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (as gymnasium's)

    def __init__(
        self,
        game: str,
        *,
        num_levels: int = 0,
        start_level: int = 0,
        distribution_mode: str = "easy",
        frameskip: int = 1,
        render_mode: str | None = None,
        **options: Any,
    ):
        check(_LEVEL, num_levels=num_levels, start_level=start_level)
        self.frameskip = frameskip
        # A recorder sees one frame per step.
        fps = max(round(self.metadata["render_fps"] / frameskip), 1)
        self.metadata = self.metadata | {"render_fps": fps}
        super().__init__(
            f"{game.capitalize()}{distribution_mode.capitalize()}-v0",
            num_levels=num_levels,
            start_level=start_level,
            render_mode=render_mode,
            **options,
        )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        total = 0.0
        for _ in range(self.frameskip):
            obs, rew, terminated, truncated, info = super().step(action)
            total += rew
            if terminated or truncated:
                info["is_success"] = bool(info["prev_level_complete"])
                break
        return obs, total, terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """Return the frame that agents see, enlarged to uint8 `[512, 512, 3]`."""
        frame = super().render()
        return None if frame is None else frame.repeat(_ZOOM, axis=0).repeat(_ZOOM, axis=1)

    def get_action_meanings(self) -> list[str]:
        """Return what each action presses: NOOP, directions of the joystick, or a button."""
        return [*_BUTTONS]

    def get_keys_to_action(self) -> dict[tuple[str, ...], int]:
        """Return the keys for `play`: W, A, S and D are the joystick, 1 to 6 the buttons."""
        keys = dict(LEFT="a", RIGHT="d", UP="w", DOWN="s")
        joystick = {
            tuple(sorted(keys[each] for each in buttons.split())): action
            for action, buttons in enumerate(_BUTTONS[:9])
            if buttons != "NOOP"
        }
        return joystick | {(str(number),): 8 + number for number in range(1, 7)}
