"""The game's logic on a console without an emulator."""

import pytest

from spinup_tf2.envs.mario.game import Game
from tests.envs.mario.consoles import (
    AT_THE_FLAG,
    BEHIND_BOWSER,
    DIES,
    FALLS,
    LIVES,
    MODE,
    RIGHT,
    STATE,
    WORLD,
    B,
    FakeConsole,
    at,
    clock,
    score,
)


def begun(script=None, level=(1, 1)):
    game = Game(FakeConsole(script), level)
    game.reset()
    return game


def rewards(game, frames, buttons=0):
    return [game.step(buttons)[0] for _ in range(frames)]


# ---------------------------------------------------------------- reward, end, info


def test_reward_is_the_way_to_the_right():
    game = begun()
    assert rewards(game, 3, RIGHT | B) == [2.0] * 3
    assert rewards(game, 2, 64) == [-2.0] * 2
    assert rewards(game, 2) == [0.0] * 2
    assert game.core.pressed == [RIGHT | B] * 3 + [64] * 2 + [0] * 2


def test_a_change_of_scene_is_no_way():
    assert rewards(begun({2: at(46), 3: at(1000), 4: at(995)}), 4) == [0, 0, 0, -5]
    assert rewards(begun({1: at(45), 2: at(51)}), 2) == [5, 0]


def test_ticks_of_the_clock_cost_one_each_and_a_clock_set_back_brings_nothing():
    assert rewards(begun({2: clock(399), 3: clock(396), 4: clock(400)}), 5) == [0, -1, -3, 0, 0]


@pytest.mark.parametrize("death", [DIES, FALLS, {STATE: 6}])
def test_a_death_costs_fifteen_and_ends_the_level(death):
    """25, but no frame counts more than 15."""
    game = begun({2: death})
    assert game.step(RIGHT)[:2] == (2.0, False)
    assert game.step(RIGHT)[:2] == (-15.0, True)
    assert game.core.t == 2  # no frame more


@pytest.mark.parametrize("end", [AT_THE_FLAG, BEHIND_BOWSER, AT_THE_FLAG | {0x16: 0, 0x1A: 0x2D}])
def test_the_flag_ends_the_level(end):
    game = begun({2: end})
    assert game.step(0)[2]["flag_get"] is False
    reward, terminated, info = game.step(RIGHT)
    assert (reward, terminated, info["flag_get"]) == (2.0, True, True)


def test_info():
    values = clock(321) | score(12340) | at(300) | {0x7ED: 4, 0x7EE: 2, 0x756: 1, 0x3B8: 79}
    game = begun({1: values | {WORLD: 3, 0x75C: 1}, 2: {0x756: 2, 0xB5: 0}})
    assert game.step(0)[2] == dict(
        coins=42,
        flag_get=False,
        life=2,
        score=12340,
        stage=2,
        status="tall",
        time=321,
        world=4,
        x_pos=300,
        y_pos=176,
    )
    info = game.step(0)[2]
    assert info["status"] == "fireball"
    assert info["y_pos"] == 176 + 255  # above the screen
    assert {type(value) for value in info.values()} == {int, bool, str}


# ---------------------------------------------------------------- the start, and backups


@pytest.mark.parametrize(
    ("level", "area"),
    [((1, 1), 0), ((1, 2), 2), ((1, 4), 4), ((3, 2), 1), ((7, 3), 3), ((8, 4), 3)],
)
def test_the_level_is_chosen_where_the_start_screen_is_left(level, area):
    """The second of the areas of worlds 1, 2, 4 and 7 is the way into a pipe."""
    game = begun(level=level)
    assert (game.ram[WORLD] + 1, game.ram[0x75C] + 1) == level
    assert game.ram[0x760] == area


def test_the_start_screen_is_skipped_once():
    game = begun()
    for _ in range(3):
        rewards(game, 5, RIGHT)
        game.reset()
        assert (game.core.t, game.x, game.time) == (0, 40, 400)
    assert game.core.resets == 1
    assert game.step(0)[0] == 0  # the way back to the start is none


def test_after_a_backup_there_is_still_the_start():
    game = begun()
    rewards(game, 7, RIGHT)
    game.backup()
    rewards(game, 2, RIGHT)
    game.restore()
    assert (game.x, game.core.t) == (54, 7)
    assert rewards(game, 1, RIGHT) == [2]  # and not the way from where it was before
    game.reset()
    assert (game.x, game.core.t) == (40, 0)
    rewards(game, 2)
    game.reset()
    assert game.core.t == 0


# ---------------------------------------------------------------- scenes that are skipped


def test_a_life_is_lost_and_the_game_goes_on():
    """Three frames are skipped until the level begins again, without the pause before it."""
    again = {LIVES: 1, STATE: 7} | at(40)
    game = begun({1: at(400), 2: DIES, 3: again, 4: {0x7A0: 9}, 5: {STATE: 8}}, level=None)
    rewards(game, 1, RIGHT)
    reward, terminated, info = game.step(RIGHT)
    assert (reward, terminated, info["life"]) == (-15.0, False, 2)
    assert game.core.t == 5
    assert game.core.pressed == [RIGHT, RIGHT, 0, 0, 0]
    assert game.ram[0x7A0] == 0
    reward, terminated, info = game.step(RIGHT)
    assert (reward, terminated, info["life"]) == (0.0, False, 1)  # the way back is none


def test_the_last_death_ends_the_game():
    game = begun({1: DIES | {LIVES: 0}, 2: {LIVES: 255, STATE: 8}}, level=None)
    assert not game.step(0)[1]
    assert game.step(0)[1]


def test_the_end_of_a_world_is_skipped():
    """Until the clock of the next level begins; the princess of world 8 waits for ever."""
    scene = {1: BEHIND_BOWSER, 30: clock(399), 40: {MODE: 1}}
    game = begun(scene, level=None)
    _, terminated, info = game.step(0)
    assert not terminated
    assert info["flag_get"]
    assert game.core.t == 40
    game = begun({1: BEHIND_BOWSER | {WORLD: 7}}, level=None)
    assert game.step(0)[1]
    assert game.core.t == 1
