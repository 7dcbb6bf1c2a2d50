"""Super Mario Bros as a gymnasium environment."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle

from spinup_tf2.envs.mario.demonstrations import BUTTONS_OF, FRAMES, HELD, demonstration
from spinup_tf2.envs.mario.emulator import (
    FRAMES_PER_SECOND,
    HEIGHT,
    WIDTH,
    NesPy,
    check_packages,
    is_missing,
)
from spinup_tf2.envs.mario.game import BUTTONS, STAGES, WORLDS, Game
from spinup_tf2.errors import UserError

try:
    import cv2
except ModuleNotFoundError as error:
    raise is_missing("opencv-python") from error

# Combinations of buttons that an agent may press. The first three are from gym-super-mario-bros.
_RIGHT = ((), ("right",), ("right", "A"), ("right", "B"), ("right", "A", "B"))
_SIMPLE = (*_RIGHT, ("A",), ("left",))
_COMPLEX = (*_SIMPLE, ("left", "A"), ("left", "B"), ("left", "A", "B"), ("down",), ("up",))
ACTIONS = {
    "right": _RIGHT,
    "simple": _SIMPLE,
    "complex": _COMPLEX,
    "run": (("right", "B"), ("right", "A", "B")),
}

LEVELS = {f"{w}-{s}": (w, s) for w in range(1, WORLDS + 1) for s in range(1, STAGES + 1)}
ALL_STAGES = tuple(LEVELS)

_KEYS = {"right": "d", "left": "a", "down": "s", "up": "w", "A": "o", "B": "p"}

ZOOM = 3  # of the window

_OBS = {
    "rgb": ((HEIGHT, WIDTH, 3), cv2.COLOR_BGRA2RGB),
    "grayscale": ((HEIGHT, WIDTH), cv2.COLOR_BGRA2GRAY),
}


class MarioEnv(gym.Env, EzPickle):
    """Super Mario Bros, with one frame of the console (1/60 s) per step.

    Args:
        stages: Names of the levels to play. If there are several, such as `["1-1", "1-2"]`, one is
            drawn for each episode. None means all levels one after the other, with three lives.
        rom: Version of the game, one of ROMS.
        actions: Combinations of buttons that the agent may press: a name in ACTIONS, or a sequence
            such as `[["right"], ["right", "A"]]`, in which an empty one presses nothing.
        obs_type: "rgb", uint8 `[240, 256, 3]`, or "grayscale", uint8 `[240, 256]`.
        render_mode: None, "rgb_array", or "human" for a window.
        make_core: Function of `rom` that makes the emulator.

    **Reward**: distance to the right in pixels, plus the change of the clock (-1 per tick), -25 for
    a death; clipped to [-15, 15].

    **Termination**: a death or the flag; in the game with three lives, the last death or the rescue
    of the princess. When the clock runs out, Mario dies. There is no other time limit.

    **Info**: `coins flag_get life score stage status time world x_pos y_pos` as in
    gym-super-mario-bros, and `is_success`, which is `flag_get`.

    **Options** of `reset`: `stages`, for this and all following episodes; `noops`, a number of
    frames without a button pressed before the episode begins, or `(low, high)` for a random number
    from `low` to `high`; `demonstration`, a share from 0 to 1, or `(low, high)` for a random one:
    the episode begins after that share of the level's demonstration has been played;
    `from_backup=True` begins at the state saved by `backup`.
    """

    metadata: ClassVar = {"render_modes": ["human", "rgb_array"], "render_fps": FRAMES_PER_SECOND}
    reset_options = ("stages", "noops", "demonstration", "from_backup")

    def __init__(
        self,
        stages: Sequence[str] | None = ("1-1",),
        rom: str = "vanilla",
        actions: str | Sequence[Sequence[str]] = "simple",
        obs_type: str = "rgb",
        render_mode: str | None = None,
        make_core: Callable[[str], NesPy] = NesPy,
    ):
        EzPickle.__init__(self, stages, rom, actions, obs_type, render_mode, make_core)
        if make_core is NesPy:
            check_packages(rom)  # rather than when the first episode begins
        self._levels = _levels(stages)
        self._combinations = _combinations(actions)
        self._buttons = [sum(BUTTONS[name] for name in pressed) for pressed in self._combinations]
        self.render_mode = render_mode
        shape, self._conversion = _OBS[obs_type]
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(len(self._buttons))
        self._make_core = lambda: make_core(rom)
        self._games = {}  # a game for each level that has been played
        self._game = None
        self._backup = None  # the game in which `backup` was called; it is not in _games then
        self._window = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        options = options or {}
        if not {*options} <= {*self.reset_options}:
            raise UserError(f"reset has the options {', '.join(self.reset_options)}: {options}.")
        noops, shares = (_range(options.get(name, 0)) for name in ("noops", "demonstration"))
        if "stages" in options:
            self._levels = _levels(options["stages"])
        if options.get("from_backup", False):
            self.restore()
        else:
            several = len(self._levels) > 1
            level = self._levels[self.np_random.integers(len(self._levels)) if several else 0]
            if level not in self._games:
                self._games[level] = Game(self._make_core(), level)
            self._game = self._games[level]
            self._game.reset()
            if any(shares):
                self._follow_demonstration(self.np_random.uniform(*shares))
        least, most = noops
        number = self.np_random.integers(least, most + 1) if most > least else least
        for frame in range(number):
            if self._game.step(0)[1]:
                raise UserError(
                    f"noops is {number}, and Mario did not survive frame {frame + 1} of doing "
                    "nothing; give fewer."
                )
        if self.render_mode == "human":
            self.render()
        return self._obs(), self._info(self._game.info())

    def _follow_demonstration(self, share):
        plan = demonstration(self._stage)
        for step, letter in enumerate(plan[: int(share * (len(plan) - 1))]):
            if any(self._game.step(HELD[letter])[1] for _ in range(FRAMES)):
                raise UserError(
                    f"The demonstration of {self._stage} ended in step {step + 1} of {len(plan)}: "
                    "it does not fit this version of the game; those of the ids -v0 to -v2 do."
                )

    @property
    def _stage(self):
        level = self._game.level
        if level is None:
            raise UserError("There are demonstrations of single levels only; give stages.")
        return "{}-{}".format(*level)

    def demonstration(self) -> list[int]:
        """Return the actions, each to be held for four frames, that clear the current level."""
        return self.actions_of(demonstration(self._stage))

    def actions_of(self, plan: str) -> list[int]:
        """Return the action for each letter of a plan for the current level; see `letters`."""
        known = self._actions_by_letter
        if any(letter not in known for letter in plan):
            needed = [[*BUTTONS_OF[letter]] for letter in dict.fromkeys(plan)]
            raise UserError(
                f"The actions {[[*each] for each in self._combinations]} are not enough for the "
                f"demonstration of {self._stage}; it needs {needed}."
            )
        return [known[letter] for letter in plan]

    def plan_of(self, actions: Sequence[int]) -> str:
        """Return actions, each held for four frames, as letters; the inverse of `actions_of`."""
        letters = {action: letter for letter, action in self._actions_by_letter.items()}
        return "".join(letters[action] for action in actions)

    @property
    def letters(self) -> str:
        """The letters allowed in plans: those of `demonstrations.BUTTONS_OF` with an action."""
        return "".join(self._actions_by_letter)

    @property
    def _actions_by_letter(self):
        known = {frozenset(pressed): i for i, pressed in enumerate(self._combinations)}
        buttons = {letter: frozenset(pressed) for letter, pressed in BUTTONS_OF.items()}
        return {letter: known[each] for letter, each in buttons.items() if each in known}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if not self.action_space.contains(action):  # a list would take -1 for its last entry
            raise UserError(f"The action is {action!r}; it must be in {self.action_space}.")
        reward, terminated, info = self._game.step(self._buttons[action])
        if self.render_mode == "human":
            self.render()
        return self._obs(), reward, terminated, False, self._info(info)

    def backup(self) -> None:
        """Save the current state for `restore`, replacing the previously saved one.

        The emulator is kept for it: the next `reset` to the start of the level makes another one,
        which takes a third of a second and a megabyte.
        """
        self._game.backup()
        if self._game is not self._backup:
            if self._backup is not None:
                self._backup.close()
            self._backup = self._games.pop(self._game.level)

    def restore(self) -> None:
        """Return to the state saved by `backup`; the same actions then lead to the same results.

        To begin an episode there, call `reset(options={"from_backup": True})`, so that wrappers are
        reset, too.
        """
        self._backup.restore()
        self._game = self._backup

    @property
    def fixed_starts(self) -> dict[str, dict[str, Any]]:
        """Options of `reset` for each stage, with which all episodes begin alike, up to `noops`."""
        if self._levels == [None]:
            return {"all stages": {"stages": None}}
        names = [f"{world}-{stage}" for world, stage in self._levels]
        return {name: {"stages": [name]} for name in names}

    @property
    def ram(self) -> np.ndarray:
        """A copy of the console's memory, uint8 `[2048]`."""
        return np.array(self._game.ram)

    def get_action_meanings(self) -> list[str]:
        """Return the buttons of each action: "NOOP", "right", "right A", ..."""
        return [" ".join(pressed) or "NOOP" for pressed in self._combinations]

    def get_keys_to_action(self) -> dict[str, int]:
        """Return the keys for gymnasium's `play`: w a s d are the pad, o is A (jump), p is B (run).

        Any of these keys may be held at once. Among the actions whose buttons are all held, the one
        with the most buttons is taken; if there are several, the first.
        """
        # Sorted so that the first possible action is the right one.
        largest_first = sorted(enumerate(self._combinations), key=lambda each: -len(each[1]))
        actions = {}
        for n in range(1, len(_KEYS) + 1):
            for held in combinations(_KEYS, n):
                possible = [action for action, pressed in largest_first if {*pressed} <= {*held}]
                if possible:
                    actions["".join(_KEYS[name] for name in held)] = possible[0]
        return actions

    def render(self) -> np.ndarray | None:
        """Return the frame, uint8 `[240, 256, 3]`; in mode "human" show it instead."""
        if self.render_mode is None or self._game is None:
            return None
        picture = cv2.cvtColor(self._game.core.screen, cv2.COLOR_BGRA2RGB)
        if self.render_mode == "rgb_array":
            return picture
        if self._window is None:
            self._window = Window(HEIGHT, WIDTH, FRAMES_PER_SECOND)
        self._window.show(picture)
        return None

    def close(self) -> None:
        for game in [*self._games.values(), *filter(None, [self._backup])]:
            game.close()
        self._games, self._game, self._backup = {}, None, None
        if self._window is not None:
            self._window.close()
            self._window = None

    def _obs(self):
        return cv2.cvtColor(self._game.core.screen, self._conversion)  # a copy

    @staticmethod
    def _info(info):
        return info | {"is_success": info["flag_get"]}


class Window:
    """A pygame window for frames of `height` x `width` pixels, at `fps` frames per second.

    Closing the window has the same effect as Ctrl-C.
    """

    def __init__(self, height: int, width: int, fps: int):
        try:
            import pygame
        except ImportError as error:
            raise UserError(
                'A window needs pygame; install it with: pip install "spinup_tf2[video]".'
            ) from error
        self._pygame, self._fps = pygame, fps
        pygame.display.init()  # unlike pygame.init, this does not initialize sound
        pygame.display.set_caption("Super Mario Bros")
        self._screen = pygame.display.set_mode((ZOOM * width, ZOOM * height))
        self._clock = pygame.time.Clock()

    def show(self, picture: np.ndarray) -> None:
        """Show a frame, uint8 `[height, width, 3]`, and wait until the next one is due.

        Raises:
            KeyboardInterrupt: The window has been closed.
        """
        # Removes all events; otherwise they would fill the queue, and further ones would be lost.
        if any(event.type == self._pygame.QUIT for event in self._pygame.event.get()):
            raise KeyboardInterrupt("the window was closed")
        surface = self._pygame.surfarray.make_surface(picture.swapaxes(0, 1))  # x comes first there
        self._pygame.transform.scale(surface, self._screen.get_size(), self._screen)
        self._pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        self._pygame.display.quit()


def _levels(stages):
    """Return (world, stage) for each name of a level; a single None stands for the whole game."""
    if stages is None:
        return [None]
    stages = [stages] if isinstance(stages, str) else stages
    if not stages or any(stage not in LEVELS for stage in stages):
        raise UserError(
            f"stages is {stages!r}; it must be a list of names from '1-1' to '{WORLDS}-{STAGES}', "
            "or None for the whole game."
        )
    return [LEVELS[stage] for stage in stages]


def _combinations(actions):
    """Return the buttons of each action, as a tuple of tuples."""
    if isinstance(actions, str) and actions in ACTIONS:
        return ACTIONS[actions]
    if isinstance(actions, str):
        raise UserError(
            f"actions is {actions!r}; it must be one of {', '.join(ACTIONS)}, or a list."
        )
    for pressed in actions:  # a button twice would add up to another one
        if not {*pressed} <= {*BUTTONS} or len({*pressed}) < len(pressed):
            raise UserError(f"actions holds {pressed!r}; the buttons are {', '.join(BUTTONS)}.")
    return tuple(tuple(pressed) for pressed in actions)


def _range(value):
    """Return (low, high) for an option that is a number or two."""
    return value if isinstance(value, tuple | list) else (value, value)
