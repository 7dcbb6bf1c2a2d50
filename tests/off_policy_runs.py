"""Small runs of the off-policy algorithms, environments for them, and updates the slow way."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2 import ddpg, dqn, sac, td3
from spinup_tf2.core import off_policy
from spinup_tf2.core.update_block import UpdateBlock
from tests import on_policy_runs as runs
from tests.on_policy_runs import Identity, make

OFF_POLICY = (ddpg, td3, sac, dqn)

# The columns that every off-policy algorithm begins with.
COLUMNS = [
    *("Epoch", "AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet"),
    *("AverageTestEpRet", "StdTestEpRet", "MaxTestEpRet", "MinTestEpRet"),
    *("EpLen", "TestEpLen", "TotalEnvInteracts"),
]

UNEQUAL_BOUNDS = spaces.Box(np.array([-1, 0, 5], np.float32), np.array([3, 0.1, 100], np.float32))
CHOICES = spaces.Discrete(3, start=5)


def train(algorithm: Callable, path: Path, env_fn: Callable | None = None, **kwargs):
    """A run, small unless `kwargs` say otherwise, of Pendulum (DQN: CartPole) without `env_fn`.

    Returns the actor-critic and the rows of progress.txt, as dicts of strings.
    """
    small = dict(start_steps=50, update_after=50, update_every=10, batch_size=20)
    small |= dict(num_test_episodes=2, max_ep_len=50, ac_kwargs=dict(hidden_sizes=(8,)))
    env_fn = env_fn or make("CartPole-v1" if algorithm is dqn else "Pendulum-v1")
    return runs.train(algorithm, path, env_fn, **{**small, **kwargs})


def four(name: str) -> list[str]:
    """The columns of a quantity that is logged with its deviation and its extremes."""
    return [f"{statistic}{name}" for statistic in ("Average", "Std", "Max", "Min")]


# ------------------------------------------------------------------------------- environments


class Restless(gym.Env):
    """Random observations and rewards; episodes end at random, half of them by a time limit.

    diary: a dict in which every step is written down: under the bytes of the observation the
        action, the reward, whether the state was terminal, and the next observation.
    """

    def __init__(self, diary: dict, action_space: spaces.Space = UNEQUAL_BOUNDS):
        self.diary = diary
        self.action_space = action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = self.np_random.normal(size=2).astype(np.float32)
        return self.obs, {}

    def step(self, action):
        obs = self.obs
        self.obs, rew = self.np_random.normal(size=2).astype(np.float32), self.np_random.normal()
        chance = self.np_random.uniform()
        terminated, truncated = chance < 0.25, 0.25 <= chance < 0.5
        self.diary[obs.tobytes()] = (action, rew, terminated, self.obs)
        return self.obs, rew, terminated, truncated, {}


class Scaled(Identity):
    """Do what you see, in an action space of any bounds: what is shown is its fraction of them.

    actions: a list to which every action is added as it comes.
    """

    def __init__(self, actions: list, action_space: spaces.Box = UNEQUAL_BOUNDS):
        super().__init__(action_space)
        self.actions = actions

    def step(self, action):
        self.actions.append(action)
        low, high = self.action_space.low, self.action_space.high
        return super().step(2 * (action - low) / (high - low) - 1)


# ------------------------------------------------------------------ a run's updates, recorded


def record(monkeypatch) -> SimpleNamespace:
    """Have the next run write down what it does. Returns, to be filled,

    networks: [actor-critic, target].
    steps: the parts that its update consists of.
    blocks: for each block of updates (values before, minibatches, info, values after).
    """
    recorded = SimpleNamespace(networks=[], steps=[], blocks=[])
    make_networks = off_policy.make_q_actor_critic
    init, call = UpdateBlock.__init__, UpdateBlock.__call__

    def remember_networks(*args, **kwargs):
        recorded.networks.append(make_networks(*args, **kwargs))
        return recorded.networks[-1]

    def remember_steps(self, steps, *args, **kwargs):
        recorded.steps = list(steps)
        init(self, steps, *args, **kwargs)

    def remember_block(self, batches, first):
        before = values(recorded.networks)
        copied = {key: np.array(x) for key, x in batches.items()}
        info = call(self, batches, first)
        recorded.blocks.append((before, copied, info, values(recorded.networks)))
        return info

    monkeypatch.setattr(off_policy, "make_q_actor_critic", remember_networks)
    monkeypatch.setattr(UpdateBlock, "__init__", remember_steps)
    monkeypatch.setattr(UpdateBlock, "__call__", remember_block)
    return recorded


def values(networks) -> dict[str, list[np.ndarray]]:
    """All parameters of an actor-critic and its target, float64: pi, q, target_pi, target_q."""
    ac, target = networks
    named = dict(pi=ac.pi.trainable_variables, q=ac.q_variables)
    named |= dict(target_pi=target.pi.trainable_variables, target_q=target.q_variables)
    return {key: [v.numpy().astype(float) for v in variables] for key, variables in named.items()}


def two_blocks_of_seven(algorithm, path, monkeypatch, action_space=None, **kwargs):
    """A tiny run with two blocks of seven updates: what `record` returns, and the diary.

    Blocks follow interactions 14 and 21, counted from 0. Numbers are chosen so that everything
    moves far more than it is rounded.
    """
    recorded, diary = record(monkeypatch), {}
    action_space = action_space or (CHOICES if algorithm is dqn else UNEQUAL_BOUNDS)
    train(
        algorithm,
        path,
        lambda: Restless(diary, action_space),
        **dict(steps_per_epoch=22, epochs=1, start_steps=5, update_after=8, update_every=7),
        **dict(batch_size=5, num_test_episodes=0, gamma=0.9, polyak=0.8),
        **{"ac_kwargs": dict(hidden_sizes=(4,)), **kwargs},
    )
    assert len(recorded.blocks) == 2
    return recorded, diary


def minibatches(batches: dict[str, np.ndarray]) -> list[SimpleNamespace]:
    """The minibatches of a block, one after the other, float64."""
    count = len(batches["rew"])
    return [
        SimpleNamespace(**{key: x[j].astype(float) for key, x in batches.items()})
        for j in range(count)
    ]


# ------------------------------------------------------------------------ mathematics, slowly


def dense(params: list, x: tf.Tensor) -> tf.Tensor:
    """A multilayer perceptron with relu; params: kernel, bias, kernel, bias, ..."""
    *hidden, kernel, bias = params
    for hidden_kernel, hidden_bias in zip(hidden[::2], hidden[1::2], strict=True):
        x = tf.maximum(x @ hidden_kernel + hidden_bias, 0)
    return x @ kernel + bias


def q_of(params: list, obs: tf.Tensor, act: tf.Tensor) -> tf.Tensor:
    """Q(s, a) [batch]."""
    return dense(params, tf.concat([obs, act], axis=1))[:, 0]


def halves(params: list) -> tuple[list, list]:
    """The parameters of two Q-functions of the same shape."""
    return params[: len(params) // 2], params[len(params) // 2 :]


def gradient(loss: Callable, params: list) -> tuple[float, list[np.ndarray]]:
    """The value and the gradient of a function of parameters."""
    params = [tf.constant(p, tf.float64) for p in params]
    with tf.GradientTape() as tape:
        tape.watch(params)
        value = loss(params)
    return float(value), [g.numpy() for g in tape.gradient(value, params)]


def differences(f: Callable, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """The gradient of a function of a vector, by central differences."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


class Adam:
    """Kingma and Ba 2015, algorithm 1, in the order of computation at the end of its section 2."""

    def __init__(self, lr: float):
        self.lr, self.t, self.m, self.v = lr, 0, 0, 0

    def __call__(self, params: list[np.ndarray], grads: list[np.ndarray]) -> list[np.ndarray]:
        grads = np.array(grads, object)
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * grads
        self.v = 0.999 * self.v + 0.001 * grads**2
        lr = self.lr * np.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
        steps = zip(params, self.m, self.v, strict=True)
        return [p - lr * m / (np.sqrt(v) + 1e-8) for p, m, v in steps]


def followed(targets: list[np.ndarray], params: list[np.ndarray], polyak: float) -> list:
    """Targets after one step of polyak averaging."""
    return [polyak * t + (1 - polyak) * p for t, p in zip(targets, params, strict=True)]


def assert_all_close(ours: dict[str, list], theirs: dict[str, list]) -> None:
    """Compare parameters by name, up to 1e-5."""
    for name, expected in theirs.items():
        for x, y in zip(ours[name], expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5, err_msg=name)


def assert_all_moved(before: dict[str, list], after: dict[str, list]) -> None:
    """Each kernel and bias has moved more than a hundred times as far as two may differ above."""
    for name in after:
        for x, y in zip(before[name], after[name], strict=True):
            assert np.abs(y - x).max() > 1e-3, name
