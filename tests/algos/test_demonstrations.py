"""behavior_policy: whose actions are taken, and whose are learned."""

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import a2c, ppo, vpg
from spinup_tf2.core.workers.randomness import environment_seed
from tests.on_policy_runs import train

# A2C collects parts of an epoch; all others do it as PPO does.
ALGORITHMS = [(ppo, dict(train_pi_iters=5)), (a2c, dict(n_steps=10))]


def always_right(steps):
    """CartPole pushed to the right: (returns of the episodes in `steps` steps, observations)."""
    env = gym.make("CartPole-v1")
    obs, _ = env.reset(seed=environment_seed(0, 0))
    returns, seen = [0.0], []
    for _ in range(steps):
        seen.append(obs)
        obs, rew, terminated, _, _ = env.step(1)
        returns[-1] += rew
        if terminated:
            obs, _ = env.reset()
            returns.append(0.0)
    return returns[:-1], np.stack(seen)


@pytest.mark.parametrize(
    ("algorithm", "kwargs"), ALGORITHMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_demonstrated_actions_are_taken(tmp_path, algorithm, kwargs):
    _, [row] = train(
        algorithm,
        tmp_path / "run",
        num_envs=1,
        epochs=1,
        behavior_policy=lambda t, obs: 1,
        **kwargs,
    )
    returns, _ = always_right(200)
    assert float(row["AverageEpRet"]) == pytest.approx(np.mean(returns), rel=1e-6)


def test_log_probabilities_are_the_policys(tmp_path):
    """The logged Entropy is the mean of -log pi(a|s) of the actions taken: here always 1."""
    ac, [row] = train(
        ppo, tmp_path / "run", epochs=1, pi_lr=0, train_pi_iters=1, behavior_policy=lambda t, obs: 1
    )
    _, seen = always_right(200)
    logp = ac.pi(seen.astype(np.float32)).log_prob(np.ones(200, np.int32))
    assert float(row["Entropy"]) == pytest.approx(-np.mean(logp), rel=1e-5)


def test_noise_on_the_policys_action_has_its_own_log_probability(tmp_path):
    """Entropy is the mean of -log pi(a|s) of the actions taken, noise and all."""
    rng, taken = np.random.default_rng(0), []

    def behavior_policy(t, obs, act):
        taken.append((obs, act + 0.5 * rng.normal(size=act.shape).astype(np.float32)))
        return taken[-1][1]

    options = dict(epochs=1, pi_lr=0, train_pi_iters=1, behavior_policy=behavior_policy)
    ac, [row] = train(ppo, tmp_path / "run", "Pendulum-v1", **options)
    obs, act = (np.stack(each) for each in zip(*taken, strict=True))
    logp = ac.pi(obs).log_prob(act)
    assert float(row["Entropy"]) == pytest.approx(-np.mean(logp), rel=1e-5)


def test_the_policy_is_tested_without_them(tmp_path):
    asked = []
    train(
        vpg,
        tmp_path / "run",
        epochs=2,
        num_test_episodes=2,
        behavior_policy=lambda t, obs: asked.append(t),
    )
    assert len(asked) == 2 * 200
