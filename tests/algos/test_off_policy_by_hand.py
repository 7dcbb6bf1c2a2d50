"""The off-policy algorithms: a run's updates once more, slowly, and what they are made of."""

from collections import Counter
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training.saver import export_meta_graph

from spinup_tf2 import ddpg, dqn, sac, td3
from spinup_tf2.core.update_block import UpdateBlock
from tests.off_policy_runs import (
    CHOICES,
    OFF_POLICY,
    UNEQUAL_BOUNDS,
    Adam,
    Restless,
    assert_all_close,
    assert_all_moved,
    dense,
    followed,
    gradient,
    halves,
    minibatches,
    q_of,
    record,
    train,
    two_blocks_of_seven,
    values,
)


def policy(params, obs):
    return tf.tanh(dense(params, obs))


def test_updates_of_ddpg_by_hand(tmp_path, monkeypatch):
    kwargs = dict(pi_lr=0.01, q_lr=0.02)
    recorded, _ = two_blocks_of_seven(ddpg, tmp_path / "run", monkeypatch, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam = dict(start), Adam(0.01), Adam(0.02)
    for _, batches, info, after in recorded.blocks:
        for j, b in enumerate(minibatches(batches)):
            next_act = policy(now["target_pi"], b.next_obs)
            backup = b.rew + 0.9 * (1 - b.terminated) * q_of(now["target_q"], b.next_obs, next_act)
            np.testing.assert_allclose(info["QVals"][j], q_of(now["q"], b.obs, b.act), atol=1e-5)

            def loss_q(q, b=b, backup=backup):
                return tf.reduce_mean((q_of(q, b.obs, b.act) - backup) ** 2)

            def loss_pi(pi, b=b):
                return -tf.reduce_mean(q_of(now["q"], b.obs, policy(pi, b.obs)))

            loss, grads = gradient(loss_q, now["q"])
            assert info["LossQ"][j] == pytest.approx(loss, abs=1e-5)
            now["q"] = q_adam(now["q"], grads)
            loss, grads = gradient(loss_pi, now["pi"])  # of the Q-function after its step
            assert info["LossPi"][j] == pytest.approx(loss, abs=1e-5)
            now["pi"] = pi_adam(now["pi"], grads)
            now["target_pi"] = followed(now["target_pi"], now["pi"], 0.8)
            now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert_all_close(after, now)
    assert_all_moved(start, now)


def test_updates_of_td3_by_hand(tmp_path, monkeypatch):
    """Policy and targets move in every third update of all fourteen of two blocks."""
    kwargs = dict(pi_lr=0.01, q_lr=0.02, policy_delay=3)
    kwargs |= dict(target_noise=0.4, noise_clip=0.3)
    recorded, _ = two_blocks_of_seven(td3, tmp_path / "run", monkeypatch, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam = dict(start), Adam(0.01), Adam(0.02)
    for block, (_, batches, info, after) in enumerate(recorded.blocks):
        assert (np.abs(0.4 * batches["target_noise"]) > 0.3).any()
        loss_pi_of = iter(info["LossPi"])
        for j, b in enumerate(minibatches(batches)):
            noise = np.clip(0.4 * b.target_noise, -0.3, 0.3)
            next_act = np.clip(policy(now["target_pi"], b.next_obs) + noise, -1, 1)
            next_q = [q_of(q, b.next_obs, next_act) for q in halves(now["target_q"])]
            backup = b.rew + 0.9 * (1 - b.terminated) * np.minimum(*next_q)

            def loss_q(params, b=b, backup=backup):
                errors = [q_of(q, b.obs, b.act) - backup for q in halves(params)]
                return sum(tf.reduce_mean(error**2) for error in errors)

            def loss_pi(pi, b=b):
                return -tf.reduce_mean(q_of(halves(now["q"])[0], b.obs, policy(pi, b.obs)))

            for name, q in zip(("Q1Vals", "Q2Vals"), halves(now["q"]), strict=True):
                np.testing.assert_allclose(info[name][j], q_of(q, b.obs, b.act), atol=1e-5)
            loss, grads = gradient(loss_q, now["q"])
            assert info["LossQ"][j] == pytest.approx(loss, abs=1e-5)
            now["q"] = q_adam(now["q"], grads)
            if (7 * block + j) % 3 == 0:
                loss, grads = gradient(loss_pi, now["pi"])
                assert next(loss_pi_of) == pytest.approx(loss, abs=1e-5)
                now["pi"] = pi_adam(now["pi"], grads)
                now["target_pi"] = followed(now["target_pi"], now["pi"], 0.8)
                now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert not [*loss_pi_of]
        assert_all_close(after, now)
    assert_all_moved(start, now)


def test_the_policy_learns_equally_often_in_blocks_of_an_odd_size(tmp_path):
    """40 updates, 20 of them of the policy; also where the run is resumed after the fifth."""
    run = dict(steps_per_epoch=5, start_steps=5, update_after=20, update_every=5)
    run |= dict(num_test_episodes=0, deterministic_resume=True, checkpoint_freq=3, save_freq=100)
    taken = Counter()

    def counting(self, batches, first):
        info = call(self, batches, first)
        taken["q"] += len(info["LossQ"])
        taken["pi"] += len(info.get("LossPi", ()))
        return info

    call = UpdateBlock.__call__
    with mock.patch.object(UpdateBlock, "__call__", counting):
        whole, _ = train(td3, tmp_path / "whole", **run, epochs=12)
        assert taken == Counter(q=40, pi=20)
        train(td3, tmp_path / "run", **run, epochs=5)
        resumed, _ = train(td3, tmp_path / "run", **run, epochs=12, resume=True)
    assert taken == Counter(q=80, pi=40)
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def squashed(params, obs, noise):
    """Action and log-probability of tanh(u), u = mean + std * noise, with Spinning Up's formula:

    log N(u) - sum(2 (log 2 - u - softplus(-2 u)))
    """
    mean, log_std = tf.split(dense(params, obs), 2, axis=1)
    std = tf.exp(tf.clip_by_value(log_std, -20, 2))
    u = mean + std * noise
    log_density = -0.5 * ((u - mean) / std) ** 2 - tf.math.log(std) - 0.5 * np.log(2 * np.pi)
    correction = 2 * (np.log(2) - u - tf.math.softplus(-2 * u))
    return tf.tanh(u), tf.reduce_sum(log_density - correction, axis=1)


def continuous_value(pi, q, obs, noise, alpha):
    """V(s) and log pi(a|s)."""
    act, logp = squashed(pi, obs, noise)
    return tf.minimum(*[q_of(each, obs, act) for each in halves(q)]) - alpha * logp, logp


def discrete_value(pi, q, obs, noise, alpha):
    """V(s) and sum_a pi(a|s) log pi(a|s), choice by choice."""
    logits = dense(pi, obs)
    probs = tf.exp(logits) / tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True)
    q1, q2 = [dense(each, obs) for each in halves(q)]
    val = logp = 0
    for a in range(3):
        log_prob = tf.math.log(probs[:, a])
        val += probs[:, a] * (tf.minimum(q1[:, a], q2[:, a]) - alpha * log_prob)
        logp += probs[:, a] * log_prob
    return val, logp


def discrete_q(params, obs, act):
    return tf.reduce_sum(dense(params, obs) * np.eye(3)[act.astype(int)], axis=1)


CONTINUOUS = SimpleNamespace(space=UNEQUAL_BOUNDS, value=continuous_value, q=q_of)
DISCRETE = SimpleNamespace(space=spaces.Discrete(3), value=discrete_value, q=discrete_q)


@pytest.mark.parametrize(
    ("kind", "kwargs", "target_entropy"),
    [
        (CONTINUOUS, dict(alpha=0.3), None),
        (CONTINUOUS, dict(alpha="auto"), -3),
        (DISCRETE, dict(alpha=0.3), None),
        (DISCRETE, dict(alpha="auto"), 0.98 * np.log(3)),
    ],
    ids=["alpha", "auto", "discrete alpha", "discrete auto"],
)
def test_updates_of_sac_by_hand(tmp_path, monkeypatch, kind, kwargs, target_entropy):
    """The backup is of the policy and the temperature before their steps."""
    kwargs = dict(kwargs, lr=0.02)
    recorded, _ = two_blocks_of_seven(sac, tmp_path / "run", monkeypatch, kind.space, **kwargs)
    start = recorded.blocks[0][0]
    now, pi_adam, q_adam, alpha_adam = dict(start), Adam(0.02), Adam(0.02), Adam(0.02)
    log_alpha = np.array(0.0 if target_entropy is not None else np.log(0.3))
    for _, batches, info, after in recorded.blocks:
        for j, b in enumerate(minibatches(batches)):
            alpha = np.exp(log_alpha)
            noise, next_noise = (getattr(b, name, None) for name in ("noise", "next_noise"))
            next_val, _ = kind.value(now["pi"], now["target_q"], b.next_obs, next_noise, alpha)
            backup = b.rew + 0.9 * (1 - b.terminated) * next_val

            def losses_q(params, b=b, backup=backup):
                errors = [kind.q(q, b.obs, b.act) - backup for q in halves(params)]
                return [tf.reduce_mean(error**2) / 2 for error in errors]

            def loss_pi(pi, b=b, noise=noise, alpha=alpha):
                return -tf.reduce_mean(kind.value(pi, now["q"], b.obs, noise, alpha)[0])

            for i, q in enumerate(halves(now["q"])):
                np.testing.assert_allclose(
                    info[f"Q{i + 1}Vals"][j], kind.q(q, b.obs, b.act), atol=1e-5
                )
                loss = float(losses_q(now["q"])[i])
                assert info[f"LossQ{i + 1}"][j] == pytest.approx(loss, rel=1e-4)
            _, grads = gradient(lambda params, f=losses_q: sum(f(params)), now["q"])
            now["q"] = q_adam(now["q"], grads)

            _, logp = kind.value(now["pi"], now["q"], b.obs, noise, alpha)
            loss, grads = gradient(loss_pi, now["pi"])
            assert info["LossPi"][j] == pytest.approx(loss, rel=1e-4, abs=1e-5)
            assert info["Alpha"][j] == pytest.approx(alpha, rel=1e-5)
            np.testing.assert_allclose(info["LogPi"][j], logp, atol=1e-4)
            now["pi"] = pi_adam(now["pi"], grads)
            if target_entropy is not None:
                slope = np.array(-(np.mean(logp) + target_entropy))
                (log_alpha,) = alpha_adam([log_alpha], [slope])
            now["target_q"] = followed(now["target_q"], now["q"], 0.8)
        assert_all_close({**after, "target_pi": []}, {**now, "target_pi": []})
    del now["target_pi"]  # is not used, and stays as it is
    assert_all_moved(start, now)


@pytest.mark.parametrize(
    "kwargs",
    [{}, dict(double_q=False, huber=False), dict(copy_every=4), dict(copy_every=3, num_updates=4)],
    ids=["double", "single, squared", "copies", "half as many updates"],
)
def test_updates_of_dqn_by_hand(tmp_path, monkeypatch, kwargs):
    """Copies to the target are made in the updates 4, 8, 12 or 3 and 6, across blocks."""
    recorded, _ = two_blocks_of_seven(dqn, tmp_path / "run", monkeypatch, q_lr=0.02, **kwargs)
    start, updates = recorded.blocks[0][0], 0
    now, adam = dict(start), Adam(0.02)
    for _, batches, info, after in recorded.blocks:
        assert len(batches["rew"]) == kwargs.get("num_updates", 7)
        for j, b in enumerate(minibatches(batches)):
            judging = dense(now["target_q"], b.next_obs).numpy()
            double = kwargs.get("double_q", True)
            choosing = dense(now["q"], b.next_obs).numpy() if double else judging
            next_val = [judging[i, choosing[i].argmax()] for i in range(5)]
            backup = b.rew + 0.9 * (1 - b.terminated) * next_val
            chosen = np.eye(CHOICES.n)[b.act.astype(int)]

            def loss_q(q, b=b, backup=backup, chosen=chosen):
                errors = tf.abs(tf.reduce_sum(dense(q, b.obs) * chosen, axis=1) - backup)
                squared = not kwargs.get("huber", True)
                each = [e**2 / 2 if squared or e <= 1 else e - 0.5 for e in tf.unstack(errors)]
                return sum(each) / 5

            q_vals = np.sum(dense(now["q"], b.obs) * chosen, axis=1)
            np.testing.assert_allclose(info["QVals"][j], q_vals, atol=1e-5)
            loss, grads = gradient(loss_q, now["q"])
            assert info["LossQ"][j] == pytest.approx(loss, abs=1e-5)
            now["q"], updates = adam(now["q"], grads), updates + 1
            if "copy_every" not in kwargs:
                now["target_q"] = followed(now["target_q"], now["q"], 0.8)
            elif updates % kwargs["copy_every"] == 0:
                now["target_q"] = now["q"]
        now |= dict(pi=now["q"], target_pi=now["target_q"])  # the greedy policy's are the same
        assert_all_close(after, now)
    assert_all_moved(start, now)


# ------------------------------------------------------------------- what they are made of


@pytest.fixture(scope="module", params=OFF_POLICY, ids=lambda f: f.__name__)
def tiny_run(request, tmp_path_factory):
    """(algorithm, what `record` returns, diary) of a run with two blocks of seven updates."""
    path = tmp_path_factory.mktemp(request.param.__name__) / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return request.param, *two_blocks_of_seven(request.param, path, monkeypatch)


def test_minibatches_are_of_what_happened(tiny_run):
    """And the last observation of an episode, after which nothing was done, is a next one."""
    _, recorded, diary = tiny_run
    seen, spec = Counter(), recorded.networks[0].action_spec
    for _, batches, _, _ in recorded.blocks:
        assert batches["obs"].shape == batches["next_obs"].shape == (7, 5, 2)
        for b in minibatches(batches):
            for obs, act, *rest in zip(b.obs, b.act, b.rew, b.terminated, b.next_obs, strict=True):
                done, rew, terminated, next_obs = diary[obs.astype(np.float32).tobytes()]
                np.testing.assert_allclose(spec.to_env(act[None])[0], done, rtol=1e-5)
                assert rest[0] == pytest.approx(rew)
                assert rest[1] == terminated
                np.testing.assert_array_equal(rest[2], next_obs)
                ended = next_obs.tobytes() not in diary
                seen[bool(terminated), ended] += 1
    assert len(diary) == 22
    assert min(seen[True, True], seen[False, True], seen[False, False]) > 0


def test_what_came_before_a_resume_is_learned_from_as_it_happened(tmp_path, monkeypatch):
    """The last step before led to what was seen then, not to where environments start again."""
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
    """The first the Q-functions, the second the policy, the third the targets; nothing else.

    DQN's policy has no step of its own.
    """
    algorithm, recorded, _ = tiny_run
    _, batches, _, _ = recorded.blocks[0]
    batch = {key: tf.constant(x[0]) for key, x in batches.items()}
    targets = {"target_q"} if algorithm is sac else {"target_pi", "target_q"}
    others = [{"q", "pi"}] if algorithm is dqn else [{"q"}, {"pi"}]
    for step, trained in zip(recorded.steps, [*others, targets], strict=True):
        before = values(recorded.networks)
        step(batch)
        after = values(recorded.networks)
        for name in before:
            moved = [not np.array_equal(x, y) for x, y in zip(before[name], after[name])]  # noqa: B905
            assert all(moved) if name in trained else not any(moved), name


def test_the_temperature_is_read_before_it_is_written(tmp_path, monkeypatch):
    """Nothing but that order connects its use in the Q-functions' loss with its own step.

    It must be kept by TensorFlow's optimizers, too, or equal runs end in different digits.
    """
    options = {}
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", options.update)
    recorded, _ = two_blocks_of_seven(sac, tmp_path / "run", monkeypatch, alpha="auto")
    log_alpha = recorded.steps[1].trained[-1]
    assert log_alpha.name == "log_alpha"
    _, batches, _, _ = recorded.blocks[0]
    signature = {key: tf.TensorSpec((1, *x.shape[1:]), x.dtype) for key, x in batches.items()}

    def traced():
        update = tf.function(partial(UpdateBlock(recorded.steps)._updates, phase=0))
        return update.get_concrete_function(signature)

    assert not reads_that_may_come_late(traced(), log_alpha, options)
    # The test can fail: it does with what Keras and TensorFlow do by themselves.
    for step in recorded.steps[:2]:
        del step.optimizer._all_reduce_sum_gradients
    assert reads_that_may_come_late(traced(), log_alpha, {})


def reads_that_may_come_late(function, variable, options):
    """Reads of a variable before which, in the optimized graph, it may be written."""
    [handle] = [x.name for h, x in function.graph.captures if h is variable.value.handle]
    fetches = [x.name for x in [*function.graph.outputs, *function.graph.control_outputs]]
    graph = export_meta_graph(
        graph_def=function.graph.as_graph_def(add_shapes=True), graph=function.graph
    )
    graph.collection_def["train_op"].node_list.value.extend(fetches)
    config = config_pb2.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.min_graph_nodes = -1
    if options.get("dependency_optimization") is False:
        rewriting.dependency_optimization = rewriting.OFF
    nodes = {node.name: node for node in tf_optimizer.OptimizeGraph(config, graph).node}
    handle = handle.split(":")[0]
    uses = [n for n in nodes.values() if any(x.split(":")[0] == handle for x in n.input)]
    reads = {n.name for n in uses if n.op == "ReadVariableOp"}
    [write] = [n for n in uses if n.op == "AssignSubVariableOp"]
    before, waiting = set(), [write]
    while waiting:
        for name in (x.lstrip("^").split(":")[0] for x in waiting.pop().input):
            if name not in before:
                before.add(name)
                waiting.append(nodes[name])
    return reads - before
