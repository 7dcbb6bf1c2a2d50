"""What can be trained: spaces of every kind, images, networks of one's own; and what cannot."""

import json

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2 import ddpg, dqn, ppg, ppo, sac, td3, trpo, vpg
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import squashed_gaussian
from spinup_tf2.core.nets.heads import (
    DeterministicPolicy,
    GreedyPolicy,
    SquashedGaussianPolicy,
    ValueFunction,
)
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic, QActorCritic
from spinup_tf2.errors import UserError
from spinup_tf2.training.saved_policy import load_policy
from spinup_tf2.utils.run_utils import EnvFn
from spinup_tf2.utils.test_policy import load_policy_and_env, run_policy
from tests import off_policy_runs
from tests import on_policy_runs as runs
from tests.images import Lamp
from tests.off_policy_runs import record
from tests.on_policy_runs import make

pytestmark = pytest.mark.saved_model

PENDULUM = make("Pendulum-v1")
PPO = dict(train_pi_iters=5)

# ------------------------------------------------------------------------------------- spaces


def with_parts(*parts):
    space = spaces.Tuple(parts)
    return lambda: gym.wrappers.TransformObservation(PENDULUM(), lambda o: space.sample(), space)


def with_actions(space):
    wrap = gym.wrappers.TransformAction
    return lambda: wrap(gym.make("CartPole-v1"), lambda a: int(a[0]), space)


@pytest.mark.parametrize(
    "env_fn",
    [
        PENDULUM,
        make("FrozenLake-v1"),
        make("ProbeGoal-v0"),
        with_parts(spaces.Discrete(3), spaces.Box(-1, 1, (2,))),
        with_parts(spaces.Box(-1, 1, (2,))),
        with_actions(spaces.MultiDiscrete([2, 3])),
        with_actions(spaces.MultiBinary(2)),
    ],
    ids=["Box", "Discrete seen", "Dict", "Tuple", "one part", "MultiDiscrete", "MultiBinary"],
)
def test_spaces_train_save_and_load(tmp_path, env_fn):
    ac, rows = runs.train(ppo, tmp_path / "run", env_fn, **PPO)
    assert len(rows) == 2
    env = env_fn()
    obs, _ = env.reset(seed=0)
    for deterministic in (False, True):
        get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic, seed=0)
        assert env.action_space.contains(get_action(obs))
        env.step(get_action(obs))
    np.testing.assert_allclose(get_action(obs), ac.act(obs, deterministic=True), rtol=1e-5)
    env.step(ac.act(obs))


def with_choice(env):
    """Observations are one of two numbers."""
    return gym.wrappers.TransformObservation(env, lambda o: int(o[0] > 0), spaces.Discrete(2))


def with_dict(env):
    space = spaces.Dict(place=spaces.Box(-1, 1, (2,)), speed=spaces.Box(-8, 8, (1,)))
    return gym.wrappers.TransformObservation(env, lambda o: dict(place=o[:2], speed=o[2:]), space)


@pytest.mark.parametrize(
    ("algorithm", "wrapper", "width"),
    [(sac, lambda env: env, 3), (ddpg, with_choice, 2), (td3, with_dict, 3)],
    ids=["sac Box", "ddpg Discrete", "td3 Dict"],
)
def test_what_is_saved_is_what_was_trained(tmp_path, algorithm, wrapper, width):
    """The policy, which takes the environment's own observations, and the Q-functions."""
    env_fn = lambda: wrapper(gym.make("Pendulum-v1"))  # noqa: E731
    ac, _ = off_policy_runs.train(algorithm, tmp_path / "run", env_fn, epochs=1)
    env = env_fn()
    obs, _ = env.reset(seed=0)
    get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic=True)
    seen = spaces.flatten(env.observation_space, obs).astype(np.float32)
    assert len(seen) == width
    act = ac.act(obs, deterministic=True)
    assert env.action_space.contains(act)
    np.testing.assert_allclose(get_action(obs), act, rtol=1e-5)
    np.testing.assert_allclose(ac.act(seen, deterministic=True), act, rtol=1e-5)

    model = tf.saved_model.load(str(tmp_path / "run" / "tf2_save"))
    rng = np.random.default_rng(0)
    x, a = (rng.uniform(-1, 1, (7, size)).astype(np.float32) for size in (width, 1))
    saved, names = model.q(x, a), ["q"] if algorithm is ddpg else ["q1", "q2"]
    assert sorted(saved) == names
    for name, expected in zip(names, ac.q_values(x, a), strict=True):
        np.testing.assert_allclose(saved[name], expected, rtol=1e-5)


# ------------------------------------------------------------------------------------- images


def test_who_trains_networks_apart_does_not_share_their_layers(tmp_path):
    ac_kwargs = dict(conv="small", hidden_sizes=(8,))
    ac, rows = runs.train(vpg, tmp_path / "run", Lamp, epochs=1, ac_kwargs=ac_kwargs)
    assert isinstance(ac, CNNActorCritic)
    assert not ac.shared
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["actor_critic"] == "CNNActorCritic"
    assert np.isfinite(float(rows[0]["LossV"]))


def test_images_are_learned_from_saved_and_watched(tmp_path):
    """Ten steps an episode: a policy that looks gets 10, one that does not gets 5."""
    env_fn = EnvFn("tests.images:Lamp-v0")
    kwargs = dict(steps_per_epoch=320, epochs=6, train_pi_iters=20, pi_lr=2e-3, target_kl=0.05)
    kwargs |= dict(num_envs=16, gamma=0.0, ac_kwargs=dict(conv="small", hidden_sizes=(16,)))
    ac, rows = runs.train(ppo, tmp_path / "run", env_fn, **kwargs)
    assert isinstance(ac, CNNActorCritic)
    assert ac.shared
    assert float(rows[-1]["AverageEpRet"]) > 9

    env, get_action = load_policy_and_env(tmp_path / "run", deterministic=True)
    obs, _ = env.reset(seed=0)
    assert obs.dtype == np.uint8
    assert env.action_space.contains(get_action(obs))
    assert get_action(obs) == ac.act(obs, deterministic=True) == env.unwrapped.lit
    run_policy(env, get_action, num_episodes=2, render=False)


class Road(gym.Env):
    """Images of noise, and CarRacing's actions: steering -1 ... 1, gas and brake 0 ... 1."""

    observation_space = spaces.Box(0, 255, (96, 96, 3), np.uint8)
    action_space = spaces.Box(np.array([-1, 0, 0], np.float32), np.ones(3, np.float32))

    def _show(self):
        return self.np_random.integers(256, size=(96, 96, 3), dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self._show(), float(action.sum()), False, False, {}


def assert_all_moved(recorded):
    before, after = recorded.blocks[0][0], recorded.blocks[-1][3]
    for name in ("pi", "q"):
        for x, y in zip(before[name], after[name], strict=True):
            assert not np.array_equal(x, y)


@pytest.mark.parametrize(("algorithm", "env"), [(sac, Road), (dqn, Lamp)])
def test_images_are_for_convolutions_off_policy_too(tmp_path, monkeypatch, algorithm, env):
    recorded = record(monkeypatch)
    ac, _ = off_policy_runs.train(
        algorithm,
        tmp_path / "run",
        env,
        **dict(steps_per_epoch=20, epochs=1, start_steps=6, update_after=10, update_every=2),
        **dict(batch_size=4, num_test_episodes=1, max_ep_len=8),
        ac_kwargs=dict(conv="small", hidden_sizes=(8,)),
    )
    assert type(ac) is CNNQActorCritic
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["actor_critic"] == "CNNQActorCritic"
    batches = recorded.blocks[0][1]
    assert batches["obs"].dtype == batches["next_obs"].dtype == np.uint8
    assert batches["obs"].shape == (2, 4, *env().observation_space.shape)
    assert len({id(q.encoder) for q in ac.qs}) == 1
    assert_all_moved(recorded)
    obs, _ = env().reset(seed=0)
    get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic=True)
    act = ac.act(obs, deterministic=True)
    assert env().action_space.contains(act)
    np.testing.assert_allclose(get_action(obs), act, rtol=1e-4)


# --------------------------------------------------------------------- networks of one's own


class Own(keras.Model):
    """Layers, and what a function makes of their output."""

    def __init__(self, outputs, make_distribution):
        super().__init__()
        self.hidden, self.norm = keras.layers.Dense(8, "relu"), keras.layers.LayerNormalization()
        self.last, self.make_distribution = keras.layers.Dense(outputs), make_distribution

    def call(self, obs):
        return self.make_distribution(self.last(self.norm(self.hidden(obs))))


def own(make_distribution):
    """An actor-critic for Pendulum whose policy's distribution comes from its layers' output."""

    def actor_critic(observation_space, action_space):
        v = ValueFunction(mlp(observation_space.shape[0], (8,), 1))
        return ActorCritic(Own(1, make_distribution), v, action_space)

    return actor_critic


def test_own_actor_critic(tmp_path):
    """Any Keras model that returns a distribution, whether it has been called before or not."""

    def actor_critic(observation_space, action_space, width=8, activation="mine"):
        pi = Own(int(action_space.n), lambda logits: tfp.distributions.Categorical(logits=logits))
        v = ValueFunction(mlp(observation_space.shape[0], (width,), 1, "relu"))
        return ActorCritic(pi, v, action_space)

    kwargs = dict(actor_critic=actor_critic, ac_kwargs=dict(width=4))
    ac, _ = runs.train(ppo, tmp_path / "run", **kwargs, **PPO)
    assert ac.v.net.layers[0].units == 4
    get_action = load_policy(tmp_path / "run" / "tf2_save", allow_pickle=True)
    assert gym.make("CartPole-v1").action_space.contains(get_action(np.zeros(4)))


class OwnQ(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)

    def call(self, obs, act):
        return self.out(self.hidden(tf.concat([obs, act], -1)))[:, 0]


@pytest.mark.parametrize("algorithm", [ddpg, sac])
def test_own_actor_critic_off_policy(tmp_path, monkeypatch, algorithm):
    recorded, num_q = record(monkeypatch), 1 if algorithm is ddpg else 2

    def actor_critic(observation_space, action_space, width):
        dim = observation_space.shape[0]
        if algorithm is sac:
            pi = SquashedGaussianPolicy(mlp(dim, (width,), 2))
        else:
            pi = DeterministicPolicy(mlp(dim, (width,), 1, output_activation="tanh"))
        return QActorCritic(pi, [OwnQ() for _ in range(num_q)], action_space)

    kwargs = dict(actor_critic=actor_critic, ac_kwargs=dict(width=4))
    ac, _ = off_policy_runs.train(algorithm, tmp_path / "run", **kwargs)
    assert recorded.networks[0] is ac
    assert ac.pi.net.layers[0].units == 4
    assert len(recorded.blocks[0][0]["q"]) == 4 * len(ac.qs)
    assert_all_moved(recorded)
    get_action = load_policy(tmp_path / "run" / "tf2_save", allow_pickle=True)
    assert get_action(np.zeros(3)).shape == (1,)


@pytest.mark.parametrize("greedy", [True, False])
def test_own_q_function_of_dqn(tmp_path, greedy):
    """Its policy is the Q-function's; another one would never be trained."""

    def actor_critic(observation_space, action_space):
        q = Own(2, lambda values: values)
        pi = GreedyPolicy(q if greedy else Own(2, lambda values: values))
        return QActorCritic(pi, [q], action_space)

    kwargs = dict(actor_critic=actor_critic, ac_kwargs=None)
    if not greedy:
        with pytest.raises(UserError, match=r"would not be trained: return .*Greedy"):
            off_policy_runs.train(dqn, tmp_path / "run", **kwargs)
        return
    ac, _ = off_policy_runs.train(dqn, tmp_path / "run", **kwargs)
    (q,) = ac.q_values(obs := np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32))
    np.testing.assert_array_equal(ac.act(obs), np.argmax(q, axis=1))
    get_action = load_policy(tmp_path / "run" / "tf2_save", allow_pickle=True)
    assert [get_action(each) for each in obs] == np.argmax(q, axis=1).tolist()


@pytest.mark.parametrize("arch", ["shared", "detach"])
def test_shared_networks_of_ones_own(tmp_path, arch):
    """They say themselves what they share."""

    class Output(keras.Model):
        def __init__(self, body, head):
            super().__init__()
            self.body, self.head = body, head

        def call(self, obs):
            return self.head(self.body(obs))

    def actor_critic(observation_space, action_space, hidden_sizes):
        body = keras.layers.Dense(*hidden_sizes, "tanh")
        outside = spaces.Box(-1, 1, hidden_sizes, np.float32)
        heads = MLPActorCritic(outside, action_space, hidden_sizes=())
        return ActorCritic(Output(body, heads.pi), Output(body, heads.v), action_space)

    kwargs = dict(ac_kwargs=dict(hidden_sizes=(8,)), minibatch_size=50, aux_minibatch_size=40)
    _, rows = runs.train(ppg, tmp_path, actor_critic=actor_critic, arch=arch, n_pi=2, **kwargs)
    assert float(rows[1]["AuxLossV"]) == float(rows[1]["AuxLossVPi"]) > 0


# ---------------------------------------------------------------------------- what is refused


def bent(mean):
    """A distribution whose density is known, but neither its entropy nor its divergence."""
    normal = tfp.distributions.MultivariateNormalDiag(tf.zeros_like(mean), tf.ones_like(mean))
    shift_and_bend = [tfp.bijectors.Softplus(), tfp.bijectors.Shift(mean)]
    return tfp.distributions.TransformedDistribution(normal, tfp.bijectors.Chain(shift_and_bend))


def squashed(mean):
    """A Gaussian squashed by tanh: of two of these the divergence is known, in principle."""
    mean = tf.tanh(mean)
    normal = tfp.distributions.MultivariateNormalDiag(mean, tf.fill(tf.shape(mean), 0.3))
    return tfp.distributions.TransformedDistribution(normal, tfp.bijectors.Tanh())


def unsqueezed(*args):
    """A mistake that would broadcast silently: values `[batch, 1]`."""
    ac = MLPActorCritic(*args)
    ac.v = mlp(3, (), 1)
    return ac


def of_kind(stochastic, num_q):
    return lambda *args: MLPQActorCritic(*args, stochastic=stochastic, num_q=num_q)


def cached():
    """The same networks in every call."""
    made = []

    def actor_critic(*args):
        made.append(made[0] if made else of_kind(False, 1)(*args))
        return made[-1]

    return actor_critic


@pytest.mark.parametrize(
    ("algorithm", "actor_critic", "kwargs", "words"),
    [
        (ppo, unsqueezed, {}, r"v\(obs\) .* \[\(2, 1\)\].*Squeeze"),
        (ppo, own(bent), dict(ent_coef=0.01), r"no entropy\(\) in closed form"),
        (ppo, own(bent), dict(objective="penalty"), r"no kl_divergence\(\) in"),
        (trpo, own(bent), {}, r"no kl_divergence\(\) in"),
        # Divergences are tried out between what one compiled function has returned and another.
        (ppo, own(squashed), dict(objective="penalty"), r"no kl_divergence\(\) in"),
        (sac, of_kind(False, 2), {}, "must return a distribution of tensorflow_probability"),
        (td3, of_kind(False, 1), {}, "needs 2 of shape"),
        (ddpg, cached(), {}, "the networks and the target networks share variables"),
    ],
)
def test_refused_before_anything_is_written(tmp_path, algorithm, actor_critic, kwargs, words):
    kwargs = dict(kwargs, actor_critic=actor_critic, ac_kwargs=None, steps_per_epoch=200)
    with pytest.raises(UserError, match=words):
        algorithm(PENDULUM, **kwargs, logger_kwargs=dict(output_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_networks_whose_features_nobody_knows(tmp_path):
    class Policy(keras.Model):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def call(self, obs):
            return self.inner(obs)

    def actor_critic(observation_space, action_space):
        ac = MLPActorCritic(observation_space, action_space, hidden_sizes=(8,))
        return ActorCritic(Policy(ac.pi), ac.v, action_space)

    kwargs = dict(actor_critic=actor_critic, minibatch_size=50, aux_minibatch_size=50, epochs=1)
    with pytest.raises(UserError, match="Policy has no layers to share"):
        runs.train(ppg, tmp_path / "run", **kwargs)
    assert not (tmp_path / "run").exists()
    runs.train(ppg, tmp_path / "run", **kwargs, train_aux_iters=0)  # that needs no features


def test_distributions_without_closed_forms_are_trained_where_none_is_needed(tmp_path):
    runs.train(ppo, tmp_path / "run", PENDULUM, actor_critic=own(bent), **PPO)


def test_actions_that_round_to_1_can_be_learned_from(tmp_path):
    far_out = own(lambda mean: squashed_gaussian(mean + 12.0, tf.constant([0.5])))
    _, rows = runs.train(ppo, tmp_path / "run", PENDULUM, actor_critic=far_out, **PPO)
    assert float(rows[0]["KL"]) != 0  # it has learned something
    assert np.isfinite([float(rows[1][name]) for name in ("LossPi", "KL", "Entropy")]).all()
