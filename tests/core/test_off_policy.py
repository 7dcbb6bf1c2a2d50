"""The loop of the off-policy algorithms, with a recording stub in the place of the updates."""

import itertools

import gymnasium as gym
import keras
import numpy as np
import pytest
import scipy.stats
from gymnasium import spaces

from spinup_tf2 import ddpg
from spinup_tf2.arguments.table import OPTIONS
from spinup_tf2.core import off_policy
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from spinup_tf2.core.off_policy import Schedule, uniform
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.episodes import MOST_LIVES
from spinup_tf2.core.workers.randomness import environment_seed
from spinup_tf2.envs.spaces import bounded_action_spec, bounded_or_discrete_action_spec
from spinup_tf2.training.evaluation import evaluate
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings

# ------------------------------------------------------------------------- when to update


@pytest.mark.parametrize(("update_after", "warnings"), [(40, 1), (39, 0)])
def test_a_run_that_learns_nothing_says_so(update_after, warnings, tmp_path, capsys):
    """Its interactions have the numbers 0 to 39."""
    ddpg(
        "Pendulum-v1",
        ac_kwargs=dict(hidden_sizes=(4,)),
        **dict(steps_per_epoch=40, epochs=1, num_test_episodes=0),
        **dict(start_steps=10, update_after=update_after, update_every=1, batch_size=4),
        logger_kwargs=dict(output_dir=tmp_path / "run"),
    )
    out = capsys.readouterr().out
    assert out.count("Warning: nothing will be learned: the 40 interactions") == warnings


def test_updates_are_due_when_spinning_up_takes_them():
    """Its rule, for each interaction t: `t >= update_after and t % update_every == 0`."""
    settings = itertools.product((0, 1, 7, 10, 30), (1, 3, 7, 10, 50), (1, 2, 3, 4, 12))
    for update_after, update_every, num_envs in settings:
        schedule = Schedule(1000, 1, 0, update_after, update_every)
        for t in range(0, 120, num_envs):
            interactions = range(t, t + num_envs)
            expected = sum(i >= update_after and i % update_every == 0 for i in interactions)
            found = schedule.updates_due(t + num_envs) - schedule.updates_due(t)
            assert found == expected, (t, num_envs, schedule)


# -------------------------------------------------------------------------- random actions


def test_random_actions_of_a_box_are_uniform():
    spec = bounded_action_spec(spaces.Box(-3, 5, (2,)))
    act = uniform(spec, spec.draw_noise(np.random.default_rng(0), 20000))
    assert act.dtype == np.float32
    assert np.abs(act).max() <= 1
    for dim in act.T:
        assert scipy.stats.kstest(dim, scipy.stats.uniform(-1, 2).cdf).pvalue > 0.05
    # Of the uniform distribution on [-1, 1]: mean 0, variance 1/3; dimensions are independent.
    np.testing.assert_allclose(act.mean(0), 0, atol=4 * np.sqrt(1 / 3 / 20000))
    np.testing.assert_allclose(np.cov(act.T), np.eye(2) / 3, atol=0.01)
    in_env = spec.to_env(act)
    np.testing.assert_allclose(in_env.min(0), -3, atol=0.01)
    np.testing.assert_allclose(in_env.max(0), 5, atol=0.01)


def test_random_choices_are_uniform():
    spec = bounded_or_discrete_action_spec(spaces.Discrete(5, start=2))
    act = uniform(spec, spec.draw_noise(np.random.default_rng(0), 20000))
    assert act.shape == (20000,)
    assert scipy.stats.chisquare(np.bincount(act, minlength=5)).pvalue > 0.05


# ------------------------------------------------------------------------------ evaluation


class Scripted(gym.Env):
    """Episodes whose lengths and rewards come from the seed, and from the action.

    The observation is the number of the step. An episode is `terminated` after 2 to 9 steps.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.length = 0, int(self.np_random.integers(2, 10))
        self.reward = float(self.np_random.normal())
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        obs = np.full(1, self.t, np.float32)
        return obs, self.reward * self.t + float(action[0]), self.t == self.length, False, {}


def actor(bias=0.25):
    """Actions that are always tanh(bias), whatever is seen."""
    ac = MLPQActorCritic(
        Scripted.observation_space, Scripted.action_space, (), stochastic=False, num_q=1
    )
    (layer,) = ac.pi.net.layers
    layer.kernel.assign([[0.0]])
    layer.bias.assign([bias])
    return Actor(ac)


def one_by_one(seed, numbers, max_ep_len=1000, bias=0.25):
    """Returns and lengths of the first episode of each environment: {number: (return, length)}."""
    results = {}
    for i in numbers:
        env, ret, length, over = Scripted(), 0.0, 0, False
        env.reset(seed=environment_seed(seed, i))
        while not over:
            _, rew, terminated, _, _ = env.step(np.array([2 * np.tanh(bias)]))
            ret, length = ret + rew, length + 1
            over = terminated or length == max_ep_len
        results[i] = (ret, length)
    return results


@pytest.mark.parametrize("max_ep_len", [1000, 5])
@pytest.mark.parametrize("recorded", [False, True])
def test_evaluation_is_the_first_episode_of_each_environment(max_ep_len, recorded):
    """Short episodes are over, and others begin, while long ones last; every time the same."""

    def make():
        if not recorded:
            return Scripted()
        env = gym.wrappers.RecordEpisodeStatistics(Scripted())  # of rewards before they are changed
        return gym.wrappers.TransformReward(env, lambda rew: rew / 10)

    expected = one_by_one(3, range(10, 18), max_ep_len)
    assert len({length for _, length in expected.values()}) > 2
    settings = dict(first_env=10, make_action_spec=bounded_action_spec)
    with VectorEnv(make, 8, 3, max_ep_len, **settings) as envs:
        act = actor()
        for _ in range(3):
            ret, length, _ = evaluate(envs, act).values()
            found = sorted(zip(ret, length, strict=True))
            np.testing.assert_allclose(found, sorted(expected.values()), rtol=1e-5)
            assert not envs.episodes.recorded


class Impatient(gym.Wrapper):
    """Ends every episode after two steps, and resets the environment that was not over."""

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew, terminated or obs[0] == 2, truncated, info


class Continuing(gym.Wrapper):
    """Ends every episode after one step, and never resets the environment, which is never over."""

    def reset(self, **kwargs):
        self.began = getattr(self, "began", None) or self.env.reset(**kwargs)
        self.unwrapped.length = None
        return self.began

    def step(self, action):
        _, rew, _, _, info = self.env.step(action)
        return self.began[0], rew, True, False, info


def ended_by(wrapper):
    """Two environments with a record inside of `wrapper` and another unit of reward outside."""

    def make():
        env = wrapper(gym.wrappers.RecordEpisodeStatistics(Scripted()))
        return gym.wrappers.TransformReward(env, lambda rew: rew / 10)

    return VectorEnv(make, 2, 3, make_action_spec=bounded_action_spec)


def test_an_episode_that_a_wrapper_ends_is_recorded_as_far_as_it_came():
    """Also if some end by themselves: Scripted dies after 2 to 9 steps, here none after 2."""
    with ended_by(Impatient) as envs:
        obs, rew = envs.reset(), []
        for _ in range(6):
            _, each, terminated, _, _ = envs.step(np.zeros((2, 1), np.float32))
            rew.append(10 * each)
        recorded = [*envs.episodes.recorded]
        assert envs.episodes.count(None, None)["EpLen"] == [2] * 6
        _, length, _ = evaluate(envs, actor()).values()
    assert obs.tolist() == [[0], [0]]
    assert terminated.all()
    expected = np.array(rew).reshape(3, 2, 2).sum(axis=1).ravel()
    np.testing.assert_allclose([ret for ret, _, _ in recorded], expected)
    assert [i for _, _, i in recorded] == [0, 1] * 3
    assert length == [2, 2]


def test_an_episode_that_nothing_resets_is_counted_where_it_ends():
    """Not before there have been more ends than a game has lives, and from then on at once."""
    with ended_by(Continuing) as envs:
        steps, step = [], envs.step
        envs.step = lambda act: steps.append(act) or step(act)
        for _ in range(2):
            _, length, _ = evaluate(envs, actor()).values()
            assert length == [1, 1]
        assert len(steps) == MOST_LIVES + 2


# -------------------------------------------------------------------------------- the loop


class Watched(Scripted):
    """Keeps what is done in it: `Watched.actions` are those of all instances that train."""

    actions = []  # noqa: RUF012

    def step(self, action):
        Watched.actions.append(np.copy(action))
        return super().step(action)


class Run:
    """A run of the loop in which nothing is learned, and what happened in it.

    rows: of progress.txt. actions: all that were taken, in the environment's units, in the order of
    time and environment. explored: what `explore` was called with. updates: for each call of the
    update, how many actions had been taken, and the minibatches. given: what `train` is given more.
    """

    def __init__(self, path, update=lambda ac: None, stochastic=False, state=None, **kwargs):
        settings = dict(
            env_fn=Watched,
            seed=3,
            steps_per_epoch=60,
            epochs=2,
            max_ep_len=1000,
            logger_kwargs=dict(output_dir=str(path), exp_name="test", quiet=True),
            save_freq=1,
            init="glorot",  # biases 0
            num_test_episodes=0,
        )
        schedule = dict(
            replay_size=1000, batch_size=12, start_steps=20, update_after=25, update_every=10
        )
        options = {name: row.default for name, row in OPTIONS.items()}
        arguments = options | settings | schedule | kwargs
        schedule = Schedule(**{name: arguments[name] for name in schedule})
        self.explored, self.updates, self.progress = [], [], []

        class Record:
            variables = ()

            def __call__(_, batches, first):
                assert first == 10 * len(self.updates) or schedule.update_every != 10
                self.updates.append((len(Watched.actions), batches))
                update(self.ac)
                return dict(QVals=batches["rew"], LossQ=np.ones(len(batches["rew"])))

        def explore(act, noise, t):
            assert t == round(run.progress * settings.epochs * settings.steps_per_epoch)
            self.explored.append((act, noise))
            self.progress.append(run.progress)
            return act

        Watched.actions = []
        settings = Settings.of(arguments | dict(actor_critic=MLPQActorCritic, options={}))
        make_spec = bounded_or_discrete_action_spec if stochastic else bounded_action_spec
        with environments(settings, make_spec) as (envs, test_envs):
            networks = MLPQActorCritic, dict(hidden_sizes=()), envs, settings.init
            self.ac, self.target = off_policy.networks(*networks, num_q=1, stochastic=stochastic)
            self.spec, epochs = envs.action_spec, range(settings.epochs)
            noise = [envs.randomness.noise(epoch, settings.local_steps) for epoch in epochs]
            self.noise = np.concatenate(noise)  # [steps, n, act_dim]
            replay = off_policy.replay_buffer(envs, schedule, settings)
            state = dict(target=self.target, update=Record(), replay=replay) | (state or {})
            columns = dict(QVals=True, LossQ=False)
            with open_run("test", settings, envs, test_envs, self.ac, state, columns) as run:
                rest = dict(noise=["extra"], explore=explore)
                off_policy.train(run, self.target, state["update"], replay, schedule, **rest)
        header, *lines = (path / "progress.txt").read_text().splitlines()
        self.header = header.split("\t")
        self.rows = [dict(zip(self.header, x.split("\t"), strict=True)) for x in lines]
        self.actions = np.array(Watched.actions)


class Counts:
    """A part that remembers a number of each environment."""

    def __init__(self, number):
        self.numbers = [number]

    def restart(self):
        pass

    def env_state(self, i):
        return dict(number=np.array(self.numbers[i]))

    def set_env_state(self, i, state):
        self.numbers[i] = int(state["number"])


def test_state_of_ones_own_survives_a_stop(tmp_path):
    state = dict(number=keras.Variable(7.0), counts=Counts(5))
    Run(tmp_path, epochs=1, update_every=5, state=state)
    state = dict(number=keras.Variable(0.0), counts=Counts(0))
    Run(tmp_path, resume=True, update_every=5, state=state)
    assert float(state["number"]) == 7
    assert state["counts"].numbers == [5]


@pytest.mark.parametrize(("num_envs", "random_steps"), [(1, 21), (2, 22), (4, 24)])
def test_actions_are_random_first_and_then_the_policys(tmp_path, num_envs, random_steps):
    """Interaction t, counted from 0, is the policy's if t > start_steps, as in Spinning Up.

    So with start_steps 20, 21 are random. Two environments take 20 and 21 together: 22 are.
    """
    run = Run(tmp_path, num_envs=num_envs)
    assert len(run.actions) == 120
    assert len(run.explored) == (120 - random_steps) // num_envs
    noise = run.noise.reshape(120, 1)
    random = run.spec.to_env(uniform(run.spec, noise[:random_steps]))
    np.testing.assert_array_equal(run.actions[:random_steps], random)
    by_policy = run.spec.to_env(np.concatenate([act for act, _ in run.explored]))
    np.testing.assert_array_equal(run.actions[random_steps:], by_policy)
    progress = np.arange(random_steps, 120, num_envs) / 120  # of the interactions before
    np.testing.assert_allclose(run.progress, progress)
    given = np.concatenate([noise for _, noise in run.explored])
    np.testing.assert_array_equal(given, noise[random_steps:])


def test_the_policy_sees_what_its_last_step_led_to(tmp_path):
    """Its action is the tanh of w times the observation, which is the number of the step."""
    run = Run(tmp_path, start_steps=0)
    (layer,) = run.ac.pi.net.layers
    step = np.arctanh(np.concatenate([act for act, _ in run.explored])) / layer.kernel.numpy()
    rounded = np.round(step[:, 0])
    seen = {tuple(pair) for pair in itertools.pairwise(rounded)}
    assert all(second in (first + 1, 0) for first, second in seen)  # on, or a new episode
    assert {first for first, _ in seen} >= {0, 1, 2, 3}


@pytest.mark.parametrize("num_envs", [1, 2, 3, 4])
def test_updates_come_when_they_are_due(tmp_path, num_envs):
    """After interactions 30, 40, ..., 110, counted from 0: the first when 31 have been taken.

    Several environments take some more before it is their turn to wait.
    """
    run = Run(tmp_path, num_envs=num_envs)
    after = [t + 1 for t in range(30, 120, 10)]
    assert [taken for taken, _ in run.updates] == [-(-t // num_envs) * num_envs for t in after]
    for _, batches in run.updates:  # as many updates as interactions between them
        assert batches["rew"].shape == (10, 12)
        assert batches["extra"].shape == (10, 12, 1)
    # Nobody is tested here, and what would show it is blank.
    assert {row[name] for row in run.rows for name in row if "Test" in name} == {""}


@pytest.mark.parametrize(("max_ep_len", "num_envs"), [(1000, 1), (1000, 2), (4, 2)])
def test_what_is_learned_from_is_what_happened(tmp_path, max_ep_len, num_envs):
    """Step t leads to t + 1, never to the first observation of the next episode.

    Only `terminated` ends what a Q-function sums; the time limit of four steps does not.
    """
    run = Run(tmp_path, num_envs=num_envs, max_ep_len=max_ep_len, start_steps=1000)
    terminated, last = [], []
    for _, batches in run.updates:
        np.testing.assert_array_equal(batches["next_obs"], batches["obs"] + 1)
        assert np.abs(batches["act"]).max() <= 1
        terminated.append(batches["terminated"].ravel())
        last.append(batches["next_obs"].ravel())
    terminated, last = np.concatenate(terminated), np.concatenate(last)
    assert 0 < terminated.mean() < 1
    assert last.max() == min(9, max_ep_len)
    if max_ep_len == 4:  # some episodes die there, and some are cut off
        assert 0 < terminated[last == 4].mean() < 1


def test_the_buffer_forgets(tmp_path):
    """replay_size counts the interactions of all environments: 20 are ten of each of two."""
    recent, all_ = (
        Run(tmp_path / str(size), num_envs=2, replay_size=size, start_steps=1000, batch_size=60)
        for size in (20, 1000)
    )
    # Both were given the same interactions; of the last minibatches, few different rows remain.
    for run, expected in ((recent, 20), (all_, 112)):
        acts = run.updates[-1][1]["act"]
        assert len(np.unique(acts)) == pytest.approx(expected, abs=1)


def test_the_policy_that_acts_is_the_one_that_was_updated(tmp_path):
    """Each update sets the bias of the policy, which sees nothing else, one further."""

    def update(ac):
        (layer,) = ac.pi.net.layers
        layer.kernel.assign([[0.0]])
        layer.bias.assign(layer.bias + 0.1)

    run = Run(tmp_path, update)
    acts = np.arctanh(np.concatenate([act for act, _ in run.explored])[:, 0])
    # Interactions 31 to 40 come after one update, 41 to 50 after two; 21 was the first.
    np.testing.assert_allclose(acts[31 - 21 : 41 - 21], 0.1, rtol=1e-3)
    np.testing.assert_allclose(acts[41 - 21 : 51 - 21], 0.2, rtol=1e-3)
    np.testing.assert_allclose(acts[111 - 21 :], 0.9, rtol=1e-3)


def test_choices_are_random_first_too(tmp_path):
    """A stochastic policy needs no `explore`: here it only looks on."""

    class Choices(Watched):
        action_space = spaces.Discrete(3, start=5)

        def step(self, action):
            assert self.action_space.contains(action)
            return super().step(np.array([action]))

    run = Run(tmp_path, stochastic=True, env_fn=Choices)
    assert set(run.actions.ravel()) == {5, 6, 7}
    assert {tuple(np.unique(batches["act"])) for _, batches in run.updates} == {(0, 1, 2)}
