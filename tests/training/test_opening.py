"""How every run begins, wherever its environments go, and on how many ranks it does."""

import os
import random
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import trpo, user_config, vpg
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.training import opening
from spinup_tf2.training.run import Run
from tests.fake_mpi import run_ranks

VPG = dict(steps_per_epoch=20, train_v_iters=1, ac_kwargs=dict(hidden_sizes=(4,)))


class Wanderer(gym.Wrapper):
    """An environment that changes the current directory, when it is made or when it is reset."""

    def __init__(self, env, directory, when):
        super().__init__(env)
        self.directory, self.when = directory, when
        if when == "made":
            os.chdir(directory)

    def reset(self, **kwargs):
        if self.when == "reset":
            os.chdir(self.directory)
        return super().reset(**kwargs)


@pytest.mark.parametrize("when", ["made", "reset"])
def test_a_run_stays_where_it_began(tmp_path, monkeypatch, when):
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0.0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    logger_kwargs = dict(output_dir=Path("data", "run"), quiet=True)
    for epochs, resume in ((1, False), (2, True)):
        monkeypatch.chdir(tmp_path)
        vpg(
            lambda: Wanderer(gym.make("CartPole-v1"), elsewhere, when),
            **dict(VPG, epochs=epochs, resume=resume, logger_kwargs=logger_kwargs),
        )
        assert Path.cwd() == elsewhere
    assert [*elsewhere.iterdir()] == []
    run = tmp_path / "data" / "run"
    assert len((run / "progress.txt").read_text().splitlines()) == 3
    there = {path.name for path in run.iterdir()}
    assert there >= {"config.json", "env_spec.json", "checkpoint", "tf2_save"}
    assert "lock" not in "".join(there).lower()


def ranks_of(tmp_path, **different):
    """A run on three ranks; `different` are arguments of the last one."""

    def rank():
        arguments = dict(VPG, epochs=1, steps_per_epoch=60, env_fn=lambda: gym.make("CartPole-v1"))
        if proc_id() == 0:
            logger_kwargs = dict(output_dir=str(tmp_path / "run"), quiet=True, overwrite=True)
            arguments["logger_kwargs"] = logger_kwargs
        algorithm = different.get("algorithm", vpg)
        if proc_id() == 2:
            arguments |= {name: x for name, x in different.items() if name != "algorithm"}
            return algorithm(**arguments)
        return vpg(**arguments)

    return run_ranks(3, rank)


@pytest.mark.parametrize(
    ("different", "message"),
    [
        (dict(seed=1), "seed is 0 on rank 0 and 1 on rank 2"),
        (dict(epochs=2), "epochs is 1 on rank 0 and 2 on rank 2"),
        (dict(resume=True), "resume is false on rank 0 and true on rank 2"),
        (dict(num_envs=2), "num_envs is 1 on rank 0 and 2 on rank 2"),
        (dict(env_fn="CartPole-v1"), 'env_name is null on rank 0 and "CartPole-v1" on rank 2'),
        (
            dict(ac_kwargs=dict(hidden_sizes=(4,), activation="relu")),
            r'ac_kwargs is {"hidden_sizes": \[4\]} on rank 0 and {"activation": "relu", ',
        ),
        (
            dict(env_fn=lambda: gym.make("Acrobot-v1")),
            r"shapes of the networks' variables is \[\[4, 4\].* and \[\[6, 4\]",
        ),
        (dict(algorithm=trpo), 'algorithm is "vpg" on rank 0 and "trpo" on rank 2'),
    ],
)
def test_ranks_must_have_the_same_arguments(tmp_path, different, message):
    with pytest.raises(UserError, match=f"^the processes .*: {message}.* Start all"):
        ranks_of(tmp_path, **different)
    assert not (tmp_path / "run").exists()


class Networks(MLPActorCritic):
    """Of another name on a rank."""


def test_ranks_may_have_what_is_their_own(tmp_path):
    callbacks = [type("Callback", (), dict(on_start=lambda self, run: None))()]
    own = dict(callbacks=callbacks, vectorization="threads", track=["tensorboard"])
    for _ in range(2):  # the second run replaces the first
        ranks_of(tmp_path, **own, logger_kwargs={})
    with pytest.raises(UserError, match=r'is "MLPActorCritic" .* "Networks" on rank 2'):
        ranks_of(tmp_path, actor_critic=Networks)


# -------------------------------------------------------------------------- runs that are replaced


class DoesNotStart:
    def on_start(self, run):
        raise RuntimeError("not today")


def replaced_by(path, **kwargs):
    """Train in the place of the run in `path`."""
    logger_kwargs = dict(output_dir=str(path), quiet=True, overwrite=True)
    vpg("CartPole-v1", **dict(VPG, epochs=1) | kwargs, logger_kwargs=logger_kwargs)


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("begins", [True, False])
def test_a_run_that_is_replaced_lies_beside_the_new_one(tmp_path, begins):
    """Also if that cannot begin, of which nothing is left. What is not a run's own stays."""
    run = tmp_path / "run"
    replaced_by(run, epochs=2)
    (run / "notes.txt").write_text("mine")
    (run / "videos").mkdir()
    before = contents(run)
    if not begins:
        with pytest.raises(RuntimeError, match="not today"):
            replaced_by(run, callbacks=[DoesNotStart()], track=["tensorboard"])
        assert [path.name for path in run.iterdir()] == ["notes.txt"]
    else:
        replaced_by(run, seed=1)
        assert (run / "progress.txt").exists()
    [aside] = tmp_path.glob("run.old-*")
    before.pop(run / "notes.txt")
    assert contents(aside) == {aside / path.relative_to(run): x for path, x in before.items()}
    assert (run / "notes.txt").read_text() == "mine"


def test_a_run_is_read_on_all_ranks_before_it_is_replaced(tmp_path, monkeypatch):
    run, there = tmp_path / "run", []
    replaced_by(run)
    gather = opening.gather_objects
    monkeypatch.setattr(
        opening,
        "gather_objects",
        lambda x: there.append(run.joinpath("tf2_save").exists()) or gather(x),
    )
    replaced_by(run, init_from=str(run))
    assert there == [True]


def test_global_generators_repeat_neither_another_rank_nor_what_was_before(tmp_path, monkeypatch):
    class Draws:
        def on_start(self, run):
            drawn.append((random.random(), np.random.random()))  # noqa: NPY002

    def train(rank=0, **kwargs):
        monkeypatch.setattr(opening, "proc_id", lambda: rank)
        logger_kwargs = dict(output_dir=str(tmp_path / f"{rank}"), quiet=True)
        vpg("CartPole-v1", **VPG, callbacks=[Draws()], logger_kwargs=logger_kwargs, **kwargs)

    drawn = []
    train(epochs=1)
    train(epochs=2, resume=True)
    train(rank=1, epochs=1)
    assert [len({*each}) for each in zip(*drawn, strict=True)] == [3, 3]


class Restless(gym.Env):
    """Its observations are random, whatever its seed."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng().uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return *self.reset()[:1], 0.0, False, False, {}


@pytest.fixture
def restless():
    gym.register("Restless-v0", entry_point=Restless)
    yield
    del gym.registry["Restless-v0"]


def pendulum(wrapper=lambda env: env, **attributes):
    def make():
        env = gym.make("Pendulum-v1")
        for name, value in attributes.items():
            setattr(env.unwrapped, name, value)
        return wrapper(env)

    return make


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize(
    ("env_fn", "said"),
    [
        (pendulum(g=0.0), True),
        (pendulum(), False),
        (EnvFn("Pendulum-v1"), False),
        (pendulum(lambda env: gym.wrappers.ClipReward(env, -1)), False),
        (pendulum(lambda env: gym.wrappers.TransformReward(env, lambda r: 2 * r)), False),
        (lambda: gym.make("Restless-v0"), False),
    ],
)
def test_an_environment_that_is_not_built_again_as_it_was_is_named(
    tmp_path, capsys, monkeypatch, env_fn, said
):
    """One that cannot be built again is refused later, by whoever tries to."""
    monkeypatch.setattr(Run, "epochs", lambda self: iter(()))  # nothing is trained
    vpg(env_fn, **VPG, epochs=1, logger_kwargs=dict(output_dir=str(tmp_path)))
    message = "in step 1 it answers differently, so that returns and videos will be those of"
    assert (message in capsys.readouterr().out) == said
