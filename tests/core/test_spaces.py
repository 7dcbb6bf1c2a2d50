import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.core.spaces import (
    action_spec,
    flatten_observations,
    is_image,
    network_dtype,
    network_observation_space,
    space_from_json,
    space_to_json,
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
    spaces.MultiBinary(4),
    spaces.MultiBinary((2, 2)),
    spaces.Dict(
        b=spaces.Discrete(3), a=spaces.Dict(y=spaces.Discrete(2), x=spaces.Box(0, 1, (2,)))
    ),
]


@pytest.mark.parametrize("space", SUPPORTED, ids=str)
def test_spaces_survive_json(space):
    again = space_from_json(json.loads(json.dumps(space_to_json(space), sort_keys=True)))
    assert again == space
    space.seed(0)
    sample = space.sample()  # equal is not enough: Dicts with another order of keys are equal
    np.testing.assert_array_equal(spaces.flatten(again, sample), spaces.flatten(space, sample))


def test_subclasses_are_written_as_what_they_are():
    class OwnBox(spaces.Box):
        pass

    space = OwnBox(-1, 1, (2,))
    assert space_from_json(space_to_json(space)) == spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize("space", SUPPORTED, ids=str)
def test_observations_are_flattened_as_gymnasium_does(space):
    space.seed(0)
    flat = network_observation_space(space)
    assert flat.shape == spaces.flatten(space, space.sample()).shape


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple"),
        (spaces.Text(5), "Text"),
        (spaces.Dict({1: spaces.Discrete(2)}), "key 1; keys must be strings"),
        (spaces.Dict(a=spaces.Dict(pair=spaces.Tuple([spaces.Discrete(2)]))), "Tuple.*'pair'"),
    ],
)
def test_other_observations_are_refused_by_name(space, name):
    with pytest.raises(UserError, match=name):
        network_observation_space(space)


def test_flat_observations_need_no_wrapper():
    env = gym.make("CartPole-v1")
    assert flatten_observations(env) is env
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
    ],
)
def test_images_stay_as_they_are_and_all_else_is_flattened(shape, dtype, expected):
    space = spaces.Box(0, 255, shape, dtype)
    assert is_image(space) == expected
    seen = network_observation_space(space)
    obs = to_network(space, space.sample())
    assert obs.shape == seen.shape == (shape if expected else (np.prod(shape),))
    assert obs.dtype == network_dtype(seen) == (np.uint8 if expected else np.float32)


def test_pixels_are_neither_scaled_nor_wrapped_on_their_way_to_the_network():
    space = spaces.Box(0, 255, (32, 32, 1), np.uint8)
    image = np.arange(1024, dtype=np.uint8).reshape(32, 32, 1)
    np.testing.assert_array_equal(to_network(space, image), image)
    env = gym.wrappers.TransformObservation(gym.make("CartPole-v1"), lambda obs: image, space)
    assert flatten_observations(env) is env


ACTION_SPACES = [
    space for space in SUPPORTED if not isinstance(space, spaces.Dict) and space.dtype != np.uint8
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
    assert all(space.contains(a) for a in actions)
    if spec.num_choices is not None:  # every choice is reachable
        assert len({a.tobytes() for a in np.asarray(actions)}) == np.prod(spec.num_choices)


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple"),
        (spaces.Box(0, 9, (2,), np.int64), "Box of int64"),
        (spaces.Dict(a=spaces.Discrete(2)), "Dict"),
    ],
)
def test_other_actions_are_refused_by_name(space, name):
    with pytest.raises(UserError, match=f"action space {name}"):
        action_spec(space)
