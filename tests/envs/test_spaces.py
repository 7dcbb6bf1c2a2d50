"""Spaces and their conversion to arrays: what the networks see, and what environments get."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.envs.spaces import (
    action_spec,
    actions_out_of_reach,
    bounded_action_spec,
    bounded_or_discrete_action_spec,
    discrete_action_spec,
    flatten_observations,
    is_image,
    network_dtype,
    network_observation_space,
    observation_test,
    pixels_as_numbers,
    to_network,
)
from spinup_tf2.errors import UserError

SUPPORTED = [
    spaces.Box(-1, np.inf, (3,), np.float32),
    spaces.Box(np.array([-1.5, 0]), np.array([2, np.inf]), dtype=np.float64),
    spaces.Box(0, 255, (4, 5, 3), np.uint8),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiDiscrete(np.array([[3, 2], [4, 4]]), start=np.array([[1, 0], [0, 2]])),
    spaces.Discrete(27, start=101, dtype=np.int8),  # start + n is no int8
    spaces.Discrete(3, dtype=np.int32),
    spaces.MultiDiscrete([3, 2], np.int8, start=np.array([125, -128])),
    spaces.MultiBinary(4),
    spaces.MultiBinary((2, 2)),
    spaces.Dict(
        b=spaces.Discrete(3), a=spaces.Dict(y=spaces.Discrete(2), x=spaces.Box(0, 1, (2,)))
    ),
    spaces.Tuple([spaces.Discrete(3), spaces.Dict(x=spaces.Box(0, 1, (2,)))]),
]


@pytest.mark.parametrize("space", SUPPORTED, ids=str)
def test_observations_are_flattened_as_gymnasium_does(space):
    space.seed(0)
    flat = network_observation_space(space)
    obs = space.sample()
    assert flat.shape == spaces.flatten(space, obs).shape
    assert observation_test(space)(obs)
    assert not observation_test(space)(None)


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Text(5), "Text.* gymnasium.ObservationWrapper that"),
        (spaces.Box(-1, 1, (0,)), "Observations of Box.* have no numbers"),
        (spaces.Dict(a=spaces.Dict(pair=spaces.Tuple([spaces.Text(3)]))), "Text.*entry 0"),
    ],
)
def test_other_observations_are_refused_by_name(space, name):
    with pytest.raises(UserError, match=name):
        network_observation_space(space)


IMAGE = spaces.Box(0, 255, (40, 40, 3), np.uint8)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (IMAGE, []),  # the networks have convolutions
        (spaces.Box(0, 255, (128,), np.uint8), []),
        (spaces.Box(-1, 1, (3, 4)), []),
        (spaces.Dict(board=spaces.Box(0, 1, (3, 3), np.uint8)), []),
        (spaces.Discrete(3), []),
        (spaces.Box(0, 255, (28, 28), np.uint8), ["the observation, uint8 of shape (28, 28)"]),
        (spaces.Box(0, 1, (40, 40, 3)), ["the observation, float32 of shape (40, 40, 3)"]),
        (
            spaces.Dict(eye=spaces.Dict(left=IMAGE), speed=spaces.Box(-1, 1, (2,))),
            ["the observation (entry 'left'), uint8 of shape (40, 40, 3), looks like an image"],
        ),
    ],
)
def test_images_that_become_vectors_are_warned_of(space, said):
    texts = pixels_as_numbers(space)
    assert len(texts) == len(said)
    for text, beginning in zip(texts, said, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize(
    ("low", "high", "far"),
    [
        *[(-1, 1, False), (-0.4, 0.4, False), ([-1, 0], [1, 1], False), (-np.inf, np.inf, False)],
        *[(0, 512, True), (-0.01, 0.01, True), ([-1, 5], [1, 6], True)],
    ],
)
def test_actions_that_the_first_policy_does_not_reach_are_warned_of(low, high, far):
    bounds = np.broadcast_to(low, 2), np.broadcast_to(high, 2)
    space = spaces.Box(*(bound.astype(np.float32) for bound in bounds))
    texts = actions_out_of_reach(action_spec(space))
    assert len(texts) == far
    assert all("RescaleAction" in text for text in texts)
    assert actions_out_of_reach(bounded_action_spec(spaces.Box(0, 512, (2,)))) == []
    assert actions_out_of_reach(action_spec(spaces.Discrete(2))) == []


def test_flat_observations_and_images_need_no_wrapper():
    env = gym.make("CartPole-v1")
    assert flatten_observations(env) is env
    image = gym.wrappers.TransformObservation(env, None, IMAGE)
    assert flatten_observations(image) is image
    grid = flatten_observations(gym.make("FrozenLake-v1"))
    obs, _ = grid.reset(seed=0)
    np.testing.assert_array_equal(obs, np.eye(16)[0])


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((210, 160, 3), np.uint8, True),
        ((4, 84, 84), np.uint8, True),  # gymnasium's stacked frames
        ((32, 32, 1), np.uint8, True),
        ((31, 200, 3), np.uint8, False),  # too small for convolutions to be worth while
        ((84, 84), np.uint8, False),  # no channels
        ((4, 84, 84, 3), np.uint8, False),
        ((84, 84, 4), np.float32, False),
        ((10, 10, 4), bool, True),  # MinAtar's
        ((7, 10, 10), bool, True),
        ((7, 7, 7), bool, False),
        ((10, 10), bool, False),
    ],
)
def test_images_stay_as_they_are_and_all_else_is_flattened(shape, dtype, expected):
    space = spaces.Box(0, 1 if dtype is bool else 255, shape, dtype)
    assert is_image(space) == expected
    seen = network_observation_space(space)
    sample = space.sample()
    obs = to_network(space, sample)
    assert obs.shape == seen.shape == (shape if expected else (np.prod(shape),))
    assert obs.dtype == network_dtype(seen) == (np.uint8 if expected else np.float32)
    np.testing.assert_array_equal(obs, sample if expected else sample.ravel())  # nothing is scaled


ACTION_SPACES = [
    space
    for space in SUPPORTED
    if not isinstance(space, spaces.Dict | spaces.Tuple) and space.dtype != np.uint8
]


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_every_action_that_can_be_drawn_belongs_to_the_space(space):
    spec = action_spec(space)
    rng = np.random.default_rng(0)
    noise = spec.draw_noise(rng, 500)
    if spec.num_choices is None:
        act = np.clip(noise, space.low.ravel(), space.high.ravel())
    else:
        # As a policy does, with logits that never pick the padding of unequal choices.
        padding = np.arange(max(spec.num_choices)) >= np.array(spec.num_choices)[:, None]
        logits = np.where(padding if spec.shape else padding[0], -np.inf, 0.0)
        act = (logits + noise).argmax(-1)
    actions = spec.to_env(act)
    assert all(space.contains(a) and a.dtype == space.dtype for a in actions)
    fits = observation_test(space)
    for chosen, a in zip(act, actions, strict=True):
        assert fits(a)
        np.testing.assert_array_equal(spec.from_env(a), chosen.ravel() if spec.shape else chosen)
    if spec.num_choices is not None:  # every choice is reachable
        assert len({a.tobytes() for a in np.asarray(actions)}) == np.prod(spec.num_choices)


# ------------------------------------------------------------------------- bounded actions

BOUNDED = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(np.float32([-2, 0, 5]), np.float32([1, 10, 5.5])),
    spaces.Box(np.float32([-0.1, 1e-3, -1e6]), np.float32([0.3, 1e5, 1e-3])),
    spaces.Box(np.array([-0.1, 1e-3, -1e6]), np.array([0.3, 1e5, 1e-3]), dtype=np.float64),
    spaces.Box(np.array([[-1, 2], [0, 0]]), np.array([[1, 3], [0.7, 90]]), dtype=np.float64),
]


@pytest.mark.parametrize("space", BOUNDED, ids=str)
def test_policies_act_between_minus_one_and_one(space):
    """-1 is low, 0 the middle, 1 high, and every dimension has its own."""
    spec = bounded_action_spec(space)
    assert spec.bounded
    assert (spec.shape, spec.dtype, spec.num_choices) == ((space.low.size,), np.float32, None)
    act = np.array([-1, 0, 1, 0.5], np.float32)[:, None] * np.ones(spec.shape, np.float32)
    found = spec.to_env(act)
    assert found.dtype == space.dtype
    assert found.shape == (4, *space.shape)
    np.testing.assert_array_equal(found[0], space.low)
    np.testing.assert_array_equal(found[2], space.high)
    half = (space.high.astype(float) - space.low) / 2
    np.testing.assert_allclose(found[1], space.low + half, rtol=1e-6, atol=1e-6 * half.max())
    np.testing.assert_allclose(found[3], space.low + 1.5 * half, rtol=1e-6, atol=1e-6 * half.max())


@pytest.mark.parametrize("space", BOUNDED, ids=str)
def test_bounded_actions_there_and_back(space):
    spec = bounded_action_spec(space)
    act = np.random.default_rng(0).uniform(-1, 1, (100, *spec.shape)).astype(np.float32)
    for one, in_env in zip(act, spec.to_env(act), strict=True):
        again = spec.from_env(in_env)
        assert again.dtype == np.float32
        # Where low and high are large and near to each other, numbers between them are few.
        spacing = np.spacing(np.maximum(abs(space.low), abs(space.high))).ravel()
        coarse = 4 * np.max(spacing / (space.high - space.low).ravel())
        np.testing.assert_allclose(again, one, atol=1e-6 + coarse)
    np.testing.assert_array_equal(spec.from_env(space.low), -np.ones(spec.shape))
    np.testing.assert_array_equal(spec.from_env(space.high), np.ones(spec.shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_are_reached_and_never_exceeded(dtype):
    """Whatever is lost in rounding: 2000 dimensions whose bounds differ by many orders."""
    rng = np.random.default_rng(0)
    ends = (rng.normal(size=(2, 2000)) * 10.0 ** rng.integers(-6, 7, (2, 2000))).astype(dtype)
    space = spaces.Box(ends.min(0), ends.max(0), dtype=dtype)
    spec = bounded_action_spec(space)
    ones = np.ones((1, 2000), np.float32)
    np.testing.assert_array_equal(spec.to_env(-ones)[0], space.low)
    np.testing.assert_array_equal(spec.to_env(ones)[0], space.high)
    near = np.nextafter(ones, np.float32(0))
    for act in (near, -near, 3 * ones, -3 * ones, rng.uniform(-1, 1, (1, 2000))):
        assert space.contains(spec.to_env(act.astype(np.float32))[0])


def test_one_choice_is_supported_where_it_is_asked_for():
    space = spaces.Discrete(4, start=2)
    spec = bounded_or_discrete_action_spec(space)
    assert spec == discrete_action_spec(space) == action_spec(space)
    assert not spec.bounded
    np.testing.assert_array_equal(spec.to_env(np.arange(4)), [2, 3, 4, 5])


LIMITED = spaces.Box(np.float32([-1, -np.inf]), np.float32([1, 1]))
EQUAL = spaces.Box(np.float32([-1, 3]), np.float32([1, 3]))


@pytest.mark.parametrize(
    ("make_spec", "space", "message"),
    [
        (action_spec, spaces.Tuple([spaces.Discrete(2)]), "action space Tuple is not supported"),
        (action_spec, spaces.Box(0, 9, (2,), np.int64), "action space Box of int64"),
        (action_spec, spaces.Dict(a=spaces.Discrete(2)), "action space Dict"),
        (action_spec, spaces.Box(-1, 1, (0,)), r"The action space Box\(.*\) has no dimensions"),
        (bounded_action_spec, spaces.Box(-1, 1, (0,)), "has no dimensions"),
        (bounded_action_spec, spaces.Discrete(3), "Discrete is not .*takes a Box of floating"),
        (bounded_or_discrete_action_spec, spaces.MultiDiscrete([3, 2]), "Multi.*takes Discrete"),
        (bounded_or_discrete_action_spec, spaces.Box(0, 9, (2,), np.int64), "Box.* of floating-po"),
        (discrete_action_spec, spaces.Box(-1, 1, (2,)), "Box is not .*, which takes Discrete"),
        (discrete_action_spec, spaces.MultiDiscrete([3, 2]), "MultiDiscrete is not .* Discrete"),
        (bounded_action_spec, spaces.Box(-np.inf, np.inf, (2,)), "unbounded.* ppo, ppg or a2c"),
        (bounded_action_spec, LIMITED, r"Box\(\[ *-1\. -inf\].* is unbounded.*ActionWrapper"),
        (bounded_action_spec, EQUAL, "low equals high"),
    ],
)
def test_other_actions_are_refused_by_name(make_spec, space, message):
    with pytest.raises(UserError, match=message):
        make_spec(space)
