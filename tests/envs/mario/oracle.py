"""Compares MarioEnv with the class of gym-super-mario-bros, frame by frame: a program of its own.

That class, its base and gym stay as they are. Two things of the base, which fail with NumPy 2, are
put aside: it reads the ROM's header in uint8, and hands out the memory as uint8. Importing gym
changes the process that does it (streams, environment variables), hence the program.

    python -m tests.envs.mario.oracle  # prints what has been met, as JSON
"""

import ctypes
import json
from itertools import islice

import numpy as np

from spinup_tf2.envs.mario.env import MarioEnv
from tests.envs.mario.runs import clear_1_1

_SEVERAL = ["world", "stage", "life", "status"]


def upstream(rom, level):
    from gym_super_mario_bros.smb_env import SuperMarioBrosEnv
    from nes_py.nes_env import _LIB, NESEnv

    class WithNumPy2(NESEnv):
        def __init__(self, rom_path):
            self.np_random = np.random.RandomState()
            self.viewer, self.done, self._has_backup = None, True, False
            self._env = _LIB.Initialize(rom_path)
            self.controllers = [self._controller_buffer(port) for port in range(2)]
            self.screen, self.ram = self._screen_buffer(), self._ram_buffer()

        def _ram_buffer(self):
            memory = (ctypes.c_ubyte * 0x800).from_address(_LIB.Memory(self._env))
            return memoryview(memory).cast("B")  # of whole numbers without overflow

    class Upstream(SuperMarioBrosEnv, WithNumPy2):
        """The class of which the base is `WithNumPy2`, by the order of its ancestors."""

    return Upstream(rom_mode=rom, target=level)


def held_at_random(rng, number):
    """Actions without end, each held for some frames; mostly to the right."""
    weights = np.array([1, 4, 5, 10, 15, 2, 2, 2, 2, 2, 2, 1][:number], float)
    while True:
        yield from [int(rng.choice(number, p=weights / weights.sum()))] * int(rng.geometric(0.1))


def compare(rom, level, frames, begin_with=(), seed=0):
    """Play the same in both, and raise AssertionError where they differ; what has been met."""
    theirs = upstream(rom, level)
    ours = MarioEnv(None if level is None else [f"{level[0]}-{level[1]}"], rom, "complex")
    np.testing.assert_array_equal(theirs.reset(), ours.reset()[0])
    pressed = {name: i for i, name in enumerate(ours.get_action_meanings())}
    actions = [pressed[meaning] for meaning in begin_with]
    actions += islice(held_at_random(np.random.default_rng(seed), 12), frames)
    met = dict(frames=frames, deaths=0, flags=0, ends=0, **{name: set() for name in _SEVERAL})
    life = 2
    for t, action in enumerate(actions[:frames]):
        screen, rew, done, info = theirs.step(ours._buttons[action])
        obs, our_rew, terminated, truncated, our_info = ours.step(action)
        where = f"{rom} {level}, frame {t}"
        assert (our_rew, terminated, truncated) == (rew, done, False), where
        assert our_info == info | {"is_success": info["flag_get"]}, where
        assert bytes(ours.ram) == bytes(theirs.ram), where
        if t % 7 == 0 or done:
            np.testing.assert_array_equal(obs, screen, where)
        met["flags"] += info["flag_get"]
        met["ends"] += done
        met["deaths"] += (done and not info["flag_get"]) or info["life"] == life - 1
        life = info["life"]
        for name in _SEVERAL:
            met[name].add(info[name])
        if done:
            np.testing.assert_array_equal(theirs.reset(), ours.reset()[0])
            life = 2
    theirs.close()
    ours.close()
    return {name: sorted(x) if isinstance(x, set) else int(x) for name, x in met.items()}


GAMES = [
    ("vanilla", None, 3000, clear_1_1()),  # the whole game
    ("vanilla", (1, 1), 2000, [*clear_1_1(), *["right B"] * 500]),
    ("vanilla", (1, 1), 300, []),
    ("downsample", (2, 2), 1500, []),  # swimming
    ("pixel", (4, 2), 750, []),
    ("rectangle", (8, 3), 1500, []),
]

if __name__ == "__main__":
    met = {f"{rom} {level} {rest[0]}": compare(rom, level, *rest) for rom, level, *rest in GAMES}
    print(json.dumps(met))
