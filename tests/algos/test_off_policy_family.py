"""What is the same in DDPG, TD3 and SAC: what they learn from, train, and refuse."""

import inspect
import json
from collections import Counter

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from spinup_tf2.core.gradient_steps import bellman_backup
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, environment_seed
from spinup_tf2.training.saved_policy import load_policy

from spinup_tf2 import ddpg, sac, td3
from spinup_tf2.core.nets.distributions import mode
from spinup_tf2.core.nets.heads import DeterministicPolicy, SquashedGaussianPolicy
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic, QActorCritic
from spinup_tf2.envs.spaces import bounded_action_spec
from spinup_tf2.errors import UserError
from tests.off_policy_runs import (
    UNEQUAL_BOUNDS,
    Restless,
    Scaled,
    minibatches,
    record,
    train,
    two_blocks_of_seven,
    values,
)
from tests.on_policy_runs import make
from tests.progress import rows_without_time

each = pytest.mark.parametrize("algorithm", [ddpg, td3, sac], ids=lambda f: f.__name__)


def settings(algorithm, lr=1e-3, **kwargs):
    """Arguments in which the algorithms differ: their learning rates, and SAC's temperature."""
    known = inspect.signature(algorithm).parameters
    named = dict(pi_lr=lr, q_lr=lr, lr=lr, alpha=0.01) | kwargs
    return {name: value for name, value in named.items() if name in known}


@pytest.fixture(scope="module", params=[ddpg, td3, sac], ids=lambda f: f.__name__)
def tiny_run(request, tmp_path_factory):
    """(algorithm, what `record` returns, diary) of a run with two blocks of seven updates."""
    path = tmp_path_factory.mktemp(request.param.__name__) / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return request.param, *two_blocks_of_seven(request.param, path, monkeypatch)


def test_numbers_of_numpy_do_as_well_as_those_of_python(tmp_path):
    size = np.array([8])[0]
    numbers = dict(steps_per_epoch=np.int64(100), update_every=np.int64(10), gamma=np.float64(0.9))
    numbers |= dict(polyak=np.float64(0.9), ac_kwargs=dict(hidden_sizes=[size]))
    _, rows = train(ddpg, tmp_path / "numpy", epochs=1, **numbers)
    python = {name: number.item() for name, number in numbers.items() if name != "ac_kwargs"}
    _, same = train(ddpg, tmp_path / "python", epochs=1, **python, ac_kwargs=dict(hidden_sizes=[8]))
    assert rows[0]["LossQ"] == same[0]["LossQ"] != ""


# ----------------------------------------------------------------------- the run's directory


@each
def test_files_and_configuration(tmp_path, algorithm, capsys):
    """Pendulum has 3 observations and 1 action; layers have (inputs + 1) * outputs parameters.

    pi: 4 * 8 + 9 * 1 = 41 (SAC, with standard deviations: 4 * 8 + 9 * 2 = 50), q: 5 * 8 + 9 = 49.
    """
    algorithm(
        make("Pendulum-v1"),
        **dict(ac_kwargs=dict(hidden_sizes=(8,)), steps_per_epoch=20, epochs=2),
        **dict(num_test_episodes=1, max_ep_len=10),
        logger_kwargs=dict(output_dir=str(tmp_path), exp_name="test"),
    )
    message = {
        ddpg: "Number of parameters: \t pi: 41, \t q: 49, \t total: 90\n",
        td3: "Number of parameters: \t pi: 41, \t q1: 49, \t q2: 49, \t total: 139\n",
        sac: "Number of parameters: \t pi: 50, \t q1: 49, \t q2: 49, \t total: 148\n",
    }[algorithm]
    assert message in capsys.readouterr().out
    names = {"config.json", "progress.txt", "vars.pkl", "tf2_save", "env_spec.json", "checkpoint"}
    assert {path.name for path in tmp_path.iterdir()} == names
    config = json.loads((tmp_path / "config.json").read_text())
    parameters = inspect.signature(algorithm).parameters
    assert {*config} == {*parameters, "exp_name"}
    assert config["actor_critic"] == "MLPQActorCritic"
    assert config["replay_size"] == 1_000_000


@each
def test_same_seed_same_file_and_other_seed_another(tmp_path, algorithm):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(algorithm, tmp_path / name, seed=seed, steps_per_epoch=100)
    a, b, c = (rows_without_time(tmp_path / name / "progress.txt") for name in "abc")
    assert a == b
    assert a[0] == c[0]
    assert a[1] != c[1]


# ------------------------------------------------------------------- what is learned from


def test_backup_equals_numpy_and_is_a_constant():
    rng = np.random.default_rng(0)
    (rew, next_val), terminated = rng.normal(size=(2, 50)), rng.random(50) < 0.5
    next_val[terminated] = np.inf  # whatever it is
    expected = [r if end else r + 0.9 * v for r, end, v in zip(rew, terminated, next_val)]  # noqa: B905
    with tf.GradientTape() as tape:
        x = tf.constant(next_val)
        tape.watch(x)
        backup = bellman_backup(rew, terminated, x, 0.9)
    np.testing.assert_allclose(backup, expected)
    assert tape.gradient(backup, x) is None


def test_minibatches_are_of_what_happened(tiny_run):
    """And the last observation of an episode, after which nothing was done, is a next one."""
    _, recorded, diary = tiny_run
    low, high = UNEQUAL_BOUNDS.low, UNEQUAL_BOUNDS.high
    seen = Counter()
    for _, batches, _, _ in recorded.blocks:
        assert batches["obs"].shape == batches["next_obs"].shape == (7, 5, 2)
        for b in minibatches(batches):
            for obs, act, *rest in zip(b.obs, b.act, b.rew, b.terminated, b.next_obs, strict=True):
                done, rew, terminated, next_obs = diary[obs.astype(np.float32).tobytes()]
                np.testing.assert_allclose(low + (act + 1) / 2 * (high - low), done, rtol=1e-5)
                assert rest[0] == pytest.approx(rew)
                assert rest[1] == terminated
                np.testing.assert_array_equal(rest[2], next_obs)
                ended = next_obs.tobytes() not in diary
                seen[bool(terminated), ended] += 1
    assert len(diary) == 22
    assert min(seen[True, True], seen[False, True], seen[False, False]) > 0


def test_what_came_before_a_resume_is_learned_from_as_it_happened(tmp_path, monkeypatch):
    """The last step before led to what was seen then, not to where environments begin anew."""
    diary, kwargs = {}, dict(num_envs=4, steps_per_epoch=16, start_steps=100, num_test_episodes=0)
    kwargs |= dict(env_fn=lambda: Restless(diary), update_after=16, update_every=8, batch_size=32)
    train(ddpg, tmp_path / "run", epochs=1, **kwargs)
    before = [*diary]
    assert len(before) == 16
    recorded, drawn = record(monkeypatch), set()
    train(ddpg, tmp_path / "run", epochs=2, resume=True, **kwargs)
    for _, batches, _, _ in recorded.blocks:
        for b in minibatches(batches):
            for obs, rew, terminated, next_obs in zip(
                b.obs, b.rew, b.terminated, b.next_obs, strict=True
            ):
                key = obs.astype(np.float32).tobytes()
                drawn.add(key)
                _, true_rew, was_terminal, true_next_obs = diary[key]
                assert (rew, terminated) == (pytest.approx(true_rew), was_terminal)
                np.testing.assert_array_equal(next_obs, true_next_obs)
    assert drawn >= {*before}


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


@each
def test_a_terminal_state_ends_the_sum_and_a_time_limit_does_not(tmp_path, algorithm):
    """Q = 1 where the state that follows is terminal; else 1 + 1/2 + 1/4 + ... = 2.

    The time limit comes after two steps.
    """
    kwargs = settings(algorithm, 0.01, alpha=0.0)
    kwargs |= dict(gamma=0.5, polyak=0.9, max_ep_len=2, epochs=3)
    ac, _ = train(algorithm, tmp_path / "run", Endless, **kwargs)
    obs = np.array([[-1], [1]], np.float32)
    for q in ac.q_values(obs, mode(ac.pi(obs))):
        np.testing.assert_allclose(q, [2, 1], atol=0.05)


# ----------------------------------------------------------------------- who trains what


def test_the_same_networks_as_their_own_targets_are_refused(tmp_path):
    made = []

    def cached(*args, **kwargs):
        made.append(made[0] if made else MLPQActorCritic(*args, stochastic=False, num_q=1))
        return made[-1]

    with pytest.raises(UserError, match="the networks and the target networks share variables"):
        train(ddpg, tmp_path, actor_critic=cached, ac_kwargs=None)
    assert not list(tmp_path.iterdir())


def test_targets_start_as_copies_and_two_q_functions_as_different_ones(tiny_run):
    algorithm, recorded, _ = tiny_run
    start = recorded.blocks[0][0]
    for name in ("pi", "q") if algorithm is not sac else ("q",):
        for x, y in zip(start[name], start[f"target_{name}"], strict=True):
            np.testing.assert_array_equal(x, y)
    ac, target = recorded.networks
    assert not {id(v) for v in ac.variables} & {id(v) for v in target.variables}
    for one in ac.qs:
        for other in ac.qs:
            same = np.array_equal(one.trainable_variables[0], other.trainable_variables[0])
            assert same == (one is other)


def test_each_step_trains_its_own_networks(tiny_run):
    """The first the Q-functions, the second the policy, the third the targets; nothing else."""
    algorithm, recorded, _ = tiny_run
    _, batches, _, _ = recorded.blocks[0]
    batch = {key: tf.constant(x[0]) for key, x in batches.items()}
    targets = {"target_q"} if algorithm is sac else {"target_pi", "target_q"}
    assert len(recorded.steps) == 3
    for step, trained in zip(recorded.steps, ({"q"}, {"pi"}, targets), strict=True):
        before = values(recorded.networks)
        step(batch)
        after = values(recorded.networks)
        for name in before:
            moved = [not np.array_equal(x, y) for x, y in zip(before[name], after[name])]  # noqa: B905
            assert all(moved) if name in trained else not any(moved), name


# ------------------------------------------------------------------------------ exploration


@each
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


@each
def test_exploration_is_the_policy_with_noise(tmp_path, algorithm):
    """The policy does not learn here, so that what it says can be taken from what it does.

    What is left of DDPG and TD3 is noise of deviation 0.1; of SAC, which draws its own actions,
    standard normal noise. 3 * 998 numbers: four times 1 / sqrt(2994) and 1 / sqrt(2 * 2994).
    """
    diary = {}
    kwargs = settings(algorithm, 0.0, act_noise=0.1)
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
        noise = (act - ac.pi(obs)) / 0.1
    assert np.mean(noise) == pytest.approx(0, abs=4 / 2994**0.5)
    assert np.std(noise) == pytest.approx(1, abs=4 / (2 * 2994) ** 0.5)


# ------------------------------------------------------------------------------- evaluation


class Numbered(gym.Env):
    """Counts what is done with each copy: `lives` has a list of episode lengths for each.

    Episodes of random length, whose return is that length.
    """

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, lives):
        self.lengths = []
        lives.append(self.lengths)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.lengths.append(0)
        self.end = self.np_random.integers(3, 20)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.lengths[-1] += 1
        return np.zeros(1, np.float32), 1.0, self.lengths[-1] == self.end, False, {}


@each
def test_evaluation_has_an_environment_of_its_own_and_the_same_seeds_every_time(
    tmp_path, algorithm
):
    lives = []
    kwargs = dict(steps_per_epoch=100, epochs=3, num_test_episodes=4)
    _, rows = train(algorithm, tmp_path / "run", lambda: Numbered(lives), **kwargs)
    lives = [lengths for lengths in lives if lengths]  # without those that serve to look at spaces
    trained, tested = lives
    assert sum(trained) == 300  # over the ends of epochs, not cut by them
    tested = [length for length in tested if length]  # without those that no step was taken in
    first = tested[:4]
    assert len(set(first)) > 1
    assert tested == 3 * first  # each evaluation has the same episodes, one after the other
    for row in rows:
        assert float(row["AverageTestEpRet"]) == float(row["TestEpLen"]) == np.mean(first)
        assert float(row["MinTestEpRet"]) == min(first)
        assert float(row["MaxTestEpRet"]) == max(first)


@each
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


# ---------------------------------------------------------------------- what it can train on


@each
def test_several_environments_and_no_evaluation(tmp_path, monkeypatch, algorithm):
    """Four environments take turns in steps of four; there is an update for each interaction.

    Blocks of 10 updates follow the interactions 50, 60, ..., 190, counted from 0. There is no
    evaluation, and its columns are blank.
    """
    recorded = record(monkeypatch)
    _, (row,) = train(algorithm, tmp_path / "run", num_envs=4, num_test_episodes=0, epochs=1)
    blank = {"AverageTestEpRet", "StdTestEpRet", "MaxTestEpRet", "MinTestEpRet", "TestEpLen"}
    assert {key for key, value in row.items() if value == ""} == blank
    assert row["TotalEnvInteracts"] == "200"
    assert row["EpLen"] == "50.0"
    assert [len(batches["rew"]) for _, batches, _, _ in recorded.blocks] == [10] * 15
    _, batches, _, _ = recorded.blocks[-1]
    assert batches["obs"].shape == (10, 20, 3)
    assert np.unique(batches["obs"]).size > 100  # of four different pasts


def with_choice(env):
    """Observations are one of two numbers."""
    return gym.wrappers.TransformObservation(env, lambda o: int(o[0] > 0), spaces.Discrete(2))


def with_dict(env):
    space = spaces.Dict(place=spaces.Box(-1, 1, (2,)), speed=spaces.Box(-8, 8, (1,)))
    return gym.wrappers.TransformObservation(env, lambda o: dict(place=o[:2], speed=o[2:]), space)


@pytest.mark.parametrize(
    ("algorithm", "wrapper", "width"),
    [
        *((algorithm, lambda env: env, 3) for algorithm in (ddpg, td3, sac)),
        (ddpg, with_choice, 2),
        (td3, with_dict, 3),
        (sac, with_dict, 3),
    ],
    ids=["ddpg Box", "td3 Box", "sac Box", "ddpg Discrete", "td3 Dict", "sac Dict"],
)
def test_what_is_saved_is_what_was_trained(tmp_path, algorithm, wrapper, width):
    """The policy, which takes the environment's own observations, and the Q-functions."""
    env = wrapper(gym.make("Pendulum-v1"))
    ac, _ = train(algorithm, tmp_path / "run", lambda: wrapper(gym.make("Pendulum-v1")), epochs=1)
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


def test_what_is_saved_for_choices(tmp_path):
    ac, _ = train(sac, tmp_path / "run", make("CartPole-v1"), epochs=1)
    model = tf.saved_model.load(str(tmp_path / "run" / "tf2_save"))
    x = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    for name, expected in zip(("q1", "q2"), ac.q_values(x), strict=True):
        assert expected.shape == (7, 2)
        np.testing.assert_allclose(model.q(x)[name], expected, rtol=1e-5)


class OwnQ(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)

    def call(self, obs, act):
        return self.out(self.hidden(tf.concat([obs, act], -1)))[:, 0]


@each
def test_own_actor_critic(tmp_path, monkeypatch, algorithm):
    """Any Keras models, whether they have been called before or not; all of them are trained."""
    recorded, num_q = record(monkeypatch), 1 if algorithm is ddpg else 2

    def own(observation_space, action_space, width):
        dim = observation_space.shape[0]
        if algorithm is sac:
            pi = SquashedGaussianPolicy(mlp(dim, (width,), 2))
        else:
            pi = DeterministicPolicy(mlp(dim, (width,), 1, output_activation="tanh"))
        return QActorCritic(pi, [OwnQ() for _ in range(num_q)], action_space)

    kwargs = dict(actor_critic=own, ac_kwargs=dict(width=4))
    ac, rows = train(algorithm, tmp_path / "run", **kwargs)
    assert recorded.networks[0] is ac
    assert ac.pi.net.layers[0].units == 4
    before, after = recorded.blocks[0][0], recorded.blocks[-1][3]
    assert len(before["q"]) == 4 * len(ac.qs)
    for name in ("pi", "q"):
        for x, y in zip(before[name], after[name], strict=True):
            assert not np.array_equal(x, y)
    get_action = load_policy(tmp_path / "run" / "tf2_save", allow_pickle=True)
    assert get_action(np.zeros(3)).shape == (1,)


def test_images_by_default_are_for_convolutions(tmp_path, monkeypatch):
    """As CarRacing's: 96 x 96 x 3 bytes, steering -1 ... 1, gas and brake 0 ... 1."""
    recorded = record(monkeypatch)
    ac, rows = train(
        sac,
        tmp_path / "run",
        Road,
        **dict(steps_per_epoch=20, epochs=1, start_steps=6, update_after=10, update_every=2),
        **dict(batch_size=4, num_test_episodes=1, max_ep_len=8),
        ac_kwargs=dict(conv="small", hidden_sizes=(8,)),
    )
    assert type(ac) is CNNQActorCritic
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["actor_critic"] == "CNNQActorCritic"
    (before, batches, _, _), after = recorded.blocks[0], recorded.blocks[-1][3]
    assert batches["obs"].dtype == batches["next_obs"].dtype == np.uint8
    assert batches["obs"].shape == (2, 4, 96, 96, 3)
    assert len({id(q.encoder) for q in ac.qs}) == 1
    for name in ("pi", "q"):
        for x, y in zip(before[name], after[name], strict=True):
            assert not np.array_equal(x, y)
    obs, _ = Road().reset(seed=0)
    get_action = load_policy(tmp_path / "run" / "tf2_save", deterministic=True)
    act = ac.act(obs, deterministic=True)
    assert Road.action_space.contains(act)
    np.testing.assert_allclose(get_action(obs), act, rtol=1e-4)


class Road(gym.Env):
    """Images of noise, and CarRacing's actions."""

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


# ------------------------------------------------------------------------------- what is refused


@each
@pytest.mark.parametrize(
    ("action_space", "message"),
    [
        (spaces.MultiDiscrete([2, 3]), "The action space MultiDiscrete is not supported"),
        (spaces.MultiBinary(2), "The action space MultiBinary is not supported"),
        (spaces.Box(-np.inf, np.inf, (2,)), r"The action space Box\(-inf, inf.*is unbounded"),
        (spaces.Box(0, 9, (2,), np.int64), "The action space Box is not supported"),
    ],
    ids=["MultiDiscrete", "MultiBinary", "unbounded", "integers"],
)
def test_action_spaces_are_refused_by_name(tmp_path, algorithm, action_space, message):
    with pytest.raises(UserError, match=message):
        train(algorithm, tmp_path / "run", lambda: Restless({}, action_space))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("algorithm", [ddpg, td3])
def test_choices_are_for_sac(tmp_path, algorithm):
    with pytest.raises(UserError, match=r"The action space Discrete is not supported.*\(sac, "):
        train(algorithm, tmp_path / "run", make("CartPole-v1"))
    assert not (tmp_path / "run").exists()


@each
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(polyak=1.5), "polyak is 1.5; it must be a number between 0 and 1"),
        (dict(gamma=-0.1), "gamma is -0.1"),
        (dict(replay_size=0), "replay_size is 0"),
        (dict(replay_size=3, num_envs=4), "replay_size is 3; it must be at least .*, 4"),
        (dict(batch_size=0), "batch_size is 0"),
        (dict(batch_size=3, num_envs=4), "batch_size is 3;.*at least the number.*4; use .* as 4"),
        (dict(start_steps=-1), "start_steps is -1"),
        (dict(update_after=0.5), "update_after is 0.5"),
        (dict(update_every=0), "update_every is 0"),
        (dict(num_test_episodes=-1), "num_test_episodes is -1"),
        (dict(steps_per_epoch=201, num_envs=2), "use a multiple of 2"),
        (dict(ac_kwargs=dict(num_q=3)), "num_q.*the algorithm itself chooses"),
        (dict(ac_kwargs=dict(hidden_sizes=64)), "hidden_sizes is 64"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, algorithm, kwargs, message):
    with pytest.raises(UserError, match=message):
        train(algorithm, tmp_path / "run", **kwargs)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algorithm", "name", "value"),
    [
        *((algorithm, name, -1e-3) for algorithm in (ddpg, td3) for name in ("pi_lr", "q_lr")),
        *((algorithm, "act_noise", -0.1) for algorithm in (ddpg, td3)),
        *((td3, name, -0.1) for name in ("target_noise", "noise_clip")),
        (td3, "policy_delay", 0),
        (sac, "lr", "fast"),
        (sac, "target_entropy", "low"),
    ],
)
def test_bad_arguments_of_one_algorithm_are_refused(tmp_path, algorithm, name, value):
    with pytest.raises(UserError, match=f"^{name} is {value!r}; it must be"):
        train(algorithm, tmp_path / "run", **{name: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("algorithm", "policy", "num_q", "message"),
    [
        (sac, "deterministic", 2, "needs a distribution of tensorflow_probability"),
        (ddpg, "stochastic", 1, "needs a deterministic policy"),
        (td3, "deterministic", 1, "needs 2 of shape"),
        (ddpg, "deterministic", 2, "needs 1 of shape"),
    ],
)
def test_networks_of_another_algorithm_are_refused(tmp_path, algorithm, policy, num_q, message):
    def wrong(observation_space, action_space):
        stochastic = policy == "stochastic"
        return MLPQActorCritic(observation_space, action_space, stochastic=stochastic, num_q=num_q)

    with pytest.raises(UserError, match=message):
        train(algorithm, tmp_path / "run", actor_critic=wrong, ac_kwargs=None)
    assert not (tmp_path / "run").exists()
