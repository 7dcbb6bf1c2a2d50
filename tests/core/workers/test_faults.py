import multiprocessing.forkserver
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

from spinup_tf2.core.vector_env import VectorEnv, lost
from spinup_tf2.core.workers.episodes import Episodes
from spinup_tf2.core.workers.faults import EnvironmentFailure, SupervisedEnv
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, environment_seed, seed_after
from spinup_tf2.errors import UserError
from spinup_tf2.training.replay import ActionLog

every = pytest.mark.parametrize("vectorization", ["sync", "async"])  # threads: test_threads.py

# Environment 1 of a run with seed 0, and what takes its place.
SEED = environment_seed(0, 1)
SEED_AFTER_RETRY = seed_after(SEED)


def raises():
    raise ValueError("the arm\nis broken")


def leaves():
    sys.exit(3)


def complains():
    raise UserError("no such level")


def is_interrupted():
    raise KeyboardInterrupt


def dies(signum=signal.SIGKILL):
    os.kill(os.getpid(), signum)


class Faulty(gym.Env):
    """Shows (its first seed, random numbers, steps); does `fault` where it is told to.

    where: (method, how many calls of it the environment survives).
    seeds: the first seeds of environments that are faulty; None: all are.
    length: of an episode.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault=raises, where=("step", 6), seeds=(SEED,), length=4):
        self.fault, (self.method, self.survives) = fault, where
        self.seeds, self.length = seeds, length
        self.seed = None
        self.calls = {"reset": 0, "step": 0}
        self.obs = np.zeros(3)
        self.broken = False

    def _count(self, method):
        self.calls[method] += 1
        if method != self.method or self.calls[method] <= self.survives:
            return
        if self.seeds is None or self.seed in self.seeds:
            self.obs[:] = -99  # one that is about to fail may leave anything behind
            self.broken = True
            self.fault()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = self.seed or seed
        self._count("reset")
        self.t = 0
        return self._show(), {}

    def step(self, action):
        self._count("step")
        self.t += 1
        return self._show(), float(action), self.t == self.length, False, {}

    def _show(self):
        self.obs[:] = [self.seed % 1000, self.np_random.integers(100), self.t]
        return self.obs  # always the same array

    def close(self):
        if self.broken:
            raise OSError("cannot be closed either")


@pytest.fixture
def stderr(capfd):
    """A function that returns what has been written to standard error, also by processes."""
    fork_server = multiprocessing.forkserver._forkserver
    fork_server._stop()  # the next one writes to where this process writes
    yield lambda: capfd.readouterr().err
    fork_server._stop()


def play(env_fn, steps, num_envs=2, **kwargs):
    """What an environment shows and says for a number of steps: obs, rew, terminated, ..."""
    with VectorEnv(env_fn, num_envs, **kwargs) as envs:
        first = envs.reset()
        rows = [envs.step(np.arange(num_envs) % 2) for _ in range(steps)]
    obs, rew, terminated, truncated, final_obs = zip(*rows, strict=True)
    return np.array([first, *obs]), *map(np.array, (rew, terminated, truncated)), final_obs


# ------------------------------------------------------------------------------------ failures


@every
@pytest.mark.parametrize(
    ("where", "told", "advice"),
    [
        (("step", 6), "in step 3 of its episode, after 6 steps in all", "With env_retries=1"),
        (("reset", 0), "when it was reset, after 0 steps in all", "Correct the environment"),
        # of its own accord
        (("reset", 2), "when it was reset, after 8 steps in all", "With env_retries=1"),
    ],
)
def test_one_error_names_the_environment(vectorization, where, told, advice, stderr, recwarn):
    """Environment 1 of two fails; an episode has four steps."""
    with pytest.raises(EnvironmentFailure) as failed:
        play(partial(Faulty, where=where), 20, vectorization=vectorization)
    message = str(failed.value)
    assert re.match(r"environment 1 \(Faulty, rank 0 on \S+\) raised ValueError: the arm", message)
    assert f"\nis broken, {told} (last seed: {SEED}). {advice}" in message
    cause = failed.value.__cause__
    if vectorization != "async":
        assert isinstance(cause, ValueError)
    else:
        assert 'raise ValueError("the arm' in str(cause)  # the text of its traceback
    assert failed.value.__suppress_context__
    assert stderr() == ""
    assert [str(w.message) for w in recwarn] == []


@every
def test_an_environment_that_exits(vectorization):
    with pytest.raises(EnvironmentFailure, match=r"environment 1 .* raised SystemExit: 3, in step"):
        play(partial(Faulty, leaves), 20, vectorization=vectorization)


@every
def test_a_user_error_stays_one(vectorization):
    with pytest.raises(UserError, match=r"^no such level$"):
        play(partial(Faulty, complains), 20, vectorization=vectorization, env_retries=5)


def test_numbers_are_those_of_the_whole_job():
    """Environment 3 of all, which is the second of this process; and one for evaluation."""
    faulty = partial(Faulty, seeds=(environment_seed(0, 3), environment_seed(0, FIRST_TEST_ENV)))
    with pytest.raises(EnvironmentFailure, match=r"^environment 3 "):
        play(faulty, 20, first_env=2)
    with pytest.raises(EnvironmentFailure, match=r"^test environment 0 "):
        play(faulty, 20, first_env=FIRST_TEST_ENV)


def test_the_id_is_the_registered_one():
    with pytest.raises(EnvironmentFailure, match=r"\(CartPole-v1, "):
        play(lambda: gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda r: 1 / 0), 1)


def test_an_environment_that_cannot_be_closed_is_named_once(capsys):
    class Stuck(Faulty):
        def close(self):
            raise OSError("stuck")

    envs = VectorEnv(partial(Stuck, seeds=()), 2)
    envs.prototype = Faulty()
    envs.reset()
    envs.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["0", "1"]  # Warning: environment 0 ...
    assert lines[0].endswith("raised OSError: stuck, while it was closed.")


def test_a_failure_can_be_sent_to_another_process():
    failure = EnvironmentFailure("told")
    failure.__cause__ = ValueError("deep down")
    received = pickle.loads(pickle.dumps(failure))
    assert type(received) is EnvironmentFailure
    assert str(received) == "told"
    assert "ValueError: deep down" in str(received.__cause__)


# ------------------------------------------------------------------------------------- retries


@every
def test_a_new_environment_takes_the_place_of_one_that_raises(vectorization, stderr):
    """Environment 1 fails in its seventh step, the third of its second episode."""
    kwargs = dict(vectorization=vectorization, env_retries=2)
    obs, rew, terminated, truncated, final_obs = play(Faulty, 20, **kwargs)
    whole = play(partial(Faulty, seeds=()), 20)

    for ours, theirs in zip((obs, rew, terminated, truncated), whole, strict=False):
        np.testing.assert_array_equal(ours[:, 0], theirs[:, 0])  # the other one goes on
        np.testing.assert_array_equal(ours[:6, 1], theirs[:6, 1])
    assert np.argwhere(truncated).tolist() == [[6, 1]]
    assert not terminated[6, 1]
    assert rew[6, 1] == 0
    assert final_obs[6] == {1: None}  # it has led to nothing

    # The new one begins its first episode, with a seed of its own.
    alone = Faulty()
    first, _ = alone.reset(seed=SEED_AFTER_RETRY)
    np.testing.assert_array_equal(obs[7, 1], first)
    for t in range(8, 11):
        np.testing.assert_array_equal(obs[t, 1], alone.step(0)[0])
    assert np.flatnonzero(terminated[:, 1]).tolist() == [3, 10, 14, 18]

    (line,) = stderr().splitlines()
    assert line.startswith("Warning: environment 1 (Faulty, rank 0 on ")
    assert f"in step 3 of its episode, after 6 steps in all (last seed: {SEED})." in line
    assert line.endswith("It is created again (1 of 2).")


@every
def test_retries_are_counted_and_exhausted(vectorization, stderr):
    """Both environments fail in each seventh step of theirs, for whatever seed."""
    with pytest.raises(EnvironmentFailure, match=r"after 18 steps.*created again 2 times before"):
        play(partial(Faulty, seeds=None), 50, vectorization=vectorization, env_retries=2)
    lines = stderr().splitlines()
    for number in (0, 1):
        own = [line for line in lines if f"environment {number} " in line]
        assert ["1 of 2" in own[0], "2 of 2" in own[1], len(own)] == [True, True, 2]


@every
def test_a_reset_is_tried_again(vectorization, stderr):
    """Environment 1 cannot begin its third episode, nor an environment with the next seed any."""
    broken = partial(Faulty, where=("reset", 2))
    obs, _, terminated, truncated, _ = play(broken, 10, vectorization=vectorization, env_retries=1)
    assert not truncated.any()  # no episode was lost
    assert obs[8, 1, 0] == SEED_AFTER_RETRY % 1000
    assert np.flatnonzero(terminated[:, 1]).tolist() == [3, 7]
    assert "1 of 1" in stderr()

    broken = partial(Faulty, where=("reset", 0), seeds=(SEED, SEED_AFTER_RETRY))
    obs, *_ = play(broken, 2, vectorization=vectorization, env_retries=2)
    assert obs[0, 1, 0] == seed_after(SEED_AFTER_RETRY) % 1000
    with pytest.raises(
        EnvironmentFailure, match=r"after 0 steps in all .*\. It had been created again 1 t"
    ):
        play(broken, 2, vectorization=vectorization, env_retries=1)


def test_making_is_tried_again(capsys):
    makes = []

    def make():
        makes.append(None)
        if len(makes) in (2, 4, 5):
            raise OSError("no licence left")
        return Faulty(seeds=None)

    def supervised(retries):
        makes.clear()
        makes.append(None)
        return SupervisedEnv(make, "it", retries, os.getpid())

    env = supervised(4)  # the second is the first one that is there
    env.reset(seed=0)
    *_, truncated, _ = [env.step(0) for _ in range(7)][-1]  # 4 and 5 could not be made
    assert truncated
    assert env.reset()[0][0] == seed_after(0) % 1000
    told = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[1] for line in told] == [
        "while it was made",
        "in step 7 of its episode",
        "while it was made",
        "while it was made",
    ]
    with pytest.raises(
        EnvironmentFailure, match=r"it raised OSError: no licence left, while it was"
    ):
        supervised(0)


def test_every_new_environment_has_another_seed():
    seeds = [[environment_seed(0, i) for i in range(20)]]
    for _ in range(19):
        seeds.append([seed_after(seed) for seed in seeds[-1]])
    assert len({seed for each in seeds for seed in each}) == 400


def test_a_seed_that_is_asked_for_is_used_by_the_new_environment_too():
    env = SupervisedEnv(Faulty, "it", 1, os.getpid())
    env.reset(seed=SEED)
    while not env.step(0)[3]:
        pass
    assert env.reset(seed=7)[0][0] == 7


def test_a_failure_is_replayed_with_the_actions():
    """Where the same actions lead to it again, a resumed run is where the other one was."""

    def make():
        return VectorEnv(Faulty, 2, env_retries=1)

    with make() as envs, make() as resumed:
        envs.log, resumed.log = ActionLog(envs), ActionLog(resumed)
        envs.reset()
        rows = [envs.step(np.array([0, 1])) for _ in range(10)]
        assert [lost(final_obs) for *_, final_obs in rows] == [[]] * 6 + [[1]] + [[]] * 3
        for i in range(2):
            resumed.log.set_env_state(i, envs.log.env_state(i))
        np.testing.assert_array_equal(resumed.log.replay(), rows[-1][0])
        assert resumed.log.strayed == {}


@every
def test_a_lost_episode_is_not_recorded(vectorization):
    """Environment 1 fails in the third step of its second episode."""

    def recording():
        return gym.wrappers.TransformReward(RecordEpisodeStatistics(Faulty()), lambda r: 10 * r)

    with VectorEnv(recording, 2, vectorization=vectorization, env_retries=1) as envs:
        envs.reset()
        for _ in range(12):
            envs.step(np.array([0, 1]))
        # Environment 0 ends after steps 4, 8 and 12, environment 1 after 4 and 11.
        expected = [(0, 4, 0), (4, 4, 1), (0, 4, 0), (4, 4, 1), (0, 4, 0)]
        assert envs.episodes.recorded == expected


def test_a_lost_episode_is_none_where_rewards_are_summed():
    """Environment 1 fails in step 7 of 9; its new episode ends in step 16."""
    *_, rew, terminated, truncated, final_obs = play(partial(Faulty, length=9), 18, env_retries=1)
    lost_steps = np.zeros((18, 2), bool)
    for t, last in enumerate(final_obs):
        lost_steps[t, lost(last)] = True
    assert np.argwhere(lost_steps).tolist() == [[6, 1]]
    counted = Episodes(2).count(rew, terminated | truncated, lost_steps)
    assert counted == dict(EpRet=[0, 0, 9], EpLen=[9, 9, 9], SuccessRate=[])


@every
def test_retries_that_are_not_needed_change_nothing(vectorization):
    make = lambda: gym.make("CartPole-v1")  # noqa: E731
    kwargs = dict(vectorization=vectorization, seed=5, max_ep_len=15)
    for ours, theirs in zip(
        play(make, 60, env_retries=3, **kwargs), play(make, 60, **kwargs), strict=True
    ):
        np.testing.assert_equal(ours, theirs)


# ------------------------------------------------------------------- processes of environments


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (dies, r"was killed by SIGKILL \(perhaps by the system, because memory ran out\)"),
        (partial(dies, signal.SIGSEGV), "was killed by SIGSEGV"),
        (partial(os._exit, 7), "ended with status 7"),
    ],
)
def test_a_process_that_dies_is_named(fault, told):
    envs = VectorEnv(partial(Faulty, fault), 3, vectorization="async", env_retries=3)
    envs.reset()
    for _ in range(6):
        envs.step(np.zeros(3, int))
    with pytest.raises(EnvironmentFailure) as failed:
        envs.step(np.zeros(3, int))
    message = str(failed.value)
    assert re.match(r"the process of environment 1 \(Faulty, .*\) " + told, message)
    assert f"(last seed: {SEED}), after 6 steps." in message
    started = time.monotonic()
    envs.close()
    assert time.monotonic() - started < 15
    assert not any(process.is_alive() for process in envs._groups[0][0].processes)


def test_a_process_that_dies_between_two_steps_is_named():
    with VectorEnv(Faulty, 3, vectorization="async") as envs:
        envs.reset()
        envs.step(np.zeros(3, int))
        process = envs._groups[0][0].processes[1]
        process.kill()
        process.join()
        with pytest.raises(EnvironmentFailure, match=r"environment 1 .*SIGKILL.* after 1 steps"):
            envs.step(np.zeros(3, int))


def test_an_environment_that_cannot_be_made_in_its_process(tmp_path, stderr):
    """The first two are made by this process, to look at."""

    def make():
        number = len(list(tmp_path.iterdir()))
        (tmp_path / str(number)).touch()
        if number >= 2:
            raise OSError("no display")
        return Faulty()

    with pytest.raises(
        EnvironmentFailure,
        match=r"environment 0 .* ended with status 1, after 0 s.* under if __name__ == '__main__'",
    ):
        VectorEnv(make, 1, vectorization="async")
    assert "environment 0 (Faulty, " in stderr()  # what the process itself said


def run_script(tmp_path, text):
    """Run a program that begins by making environments in two processes; returns its output."""
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import os
import signal
import time
import gymnasium as gym
import numpy as np
from spinup_tf2.core.vector_env import VectorEnv

if __name__ == "__main__":
    envs = VectorEnv(lambda: gym.make("CartPole-v1"), 2, vectorization="async")
    envs.reset()
    envs.step(np.zeros(2, int))
    print(*(process.pid for process in envs._groups[0][0].processes), flush=True)
    {text}
"""
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        [sys.executable, script],
        env=environment,
        capture_output=True,
        timeout=120,
        text=True,
        start_new_session=True,
    )


def test_signals_that_ask_a_run_to_stop_leave_its_environments_alone(tmp_path):
    """As a terminal or a batch system sends them, to all processes there are."""
    text = """
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, lambda *_: None)
        os.killpg(0, signum)
        time.sleep(0.2)
    for _ in range(100):
        envs.step(np.zeros(2, int))
    envs.close()
    print([process.exitcode for process in envs._groups[0][0].processes])
    """
    ended = run_script(tmp_path, text)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1] == "[0, 0]"


@pytest.mark.parametrize("ending", ["", "raise ValueError", "os.kill(os.getpid(), 9)"])
def test_no_process_is_left_behind(ending, tmp_path):
    """Also by a program that does not close its environments; nor multiprocessing's own ones."""
    family = "psutil.Process().children(recursive=True)"
    text = f"import psutil; print(*(process.pid for process in {family}), flush=True)"
    ended = run_script(tmp_path, f"{text}\n    {ending}")
    pids = [int(pid) for pid in ended.stdout.splitlines()[1].split()]
    assert len(pids) == 4  # two environments, the fork server and the resource tracker
    assert ended.stderr.count("Traceback") == ending.startswith("raise")
    deadline = time.monotonic() + 20  # they end when they notice
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_daemonic_process_may_start_no_others(monkeypatch):
    monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True))
    with pytest.raises(UserError, match=r"this process is daemonic.*vectorization='threads'"):
        VectorEnv(Faulty, 2, seed=0, vectorization="async")
