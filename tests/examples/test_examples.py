"""The teaching scripts: their equations, what they do when an episode ends, and that they learn."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from spinup_tf2.examples import ppo_cartpole, ppo_pendulum, sac_pendulum, vpg_cartpole

# Each with how many steps it takes until episodes have ended and networks have learned.
SCRIPTS = [(ppo_cartpole, 1600), (ppo_pendulum, 1600), (vpg_cartpole, 800), (sac_pendulum, 1100)]
# Each with after how many steps it reports.
NAMES = [("ppo_cartpole", 1600), ("ppo_pendulum", 1600), ("vpg_cartpole", 4000)]
NAMES += [("sac_pendulum", 1000)]


DOCS = Path(__file__).parents[2] / "docs" / "examples.md"


# ---------------------------------------------------------------- equations


def test_gae_is_the_sum_of_its_definition():
    """sum over k of (gamma lambda)^k delta_{t+k}, up to the end of the episode, in plain loops."""
    rng = np.random.default_rng(0)
    rew, val, next_val = rng.normal(size=(3, 9, 4)).astype(np.float32)
    terminated = rng.random((9, 4)) < 0.2
    ended = terminated | (rng.random((9, 4)) < 0.2)
    assert (ended & ~terminated).any()
    expected = np.zeros((9, 4))
    for i in range(4):
        for start in range(9):
            weight = 1.0
            for t in range(start, 9):
                future = 0.0 if terminated[t, i] else 0.99 * next_val[t, i]
                expected[start, i] += weight * (rew[t, i] + future - val[t, i])
                weight *= 0.99 * 0.95
                if ended[t, i]:
                    break
    actual = ppo_cartpole.gae(rew, val, next_val, np.float32(terminated), np.float32(ended))
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_cartpole_loss_by_hand():
    """Logits log(p) give the probabilities p; all numbers follow with pencil and paper.

    Ratios 0.6 / 0.4 = 1.5 and 0.2 / 0.25 = 0.8 with advantages 2 and -1: the first is clipped to
    1.2 x 2 = 2.4; the second is at the border, 0.8 x -1. Surrogate (2.4 - 0.8) / 2 = 0.8. Values
    miss their returns by 1 and 3: (1 + 9) / 2 = 5. Entropies 0.6730 and 0.5004, mean 0.5867.
    Loss -0.8 + 0.5 x 5 - 0.01 x 0.5867 = 1.69413.
    """
    logits = tf.math.log([[0.6, 0.4], [0.8, 0.2]])
    loss = ppo_cartpole.ppo_loss(
        logits,
        val=tf.constant([1.0, 5.0]),
        act=tf.constant([0, 1]),
        logp_old=tf.math.log([0.4, 0.25]),
        adv=tf.constant([2.0, -1.0]),
        ret=tf.constant([2.0, 2.0]),
    )
    np.testing.assert_allclose(loss, 1.69413, atol=1e-5)


def test_clipping_stops_the_gradient_on_one_side_only():
    """Beyond the limit in the good direction there is nothing to gain; in the bad one there is."""
    cases = {(0.5, 1.0): 0.0, (0.5, -1.0): 1.0, (-0.5, 1.0): 1.0, (-0.5, -1.0): 0.0}
    for (log_ratio, advantage), moves in cases.items():
        logp = tf.Variable([log_ratio])
        with tf.GradientTape() as tape:
            loss = ppo_pendulum.actor_loss(logp, tf.zeros(1), tf.constant([advantage]))
        # d loss / d logp = -ratio x advantage where it is not clipped, in a batch of one
        expected = -np.exp(log_ratio) * advantage * moves
        np.testing.assert_allclose(tape.gradient(loss, logp), [expected], rtol=1e-6)


def test_pendulum_density_is_that_of_a_fixed_gaussian():
    mean = np.array([[0.3], [-1.0]], np.float32)
    act = np.array([[1.0], [2.5]], np.float32)
    logp = ppo_pendulum.gaussian(tf.constant(mean)).log_prob(act)
    np.testing.assert_allclose(logp, stats.norm(mean, np.sqrt(0.5)).logpdf(act)[:, 0], rtol=1e-5)


def test_rewards_to_go_by_hand():
    """With half of what follows: 3 + 4/2 = 5, 2 + 5/2 = 4.5, 1 + 4.5/2 = 3.25."""
    rew = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    ret = ppo_pendulum.rewards_to_go(rew, np.array([4.0, 4.0]), 0.5)
    np.testing.assert_allclose(ret, [[3.25, 0.5], [4.5, 1.0], [5.0, 2.0]])


# ---------------------------------------------------------------- ends of episodes


class Count(gym.Env):
    """Observes how many steps the episode has; ends alternately by falling and by the clock."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    episode = 0

    def reset(self, seed=None, options=None):
        self.episode += 1
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 6
        falls = self.episode % 2 == 1
        return np.full(4, self.steps, np.float32), 1.0, over and falls, over and not falls, {}


@pytest.fixture
def eagerly():
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("eagerly")
def test_cartpole_values_the_observation_that_a_step_led_to(monkeypatch):
    """With a value head that repeats the count, V(s_{t+1}) is V(s_t) + 1, also in the last step."""

    def counting_network():
        obs = keras.Input((4,))
        return keras.Model(obs, [keras.layers.Dense(2)(obs), obs[:, 0]])

    seen = []

    def recording_gae(*arrays):
        seen.append([np.array(array) for array in arrays])
        return gae(*arrays)

    gae = ppo_cartpole.gae
    monkeypatch.setattr(ppo_cartpole, "gae", recording_gae)
    monkeypatch.setattr(ppo_cartpole, "make_network", counting_network)
    monkeypatch.setattr(ppo_cartpole.gym, "make", lambda _: Count())
    returns = ppo_cartpole.train(2 * 160, 0)
    # 40 steps of 8 carts in two rollouts of 20: episodes of 6 steps carry on from the first to the
    # second, and 6 of each cart end.
    columns = zip(*seen, strict=True)
    rew, val, next_val, terminated, ended = (np.concatenate(column) for column in columns)
    assert returns == [6.0] * 48
    assert (rew == np.float32(ppo_cartpole.REWARD_SCALE)).all()
    step = np.tile(np.arange(40)[:, None], 8)
    np.testing.assert_array_equal(val, step % 6)
    np.testing.assert_array_equal(next_val, step % 6 + 1)
    np.testing.assert_array_equal(ended, step % 6 == 5)
    np.testing.assert_array_equal(terminated, step % 12 == 5)


# ---------------------------------------------------------------- running and learning


@pytest.mark.slow
@pytest.mark.parametrize(("script", "steps"), SCRIPTS, ids=[name for name, _ in NAMES])
def test_a_seed_is_a_run(script, steps):
    first, again = (script.train(steps, 0) for _ in range(2))
    assert first == again
    assert len({*first}) > 1


@pytest.mark.commands
@pytest.mark.parametrize(("name", "steps"), NAMES)
def test_from_the_command_line(name, steps):
    arguments = [f"spinup_tf2.examples.{name}", "--steps", str(steps), "--seed=3"]
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")  # nothing of TensorFlow's
    line = r" *(\d+) steps   mean of the last (?:20|5) returns *(\S+)\n"
    shown, last = re.fullmatch(line, done.stdout).groups()
    assert int(shown) == steps
    assert np.isfinite(float(last))


@pytest.mark.learning
def test_cartpole_is_solved():
    assert np.mean(ppo_cartpole.train(100_000, 0)[-20:]) >= 450


@pytest.mark.learning
def test_pendulum_swings_up():
    """An untrained policy gets about -1200. The end is averaged over 160 episodes, for relapses."""
    returns = ppo_pendulum.train(160_000, 0)
    assert np.mean(returns[:20]) < -900
    assert np.mean(returns[-160:]) > -400
