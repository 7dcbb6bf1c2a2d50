"""Evaluation without noise, beside training with it; episodes that succeed or fail."""

import functools
import sys
from types import SimpleNamespace

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2 import a2c, ppo, vpg
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, environment_seed
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.training.evaluation import evaluate, own_test_episodes
from spinup_tf2.training.rows import log_successes
from spinup_tf2.utils.logx import EpochLogger
from tests.fake_mpi import run_ranks
from tests.on_policy_runs import train

# Or the processes of environments would import this file, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TEST_COLUMNS = [f"{statistic}TestEpRet" for statistic in ("Average", "Std", "Max", "Min")]
TEST_COLUMNS += ["TestEpLen", "TestSuccessRate"]


class Lottery(gym.Env):
    """Episodes of 2 to 6 steps; one succeeds if it has an even number of them.

    The reward is the action, so that evaluations show which actions there were.
    tells: whether it is a success, in 'reset' too, in each 'step', at the 'end' or 'never'.
    """

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, tells="reset"):
        self.tells = tells

    def _info(self):
        since = dict(reset=0, step=1, end=self.length, never=np.inf)[self.tells]
        told = self.t == self.length and self.length % 2 == 0
        return {"is_success": told} if self.t >= since else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.length = 0, int(self.np_random.integers(2, 7))
        return np.zeros(2, np.float32), self._info()

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        by_time = self.length > 4
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return obs, float(action[0]), over and not by_time, over and by_time, self._info()


def lengths_of(envs, episodes):
    """Lengths of the first episodes of each environment, played one after the other."""
    result = []
    for i in envs.indices:
        env, own = Lottery(), []
        env.reset(seed=environment_seed(envs.randomness.seed, i))
        for _ in range(episodes):
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step([0.0])
                over = terminated or truncated
            own.append(env.length)
            env.reset()
        result.append(own)
    return result


@pytest.mark.parametrize(
    ("vectorization", "tells"),
    [("sync", "reset"), ("sync", "step"), ("sync", "end"), ("threads", "end"), ("async", "step")],
)
def test_environments_tell_of_each_episode_once(vectorization, tells):
    make = functools.partial(Lottery, tells)
    with VectorEnv(make, 3, seed=5, vectorization=vectorization) as envs:
        assert not envs.episodes.tells_success  # nobody has looked yet
        envs.reset()
        assert envs.episodes.tells_success == (tells == "reset")
        envs.step(np.zeros((3, 1), np.float32))
        assert envs.episodes.tells_success == (tells != "end")
        found = [[], [], []]
        while min(map(len, found)) < 4:
            envs.step(np.zeros((3, 1), np.float32))
            for success, i in envs.episodes.take_successes():
                found[i].append(success)
        assert envs.episodes.take_successes() == []
        assert envs.episodes.tells_success
        expected = [[length % 2 == 0 for length in own] for own in lengths_of(envs, 4)]
    assert [own[:4] for own in found] == expected
    assert {True, False} == {success for own in expected for success in own}


def test_evaluation_counts_first_episodes_and_takes_the_mean_action():
    ac = MLPActorCritic(Lottery.observation_space, Lottery.action_space, (), None)
    (layer,) = ac.pi.net.layers
    layer.kernel.assign([[0.0], [0.0]])
    layer.bias.assign([0.25])
    with VectorEnv(Lottery, 8, seed=1) as envs:
        lengths = [own[0] for own in lengths_of(envs, 1)]
        for _ in range(2):  # which begins anew
            results = evaluate(envs, Actor(ac))
            found = sorted(zip(*results.values(), strict=True))
            assert found == sorted((n / 4, n, n % 2 == 0) for n in lengths)
    assert len({*lengths}) > 2


def test_a_few_environments_play_all_episodes_in_turn():
    """Each from its own seed; also where the last round does not need all of them."""
    ac = MLPActorCritic(Lottery.observation_space, Lottery.action_space, (8,), "tanh")
    episodes = range(FIRST_TEST_ENV, FIRST_TEST_ENV + 8)

    def play(num_envs, episodes):
        with VectorEnv(Lottery, num_envs, seed=1, first_env=episodes.start) as envs:
            for _ in range(2):  # the second time as the first
                results = evaluate(envs, Actor(ac), episodes)
        return np.array([*results.values()])

    expected = play(8, episodes)
    assert expected.shape == (3, 8)
    assert all(len({*row}) > 1 for row in expected)
    for num_envs in (1, 3):
        np.testing.assert_allclose(play(num_envs, episodes), expected, rtol=1e-4)

    def rank():
        own = own_test_episodes(8)
        return play(1, own)

    np.testing.assert_allclose(np.concatenate(run_ranks(3, rank), axis=1), expected, rtol=1e-4)


def test_a_success_that_is_told_at_the_end_only_is_logged(tmp_path):
    """The columns are there from the first row on, and stay when the run is resumed."""
    make = functools.partial(Lottery, "end")
    kwargs = dict(steps_per_epoch=40, train_v_iters=1, num_envs=2)
    train(vpg, tmp_path, make, epochs=1, **kwargs)
    _, rows = train(vpg, tmp_path, make, epochs=2, resume=True, **kwargs)
    assert all(0 < float(row["SuccessRate"]) < 1 for row in rows)


def test_all_ranks_log_a_success_that_one_has_seen(tmp_path):
    """In the first row; a rank that has seen nothing takes part in later ones, too."""

    def rank():
        path = str(tmp_path) if proc_id() == 0 else None
        logger = EpochLogger(path, quiet=True)
        envs = SimpleNamespace(episodes=SimpleNamespace(tells_success=proc_id() == 1))
        for successes in ([True, False, True], []):
            logger.store(SuccessRate=successes if proc_id() == 1 else [])
            logger.log_tabular("Epoch", 0)
            log_successes(logger, ["SuccessRate"], [envs, None])
            logger.dump_tabular()
        return logger.log_headers

    assert run_ranks(2, rank) == [["Epoch", "SuccessRate"]] * 2
    rows = (tmp_path / "progress.txt").read_text().splitlines()
    assert float(rows[1].split("\t")[1]) == pytest.approx(2 / 3)
    assert rows[2] == "0\t"


@pytest.mark.parametrize("algorithm", [ppo, a2c])  # with one update in an epoch, and with several
def test_on_policy_algorithms_evaluate_when_it_is_due(algorithm, tmp_path):
    kwargs = dict(steps_per_epoch=40, epochs=5, num_envs=2)
    plain, rows = train(algorithm, tmp_path / "plain", Lottery, **kwargs)
    ac, tested = train(
        algorithm, tmp_path / "tested", Lottery, **kwargs, num_test_episodes=3, test_freq=2
    )
    # Training is not touched by it.
    for ours, theirs in zip(ac.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not {*TEST_COLUMNS} & {*rows[0]}
    assert [row["AverageEpRet"] for row in rows] == [row["AverageEpRet"] for row in tested]
    # In every second epoch, and the last one.
    for row, due in zip(tested, [False, True, False, True, True], strict=True):
        assert all((row[name] != "") == due for name in TEST_COLUMNS), row
        assert 0 <= float(row["SuccessRate"]) <= 1
    assert {row["TestEpLen"] for row in tested} - {""} == {tested[1]["TestEpLen"]}  # same seeds
    assert tested[1]["AverageTestEpRet"] != tested[3]["AverageTestEpRet"]  # another policy


def test_the_last_evaluation_is_that_of_the_policy_that_is_returned(tmp_path):
    ac, rows = train(
        ppo, tmp_path, Lottery, steps_per_epoch=40, train_pi_iters=5, num_test_episodes=4
    )
    with VectorEnv(Lottery, 4, first_env=FIRST_TEST_ENV) as envs:
        results = evaluate(envs, Actor(ac))
    assert float(rows[-1]["AverageTestEpRet"]) == pytest.approx(
        np.mean(results["TestEpRet"]), rel=1e-5
    )
    assert float(rows[-1]["TestSuccessRate"]) == np.mean(results["TestSuccessRate"])


class Bounded(Lottery):
    action_space = spaces.Box(-1, 1, (1,), np.float32)


def test_the_best_weights_are_those_of_the_best_test(tmp_path):
    """Epochs without a test are not in question, however much their noise has brought in."""
    _, rows = train(
        ppo,
        tmp_path,
        Lottery,
        steps_per_epoch=40,
        epochs=7,
        pi_lr=0.05,
        num_test_episodes=3,
        test_freq=3,
    )
    _, best = Checkpoints(tmp_path).best()
    tested = [row for row in rows if row["AverageTestEpRet"]]
    assert [row["Epoch"] for row in tested] == ["2", "5", "6"]
    expected = max(tested, key=lambda row: float(row["AverageTestEpRet"]))  # all succeed alike
    assert best["epoch"] == int(expected["Epoch"])
    assert best["score"] == pytest.approx(float(expected["AverageTestEpRet"]))
    assert best["success"] == pytest.approx(float(expected["TestSuccessRate"]))
