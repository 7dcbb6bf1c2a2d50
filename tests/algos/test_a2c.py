"""A2C: its update by hand, several updates in an epoch, images, and what it refuses."""

import inspect
import json
from functools import partial

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces
from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.trajectories import TrajectoryBuffer, estimates
from spinup_tf2.training.saved_policy import load_policy

from spinup_tf2 import a2c, ppo, vpg
from spinup_tf2.algos.a2c import policy_loss
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.heads import ValueFunction
from spinup_tf2.errors import UserError
from spinup_tf2.utils.run_utils import EnvFn
from spinup_tf2.utils.test_policy import load_policy_and_env, run_policy
from tests import on_policy_runs as runs
from tests.images import Lamp
from tests.on_policy_runs import make, positional_defaults


def train(path, env_fn=None, **kwargs):
    """A small run of A2C: four environments, and two epochs of ten updates."""
    small = dict(num_envs=4)
    return runs.train(a2c, path, env_fn, **{**small, **kwargs})


@pytest.fixture
def recorded(monkeypatch):
    """For each update of a run: parameters before it, batch, learning rate, and what it returned.

    Parameters are NumPy copies; all are in the order in which they are trained.
    """
    updates, step = [], GradientSteps.step

    def remember(self, batch):
        before = [v.numpy() for v in self.variables]
        rate = float(self.optimizer.learning_rate)
        info = step(self, batch)
        updates.append((before, {k: x.numpy() for k, x in batch.items()}, rate, info))
        return info

    monkeypatch.setattr(GradientSteps, "step", remember)
    return updates


# ------------------------------------------------------------------------------- the contract


def test_signature():
    """Arguments that other algorithms have stand in their order; A2C's own are by keyword only."""
    expected = dict(
        env_fn=inspect.Parameter.empty,
        actor_critic=MLPActorCritic,
        ac_kwargs=None,
        seed=0,
        steps_per_epoch=4000,
        epochs=50,
        gamma=0.99,
        lr=7e-4,
        vf_coef=0.5,
        ent_coef=0.01,
        max_grad_norm=0.5,
        lam=1.0,
        max_ep_len=1000,
        logger_kwargs=None,
        save_freq=10,
    )
    assert positional_defaults(a2c) == list(expected.items())
    parameters = inspect.signature(a2c).parameters
    assert parameters["num_envs"].default == 16
    assert parameters["n_steps"].default == 5


# ----------------------------------------------------------------------------------- returns


def buffer_of(size, **kwargs):
    """What one environment has done in `size` steps, with advantages as A2C has them."""
    returns = partial(estimates, **kwargs, normalize=False)
    return TrajectoryBuffer((1,), (), np.int32, size, 1, returns)


@pytest.mark.parametrize(
    ("dones", "expected"),
    [
        # 1 + .99 * 10 = 10.9, 1 + .99 * 10.9 = 11.791, ...
        ([0, 0, 0, 0, 0], [14.41090, 13.54636, 12.67309, 11.791, 10.9]),
        ([0, 0, 1, 0, 1], [2.9701, 1.99, 1, 1.99, 1]),
    ],
)
def test_n_step_returns_by_hand(dones, expected):
    """Five rewards of 1, and V = 10 of what follows."""
    buffer = buffer_of(5, gamma=0.99, lam=1)
    for done in dones:
        ends, final_obs = np.array([done == 1]), {0: np.zeros(1)} if done else {}
        buffer.store(np.zeros((1, 1)), np.zeros(1), [1], ends, np.zeros(1, bool), final_obs)
    batch = buffer.get(lambda obs: np.full(len(obs), 10, np.float32), np.zeros((1, 1)))
    np.testing.assert_allclose(batch["ret"], expected, rtol=1e-6)
    np.testing.assert_allclose(batch["adv"], np.array(expected) - 10, rtol=1e-5)


class Counter(gym.Env):
    """Shows (number of the episode, step in it); the reward counts the steps of its whole life."""

    def __init__(self):
        self.observation_space = spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.episode = self.life = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action):
        self.t, self.life = self.t + 1, self.life + 1
        obs = np.array([self.episode, self.t], np.float32)
        return obs, float(self.life), False, False, {}


def test_a_time_limit_is_bootstrapped_from_the_observation_it_led_to(tmp_path, recorded):
    """And the first observation of the next episode is acted on as it is, not zeroed."""
    kwargs = dict(max_ep_len=3, num_envs=1, steps_per_epoch=5, epochs=1, gamma=0.9, lr=0)
    ac, _ = train(tmp_path / "run", Counter, **kwargs)
    [(_, batch, _, _)] = recorded
    np.testing.assert_array_equal(batch["obs"], [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1]])
    v = lambda *obs: float(ac.v(np.array([obs], np.float32))[0])  # noqa: E731
    assert abs(v(1, 3) - v(2, 0)) > 1e-2
    third = 3 + 0.9 * v(1, 3)
    fifth = 5 + 0.9 * v(2, 2)
    ret = [1 + 0.9 * (2 + 0.9 * third), 2 + 0.9 * third, third, 4 + 0.9 * fifth, fifth]
    np.testing.assert_allclose(batch["ret"], ret, rtol=1e-5)
    val = [v(*obs) for obs in batch["obs"]]
    np.testing.assert_allclose(batch["adv"], np.subtract(ret, val), rtol=1e-4)


def test_smaller_lambdas_are_sums_of_all_later_errors():
    """A[t] = sum_k (gamma lam)^k delta[t + k], up to the end of the episode: the slow way."""
    rng = np.random.default_rng(0)
    rew, val = rng.normal(size=(2, 8)).astype(np.float32)
    terminated = np.arange(8) == 4
    buffer = buffer_of(8, gamma=0.9, lam=0.7)
    for t in range(8):
        final_obs = {0: np.zeros(1)} if terminated[t] else {}
        buffer.store([[val[t]]], [0], [rew[t]], terminated[[t]], [False], final_obs)
    batch = buffer.get(lambda obs: np.asarray(obs)[:, 0], np.array([[0.5]], np.float32))
    following = np.append(val[1:], 0.5)
    delta = [r + 0.9 * f * (not d) - v for r, f, d, v in zip(rew, following, terminated, val)]  # noqa: B905
    for t in range(8):
        end = 5 if t < 5 else 8
        slow = sum((0.9 * 0.7) ** (k - t) * delta[k] for k in range(t, end))
        assert batch["adv"][t] == pytest.approx(slow, rel=1e-5)


# --------------------------------------------------------------------------------- the update


def test_policy_loss_by_hand():
    loss, info = policy_loss(tf.constant([-1.0, -2.0]), tf.constant([3.0, -1.0]))
    assert loss == -(-1 * 3 + -2 * -1) / 2
    assert info["Entropy"] == 1.5


def by_hand(ac, updates, lr=7e-4, vf_coef=0.5, ent_coef=0.01, max_grad_norm=0.5, rms_eps=1e-5):
    """What the recorded updates should have made of the parameters, in float64.

    RMSprop: s = rho s + (1 - rho) g^2;  x -= lr g / sqrt(s + rms_eps), with rho 0.99, of a
    gradient that is no longer than max_grad_norm.
    """
    params = [x.astype(float) for x in updates[0][0]]
    squares = [np.zeros(x.shape) for x in params]
    clipped = []
    for before, batch, _, _ in updates:
        for variable, x in zip(ac.trainable_variables, before, strict=True):
            variable.assign(x)
        with tf.GradientTape() as tape:
            pi, val = ac.pi(batch["obs"]), ac.v(batch["obs"])
            loss = -tf.reduce_mean(pi.log_prob(batch["act"]) * batch["adv"])
            loss += vf_coef * tf.reduce_mean((batch["ret"] - val) ** 2)
            loss -= ent_coef * tf.reduce_mean(pi.entropy())
        grads = [g.numpy().astype(float) for g in tape.gradient(loss, ac.trainable_variables)]
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        clipped.append(norm > max_grad_norm)
        for i, g in enumerate(grads):
            g = g * max_grad_norm / norm if clipped[-1] else g
            squares[i] = 0.99 * squares[i] + 0.01 * g**2
            params[i] = params[i] - lr * g / np.sqrt(squares[i] + rms_eps)
    return params, clipped


def test_updates_of_images_by_hand(tmp_path, recorded):
    """With networks that share their convolutions; others are in test_on_policy_by_hand."""
    ac_kwargs = dict(conv="small", hidden_sizes=(8,))
    ac, _ = train(tmp_path / "run", Lamp, steps_per_epoch=60, epochs=1, ac_kwargs=ac_kwargs)
    trained = [v.numpy() for v in ac.trainable_variables]
    assert len(recorded) == 3
    expected, clipped = by_hand(ac, recorded)
    assert any(clipped)
    for ours, theirs, start in zip(trained, expected, recorded[0][0], strict=True):
        assert not np.array_equal(ours, start)
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


# ----------------------------------------------------------------- several updates in an epoch


def test_columns_are_means_over_the_updates_of_an_epoch(tmp_path, recorded):
    _, rows = train(tmp_path / "run")
    assert [*rows[0]] == [*runs.COLUMNS, "LossPi", "LossV", "Entropy", "Time"]
    assert len(recorded) == 20
    for row, updates in zip(rows, (recorded[:10], recorded[10:]), strict=True):
        for column in ("LossPi", "LossV", "Entropy"):
            mean = np.mean([info[column] for _, _, _, info in updates])
            assert float(row[column]) == pytest.approx(mean, rel=1e-6)


def test_episodes_are_counted_across_updates_and_epochs(tmp_path):
    """Episodes of 7 steps in epochs of 10, two updates each. The reward of step s of a life is s:

    episodes return 1 + ... + 7 = 28, 8 + ... + 14 = 77, 15 + ... + 21 = 126, 22 + ... + 28 = 175;
    they end in steps 7 | 14 | 21 and 28.
    """
    kwargs = dict(max_ep_len=7, num_envs=3, steps_per_epoch=30, epochs=3)
    _, rows = train(tmp_path / "run", Counter, **kwargs)
    assert [float(row["AverageEpRet"]) for row in rows] == [28, 77, 150.5]
    assert (float(rows[2]["MinEpRet"]), float(rows[2]["MaxEpRet"])) == (126, 175)
    assert [float(row["EpLen"]) for row in rows] == [7, 7, 7]
    assert [row["TotalEnvInteracts"] for row in rows] == ["30", "60", "90"]


def test_same_seed_same_numbers_and_other_seed_other_numbers(tmp_path):
    rows = [train(tmp_path / str(i), seed=seed)[1] for i, seed in enumerate([3, 3, 4])]
    first, again, other = ([{**row, "Time": ""} for row in run] for run in rows)
    assert first == again
    assert first != other


def test_everything_is_compiled_once(tmp_path, monkeypatch):
    made, init = [], GradientSteps.__init__

    def remember(self, *args, **kwargs):
        init(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(GradientSteps, "__init__", remember)
    train(tmp_path / "run", lr_schedule="linear")
    assert [steps._compiled_step.experimental_get_tracing_count() for steps in made] == [1]


# ------------------------------------------------------------------------------------- images


def test_who_trains_networks_apart_does_not_share_their_layers(tmp_path):
    """Nor lets anybody ask for it."""
    ac_kwargs = dict(conv="small", hidden_sizes=(8,))
    with pytest.raises(UserError, match=r"share variables.*shared=False"):
        runs.train(vpg, tmp_path / "run", Lamp, ac_kwargs=dict(ac_kwargs, shared=True))
    assert not (tmp_path / "run").exists()
    ac, rows = runs.train(vpg, tmp_path / "run", Lamp, epochs=1, ac_kwargs=ac_kwargs)
    assert isinstance(ac, CNNActorCritic)
    assert not ac.shared
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["actor_critic"] == "CNNActorCritic"
    assert np.isfinite(float(rows[0]["LossV"]))


def test_buffers_and_batches_hold_bytes(tmp_path, recorded):
    kwargs = dict(conv="small", hidden_sizes=(8,))
    train(tmp_path / "run", Lamp, steps_per_epoch=20, epochs=1, ac_kwargs=kwargs)
    [(_, batch, _, _)] = recorded
    assert batch["obs"].dtype == np.uint8
    assert batch["obs"].shape == (20, 40, 40, 1)
    assert batch["obs"].max() == 255


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [
        (a2c, dict(steps_per_epoch=1600, epochs=4, lr=3e-3)),
        (ppo, dict(steps_per_epoch=320, epochs=6, train_pi_iters=20, pi_lr=2e-3, target_kl=0.05)),
    ],
    ids=["a2c", "ppo"],
)
def test_images_are_learned_from_saved_and_watched(tmp_path, algorithm, kwargs):
    """Ten steps an episode: a policy that looks gets 10, one that does not gets 5."""
    env_fn = EnvFn("tests.images:Lamp-v0")
    kwargs |= dict(num_envs=16, gamma=0.0, ac_kwargs=dict(conv="small", hidden_sizes=(16,)))
    ac, rows = runs.train(algorithm, tmp_path / "run", env_fn, **kwargs)
    assert isinstance(ac, CNNActorCritic)
    assert ac.shared
    assert float(rows[-1]["AverageEpRet"]) > 9

    env, get_action = load_policy_and_env(tmp_path / "run", deterministic=True)
    obs, _ = env.reset(seed=0)
    assert obs.dtype == np.uint8
    assert env.action_space.contains(get_action(obs))
    assert get_action(obs) == ac.act(obs, deterministic=True) == env.unwrapped.lit
    run_policy(env, get_action, num_episodes=2, render=False)


# ------------------------------------------------------------------------------------- spaces


@pytest.mark.parametrize(
    "env_fn",
    [
        make("Pendulum-v1"),
        make("ProbeGoal-v0"),
        lambda: gym.wrappers.TransformAction(
            gym.make("CartPole-v1"), lambda a: int(a[0]), spaces.MultiDiscrete([2, 3])
        ),
    ],
    ids=["Box", "Dict observations", "MultiDiscrete"],
)
def test_spaces_train_save_and_load(tmp_path, env_fn):
    _, rows = train(tmp_path / "run", env_fn)
    assert len(rows) == 2
    env = env_fn()
    get_action = load_policy(tmp_path / "run" / "tf2_save", seed=0)
    assert env.action_space.contains(get_action(env.reset(seed=0)[0]))


class SquashedPolicy(keras.Model):
    """A Gaussian squashed by tanh, whose entropy nobody has written down."""

    def __init__(self):
        super().__init__()
        self.mean = keras.layers.Dense(1)

    def call(self, obs):
        mean = tf.tanh(self.mean(obs))  # so that no action is rounded to 1
        normal = tfp.distributions.MultivariateNormalDiag(mean, [0.5])
        return tfp.distributions.TransformedDistribution(normal, tfp.bijectors.Tanh())


def squashed(observation_space, action_space):
    v = ValueFunction(mlp(observation_space.shape[0], (8,), 1))
    return ActorCritic(SquashedPolicy(), v, action_space)


def test_a_policy_without_a_known_entropy_needs_a_zero_coefficient(tmp_path):
    with pytest.raises(UserError, match=r"TransformedDistribution has no entropy.*ent_coef"):
        train(tmp_path / "run", make("Pendulum-v1"), actor_critic=squashed)
    assert not (tmp_path / "run").exists()
    kwargs = dict(actor_critic=squashed, ent_coef=0)
    _, rows = train(tmp_path / "run", make("Pendulum-v1"), **kwargs)
    assert np.isfinite(float(rows[-1]["Entropy"]))


# ----------------------------------------------------------------------------------- learning


def test_value_of_endless_reward_is_one_over_one_minus_gamma(tmp_path):
    """Time limits are not ends: V goes to 1 / (1 - 0.8) = 5, not to the mean over 20 steps."""
    kwargs = dict(gamma=0.8, steps_per_epoch=1000, epochs=12, lr=3e-3, lr_schedule="linear")
    _, rows = train(tmp_path / "run", make("ProbeReward-v0"), **kwargs)
    assert float(rows[-1]["AverageVVals"]) == pytest.approx(5, abs=0.1)


def test_identity_is_learned_for_choices(tmp_path):
    """Ten steps of reward 1 at best, 10 / 4 by chance."""
    env_fn = lambda: runs.Identity(spaces.Discrete(4))  # noqa: E731
    kwargs = dict(num_envs=16, steps_per_epoch=1600, epochs=8, lr=3e-3)
    _, rows = train(tmp_path / "run", env_fn, **kwargs)
    assert float(rows[-1]["AverageEpRet"]) > 9


def test_identity_is_learned_for_numbers(tmp_path):
    """The mean comes to follow what is shown, whatever the noise around it costs.

    A policy that does not look errs by the variance of what is shown, 1 / 3 in each step.
    """
    env_fn = lambda: runs.Identity(spaces.Box(-1, 1, (1,)))  # noqa: E731
    kwargs = dict(num_envs=16, steps_per_epoch=1600, epochs=12, lr=3e-3, ent_coef=0.0)
    ac, _ = train(tmp_path / "run", env_fn, **kwargs)
    obs = np.linspace(-0.9, 0.9, 19, dtype=np.float32)[:, None]
    assert np.square(ac.act(obs, deterministic=True) - obs).mean() < 0.05


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("env_fn", "kwargs", "message"),
    [
        (None, dict(lr=-1e-3), "lr is -0.001; it must be a number of at least 0"),
        (None, dict(vf_coef=-1), "vf_coef is -1"),
        (None, dict(ent_coef="much"), "ent_coef is 'much'"),
        (None, dict(max_grad_norm=0), "max_grad_norm is 0; it must be a number above 0, or None"),
        (None, dict(n_steps=0), "n_steps is 0; it must be a whole number of at least 1"),
        (None, dict(n_steps=2.5), "n_steps is 2.5"),
        (None, dict(lr_schedule="cosine"), "lr_schedule is 'cosine'; it must be 'constant' or"),
        (None, dict(rms_eps=0), "rms_eps is 0"),
        (None, dict(rms_init=-1), "rms_init is -1"),
        (None, dict(normalize_adv=1), "normalize_adv is 1; it must be True or False"),
        (None, dict(init="yes"), "init is 'yes'"),
        (
            None,
            dict(n_steps=7),
            "cannot share equally in updates of 7 steps each; use a multiple of 28, such as 196",
        ),
        (None, dict(n_steps=100), "use a multiple of 400, such as 400"),
        (Lamp, dict(ac_kwargs=dict(conv="big")), "conv is 'big'; it must be one of nature, small"),
        (Lamp, dict(ac_kwargs=dict(conv=[[32, 8]])), r"conv is \[\[32, 8\]\]"),
        (Lamp, dict(ac_kwargs=dict(conv=[])), r"conv is \[\]"),
        (Lamp, dict(ac_kwargs=dict(background=87)), "background is 87; .* between 0 and 1"),
        (Lamp, dict(ac_kwargs=dict(shared="no")), "shared is 'no'; it must be True or False"),
        (
            lambda: Lamp((32, 60, 3)),
            {},
            r"32 x 60 pixels are too small.*'nature'.*36 x 36.*'small'",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, env_fn, kwargs, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", env_fn, **kwargs)
    assert not (tmp_path / "run").exists()
