"""What surrounds the game for training, on a console without an emulator."""

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.envs.mario.wrappers import NoopStarts, ScoreReward, StopWithoutProgress, preprocess
from spinup_tf2.envs.wrappers import MaxAndSkip
from spinup_tf2.errors import UserError
from tests.envs.mario.consoles import (
    AT_THE_FLAG,
    DIES,
    LIVES,
    RIGHT,
    STATE,
    at,
    fake_mario,
    needs_cv2,
    score,
)

pytestmark = needs_cv2


def learner(script=None, **kwargs):
    """The preprocessed environment, and its first console after the first reset."""
    env = preprocess(fake_mario(script, actions="right", obs_type="grayscale"), **kwargs)
    obs, _ = env.reset(seed=0)
    return env, env.unwrapped.consoles[0], obs


# ---------------------------------------------------------------- frames of a step


@pytest.mark.parametrize("skip", [1, 4])
def test_a_step_has_exactly_as_many_frames(skip):
    env, console, _ = learner(frameskip=skip)
    for action in (1, 0, 1):
        env.step(action)
    assert console.pressed == [RIGHT] * skip + [0] * skip + [RIGHT] * skip


@pytest.mark.parametrize("last", [1, 4])
def test_a_step_stops_at_the_end(last):
    env, console, _ = learner({last: DIES})
    _, _, terminated, _, _ = env.step(1)
    assert terminated
    assert console.t == last


def test_observations_are_the_last_frames_of_steps():
    """Pictures grow brighter: the maximum of the last two is the last. Nothing changes later."""
    env, _, first = learner(size=16, stack=3)
    assert env.observation_space == gym.spaces.Box(0, 255, (16, 16, 3), np.uint8)
    kept = [first, *(env.step(1)[0] for _ in range(4))]
    kept += [env.reset()[0], env.step(1)[0]]
    expected = [[0, 0, 0], [0, 0, 4], [0, 4, 8], [4, 8, 12], [8, 12, 16], [0, 0, 0], [0, 0, 4]]
    for obs, stack in zip(kept, expected, strict=True):
        assert obs in env.observation_space
        assert (obs == stack).all()


# ---------------------------------------------------------------- rewards


@pytest.mark.parametrize(("end", "worth"), [(AT_THE_FLAG, 50), (DIES, -50 - 15 - 2)])
def test_flag_and_death_count_once_and_are_scaled(end, worth):
    """Frames to the right are worth 2; a frame of death is worth -15 instead."""
    env, _, _ = learner({6: end})
    assert env.step(1)[1] == pytest.approx(8 / 10)
    _, rew, terminated, _, _ = env.step(1)
    assert terminated
    assert rew == pytest.approx((4 + worth) / 10)


def test_terms_of_the_reward():
    terms = dict(flag_bonus=7, death_penalty=3, score_scale=0.5, reward_scale=2)
    assert learner({1: AT_THE_FLAG | score(20)}, **terms)[0].step(0)[1] == 2 * (7 + 10)
    assert learner({1: DIES | score(20)}, **terms)[0].step(0)[1] == 2 * (-15 - 3 + 10)


def test_the_score_counts_from_where_the_episode_begins():
    base = fake_mario({3: score(1000), 9: score(1200), 10: score(1250)})
    env = ScoreReward(MaxAndSkip(base, 4), score_scale=1 / 40, scale=1)
    env.reset(options={"noops": 5})
    assert env.step(0)[1] == 200 / 40  # to frame 9
    assert env.step(0)[1] == 50 / 40
    assert env.step(0)[1] == 0
    env.reset()
    assert env.step(0)[1] == 1000 / 40
    base.backup()
    env.step(0)
    env.reset(options={"from_backup": True})
    assert env.step(0)[1] == 0
    assert env.step(0)[1] == 250 / 40


def test_color_is_refused():
    with pytest.raises(UserError, match="needs grayscale frames"):
        preprocess(fake_mario())


# ---------------------------------------------------------------- stop without progress


def stuck_after(env, actions):
    """After how many steps the episode is cut off; None: never."""
    for t, action in enumerate(actions, 1):
        _, _, terminated, truncated, _ = env.step(action)
        assert not terminated
        if truncated:
            return t
    return None


def test_stop_without_progress():
    def env():
        env = StopWithoutProgress(fake_mario(actions=[["left"], [], ["right"]]), 4)
        env.reset()
        return env

    left, stand, right = range(3)
    assert stuck_after(env(), [stand] * 9) == 4
    assert stuck_after(env(), [left] * 9) == 4
    assert stuck_after(env(), [right] * 30) is None
    assert stuck_after(env(), [right, stand, stand, stand, right] * 5) is None
    # The way back to the best place is no progress: 2 of them here, a new best in the third.
    assert stuck_after(env(), [right, left, right, left, right, right]) == 5
    assert stuck_after(env(), [right, left, right, right, stand, stand, stand]) is None
    once = env()
    assert stuck_after(once, [stand] * 9) == 4
    once.reset()
    assert stuck_after(once, [stand] * 9) == 4


def test_an_end_is_never_a_cut_as_well():
    env = StopWithoutProgress(fake_mario({4: DIES}), 4)
    env.reset()
    assert [env.step(0)[2:4] for _ in range(4)] == [(False, False)] * 3 + [(True, False)]


def test_another_level_or_another_life_begins_at_its_own_left_end():
    far = at(2000)
    again = {LIVES: 1, STATE: 8} | at(40)
    for script in ({1: far, 3: {0x75C: 1} | at(40)}, {1: far, 3: DIES, 4: again}):
        env = StopWithoutProgress(fake_mario(script, stages=None, actions="right"), 4)
        env.reset()
        assert stuck_after(env, [1] * 20) is None
    env = StopWithoutProgress(fake_mario({1: far, 3: at(40)}, stages=None, actions="right"), 4)
    env.reset()
    assert stuck_after(env, [1] * 20) == 6  # the best place was reached in step 2


# ---------------------------------------------------------------- noop starts


def starts(env, episodes, **first):
    """How many frames pass before each episode."""
    console = env.unwrapped.consoles

    def frames(**kwargs):
        env.reset(**kwargs)
        assert set(console[0].pressed) <= {0}
        return len(console[0].pressed)

    return [frames(**first), *(frames() for _ in range(episodes - 1))]


def test_noop_starts_are_drawn_from_the_whole_range():
    env = NoopStarts(fake_mario(), 5)
    numbers = starts(env, 80, seed=3)
    assert set(numbers) == {0, 1, 2, 3, 4, 5}
    assert starts(env, 80, seed=3) == numbers != starts(env, 80, seed=4)


def test_a_backup_is_not_followed_by_noops_unless_they_are_asked_for():
    env = NoopStarts(fake_mario(actions="right"), 50)
    env.reset(seed=0, options={"noops": 0})
    env.step(1)
    env.unwrapped.backup()
    assert starts(env, 1, seed=0, options={"from_backup": True}) == [0]
    assert starts(env, 1, options={"from_backup": True, "noops": 3}) == [3]
