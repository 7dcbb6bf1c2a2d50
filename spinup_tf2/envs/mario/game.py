"""Super Mario Bros as a game of levels: reads the console's memory, and modifies it to skip scenes.

Addresses and their meanings are those of the game's program, as documented in its disassemblies.
Values, rewards and skipped scenes are the same as in gym-super-mario-bros 7.4, frame by frame, so
that results are comparable.
"""

from spinup_tf2.envs.mario.emulator import NesPy

BUTTONS = {
    name: 1 << bit
    for bit, name in enumerate(("A", "B", "select", "start", "up", "down", "left", "right"))
}

WORLDS, STAGES = 8, 4

LARGEST_REWARD = 15.0  # absolute value of a frame's reward at most

_DEATH = -25
_FASTEST = 5  # pixels per frame; anything more is a change of scene

# Addresses.
_PLAYER_STATE = 0x0E
_ENEMIES = slice(0x16, 0x1B)
_FLOAT_STATE = 0x1D  # 3: sliding down a flagpole
_X_PAGE, _X = 0x6D, 0x86
_Y_PAGE = 0xB5  # 1: on the screen, 0: above, more: below
_Y = 0x03B8
_CHANGE_AREA_TIMER = 0x06DE
_AREA_POINTER = 0x0750
_STATUS = 0x0756
_LIVES = 0x075A
_STAGE, _WORLD, _AREA = 0x075C, 0x075F, 0x0760
_MODE = 0x0770  # 2: the end of a world
_PRELEVEL_TIMER = 0x07A0
_SCORE, _COINS, _TIME = slice(0x07DE, 0x07E4), slice(0x07ED, 0x07EF), slice(0x07F8, 0x07FB)

# Values.
_DEAD, _DYING = 0x06, 0x0B
# Mario cannot be controlled: vines, pipes, walking automatically, dead, entering an area.
_BUSY = frozenset((0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x07))
_FLAGPOLE, _BOWSER = 0x31, 0x2D
_NO_LIVES = 0xFF
_STATUSES = {0: "small", 1: "tall"}

# In these worlds Mario walks into a pipe before stage 2, which counts as an area of its own.
_WORLDS_WITH_A_PIPE = (1, 2, 4, 7)


class Game:
    """The game in an emulator.

    Args:
        core: The emulator.
        level: (world, stage) of the only level to play, or None for all levels one after the other,
            with three lives.
    """

    def __init__(self, core: NesPy, level: tuple[int, int] | None = None):
        self.core = core
        self.ram = core.ram
        self.level = level
        self._x = self._time = 0  # values in the previous frame
        self._at_start = False  # whether the state saved in the emulator is the start

    # ------------------------------------------------------------ reading the memory

    def _number(self, digits):
        number = 0
        for digit in self.ram[digits]:
            number = 10 * number + digit
        return number

    @property
    def time(self) -> int:
        """The game's clock, which counts down from 400 or 300."""
        return self._number(_TIME)

    @property
    def x(self) -> int:
        """Mario's position, in pixels from the left end of the level."""
        return self.ram[_X_PAGE] * 256 + self.ram[_X]

    @property
    def y(self) -> int:
        """Mario's height, in pixels from the lower end of the screen."""
        above = 255 if self.ram[_Y_PAGE] < 1 else 0
        return above + 255 - self.ram[_Y]

    @property
    def area(self) -> int:
        """The current part of the level: above ground, underground, ..."""
        return self.ram[_AREA_POINTER]

    @property
    def flag_get(self) -> bool:
        """Whether a level has been cleared: the flagpole, or the axe behind Bowser."""
        if self.ram[_MODE] == 2:
            return True
        enemies = self.ram[_ENEMIES].tolist()
        return (_FLAGPOLE in enemies or _BOWSER in enemies) and self.ram[_FLOAT_STATE] == 3

    @property
    def _princess_is_free(self):
        # This scene waits for a button forever, so there is nothing to skip to.
        return self.ram[_MODE] == 2 and self.ram[_WORLD] == WORLDS - 1

    @property
    def _dying(self):
        return self.ram[_PLAYER_STATE] == _DYING or self.ram[_Y_PAGE] > 1

    @property
    def _dies(self):
        return self._dying or self.ram[_PLAYER_STATE] == _DEAD

    def info(self) -> dict[str, int | bool | str]:
        """Return the info for the user: score, clock, position and so on."""
        ram = self.ram
        return dict(
            coins=self._number(_COINS),
            flag_get=self.flag_get,
            life=ram[_LIVES],
            score=self._number(_SCORE),
            stage=ram[_STAGE] + 1,
            status=_STATUSES.get(ram[_STATUS], "fireball"),
            time=self.time,
            world=ram[_WORLD] + 1,
            x_pos=self.x,
            y_pos=self.y,
        )

    # ------------------------------------------------------------ playing

    def reset(self) -> None:
        """Go to the start of the level, or of the first level."""
        if self._at_start:
            self.core.restore()
        else:
            self.core.reset()
            self._skip_start_screen()
            self.core.backup()
            self._at_start = True
        self._time, self._x = self.time, self.x

    def backup(self) -> None:
        """Save the current state for `restore`. The next `reset` takes a third of a second."""
        self.core.backup()
        self._at_start = False

    def restore(self) -> None:
        """Return to the state saved by the last `backup`."""
        self.core.restore()
        self._time, self._x = self.time, self.x

    def close(self) -> None:
        """Free the emulator. The game must not be used afterwards."""
        self.ram = None
        self.core.close()

    def step(self, buttons: int) -> tuple[float, bool, dict[str, int | bool | str]]:
        """Play one frame with these buttons held, then skip scenes without control over Mario.

        reward = (distance to the right, in pixels) + (change of the clock) - 25 for a death,
        clipped to [-15, 15].

        Returns:
            The reward, whether the episode has ended, and `info()` of that frame.
        """
        self.core.frame(buttons)
        reward, info = self._reward(), self.info()
        if self.level is None:
            terminated = self.ram[_LIVES] == _NO_LIVES or self._princess_is_free
        else:
            terminated = self._dies or info["flag_get"]
        if not terminated:
            self._skip_what_cannot_be_steered()
        return reward, terminated, info

    def _reward(self):
        x, time = self.x, self.time
        way, passed = x - self._x, time - self._time
        self._x, self._time = x, time
        if abs(way) > _FASTEST:
            way = 0
        reward = way + min(passed, 0) + (_DEATH if self._dies else 0)
        return float(min(max(reward, -LARGEST_REWARD), LARGEST_REWARD))

    # ------------------------------------------------------------ skipping scenes

    def _skip_start_screen(self):
        start, frame = BUTTONS["start"], self.core.frame
        frame(start)
        frame(0)
        while self.time == 0:
            frame(start)
            if self.level is not None:
                self._choose_level()
            frame(0)
            self.ram[_PRELEVEL_TIMER] = 0
        # Skips to the first tick of the clock, when Mario can be controlled.
        time = self.time
        while self.time >= time:
            time = self.time
            frame(start)
            frame(0)

    def _choose_level(self):
        world, stage = self.level
        behind_pipe = world in _WORLDS_WITH_A_PIPE and stage >= 2
        self.ram[_WORLD] = world - 1
        self.ram[_STAGE] = stage - 1
        self.ram[_AREA] = stage - 1 + behind_pipe

    def _skip_what_cannot_be_steered(self):
        ram, frame = self.ram, self.core.frame
        if self._dying:  # skips the animation if lives are left
            ram[_PLAYER_STATE] = _DEAD
            frame(0)
        if self.level is None and ram[_MODE] == 2:
            time = self.time
            while self.time == time:
                frame(0)
        if 1 < ram[_CHANGE_AREA_TIMER] < 255:
            ram[_CHANGE_AREA_TIMER] = 1
        while ram[_PLAYER_STATE] in _BUSY or ram[_MODE] == 2:
            ram[_PRELEVEL_TIMER] = 0
            frame(0)
