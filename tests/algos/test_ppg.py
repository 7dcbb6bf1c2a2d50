"""Phasic policy gradient: PPO as its policy phase, and the auxiliary phase."""

import os
import signal
from types import SimpleNamespace

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2 import ppg, ppo, user_config
from spinup_tf2.algos import ppg as module
from spinup_tf2.algos.ppg import PhaseMemory, auxiliary_loss
from spinup_tf2.callbacks import Callback
from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.nets.heads import FrozenPolicy
from spinup_tf2.errors import Interrupted, UserError
from tests import images  # noqa: F401  (registers Lamp-v0)
from tests import on_policy_runs as runs
from tests.fake_mpi import run_ranks
from tests.on_policy_runs import make

SMALL = dict(minibatch_size=50, aux_minibatch_size=40, ac_kwargs=dict(hidden_sizes=(8,)))
ARCHS = ("dual", "shared", "detach")


def train(path, env_fn=None, **kwargs):
    """A run of four epochs of 200 steps, with an auxiliary phase after the second and the last."""
    return runs.train(ppg, path, env_fn, **{**SMALL, "epochs": 4, "n_pi": 2, **kwargs})


def without_time(rows):
    return [{key: x for key, x in row.items() if key != "Time"} for row in rows]


# ---------------------------------------------------------------------------- the policy phase


@pytest.mark.parametrize(("arch", "env_id"), [("dual", "Pendulum-v1"), ("shared", "CartPole-v1")])
def test_without_an_auxiliary_phase_it_is_ppo(tmp_path, arch, env_id):
    """Bit for bit, with the same arguments; aux_minibatch_size does not matter then."""
    same = dict(gamma=0.99, lam=0.95, pi_lr=1e-3, vf_lr=1e-3, train_pi_iters=3, train_v_iters=2)
    same |= dict(ent_coef=0.01, minibatch_size=50, normalize_reward=True, epochs=3, seed=1)
    network = dict(hidden_sizes=(8,), shared=arch == "shared")
    same |= dict(ac_kwargs=network, env_fn=make(env_id))
    unused = dict(train_aux_iters=0, aux_minibatch_size=7)
    ours, our_rows = train(tmp_path / "ppg", **same, **unused, arch=arch)
    of_ppo = dict(value_target="lambda_return", target_kl=None, **same)
    theirs, their_rows = runs.train(ppo, tmp_path / "ppo", **of_ppo)
    for one, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    for row in their_rows:
        assert row.pop("StopIter") == "2"
    assert without_time(our_rows) == without_time(their_rows)


def test_detached_values_do_not_change_the_policy(tmp_path):
    """Only their own output is trained in the policy phase; shared, they move the policy."""

    def moved(arch):
        rates = dict(pi_lr=lr[arch], vf_lr=1e-2)
        ac, _ = train(tmp_path / arch, arch=arch, epochs=1, train_aux_iters=0, **rates)
        rates = dict(pi_lr=0, vf_lr=0)
        start, _ = train(tmp_path / f"{arch}0", arch=arch, epochs=1, train_aux_iters=0, **rates)
        return [
            any(not np.array_equal(a, b) for a, b in zip(x.variables, y.variables, strict=True))
            for x, y in ((ac.pi, start.pi), (ac.v, start.v))
        ]

    lr = dict(detach=0.0, shared=1e-2)
    assert moved("detach") == [False, True]
    assert moved("shared") == [True, True]


# ------------------------------------------------------------------------- the auxiliary phase


def test_columns_are_blank_where_there_is_no_phase(tmp_path):
    _, rows = train(tmp_path, arch="detach", epochs=5)
    for name in ("AuxLossV", "AuxLossVPi", "AuxKL"):
        assert [bool(row[name]) for row in rows] == [False, True, False, True, False]


@pytest.mark.parametrize("arch", ARCHS)
def test_later_passes_diverge(tmp_path, arch):
    """With one minibatch in each. The first, below, sees the policy that was frozen."""
    whole = dict(aux_minibatch_size=400, epochs=2, aux_lr=1e-2)
    _, rows = train(tmp_path, arch=arch, train_aux_iters=3, **whole)
    assert float(rows[1]["AuxKL"]) > 1e-6


def test_a_frozen_policy_is_what_it_was():
    space = spaces.Box(-1, 1, (3,), np.float32)
    ac = MLPActorCritic(space, spaces.Box(-1, 1, (2,), np.float32), hidden_sizes=(8,))
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    before, frozen = ac.pi(obs), FrozenPolicy(ac.pi)
    for variable in ac.pi.variables:
        variable.assign(variable + 0.1)
    old, now = tf.function(frozen)(obs), ac.pi(obs)
    np.testing.assert_allclose(old.mean(), before.mean(), rtol=1e-6)
    np.testing.assert_allclose(old.stddev(), before.stddev(), rtol=1e-6)
    assert not np.allclose(old.mean(), now.mean())
    frozen.freeze()
    np.testing.assert_array_equal(frozen(obs).mean(), now.mean())


def test_without_value_terms_the_policy_does_not_change():
    """The gradient of KL(pi_old || pi) is 0 where pi is pi_old."""
    space = spaces.Box(-1, 1, (3,), np.float32)
    ac = MLPActorCritic(space, spaces.Discrete(4), hidden_sizes=(8,))
    obs = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    ac.pi(obs)  # so that it has its variables
    frozen, zero = FrozenPolicy(ac.pi), tf.zeros(64)

    def loss(batch):
        kl = frozen(batch["obs"]).kl_divergence(ac.pi(batch["obs"]))
        return auxiliary_loss(kl, [zero], zero, 1.0)

    steps = GradientSteps(loss, ac.pi.trainable_variables, keras.optimizers.SGD(1.0), 1)
    before = [variable.numpy() for variable in ac.pi.variables]
    for _ in range(5):
        steps.step(dict(obs=tf.constant(obs)))
    for old, now in zip(before, ac.pi.variables, strict=True):
        np.testing.assert_allclose(now, old, atol=1e-6)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_phase_by_hand(tmp_path, monkeypatch, arch):
    """One step of gradient descent on all experience of two epochs, in NumPy."""
    stored, at_start, optimizer = [], {}, keras.optimizers.SGD(0.1)
    step = GradientSteps.step

    def remember(steps, batch):
        at_start["weights"] = [variable.numpy() for variable in steps.trained]
        stored.append({name: x.numpy() for name, x in batch.items()})
        return step(steps, batch)

    monkeypatch.setattr(GradientSteps, "step", remember)
    made = module.adam
    monkeypatch.setattr(module, "adam", lambda lr: optimizer if lr == 0.25 else made(lr))
    whole = dict(epochs=2, train_aux_iters=1, aux_minibatch_size=400, aux_lr=0.25)
    ac, rows = train(tmp_path, arch=arch, beta_clone=3.0, **whole)
    [batch] = stored
    assert float(rows[1]["AuxKL"]) == 0

    kernels = iter(at_start["weights"])
    weights = [[next(kernels), next(kernels)] for _ in range(len(at_start["weights"]) // 2)]
    hidden, to_act, *values = weights  # of v: own hidden layer and output, then V_aux's output

    def features(layer):
        return np.tanh(batch["obs"] @ layer[0] + layer[1])

    def value(x, layer):
        return (x @ layer[0] + layer[1])[:, 0]

    x, ret = features(hidden), batch["ret"]
    errors = {}
    if arch == "dual":
        own_hidden, own_output, aux_output = values
        errors["AuxLossV"] = np.mean((value(features(own_hidden), own_output) - ret) ** 2)
        aux_error = value(x, aux_output) - ret
    else:
        [aux_output] = values
        aux_error = value(x, aux_output) - ret
        errors["AuxLossV"] = np.mean(aux_error**2)
    errors["AuxLossVPi"] = np.mean(aux_error**2)
    logged = {name: float(rows[1][name]) for name in errors}
    assert logged == pytest.approx(errors, rel=1e-4)

    # d loss / d (output's kernel) = E[error x]; that of the policy's output is 0, as KL is at 0.
    kernel = aux_output[0] - 0.1 * np.mean(aux_error[:, None] * x, axis=0)[:, None]
    trained = [variable.numpy() for variable in ac.trainable_variables]
    if arch != "dual":
        np.testing.assert_allclose(trained[-2], kernel, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(trained[2], to_act[0], atol=1e-6)
    back = aux_error[:, None] * aux_output[0][:, 0] * (1 - x**2)  # d loss / d (before tanh) * 400
    expected = hidden[0] - 0.1 * batch["obs"].T @ back / 400
    np.testing.assert_allclose(trained[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Lamp-v0"])
def test_the_memory_holds_what_updates_have_seen(tmp_path, monkeypatch, env_id):
    seen, kept, store = [], [], PhaseMemory.store

    def spy(memory, obs, ret):
        seen.append((obs.copy(), ret.copy()))
        store(memory, obs, ret)
        if memory.full:
            kept.append(memory.rows(np.arange(2 * len(ret))))

    monkeypatch.setattr(PhaseMemory, "store", spy)
    network = dict(hidden_sizes=(8,))
    if env_id == "Lamp-v0":
        network |= dict(conv=((4, 8, 8),))
    small = dict(steps_per_epoch=40, num_envs=2, minibatch_size=20, aux_minibatch_size=20)
    train(tmp_path, make(env_id), epochs=2, max_ep_len=7, **small, ac_kwargs=network)
    [rows] = kept
    np.testing.assert_array_equal(rows["obs"], np.concatenate([obs for obs, _ in seen]))
    np.testing.assert_array_equal(rows["ret"], np.concatenate([ret for _, ret in seen]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_the_memory_returns_and_restores_what_was_stored(dtype, batches):
    """Of images bytes, of all else float32, whatever the environment's own numbers are."""
    rng, shape = np.random.default_rng(0), (40, 36, 3) if dtype is np.uint8 else (5,)
    space = spaces.Box(0, 9, shape, dtype)
    obs = rng.integers(9, size=(4 * 12, 3, *shape)).astype(
        np.uint8 if len(shape) == 3 else np.float32
    )
    ret = rng.normal(size=(4 * 12, 3)).astype(np.float32)
    memory, other = PhaseMemory(4, 12, 3, space), PhaseMemory(4, 12, 3, space)
    for k in range(4):
        batch = slice(k * 12, (k + 1) * 12)
        if k == batches:
            for i in range(3):
                other.set_env_state(i, memory.env_state(i))
        for each in [memory, other] if k >= batches else [memory]:
            each.store(obs[batch].reshape(-1, *shape), ret[batch].reshape(-1))
    index = rng.permutation(4 * 12 * 3)
    for each in (memory, other):
        assert each.full
        rows = each.rows(index)
        assert rows["obs"].dtype == obs.dtype
        np.testing.assert_array_equal(rows["obs"], obs.reshape(-1, *shape)[index])
        np.testing.assert_array_equal(rows["ret"], ret.reshape(-1)[index])


# ------------------------------------------------------------------------------------ resuming


def test_resumed_in_the_middle_of_an_auxiliary_phase(tmp_path, monkeypatch):
    """Signals come in three of the 60 gradient steps of a phase; all goes on bit for bit."""
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0.0)
    kwargs = dict(arch="dual", num_envs=2, seed=3, deterministic_resume=True)
    whole, rows = train(tmp_path / "whole", **kwargs, callbacks=[judged := Judged()])
    step, count = GradientSteps.step, [0]

    def step_or_stop(self, batch):
        count[0] += 1
        if count[0] in (1, 14, 60):
            os.kill(os.getpid(), signal.SIGUSR1)
        return step(self, batch)

    monkeypatch.setattr(GradientSteps, "step", step_or_stop)
    kwargs["callbacks"] = [then := Judged()]
    for resume in (False, True, True):
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", **kwargs, resume=resume)
    resumed, resumed_rows = train(tmp_path / "stopped", **kwargs, resume=True)
    assert count[0] == 2 * 60  # no step was taken twice
    assert without_time(resumed_rows) == without_time(rows)
    for one, other in zip(whole.variables, resumed.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(judged.weights) == len(then.weights) == 4
    for each, others in zip(judged.weights, then.weights, strict=True):
        for one, other in zip(each, others, strict=True):
            np.testing.assert_array_equal(one, other)


class Judged(Callback):
    """Keeps the weights that have been judged in each epoch."""

    def __init__(self):
        self.weights = []

    def on_epoch_end(self, run, row):
        self.weights.append(run.best.acting)


def test_resumed_in_the_middle_of_an_auxiliary_phase_by_more_processes(tmp_path, monkeypatch):
    """The second one has nothing stored of the epoch that is complete."""
    step = GradientSteps.step

    def step_or_stop(self, batch):
        os.kill(os.getpid(), signal.SIGUSR1)
        return step(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(GradientSteps, "step", step_or_stop)
        with pytest.raises(Interrupted):
            train(tmp_path, num_envs=2)
    [rows, _] = run_ranks(2, lambda: train(tmp_path, num_envs=1, resume=True)[1])
    assert [row["Epoch"] for row in rows] == ["0", "1", "2", "3"]


def test_ranks_begin_with_the_same_value_output_of_the_policy(tmp_path):
    """Keras draws its weights, from what other things in a process have drawn from as well."""
    [rows, _] = run_ranks(2, lambda: train(tmp_path, num_envs=1, save_freq=1)[1])
    assert any(row["AuxKL"] for row in rows)  # with a phase, after which ranks are compared


def test_a_memory_that_does_not_fit_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(UserError, match="Use a smaller n_pi"):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()
