"""The off-policy algorithms as wholes: exploration, evaluation, learning; SAC's temperature."""

import inspect

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from spinup_tf2 import ddpg, dqn, sac, td3
from spinup_tf2.algos.dqn import epsilon_greedy
from spinup_tf2.core.nets.distributions import mode
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, environment_seed
from spinup_tf2.envs.spaces import action_spec, bounded_action_spec
from tests.off_policy_runs import CHOICES, UNEQUAL_BOUNDS, Restless, Scaled, train
from tests.on_policy_runs import Identity

each = pytest.mark.parametrize("algorithm", [ddpg, td3, sac], ids=lambda f: f.__name__)


def settings(algorithm, lr=1e-3, **kwargs):
    """Arguments in which the algorithms differ: their learning rates, and SAC's temperature."""
    known = inspect.signature(algorithm).parameters
    named = dict(pi_lr=lr, q_lr=lr, lr=lr, alpha=0.01) | kwargs
    return {name: value for name, value in named.items() if name in known}


class Endless(gym.Env):
    """Reward 1 in each step, and two kinds of life: where 1 is shown, one step is all of it."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = self.np_random.choice([-1, 1], size=1).astype(np.float32)
        return self.obs, {}

    def step(self, action):
        return self.obs, 1.0, bool(self.obs > 0), False, {}


def test_a_terminal_state_ends_the_sum_and_a_time_limit_does_not(tmp_path):
    """Q = 1 where the state that follows is terminal; else 1 + 1/2 + 1/4 + ... = 2.

    The time limit comes after two steps.
    """
    kwargs = settings(ddpg, 0.01, gamma=0.5, polyak=0.9)
    ac, _ = train(ddpg, tmp_path / "run", Endless, **kwargs, max_ep_len=2, epochs=3)
    obs = np.array([[-1], [1]], np.float32)
    for q in ac.q_values(obs, mode(ac.pi(obs))):
        np.testing.assert_allclose(q, [2, 1], atol=0.05)


# ------------------------------------------------------------------------------ exploration


@pytest.mark.parametrize("algorithm", [td3, sac])
def test_actions_reach_the_bounds_and_never_pass_them(tmp_path, algorithm):
    """Uniform at first, then the policy's; -1 ... 3, 0 ... 0.1 and 5 ... 100."""
    actions = []
    kwargs = settings(algorithm, 0.01, gamma=0.5, polyak=0.9, act_noise=0.3)
    kwargs |= dict(start_steps=500, steps_per_epoch=500, epochs=3, update_after=400)
    kwargs |= dict(ac_kwargs=dict(hidden_sizes=(32,)), num_test_episodes=5)
    ac, rows = train(algorithm, tmp_path / "run", lambda: Scaled(actions), **kwargs)
    actions, space = np.array(actions), UNEQUAL_BOUNDS
    assert (actions >= space.low).all()
    assert (actions <= space.high).all()
    fraction = (actions[:500] - space.low) / (space.high - space.low)
    # Means of 500 uniform numbers: 0.5 within four times sqrt(1 / 12 / 500) = 0.013.
    np.testing.assert_allclose(fraction.mean(0), 0.5, atol=0.052)
    np.testing.assert_allclose(np.quantile(fraction, 0.1, axis=0), 0.1, atol=0.06)
    assert (fraction.min(0) < 0.02).all()
    assert (fraction.max(0) > 0.98).all()

    # Random actions: 10 steps of three squared distances, each 2/3 on average: -20. The best: 0.
    test_ret = [float(row["AverageTestEpRet"]) for row in rows]
    assert test_ret[-1] > -2
    corners = np.array([[-1, -1, -1], [1, 1, 1]], np.float32)
    reached = ac.act(corners, deterministic=True)
    assert space.contains(ac.act(corners[0]))
    np.testing.assert_allclose(
        (reached - space.low) / (space.high - space.low), [[0] * 3, [1] * 3], atol=0.2
    )


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [(ddpg, {}), (td3, {}), (sac, {}), (ddpg, dict(noise="ou")), (td3, dict(noise="ou"))],
)
def test_exploration_is_the_policy_with_noise(tmp_path, algorithm, options):
    """The policy does not learn here, so that what it says can be taken from what it does.

    What is left of DDPG and TD3 is noise of deviation 0.1, or 0.85 of the noise of the step before
    and so much more; of SAC, which draws its own actions, standard normal noise. 3 * 998 numbers:
    four times 1 / sqrt(2994) and 1 / sqrt(2 * 2994).
    """
    diary = {}
    kwargs = settings(algorithm, 0.0, act_noise=0.1, **options)
    kwargs |= dict(start_steps=1, steps_per_epoch=1000, epochs=1, num_test_episodes=0)
    ac, _ = train(
        algorithm, tmp_path / "run", lambda: Restless(diary), update_after=10_000, **kwargs
    )
    obs = np.array([np.frombuffer(key, np.float32) for key in diary])[2:]  # t > start_steps
    spec = bounded_action_spec(UNEQUAL_BOUNDS)
    act = np.array([spec.from_env(action) for action, *_ in diary.values()])[2:]
    if algorithm is sac:
        gaussian = ac.pi(obs).distribution
        noise = (np.arctanh(act) - gaussian.mean()) / gaussian.stddev()
    else:
        noise = (act - ac.pi(obs).numpy()) / 0.1
    if options:
        noise[1:] -= 0.85 * noise[:-1]
    assert np.mean(noise) == pytest.approx(0, abs=4 / 2994**0.5)
    assert np.std(noise) == pytest.approx(1, abs=4 / (2 * 2994) ** 0.5)


def test_a_random_action_is_taken_with_probability_epsilon():
    """Uniformly among all, and so also the best one: 0.2 of 0.6 are it."""
    best = np.full(20_000, 2)
    noise = action_spec(CHOICES).draw_noise(np.random.default_rng(0), len(best))
    counts = np.bincount(epsilon_greedy(best, noise, 0.6))
    assert stats.chisquare(counts, np.array([0.2, 0.2, 0.6]) * len(best)).pvalue > 0.05
    np.testing.assert_array_equal(epsilon_greedy(best, noise, 0.0), best)
    np.testing.assert_array_equal(epsilon_greedy(best, noise, 1.0), noise.argmax(-1))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_epsilon_falls_linearly_and_says_how_many_actions_are_random(tmp_path, num_envs):
    """From 1 to 0.2 at interaction 500, and not below; the policy does not learn here.

    The first 101 actions (with two environments 102) are random in any case. Of all random actions
    a third are the best one. Numbers of successes: four standard deviations.
    """
    diary, kwargs = {}, dict(eps_start=1.0, eps_end=0.2, eps_steps=500, q_lr=0.0, start_steps=100)
    kwargs |= dict(steps_per_epoch=500, epochs=2, num_test_episodes=0, num_envs=num_envs)
    env_fn = lambda: Restless(diary, CHOICES)  # noqa: E731
    ac, rows = train(dqn, tmp_path / "run", env_fn, update_after=10_000, **kwargs)
    t = np.arange(101 if num_envs == 1 else 102, 500, num_envs)
    epsilon = [np.mean(1 - 0.8 * t / 500), 0.2]
    assert [float(row["Epsilon"]) for row in rows] == pytest.approx(epsilon, rel=1e-6)
    obs = np.array([np.frombuffer(key, np.float32) for key in diary])
    act = np.array([action for action, *_ in diary.values()])
    differ = (act != ac.act(obs, deterministic=True)).reshape(2, 500)[1].mean()
    chance = 0.2 * 2 / 3
    assert differ == pytest.approx(chance, abs=4 * (chance * (1 - chance) / 500) ** 0.5)


# ------------------------------------------------------------------------------- evaluation


@pytest.mark.parametrize("algorithm", [td3, sac])
def test_evaluation_is_of_the_policy_without_noise(tmp_path, algorithm):
    """The return of an episode is what the deterministic policy gets from the same start."""
    kwargs = dict(steps_per_epoch=100, epochs=1, num_test_episodes=3, max_ep_len=20)
    ac, (row,) = train(algorithm, tmp_path / "run", seed=5, **kwargs)
    returns = [deterministic_return(ac, gym.make("Pendulum-v1"), 5, i, 20) for i in range(3)]
    assert float(row["AverageTestEpRet"]) == pytest.approx(np.mean(returns), rel=1e-4)
    assert float(row["StdTestEpRet"]) == pytest.approx(np.std(returns), rel=1e-3)
    assert row["TestEpLen"] == "20.0"


def deterministic_return(ac, env, seed, episode, steps):
    """Of one test episode, which is Pendulum's with actions -2 ... 2."""
    obs, _ = env.reset(seed=environment_seed(seed, FIRST_TEST_ENV + episode))
    total = 0.0
    for _ in range(steps):
        obs, rew, *_ = env.step(ac.act(obs, deterministic=True))
        total += rew
    return total


# --------------------------------------------------------------------------- the temperature


def test_where_learned_alpha_starts(tmp_path):
    _, (row,) = train(sac, tmp_path / "run", alpha="auto_0.25", lr=0, epochs=1)
    assert float(row["Alpha"]) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize(
    ("action_space", "target_entropy", "expected"),
    [(spaces.Box(-1, 1, (2,)), None, -2), (spaces.Discrete(3), 0.3, 0.3)],
)
def test_learned_alpha_brings_the_entropy_to_its_target(
    tmp_path, action_space, target_entropy, expected
):
    """Which is far from that of a uniform policy (log 4 and log 3), and of the best one: none."""
    kwargs = dict(alpha="auto", target_entropy=target_entropy, lr=0.01, gamma=0.0)
    kwargs |= dict(steps_per_epoch=500, epochs=3, ac_kwargs=dict(hidden_sizes=(32,)))
    _, rows = train(sac, tmp_path / "run", lambda: Identity(action_space), **kwargs)
    assert -float(rows[-1]["AverageLogPi"]) == pytest.approx(expected, abs=0.1)
