"""env_spec.json: what can be built again, what is refused, and that nothing of it is executed."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import (
    ClipReward,
    FlattenObservation,
    FrameStackObservation,
    MaxAndSkipObservation,
    OrderEnforcing,
    RescaleAction,
    TimeAwareObservation,
    TimeLimit,
    TransformObservation,
)

import spinup_tf2  # noqa: F401  (registers its environments)
from spinup_tf2.envs.making import EnvFn, wrapper_of
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import make_env, write_env_spec


def rebuilt(tmp_path, env, env_fn=None, **kwargs):
    path = tmp_path / "env_spec.json"
    write_env_spec(path, env, env_fn)
    return make_env(path, **kwargs)


def wrapper_names(env):
    return [wrapper.name for wrapper in env.spec.additional_wrappers]


def describe(tmp_path, **changes):
    """Write a file as an attacker could."""
    spec = {"env_name": "CartPole-v1", "kwargs": {}, "max_episode_steps": 500, "wrappers": []}
    path = tmp_path / "env_spec.json"
    path.write_text(json.dumps({"spec": spec | changes}))
    return path


def test_plain_environment_and_render_mode(tmp_path):
    env = rebuilt(tmp_path, gym.make("CartPole-v1"), render_mode="rgb_array")
    assert env.spec.id == "CartPole-v1"
    assert env.spec.max_episode_steps == 500
    assert env.render_mode == "rgb_array"


def test_kwargs_time_limit_and_wrappers_come_back(tmp_path):
    env = gym.make("Pendulum-v1", g=np.float32(9.0), max_episode_steps=7)
    env = rebuilt(tmp_path, FlattenObservation(RescaleAction(env, -0.5, 0.5)))
    assert env.unwrapped.g == 9.0
    assert wrapper_names(env) == ["RescaleAction", "FlattenObservation"]
    assert env.action_space.high == 0.5
    env.reset(seed=0)
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(7)]
    assert [truncated for *_, truncated, _ in steps] == [False] * 6 + [True]


def test_returns_are_the_environments_own(tmp_path):
    """Wrappers of gymnasium that change rewards are for the training only, as those here are."""
    env = gym.wrappers.NormalizeReward(ClipReward(gym.make("Pendulum-v1"), -1, 1))
    assert wrapper_names(rebuilt(tmp_path, FlattenObservation(env))) == ["FlattenObservation"]


class Told(gym.Env):
    """Keeps what it is told."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, told=None, how=None, names=None):
        self.told, self.how, self.names = told, how, names


class Settings:
    """Does not say whether two are equal."""

    def __init__(self):
        self.speed = 3


def test_arguments_of_the_registration_may_be_anything(tmp_path):
    """`gymnasium.make` passes on copies, and not all copies are equal to what they are made of."""
    anything = [np.zeros((100, 100)), np.array([None, 1]), Settings(), print, {1, 2}, lambda: 1]
    anything += [{"settings": Settings(), "weights": np.zeros(9)}]
    for each in anything:
        gym.register("Told-v0", entry_point=Told, kwargs=dict(told=each))
        try:
            again = rebuilt(tmp_path, gym.make("Told-v0")).unwrapped.told
            assert type(again) is type(each)
            with pytest.raises(UserError, match=r"argument 'told' of Told-v0: .*is not written"):
                rebuilt(tmp_path, gym.make("Told-v0", told=np.ones((100, 100))))
        finally:
            del gym.registry["Told-v0"]


@pytest.fixture
def told_by_its_registration():
    registered = dict(told=(2, (3, 4)), how=print, names={1: "one"})
    gym.register("Told-v0", entry_point=Told, kwargs=registered)
    yield registered["told"]
    del gym.registry["Told-v0"]


def test_tuples_and_arrays_come_back_as_such(tmp_path, told_by_its_registration):
    again = rebuilt(tmp_path, gym.make("Told-v0"))
    assert again.unwrapped.told == told_by_its_registration
    # What only the registration can give:
    assert (again.unwrapped.how, again.unwrapped.names) == (print, {1: "one"})
    with pytest.raises(UserError, match="the key 2, which JSON cannot hold"):
        rebuilt(tmp_path, gym.make("Told-v0", names={2: "two"}))
    again = rebuilt(tmp_path, gym.make("Told-v0", told=np.float32([1, 2])))
    assert again.unwrapped.told.dtype == np.float32
    assert [*again.unwrapped.told] == [1, 2]
    box = gym.make("Pendulum-v1", render_mode="rgb_array")
    image = gym.wrappers.ResizeObservation(gym.wrappers.AddRenderObservation(box), (40, 50))
    assert rebuilt(tmp_path, image).observation_space.shape == (40, 50, 3)


def test_another_time_limit_may_be_given(tmp_path):
    env = gym.make("Pendulum-v1", max_episode_steps=7)
    for limit in (3, 400):
        env = rebuilt(tmp_path, env, env_kwargs=dict(max_episode_steps=limit))
        assert env.spec.max_episode_steps == limit


class Twice(TimeLimit):
    """A time limit of another kind."""

    def step(self, action):
        return super().step(action) if self._elapsed_steps % 2 else self.env.step(action)


def pendulum(**kwargs):
    return MaxAndSkipObservation(gym.make("Pendulum-v1", **kwargs), 4)


def episode(env):
    """The observations of an episode, which is cut after 300 steps."""
    env.reset(seed=0)
    seen = []
    for _ in range(300):
        obs, _, _, truncated, _ = env.step(np.zeros(1, np.float32))
        seen.append(obs)
        if truncated:
            break
    return np.array(seen)


def with_limit(env, limit):
    """As many programs change it; it is in the spec only if nobody has read that before."""
    assert env.spec.max_episode_steps == 200
    env._max_episode_steps = limit
    return env


STACKS = [
    lambda: with_limit(gym.make("Pendulum-v1"), 20),
    lambda: with_limit(TimeLimit(FrameStackObservation(gym.make("Pendulum-v1"), 2), 200), 30),
    lambda: TimeLimit(gym.make("Pendulum-v1"), 250),
    lambda: TimeLimit(gym.make("Pendulum-v1"), 20),
    lambda: TimeLimit(MaxAndSkipObservation(gym.make("Pendulum-v1"), 4), 30),
    lambda: TimeLimit(MaxAndSkipObservation(gym.make("Pendulum-v1"), 4), 90),
    lambda: MaxAndSkipObservation(TimeLimit(gym.make("Pendulum-v1", max_episode_steps=-1), 30), 4),
    lambda: TimeLimit(MaxAndSkipObservation(gym.make("Pendulum-v1", max_episode_steps=-1), 4), 30),
    lambda: TimeLimit(TimeAwareObservation(gym.make("Pendulum-v1"), normalize_time=True), 50),
    lambda: TimeLimit(OrderEnforcing(MaxAndSkipObservation(gym.make("Pendulum-v1"), 4)), 30),
    lambda: Twice(gym.make("Pendulum-v1", max_episode_steps=-1), 30),
    lambda: gym.make("FourSteps-v0"),
    lambda: gym.make("FourSteps-v0", max_episode_steps=20),
    lambda: TimeLimit(ClipReward(gym.make("FourSteps-v0", max_episode_steps=-1), -1, 1), 9),
    lambda: TimeLimit(gym.make("FourStepsUnchecked-v0"), 12),
]


@pytest.mark.parametrize("make", STACKS)
def test_time_limits_come_back_where_they_were(tmp_path, make):
    unchecked = dict(order_enforce=False, disable_env_checker=True)
    gym.register("FourSteps-v0", entry_point=pendulum)
    gym.register("FourStepsUnchecked-v0", entry_point=pendulum, **unchecked)
    try:
        np.testing.assert_array_equal(episode(make()), episode(rebuilt(tmp_path, make())))
        again = rebuilt(tmp_path, make(), env_kwargs=dict(max_episode_steps=2))
        assert len(episode(again)) <= 4
    finally:
        del gym.registry["FourSteps-v0"], gym.registry["FourStepsUnchecked-v0"]


def test_wrappers_of_the_registered_function_are_not_applied_twice(tmp_path):
    def clipped_pendulum(**kwargs):
        return ClipReward(gym.make("Pendulum-v1", **kwargs), -1, 1)

    gym.register("ClippedPendulum-v0", entry_point=clipped_pendulum)
    try:
        env = gym.make("ClippedPendulum-v0")
        again = rebuilt(tmp_path, FlattenObservation(env))
        assert wrapper_names(again) == ["ClipReward", "FlattenObservation"]
    finally:
        del gym.registry["ClippedPendulum-v0"]


class Mine(gym.Wrapper):
    def __init__(self, env, factor=1):
        super().__init__(env)
        self.factor = factor


class Plain(gym.Wrapper):
    pass


class Recorded(gym.Wrapper, RecordConstructorArgs):
    def __init__(self, env, **kwargs):
        RecordConstructorArgs.__init__(self, **kwargs)
        super().__init__(env)


class Bare(gym.Env):
    pass


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Mine(gym.make("CartPole-v1"), 2), "Mine, which does not record its arguments"),
        (
            lambda: TransformObservation(gym.make("CartPole-v1"), lambda obs: obs, None),
            "not JSON serializable",
        ),
        (Bare, "was not made by gymnasium.make"),
        (lambda: Recorded(gym.make("CartPole-v1"), names={1: 5}), "has the key 1, which JSON"),
    ],
)
def test_what_cannot_be_described_says_why_and_what_to_do(tmp_path, make, reason):
    with pytest.raises(UserError, match=rf"{reason}.*run_policy\(env, get_action\).*allow_pickle"):
        rebuilt(tmp_path, make())


@pytest.mark.parametrize(
    ("entry_point", "reason"),
    [
        ("os:system", "os:system is not a wrapper"),
        ("antigravity:X", "it asks to import antigravity"),
        ("gymnasium.wrappersX:a", "No module named 'gymnasium.wrappersX'"),
        ("gymnasium.wrappers:no_such", "no_such"),
        ("spinup_tf2.errors:UserError", "is not a wrapper"),
        ("gymnasium.wrappers:RecordVideo", "would display or record"),
        ("spinup_tf2.envs.rendering:Recorder", "would display or record"),
        ("", "'', which is no name of a module"),
        ("__main__:Mine", "'__main__', which is no name .* Build the environment yourself"),
    ],
)
def test_only_wrappers_are_loaded(tmp_path, entry_point, reason):
    path = describe(tmp_path, wrappers=[{"entry_point": entry_point, "kwargs": {}}])
    with pytest.raises(UserError, match=reason):
        make_env(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env_name": "NoSuchThing-v0"}, "NoSuchThing"),
        ({"env_name": "no_such_module:CartPole-v1"}, "no_such_module"),
        ({"env_name": 3}, "3 is not the name of an environment"),
        ({"env_name": "CartPole\x1b[2J-v1"}, "x1b.* is not the name of an environment"),
        ({"kwargs": {"no_such_argument": 1}}, "no_such_argument"),
        ({"wrappers": 5}, "cannot be built"),
    ],
)
def test_strange_files_are_refused(tmp_path, changes, reason):
    with pytest.raises(UserError, match=reason) as caught:
        make_env(describe(tmp_path, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry_point", "kwargs"),
    [
        ("gymnasium.wrappers:FrameStackObservation", {"stack_size": 10**9}),
        ("gymnasium.wrappers:DelayObservation", {"delay": 10**400}),
        ("gymnasium.wrappers:ReshapeObservation", {"shape": [10**6, 10**6]}),
        ("gymnasium.wrappers:ResizeObservation", {"shape": 10**12}),
        ("spinup_tf2.envs.atari:StackFrames", {"size": 84, "stack": 10**9}),
        ("spinup_tf2.envs.wrappers:MaxAndSkip", {"frameskip": 10**12}),
        ("spinup_tf2.envs.wrappers:MaxAndSkip", {"frameskip": [1, 10**12]}),
        ("spinup_tf2.envs.atari:NoopReset", {"noop_max": 10**12}),
        ("gymnasium.wrappers.stateful_observation:MaxAndSkipObservation", {"skip": 10**12}),
        ("gymnasium.wrappers.stateful_action:RepeatAction", {"num_repeats": 10**12}),
        ("gymnasium.wrappers.atari_preprocessing:AtariPreprocessing", {"frame_skip": 10**12}),
        ("gymnasium.wrappers.atari_preprocessing:AtariPreprocessing", {"screen_size": [84, 10**6]}),
        ("gymnasium.wrappers.transform_observation:DiscretizeObservation", {"bins": 10**12}),
    ],
)
def test_wrappers_of_any_size_are_refused(tmp_path, entry_point, kwargs):
    path = describe(tmp_path, wrappers=[{"entry_point": entry_point, "kwargs": kwargs}])
    with pytest.raises(UserError, match=r"would (keep|let) more than \d+ (numbers|frames)"):
        make_env(path)


def test_long_descriptions_are_neither_written_nor_read(tmp_path):
    """A map of 3,000 x 3,000 would become some 30 GB of transitions."""
    row, path = "F" * 3000, tmp_path / "env_spec.json"
    describe(tmp_path, env_name="FrozenLake-v1", kwargs={"desc": [row] * 3000})
    with pytest.raises(UserError, match="larger than 65536 bytes"):
        make_env(path)
    write_env_spec(path, gym.make("FrozenLake-v1", desc=["S" + row * 22 + "G"]), None)
    with pytest.raises(UserError, match="its arguments take more than 65536 bytes"):
        make_env(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"spec": {}}', '{"spec": null}'])
def test_damaged_files_are_refused(tmp_path, text):
    path = tmp_path / "env_spec.json"
    path.write_text(text)
    with pytest.raises(UserError, match="cannot be built"):
        make_env(path)


def test_wrappers_by_name_are_rebuilt_with_the_arguments_that_were_given(tmp_path):
    """Also those of classes that do not record them, in which the environment came before."""
    gym.register("Wrapped-v0", entry_point=lambda: Plain(gym.make("CartPole-v1")))
    try:
        wrappers = (f"{__name__}:Mine(factor=2)", "TimeLimit(max_episode_steps=7)")
        env_fn = EnvFn(
            "Wrapped-v0", wrappers=(*wrappers, f"{__name__}:Mine( factor = [3, 'a:b'] )")
        )
        env = rebuilt(tmp_path, env_fn(), env_fn)
    finally:
        del gym.registry["Wrapped-v0"]
    assert (env.factor, env.env.env.factor) == ([3, "a:b"], 2)
    assert env.spec.max_episode_steps == 7
    assert wrapper_names(env) == ["Plain", "Mine", "Mine"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Rescale",
            "TimeLimit(7)",
            "TimeLimit(max_episode_steps=print())",
            "TimeLimit()()",
            "",
            3,
        ),
        *(
            "TimeLimit(**{})",
            "RecordVideo(video_folder='x')",
            "no_such:TimeLimit",
            "gymnasium:make",
        ),
    ],
)
def test_what_is_no_wrapper_of_a_run(text):
    with pytest.raises(
        UserError, match=r"wrapper is .*must be module:Class or a class of gymnasium"
    ):
        wrapper_of(text)
