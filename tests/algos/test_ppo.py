"""PPO: its losses by hand, what it writes, what it can be trained on, and what it refuses."""

import inspect
import json

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces
from spinup_tf2.core.gradient_steps import GradientSteps, value_loss
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.training.saved_policy import load_policy

from spinup_tf2 import ppo
from spinup_tf2.algos.ppo import policy_loss
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.nets.heads import ValueFunction
from spinup_tf2.errors import UserError
from tests import on_policy_runs as runs
from tests.on_policy_runs import COLUMNS, make, positional_defaults

PPO_COLUMNS = [
    *(*COLUMNS, "LossPi", "LossV", "DeltaLossPi", "DeltaLossV"),
    *("Entropy", "KL", "ClipFrac", "StopIter", "Time"),
]


def train(path, env_fn=None, **kwargs):
    """A small run of PPO; returns the actor-critic and the rows of its progress.txt."""
    return runs.train(ppo, path, env_fn, **{"train_pi_iters": 5, **kwargs})


# ------------------------------------------------------------------------------- the contract


def test_signature_is_spinning_ups_with_additions_by_keyword_only():
    expected = dict(
        env_fn=inspect.Parameter.empty,
        actor_critic=MLPActorCritic,
        ac_kwargs=None,
        seed=0,
        steps_per_epoch=4000,
        epochs=50,
        gamma=0.99,
        clip_ratio=0.2,
        pi_lr=3e-4,
        vf_lr=1e-3,
        train_pi_iters=80,
        train_v_iters=80,
        lam=0.97,
        max_ep_len=1000,
        target_kl=0.01,
        logger_kwargs=None,
        save_freq=10,
    )
    assert positional_defaults(ppo) == list(expected.items())


# --------------------------------------------------------------------------------- the losses


def test_policy_loss_by_hand():
    """eps = 0.2. Ratios 2, 2, 0.5, 0.5 and advantages 1, -1, 1, -1:

    min(2 * 1, 1.2 * 1) = 1.2     min(2 * -1, 1.2 * -1) = -2
    min(.5 * 1, .8 * 1) = 0.5     min(.5 * -1, .8 * -1) = -0.8
    """
    ratio, adv = tf.constant([2.0, 2.0, 0.5, 0.5]), tf.constant([1.0, -1.0, 1.0, -1.0])
    loss, info = policy_loss(tf.math.log(ratio), tf.zeros(4), adv, 0.2)
    assert float(loss) == pytest.approx(-(1.2 - 2 + 0.5 - 0.8) / 4, rel=1e-6)
    assert info["ClipFrac"] == 1
    assert float(info["KL"]) == pytest.approx(-np.mean(np.log(ratio)), abs=1e-6)


def test_no_gradient_where_the_ratio_has_gone_too_far_in_the_good_direction():
    logp = tf.Variable(np.log([2.0, 2.0, 0.5, 0.5, 1.1]).astype(np.float32))
    adv = tf.constant([1.0, -1.0, 1.0, -1.0, 1.0])
    with tf.GradientTape() as tape:
        loss, _ = policy_loss(logp, tf.zeros(5), adv, 0.2)
    # d(-r A / 5) / d logp = -r A / 5, and 0 where the clipped term is the smaller one.
    np.testing.assert_allclose(tape.gradient(loss, logp), [0, 0.4, -0.1, 0, -0.22], rtol=1e-5)


def test_policy_gradient_equals_finite_differences():
    rng = np.random.default_rng(0)
    logp, logp_old, adv = rng.normal(size=(3, 8), scale=0.1)
    f = lambda x: float(policy_loss(*map(tf.constant, (x, logp_old, adv)), 0.2)[0])  # noqa: E731
    with tf.GradientTape() as tape:
        x = tf.constant(logp)
        tape.watch(x)
        loss, _ = policy_loss(x, tf.constant(logp_old), tf.constant(adv), 0.2)
    h = 1e-6
    numeric = [(f(logp + h * e) - f(logp - h * e)) / (2 * h) for e in np.eye(8)]
    np.testing.assert_allclose(tape.gradient(loss, x), numeric, atol=1e-8)


def test_value_loss_by_hand():
    loss, _ = value_loss(tf.constant([1.0, 2.0]), tf.constant([0.0, 4.0]))
    assert loss == 2.5


# ---------------------------------------------------------------------------- a run as a whole


def test_run_directory_and_columns(tmp_path):
    ac, rows = train(tmp_path / "run")
    names = {"config.json", "progress.txt", "vars.pkl", "tf2_save", "env_spec.json", "checkpoint"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    assert list(rows[0]) == PPO_COLUMNS
    assert [row["Epoch"] for row in rows] == ["0", "1"]
    assert [row["TotalEnvInteracts"] for row in rows] == ["200", "400"]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["steps_per_epoch"] == 200
    assert config["actor_critic"] == "MLPActorCritic"
    assert config["exp_name"] == "test"
    assert "logger" not in config


def test_same_seed_same_numbers_and_other_seed_other_numbers(tmp_path):
    runs = [train(tmp_path / str(i), seed=seed)[1] for i, seed in enumerate([3, 3, 4])]
    for rows in runs:
        for row in rows:
            del row["Time"]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_every_parameter_moves(tmp_path):
    before = {}

    def remembering(*args, **kwargs):
        ac = MLPActorCritic(*args, **kwargs)
        before.update({v.path + str(i): v.numpy() for i, v in enumerate(parameters(ac))})
        return ac

    def parameters(ac):
        return ac.pi.trainable_variables + ac.v.trainable_variables

    ac, _ = train(tmp_path / "run", make("Pendulum-v1"), actor_critic=remembering)
    for i, variable in enumerate(parameters(ac)):
        assert not np.array_equal(variable, before[variable.path + str(i)]), variable.path


def test_epoch_without_a_finished_episode_logs_blanks_and_goes_on(tmp_path):
    """Pendulum's episodes have 200 steps; epochs here have 150."""
    _, rows = train(tmp_path / "run", make("Pendulum-v1"), steps_per_epoch=150, epochs=3)
    blank = ["AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen"]
    assert all(rows[0][key] == "" for key in blank)
    assert rows[1]["EpLen"] == "200.0"  # carried over from the first epoch
    assert all(rows[0][key] != "" for key in COLUMNS if key not in blank)


def test_everything_is_compiled_once(tmp_path, monkeypatch):
    made, init = [], GradientSteps.__init__

    def remember(self, *args, **kwargs):
        init(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(GradientSteps, "__init__", remember)
    train(tmp_path / "run", epochs=4)
    [policy_and_value_steps] = [loop for steps in made for loop in steps.compiled_passes.values()]
    assert policy_and_value_steps.experimental_get_tracing_count() == 1


def test_environments_are_closed_whatever_happens(tmp_path):
    opened, closed = [], []

    class Counted(gym.Wrapper):
        def __init__(self):
            super().__init__(gym.make("CartPole-v1"))
            opened.append(self)

        def close(self):
            closed.append(self)
            super().close()

    train(tmp_path / "run", Counted, num_envs=2)
    assert len(opened) == len(closed) == 3
    with pytest.raises(UserError, match="MLPActorCritic cannot make the networks"):
        train(tmp_path / "other", Counted, ac_kwargs=dict(hidden=3))
    assert len(opened) == len(closed)


def test_value_of_endless_reward_is_one_over_one_minus_gamma(tmp_path):
    """Time limits are not ends: V goes to 1 / (1 - 0.8) = 5, not to the mean over 20 steps."""
    ac, rows = train(
        tmp_path / "run",
        make("ProbeReward-v0"),
        gamma=0.8,
        vf_lr=0.02,
        epochs=30,
        train_v_iters=20,
    )
    assert float(rows[-1]["AverageVVals"]) == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(
    "env_fn",
    [
        make("Pendulum-v1"),
        make("FrozenLake-v1"),
        make("ProbeGoal-v0"),
        lambda: gym.wrappers.TransformAction(
            gym.make("CartPole-v1"), lambda a: int(a[0]), spaces.MultiDiscrete([2, 3])
        ),
        lambda: gym.wrappers.TransformAction(
            gym.make("CartPole-v1"), lambda a: int(a[0]), spaces.MultiBinary(2)
        ),
    ],
    ids=["Box", "Discrete observations", "Dict observations", "MultiDiscrete", "MultiBinary"],
)
def test_spaces_train_save_and_load(tmp_path, env_fn):
    ac, rows = train(tmp_path / "run", env_fn)
    assert len(rows) == 2
    env = env_fn()
    obs, _ = env.reset(seed=0)
    for deterministic in (False, True):
        get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic, seed=0)
        assert env.action_space.contains(get_action(obs))
        env.step(get_action(obs))
    np.testing.assert_allclose(get_action(obs), ac.act(obs, deterministic=True), rtol=1e-5)
    env.step(ac.act(obs))


def test_saved_policy_acts_as_the_trained_one(tmp_path):
    ac, _ = train(tmp_path / "run", make("Pendulum-v1"))
    get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic=True)
    for obs in np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32):
        np.testing.assert_allclose(get_action(obs), ac.act(obs, deterministic=True), rtol=1e-5)
    first, second = (load_policy(tmp_path / "run" / "tf2_save", seed=1) for _ in range(2))
    np.testing.assert_array_equal(first(obs), second(obs))
    assert not np.allclose(first(obs), get_action(obs))


def test_incomplete_save_is_refused(tmp_path):
    train(tmp_path / "run")
    (tmp_path / "run" / "tf2_save" / "weights.npz").unlink()
    with pytest.raises(UserError, match="no complete saved policy"):
        load_policy(tmp_path / "run" / "tf2_save")


class OwnPolicy(keras.Model):
    def __init__(self, choices):
        super().__init__()
        self.hidden = keras.layers.Dense(8, "relu")
        self.norm = keras.layers.LayerNormalization()
        self.logits = keras.layers.Dense(choices)

    def call(self, obs):
        return tfp.distributions.Categorical(logits=self.logits(self.norm(self.hidden(obs))))


def test_own_actor_critic(tmp_path):
    """Any Keras model that returns a distribution, whether it has been called before or not."""

    def own(observation_space, action_space, width=8, activation="mine"):
        pi = OwnPolicy(int(action_space.n))
        v = ValueFunction(mlp(observation_space.shape[0], (width,), 1, "relu"))
        return ActorCritic(pi, v, action_space)

    ac, rows = train(tmp_path / "run", actor_critic=own, ac_kwargs=dict(width=4))
    assert ac.v.net.layers[0].units == 4
    env = gym.make("CartPole-v1")
    get_action = load_policy(tmp_path / "run" / "tf2_save", allow_pickle=True)
    assert env.action_space.contains(get_action(np.zeros(4)))


class UnsummedPolicy(keras.Model):
    """A mistake that would broadcast silently: one log-probability for each dimension."""

    def __init__(self):
        super().__init__()
        self.mean = keras.layers.Dense(1)

    def call(self, obs):
        return tfp.distributions.Normal(self.mean(obs), 1.0)


def test_a_log_probability_for_each_dimension_is_refused(tmp_path):
    def wrong(observation_space, action_space):
        return ActorCritic(UnsummedPolicy(), ValueFunction(mlp(3, (), 1)), action_space)

    with pytest.raises(UserError, match=r"log_prob of shape \(2, 1\).*Independent"):
        train(tmp_path / "run", make("Pendulum-v1"), actor_critic=wrong)


@pytest.mark.parametrize(
    ("pi_or_v", "network", "message"),
    [
        ("pi", mlp(4, (), 2), r"pi\(obs\) returned EagerTensor; it must return a distribution"),
        ("v", mlp(4, (), 1), r"v\(obs\) returned shape \(2, 1\).*squeeze"),
    ],
)
def test_an_actor_critic_that_returns_something_else_is_refused(
    tmp_path, pi_or_v, network, message
):
    def wrong(*args):
        ac = MLPActorCritic(*args)
        setattr(ac, pi_or_v, network)
        return ac

    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", actor_critic=wrong)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(actor_critic=3), "actor_critic is 3; it must be a function or class"),
        (dict(gamma=1.5), "gamma is 1.5; it must be a number between 0 and 1"),
        (dict(gamma=float("nan")), "gamma is nan"),
        (dict(lam=-0.1), "lam is -0.1"),
        (dict(pi_lr=-1e-3), "pi_lr is -0.001"),
        (dict(vf_lr="fast"), "vf_lr is 'fast'"),
        (dict(epochs=0), "epochs is 0"),
        (dict(epochs=True), "epochs is True"),
        (dict(seed=-1), "seed is -1"),
        (dict(seed=2**32), "seed is 4294967296; it must be a whole number from 0 to 4294967295"),
        (dict(seed=1.0), "seed is 1.0"),
        (dict(steps_per_epoch=4000.0), "steps_per_epoch is 4000.0"),
        (dict(num_envs=3), "cannot share equally; use a multiple of 3, such as 201"),
        (dict(steps_per_epoch=2, num_envs=4), "use a multiple of 4, such as 4"),
        (dict(max_ep_len=0), "max_ep_len is 0"),
        (dict(vectorization="forks"), "'sync', 'async' or 'threads'"),
        (dict(ac_kwargs=[64]), r"ac_kwargs is \[64\]; it must be a dict"),
        (dict(ac_kwargs=dict(hidden_sizes=64)), "hidden_sizes is 64; it must be a list"),
        (dict(ac_kwargs=dict(hidden_sizes=[64, 0])), "hidden_sizes"),
        (dict(ac_kwargs=dict(activation="tahn")), "activation is 'tahn'"),  # codespell:ignore
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, kwargs, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", **kwargs)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (
            lambda env: gym.wrappers.TransformObservation(
                env, lambda o: (0, 1), spaces.Tuple([spaces.Discrete(2)] * 2)
            ),
            "observation space Tuple is not supported",
        ),
        (
            lambda env: gym.wrappers.TransformAction(
                env, lambda a: 0, spaces.Dict(a=spaces.Discrete(2))
            ),
            "action space Dict is not supported",
        ),
    ],
)
def test_spaces_are_refused_before_anything_is_written(tmp_path, wrapper, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", lambda: wrapper(gym.make("CartPole-v1")))
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_not_overwritten(tmp_path):
    train(tmp_path / "run")
    before = (tmp_path / "run" / "progress.txt").read_text()
    with pytest.raises(UserError, match="already holds a run"):
        train(tmp_path / "run")
    assert (tmp_path / "run" / "progress.txt").read_text() == before
