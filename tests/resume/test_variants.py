"""Runs with what is easily forgotten, stopped by a signal and resumed in the same process."""

import os
import re
import signal
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import spinup_tf2
from spinup_tf2 import user_config
from spinup_tf2.core import on_policy
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV
from spinup_tf2.errors import Interrupted, UserError
from tests import images  # noqa: F401  (registers Lamp-v0)
from tests.on_policy_runs import make
from tests.progress import rows_without_time
from tests.resume.killed import OFF_POLICY, ON_POLICY, assert_same, left_by

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def checkpoint_after_every_epoch(monkeypatch):
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0.0)


def train(algorithm, path, env_id, **kwargs):
    """Four epochs, unless `kwargs` say otherwise."""
    arguments = dict(epochs=4, save_freq=100, seed=5, ac_kwargs=dict(hidden_sizes=(8,))) | kwargs
    return getattr(spinup_tf2, algorithm)(
        make(env_id), **arguments, logger_kwargs=dict(output_dir=str(path), quiet=True)
    )


def stopped(monkeypatch, steps, testing=False):
    """`with stopped(...)`: a signal comes in this step of the training, or of the evaluations."""
    count, step = [0], VectorEnv.step

    def step_or_stop(self, act):
        if (self.indices.start >= FIRST_TEST_ENV) == testing:
            count[0] += 1
            if count[0] == steps:
                os.kill(os.getpid(), signal.SIGUSR1)
        return step(self, act)

    class Stopped:
        def __enter__(self):
            monkeypatch.setattr(VectorEnv, "step", step_or_stop)

        def __exit__(self, kind, error, _):
            monkeypatch.setattr(VectorEnv, "step", step)
            assert kind is Interrupted, f"was not stopped in step {steps}: {error!r}"
            assert error.signum == signal.SIGUSR1
            return True

    return Stopped()


PPO = ON_POLICY | dict(train_pi_iters=3)
PPG = ON_POLICY | dict(n_pi=3, minibatch_size=40, aux_minibatch_size=60, num_envs=2)
A2C = dict(num_envs=1, steps_per_epoch=160, n_steps=20, max_ep_len=50)


def imitate(t, obs):
    """A behavior_policy that depends on the step of the episode."""
    return t % 2 if t % 3 else None


# Name: algorithm, environment, arguments, step in which the signal comes, of an evaluation?
VARIANTS = {
    "penalty": ("ppo", "CartPole-v1", PPO | dict(objective="penalty", lr_schedule="linear"), 400),
    "normalized": (
        "ppo",
        "CartPole-v1",
        PPO
        | dict(normalize_obs=True, normalize_reward=True, minibatch_size=60, num_envs=3)
        | dict(steps_per_epoch=180, checkpoint_freq=3)
        | dict(recompute_adv=True, adv_normalization="minibatch", value_target="lambda_return"),
        130,
    ),
    "demonstrated": (
        "ppo",
        "CartPole-v1",
        PPO | dict(behavior_policy=imitate, num_envs=2, checkpoint_freq=2),
        130,
    ),
    "ppg between auxiliary phases": ("ppg", "CartPole-v1", PPG | dict(checkpoint_freq=2), 150),
    "memory": (
        "ppo",
        "CartPole-v1",
        PPO
        | dict(ac_kwargs=dict(hidden_sizes=(8,), memory="lstm", memory_size=6, seq_len=20))
        | dict(num_envs=2, minibatch_size=80, checkpoint_freq=3, behavior_policy=imitate),
        130,
    ),
    "memory in an evaluation": (
        "a2c",
        "CartPole-v1",
        A2C
        | dict(ac_kwargs=dict(hidden_sizes=(8,), memory="gru", memory_size=6), checkpoint_freq=3)
        | dict(num_test_episodes=1),
        30,
        True,
    ),
    "a2c in mid-epoch": ("a2c", "CartPole-v1", A2C | dict(checkpoint_freq=3), 250),
    "a2c at the first step of an epoch": ("a2c", "CartPole-v1", A2C, 321),
    "a2c in its first update": ("a2c", "CartPole-v1", A2C, 5),
    "ppo in an evaluation": (
        "ppo",
        "CartPole-v1",
        PPO | dict(num_test_episodes=2, test_freq=2, checkpoint_freq=3, num_envs=2),
        5,
        True,
    ),
    "sac in mid-epoch": (
        "sac",
        "Pendulum-v1",
        OFF_POLICY | dict(alpha="auto", checkpoint_freq=2, replay_size=200),
        410,
    ),
    "sac in an evaluation": (
        "sac",
        "Pendulum-v1",
        OFF_POLICY | dict(checkpoint_freq=3, num_envs=2, replay_size=190),
        50,
        True,
    ),
    "sac with choices": (
        "sac", "CartPole-v1", OFF_POLICY | dict(num_envs=3, steps_per_epoch=180), 130,
    ),
    "ddpg before its first update": ("ddpg", "Pendulum-v1", OFF_POLICY | dict(noise="ou"), 77),
    "td3 with correlated noise": ("td3", "Pendulum-v1", OFF_POLICY | dict(noise="ou"), 410),
    "dqn in mid-epoch": (
        "dqn",
        "CartPole-v1",
        OFF_POLICY | dict(checkpoint_freq=2, copy_every=7, num_updates=11, eps_steps=400),
        410,
    ),
    "images": (
        "sac",
        "Lamp-v0",
        OFF_POLICY
        | dict(steps_per_epoch=40, start_steps=10, update_after=20, batch_size=8, replay_size=50)
        | dict(num_test_episodes=1, max_ep_len=7, update_every=10, checkpoint_freq=2)
        | dict(ac_kwargs=dict(conv=((4, 8, 8),), hidden_sizes=(8,))),
        50,
    ),
}  # fmt: skip


STOPPED_TWICE = ["normalized", "memory", "a2c in mid-epoch", "sac in mid-epoch"]


@pytest.mark.parametrize("name", VARIANTS)
def test_stopped_and_resumed(tmp_path, monkeypatch, name):
    """Some are stopped once more after they have been resumed."""
    algorithm, env_id, kwargs, when, *testing = VARIANTS[name]
    kwargs = dict(kwargs, deterministic_resume=True)
    train(algorithm, tmp_path / "whole", env_id, **kwargs)
    with stopped(monkeypatch, when, *testing):
        train(algorithm, tmp_path / "stopped", env_id, **kwargs)
    if name in STOPPED_TWICE:
        with stopped(monkeypatch, when - 90):
            train(algorithm, tmp_path / "stopped", env_id, **kwargs, resume=True)
    train(algorithm, tmp_path / "stopped", env_id, **kwargs, resume=True)
    assert_same(left_by(tmp_path / "stopped"), left_by(tmp_path / "whole"))


@pytest.mark.parametrize("name", ["normalized", "a2c in mid-epoch", "sac in mid-epoch"])
def test_without_determinism_a_run_goes_on_with_new_episodes(tmp_path, monkeypatch, name):
    """All rows are there, and no interaction is counted twice."""
    algorithm, env_id, kwargs, when = VARIANTS[name]
    with stopped(monkeypatch, when):
        train(algorithm, tmp_path, env_id, **kwargs)
    train(algorithm, tmp_path, env_id, **kwargs, resume=True)
    header, *rows = rows_without_time(tmp_path / "progress.txt")
    interactions = [int(row[header.index("TotalEnvInteracts")]) for row in rows]
    assert interactions == [kwargs["steps_per_epoch"] * (i + 1) for i in range(4)]


class Clock(gym.Env):
    """Episodes of ten steps, each worth 1."""

    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == 10, False, {}


@pytest.mark.parametrize("algorithm", ["a2c", "sac"])
@pytest.mark.parametrize("deterministic_resume", [False, True])
def test_episodes_that_are_cut_are_not_counted(
    tmp_path, monkeypatch, algorithm, deterministic_resume
):
    """45 steps make an epoch; the stop comes in the 28th or 23rd step of the second of three.

    An episode that goes on after a checkpoint would be longer than ten steps if something of what
    came before had been forgotten, or were counted twice.
    """
    kwargs = dict(ac_kwargs=dict(hidden_sizes=(4,)), seed=0, epochs=3, steps_per_epoch=45)
    if algorithm == "a2c":
        kwargs |= dict(num_envs=1, n_steps=9)
    else:
        kwargs |= dict(start_steps=10, update_after=20, update_every=1, batch_size=4)
        kwargs |= dict(num_test_episodes=0)
    kwargs |= dict(deterministic_resume=deterministic_resume, checkpoint_freq=3)
    kwargs |= dict(logger_kwargs=dict(output_dir=str(tmp_path), quiet=True))
    with stopped(monkeypatch, 45 + 28):
        getattr(spinup_tf2, algorithm)(Clock, **kwargs)
    getattr(spinup_tf2, algorithm)(Clock, **kwargs, resume=True)
    header, *rows = rows_without_time(tmp_path / "progress.txt")
    assert len(rows) == 3
    for row in rows:
        row = dict(zip(header, row, strict=True))
        assert (row["MaxEpRet"], row["MinEpRet"], row["EpLen"]) == ("10.0", "10.0", "10.0")


# -------------------------------------------------------------------------- what may change


def test_a_run_can_be_made_longer(tmp_path):
    """With checkpoint_freq 4, the end of the shorter run is not where episodes start again."""
    kwargs = dict(PPO, deterministic_resume=True, checkpoint_freq=4)
    train("ppo", tmp_path / "whole", "CartPole-v1", **kwargs, epochs=6)
    train("ppo", tmp_path / "longer", "CartPole-v1", **kwargs, epochs=3)
    train("ppo", tmp_path / "longer", "CartPole-v1", **kwargs, epochs=6, resume=True)
    assert_same(left_by(tmp_path / "longer"), left_by(tmp_path / "whole"))


def test_a_finished_run_stays_finished(tmp_path):
    train("a2c", tmp_path, "CartPole-v1", **A2C)
    before = left_by(tmp_path)
    train("a2c", tmp_path, "CartPole-v1", **A2C, epochs=4, resume=True)
    assert_same(left_by(tmp_path), before)
    with pytest.raises(UserError, match=r"epochs is 2, and the run in .* has 4 behind it"):
        train("a2c", tmp_path, "CartPole-v1", **A2C, epochs=2, resume=True)
    assert_same(left_by(tmp_path), before)


def test_what_is_not_there_begins(tmp_path):
    train("a2c", tmp_path / "whole", "CartPole-v1", **A2C)
    train("a2c", tmp_path / "run", "CartPole-v1", **A2C, resume=True)
    assert_same(left_by(tmp_path / "run"), left_by(tmp_path / "whole"))


def test_the_best_weights_are_those_of_the_best_epoch(tmp_path, monkeypatch):
    """The score of an epoch belongs to the policy that acted in it, before its update."""
    made, acted = [], []
    make_actor_critic, collect = on_policy.make_actor_critic, on_policy.collect

    def remember_networks(*args):
        made.append(make_actor_critic(*args))
        return made[-1]

    def remember_weights(*args):
        acted.append([each.numpy() for each in made[-1].variables])
        return collect(*args)

    monkeypatch.setattr(on_policy, "make_actor_critic", remember_networks)
    monkeypatch.setattr(on_policy, "collect", remember_weights)
    kwargs = dict(PPO, pi_lr=0.1)  # so that it gets better and worse
    with stopped(monkeypatch, 5 * 160 + 1):
        train("ppo", tmp_path, "CartPole-v1", **kwargs, epochs=8)
    acted.pop()  # the epoch that was stopped
    train("ppo", tmp_path, "CartPole-v1", **kwargs, epochs=8, resume=True)
    header, *rows = rows_without_time(tmp_path / "progress.txt")
    scores = [float(row[header.index("AverageEpRet")]) for row in rows]
    assert len(scores) == len(acted) == 8
    best = int(np.argmax(scores))
    state = left_by(tmp_path)
    score = pytest.approx(scores[best], rel=1e-6)  # progress.txt has eight digits
    assert state["counters"]["best"] == dict(score=score, success=0.0, epoch=best)
    assert 0 < best < 7  # neither the first nor the last
    for i, weight in enumerate(acted[best]):
        assert state[f"rank0.npz: best/{i}"][2] == weight.tobytes()


def test_the_resume_command_is_for_what_commands_can_start(tmp_path, monkeypatch, capsys):
    """Only the program knows its own environment function, or how it has named the rows."""
    with stopped(monkeypatch, 5):
        train("a2c", tmp_path / "python", "CartPole-v1", **A2C)
    assert f"same call and resume=True; it is in {tmp_path}/python" in capsys.readouterr().out

    from spinup_tf2.utils.run_utils import EnvFn

    logger_kwargs = dict(output_dir=str(tmp_path / "a run"), quiet=True)
    with stopped(monkeypatch, 5):
        spinup_tf2.a2c(EnvFn("CartPole-v1"), **A2C, logger_kwargs=logger_kwargs)
    command = re.search(r"python -m spinup_tf2.run resume (.*)", capsys.readouterr().out)
    assert command[1] == f"'{tmp_path}/a run'"
    named = logger_kwargs | dict(output_dir=str(tmp_path / "named"), output_fname="rows.txt")
    with stopped(monkeypatch, 5):
        spinup_tf2.a2c(EnvFn("CartPole-v1"), **A2C, logger_kwargs=named)
    assert f"same call and resume=True; it is in {tmp_path}/named" in capsys.readouterr().out


def test_the_resume_command_names_the_module_of_an_own_environment(tmp_path, monkeypatch, capsys):
    from spinup_tf2.utils.run_utils import EnvFn

    (tmp_path / "own_carts.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('OwnCart-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    logger_kwargs = dict(output_dir=str(tmp_path / "run"), quiet=True)
    with stopped(monkeypatch, 5):
        spinup_tf2.a2c(EnvFn("own_carts:OwnCart-v0"), **A2C, logger_kwargs=logger_kwargs)
    assert f"resume {tmp_path}/run --import own_carts\n" in capsys.readouterr().out


# -------------------------------------------------------------------------- what is refused


def contents(folder: Path):
    """Every file below `folder`, byte by byte."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def narrower():
    """CartPole whose observations have other bounds, although it is made the same way."""
    env = gym.make("CartPole-v1")
    env.observation_space = gym.spaces.Box(-100, 100, (4,), np.float32)
    return env


def test_another_run_is_refused_and_the_directory_stays_as_it_was(tmp_path, monkeypatch):
    run_dir = tmp_path / "run"
    with stopped(monkeypatch, 250):
        train("a2c", run_dir, "CartPole-v1", **A2C)
    before = contents(run_dir)

    def refused(match, algorithm="a2c", env_fn=None, **kwargs):
        arguments = dict(A2C if algorithm == "a2c" else ON_POLICY, epochs=4, save_freq=100, seed=5)
        arguments |= dict(ac_kwargs=dict(hidden_sizes=(8,)), resume=True)
        with pytest.raises(UserError, match=match):
            getattr(spinup_tf2, algorithm)(
                env_fn or make(), **arguments | kwargs, logger_kwargs=dict(output_dir=str(run_dir))
            )
        assert contents(run_dir) == before

    refused("algorithm was 'a2c' and is now 'vpg'", "vpg")
    refused("environment was .*CartPole-v1.* and is now .*CartPole-v0", env_fn=make("CartPole-v0"))
    refused("environment was .* and is now .*MountainCar", env_fn=make("MountainCar-v0"))
    refused("observation space was .* and is now .*100", env_fn=narrower)
    refused("networks was .*8.* and is now .*16", ac_kwargs=dict(hidden_sizes=(16,)))
    refused("networks was", ac_kwargs=dict(hidden_sizes=(8, 8)))
    refused("ac_kwargs was", ac_kwargs=dict(hidden_sizes=(8,), activation="relu"))
    refused("gamma was 0.99 and is now 0.9", gamma=0.9)
    refused("seed was 5 and is now 6", seed=6)
    refused("n_steps was 20 and is now 40", n_steps=40)
    refused("deterministic_resume was False and is now True", deterministic_resume=True)
    refused(r"has 1 environments, and this would have 2 \(2 in each of 1", num_envs=2)
    refused("already holds a run", resume=False)

    train("a2c", run_dir, "CartPole-v1", **A2C, resume=True)  # it could have gone on all the time


def test_a_run_without_checkpoint_is_refused(tmp_path):
    train("a2c", tmp_path, "CartPole-v1", **A2C, checkpoint_freq=0)
    before = contents(tmp_path)
    with pytest.raises(UserError, match="holds a run without checkpoints"):
        train("a2c", tmp_path, "CartPole-v1", **A2C, resume=True)
    assert contents(tmp_path) == before


def test_the_moments_of_new_episodes_cannot_change(tmp_path):
    kwargs = dict(A2C, deterministic_resume=True)
    train("a2c", tmp_path, "CartPole-v1", **kwargs)
    with pytest.raises(UserError, match="checkpoint_freq was 1 and is now 2"):
        train("a2c", tmp_path, "CartPole-v1", **kwargs, checkpoint_freq=2, resume=True)
