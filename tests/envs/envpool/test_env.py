"""EnvPoolEnv keeps gymnasium's protocol, on a stand-in for EnvPool, which keeps another."""

import copy
import pickle
import sys

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import spinup_tf2  # noqa: F401  (registers its environments)
from spinup_tf2.envs.envpool import EnvPoolEnv
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import make_env, write_env_spec
from tests.envs.envpool.stand_in import LENGTH

pytestmark = pytest.mark.usefixtures("stand_in")


def count(**options):
    return EnvPoolEnv("Count-v0", **options)


def first_levels(env, episodes, seed=None):
    return [int(env.reset(seed=seed if i == 0 else None)[0][0]) for i in range(episodes)]


def test_gymnasium_finds_no_mistake():
    check_env(count(), skip_render_check=True)


def test_an_episode_ends_with_its_own_last_observation():
    env = count()
    (level, time), info = env.reset(seed=1)
    assert (time, info["level_seed"]) == (0, level)
    for t in range(1, LENGTH):
        obs, rew, terminated, truncated, _ = env.step(0)
        assert ([*obs], rew, terminated, truncated) == ([level, t], t, False, False)
    obs, rew, terminated, truncated, _ = env.step(0)
    assert ([*obs], rew, terminated, truncated) == ([level, LENGTH], LENGTH, False, True)
    obs, _ = env.reset()
    assert obs[0] != level
    assert obs[1] == 0
    obs, rew, terminated, truncated, _ = env.step(1)  # no step is lost at the beginning
    assert (obs[1], rew, terminated, truncated) == (1, 1, True, False)


def test_an_episode_that_is_broken_off_is_over():
    env = count()
    level = first_levels(env, 1, seed=1)
    env.step(0)
    (again, time), _ = env.reset()
    assert again != level
    assert time == 0


def test_a_seed_makes_the_pool_anew(stand_in):
    env = count()
    assert stand_in.made == 0  # it has spaces without one
    levels = first_levels(env, 5, seed=1)
    assert stand_in.made == 1
    assert first_levels(env, 5, seed=1) == levels
    assert first_levels(count(), 5, seed=1) == levels
    assert stand_in.made == 3
    assert first_levels(env, 5, seed=2) != levels
    assert first_levels(count(), 3) != first_levels(count(), 3)  # without one, chance decides
    first_levels(env, 1, seed=2**40)  # EnvPool takes those below 2^31


def test_copies_begin_with_a_reset_of_their_own():
    env = count()
    levels = first_levels(env, 2, seed=1)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert first_levels(other, 2, seed=1) == levels


def test_options_reach_envpool():
    env = count(length=2, num_levels=1, start_level=7)
    assert first_levels(env, 4, seed=0) == [7] * 4
    env.step(0)
    assert env.step(0)[3]


def test_by_its_id_and_as_runs_keep_it(tmp_path):
    env_fn = EnvFn("EnvPool-v0", dict(task_id="Count-v0", length=3))
    env, path = env_fn(), tmp_path / "env_spec.json"
    write_env_spec(path, env, env_fn)
    assert first_levels(make_env(path), 3, seed=4) == first_levels(env, 3, seed=4)
    other = make_env(path, env_kwargs=dict(num_levels=1, start_level=9))
    assert first_levels(other, 3, seed=4) == [9] * 3
    assert other.spec.kwargs["length"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(task_id="Countt-v0"), "EnvPool 0 has no environment 'Countt-v0'.*list_all_envs"),
        (dict(speed=3), "speed=3 is not passed on: .* base_path, length, num_levels, start_level"),
        (dict(num_envs=3), "num_envs=3 is not"),
        (dict(base_path="/tmp"), "base_path='/tmp' is not"),
        (dict(length=["a"]), "length=.* a number"),
        (dict(length=0), "cannot make Count-v0 with .*length.*: no steps"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(UserError, match=message):
        EnvPoolEnv(**dict(task_id="Count-v0") | arguments).reset()


def test_envpool_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    message = (
        r'EnvPool cannot be loaded .* pip install "spinup_tf2\[procgen\]". It needs Python 3.11'
    )
    for make in (gym.make, lambda env_id: EnvFn(env_id)()):
        with pytest.raises(UserError, match=message):
            make("procgen/bigfish")


def test_qt_is_missing(monkeypatch):
    def cannot(*_, **__):
        raise ImportError(
            "libQt5Gui.so.5: cannot open shared object file: No such file or directory"
        )

    monkeypatch.setattr(sys.modules["envpool"], "make_spec", cannot)
    with pytest.raises(UserError, match=r"BigfishEasy-v0 .*libQt5Gui.*apt-get install libqt5gui5"):
        gym.make("procgen/bigfish")
