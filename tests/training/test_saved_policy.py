"""Actor-critics of the off-policy algorithms on disk."""

import json

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets.checks import make_q_actor_critic
from spinup_tf2.core.nets.distributions import mode, sample
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from spinup_tf2.training.saved_policy import SavedPolicy, load_policy

pytestmark = pytest.mark.saved_model

OBS = spaces.Box(-1, 1, (4,))
IMAGES = spaces.Box(0, 255, (36, 40, 1), np.uint8)
BOX = spaces.Box(np.array([[-2.0, 0.0, 5.0]]), np.array([[1.0, 10.0, 5.5]]), dtype=np.float64)
CHOICES = spaces.Discrete(5, start=1)


def save(path, observation_space, action_space, stochastic, num_q):
    kwargs = dict(hidden_sizes=(8,))
    networks = (MLPQActorCritic, observation_space, action_space, kwargs)
    ac = make_q_actor_critic(*networks, stochastic, num_q)
    rng = np.random.default_rng(0)
    for variable in ac.pi.trainable_variables[-2:]:  # actions that are far from the middle
        variable.assign(rng.normal(size=variable.shape))
    saved = SavedPolicy(ac, observation_space, action_space)
    tf.saved_model.save(saved, path)
    (path / "model_info.json").write_text(json.dumps(saved.info))
    np.savez(path / "weights.npz", **saved.arrays())
    return ac


def observations(space, n=6):
    rng = np.random.default_rng(1)
    if space is IMAGES:
        return rng.integers(0, 256, (n, *space.shape), np.uint8)
    return rng.uniform(-1, 1, (n, *space.shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "stochastic", "num_q"),
    [(OBS, BOX, False, 1), (OBS, BOX, True, 2), (OBS, CHOICES, True, 2), (IMAGES, BOX, True, 2)],
    ids=["deterministic", "squashed", "choices", "images"],
)
def test_what_is_saved_is_what_was_trained(
    tmp_path, observation_space, action_space, stochastic, num_q
):
    ac = save(tmp_path, observation_space, action_space, stochastic, num_q)
    spec, names = ac.action_spec, ["q"] if num_q == 1 else ["q1", "q2"]
    choice = action_space is CHOICES
    info = json.loads((tmp_path / "model_info.json").read_text())
    assert info["bounded"] == (not choice)
    assert (info["outputs"], info["q_outputs"]) == (["pi", "mu"], names)
    assert info["q_inputs"] == (["x"] if choice else ["x", "a"])

    loaded = tf.saved_model.load(tmp_path)
    obs = observations(observation_space)
    noise = spec.draw_noise(np.random.default_rng(2), len(obs))
    outputs, pi = loaded.policy(obs, noise), ac.pi(obs)
    assert outputs.keys() == {"pi", "mu"}
    np.testing.assert_allclose(outputs["pi"], sample(pi, noise), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["mu"], mode(pi), rtol=1e-5, atol=1e-6)
    inputs = [obs] if choice else [obs, outputs["pi"]]
    values = loaded.q(*inputs)
    for name, expected in zip(names, ac.q_values(*inputs), strict=True):
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-6)
    assert values.keys() == set(names)

    # From an observation of the environment to an action for its step.
    get_action = load_policy(tmp_path, deterministic=True)
    for one, expected in zip(obs, mode(pi).numpy(), strict=True):
        act = get_action(one)
        assert action_space.contains(act)
        by_hand = (
            expected + 1  # the first choice is called 1
            if choice
            else BOX.low + (expected + 1) / 2 * (BOX.high - BOX.low)
        )
        np.testing.assert_allclose(act, by_hand, rtol=1e-5)


def test_saving_again_saves_what_has_been_learned_since(tmp_path):
    """The function that is saved reads the variables; it keeps no copy of them."""
    ac = make_q_actor_critic(MLPQActorCritic, OBS, BOX, dict(hidden_sizes=()), False, 1)
    saved = SavedPolicy(ac, OBS, BOX)
    for variable in ac.trainable_variables:
        variable.assign(variable + 0.5)
    tf.saved_model.save(saved, tmp_path)
    loaded, obs = tf.saved_model.load(tmp_path), observations(OBS)
    act = loaded.policy(obs, np.zeros((6, 3), np.float32))["mu"]
    np.testing.assert_allclose(act, ac.pi(obs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loaded.q(obs, act)["q"], ac.qs[0](obs, act), rtol=1e-5, atol=1e-6)
