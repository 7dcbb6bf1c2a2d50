"""Small problems whose solution is known in closed form, solved by every algorithm."""

import inspect
import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy.special import logsumexp, softmax

from spinup_tf2 import a2c, ddpg, ppo, sac, td3, trpo, vpg
from tests import off_policy_runs
from tests import on_policy_runs as runs

GAMMA, STATES = 0.8, 5
BOX = spaces.Box(-1, 1, (1,), np.float32)


class Chain(gym.Env):
    """Five states in a row, shown as one-hot vectors; episodes begin in any of them.

    Choice 1 goes to the right and 0 to the left, where the first state stays. An action in [-1, 1]
    goes to the right with probability (1 + action) / 2. Right of the last state is the end, with
    the only reward, 1.
    """

    observation_space = spaces.Box(0, 1, (STATES,), np.float32)

    def __init__(self, action_space: spaces.Space):
        self.action_space = action_space

    def _show(self):
        return np.eye(STATES, dtype=np.float32)[min(self.state, STATES - 1)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(STATES))
        return self._show(), {}

    def step(self, action):
        if isinstance(self.action_space, spaces.Discrete):
            right = action == 1
        else:
            right = self.np_random.uniform() < (1 + action[0]) / 2
        self.state = self.state + 1 if right else max(self.state - 1, 0)
        over = self.state == STATES
        return self._show(), float(over), over, False, {}


def values_of(right: np.ndarray) -> np.ndarray:
    """V of the policy that goes right with these probabilities: (1 - gamma P)^-1 r."""
    transition, rew = np.zeros((STATES, STATES)), np.zeros(STATES)
    for state, p in enumerate(right):
        transition[state, max(state - 1, 0)] += 1 - p
        if state + 1 < STATES:
            transition[state, state + 1] += p
    rew[-1] = right[-1]
    return np.linalg.solve(np.eye(STATES) - GAMMA * transition, rew)


BEST = GAMMA ** np.arange(STATES - 1, -1, -1)  # always to the right
OBS = np.eye(STATES, dtype=np.float32)
ON_POLICY = dict(gamma=GAMMA, max_ep_len=7, steps_per_epoch=400, lam=0.9)
TABULAR = dict(ac_kwargs=dict(hidden_sizes=()))  # one number for each state and output


def test_the_best_policy_of_the_chain():
    """Of all 32 that choose one way in each state."""
    policies = itertools.product([0.0, 1.0], repeat=STATES)
    best = np.max([values_of(np.array(right)) for right in policies], axis=0)
    np.testing.assert_allclose(best, BEST)
    np.testing.assert_allclose(values_of(np.ones(STATES)), BEST)


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [
        (vpg, dict(epochs=20, pi_lr=0.3, vf_lr=0.1, train_v_iters=20)),
        (trpo, dict(epochs=12, delta=0.1, vf_lr=0.1, train_v_iters=20)),
        (ppo, dict(epochs=12, pi_lr=0.1, vf_lr=0.1, train_pi_iters=10, train_v_iters=20)),
        (a2c, dict(epochs=12, lr=0.02, num_envs=8, ent_coef=0.0)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_chain_on_policy(tmp_path, algorithm, kwargs):
    """Its values are those of the policy that it has found, which is close to the best one."""
    kwargs = ON_POLICY | TABULAR | dict(target_kl=0.5, lr_schedule="linear") | kwargs
    known = inspect.signature(algorithm).parameters
    kwargs = {name: value for name, value in kwargs.items() if name in known}
    ac, _ = runs.train(algorithm, tmp_path / "run", lambda: Chain(spaces.Discrete(2)), **kwargs)
    right = ac.pi(OBS).probs_parameter().numpy()[:, 1]
    assert (right > 0.9).all()
    np.testing.assert_allclose(ac.v(OBS), values_of(right), atol=0.02)


OFF_POLICY = dict(gamma=GAMMA, max_ep_len=7, steps_per_epoch=1000, polyak=0.95, update_every=25)
OFF_POLICY |= dict(start_steps=600, update_after=200, batch_size=64, num_test_episodes=0)
OFF_POLICY |= dict(ac_kwargs=dict(hidden_sizes=(32,)))


@pytest.mark.parametrize("algorithm", [ddpg, td3], ids=lambda f: f.__name__)
def test_chain_deterministic_policy(tmp_path, algorithm):
    """From random actions alone; Q is that of the best policy: to go right for certain."""
    kwargs = OFF_POLICY | dict(pi_lr=5e-3, q_lr=2e-3, start_steps=10_000, epochs=2)
    ac, _ = off_policy_runs.train(algorithm, tmp_path / "run", lambda: Chain(BOX), **kwargs)
    assert (ac.act(OBS, deterministic=True) > 0.9).all()
    for q in ac.q_values(OBS, np.ones((STATES, 1), np.float32)):
        np.testing.assert_allclose(q, BEST, atol=0.08)


def test_chain_soft_policy(tmp_path):
    """Q(s, a) = r + gamma alpha log sum exp(Q(s', .) / alpha), and pi ~ exp(Q / alpha)."""
    alpha = 0.1
    q = np.zeros((STATES, 2))
    for _ in range(200):  # a contraction
        val = np.append(alpha * logsumexp(q / alpha, axis=1), 0.0)
        left = GAMMA * val[np.maximum(np.arange(STATES) - 1, 0)]
        q = np.stack([left, GAMMA * val[1:]], axis=1)
        q[-1, 1] += 1.0
    kwargs = OFF_POLICY | dict(lr=5e-3, alpha=alpha, epochs=2)
    env_fn = lambda: Chain(spaces.Discrete(2))  # noqa: E731
    ac, _ = off_policy_runs.train(sac, tmp_path / "run", env_fn, **kwargs)
    for learned in ac.q_values(OBS):
        np.testing.assert_allclose(learned, q, atol=0.06)
    np.testing.assert_allclose(ac.pi(OBS).probs_parameter(), softmax(q / alpha, axis=1), atol=0.08)


class Bandit(gym.Env):
    """One state; an episode never ends. `reward(action)` is all there is."""

    observation_space = spaces.Box(1, 1, (1,), np.float32)

    def __init__(self, action_space, reward):
        self.action_space, self.reward = action_space, reward

    def reset(self, *, seed=None, options=None):
        return np.ones(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), self.reward(action), False, False, {}


BANDIT = OFF_POLICY | dict(gamma=0.5, lr=5e-3, epochs=2)
HERE = np.ones((1, 1), np.float32)


def test_soft_optimum_of_choices(tmp_path):
    """pi = softmax(r / alpha), V = alpha log sum exp(r / alpha) / (1 - gamma), Q = r + gamma V."""
    alpha, rew = 0.3, np.array([0.0, 0.3, 0.6])
    ac, _ = off_policy_runs.train(
        sac,
        tmp_path / "run",
        lambda: Bandit(spaces.Discrete(3), lambda action: rew[action]),
        **(BANDIT | dict(alpha=alpha)),
    )
    val = alpha * logsumexp(rew / alpha) / (1 - 0.5)
    np.testing.assert_allclose(ac.pi(HERE).probs_parameter()[0], softmax(rew / alpha), atol=0.005)
    for q in ac.q_values(HERE):
        np.testing.assert_allclose(q[0], rew + 0.5 * val, atol=0.005)


def test_soft_optimum_of_a_parabola(tmp_path):
    """Of r = -2 (a - 0.3)^2 with alpha 0.1: pi ~ exp(r / alpha), of deviation sqrt(0.1 / 4).

    It is Gaussian, and far enough from +-1 that tanh changes its shape little: near its mean, the
    deviation of u = artanh(a) is that of a, divided by 1 - 0.3^2.
    V = alpha log integral exp(r / alpha) / (1 - gamma).
    """
    alpha = 0.1
    ac, _ = off_policy_runs.train(
        sac,
        tmp_path / "run",
        lambda: Bandit(BOX, lambda action: -2 * float(action[0] - 0.3) ** 2),
        **(BANDIT | dict(alpha=alpha)),
    )
    a = np.linspace(-1, 1, 20001)
    rew = -2 * (a - 0.3) ** 2
    val = alpha * np.log(np.exp(rew / alpha).mean() * 2) / (1 - 0.5)
    gaussian = ac.pi(HERE).distribution
    u = gaussian.mean().numpy() + gaussian.stddev().numpy() * np.random.default_rng(0).normal(
        size=100_000
    )
    act = np.tanh(u)
    assert np.mean(act) == pytest.approx(0.3, abs=0.03)
    assert np.std(act) == pytest.approx((alpha / 4) ** 0.5, rel=0.1)
    for act in (0.0, 0.3, 0.6):
        for q in ac.q_values(HERE, np.full((1, 1), act, np.float32)):
            assert float(q[0]) == pytest.approx(-2 * (act - 0.3) ** 2 + 0.5 * val, abs=0.05)
