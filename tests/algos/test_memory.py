"""Training, saving and deploying policies with a memory."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import spinup_tf2
from spinup_tf2 import ppo, sac, trpo, vpg
from spinup_tf2.cli import test_policy
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.core.nets.recurrent_acting import RecurrentStep
from spinup_tf2.errors import UserError
from spinup_tf2.training.policy_with_memory import PolicyWithMemory, in_episode
from spinup_tf2.training.saved_policy import load_policy
from spinup_tf2.utils.test_policy import run_policy
from tests import on_policy_runs as runs

SMALL = dict(hidden_sizes=(8,), memory="lstm", memory_size=6)


class Recall(gym.Env):
    """The first of four observations shows which action is right in the last step."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.wanted = 0, int(self.np_random.integers(2))
        return np.array([2 * self.wanted - 1], np.float32), {}

    def step(self, action):
        self.t += 1
        reward = float(self.t == 4 and action == self.wanted)
        return np.zeros(1, np.float32), reward, self.t == 4, False, {}


gym.register("Recall-v0", Recall)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """PPO that has learned to remember, and its run."""
    path = tmp_path_factory.mktemp("memory") / "run"
    ac, rows = runs.train(
        ppo,
        path,
        "Recall-v0",
        **dict(steps_per_epoch=800, epochs=12, num_envs=2, minibatch_size=200, pi_lr=1e-2),
        **dict(train_pi_iters=8, train_v_iters=8, vf_lr=1e-2, target_kl=None),
        ac_kwargs=SMALL,
    )
    return ac, rows, path


def test_it_learns_what_no_other_policy_can(trained):
    """Without a memory, half of the episodes end with the right action."""
    ac, rows, _ = trained
    assert float(rows[-1]["AverageEpRet"]) > 0.9
    env = Recall()
    for seed in range(10):
        (obs, _), state, over = env.reset(seed=seed), None, False
        while not over:
            act, state = ac.act(obs, deterministic=True, state=state)
            obs, reward, over, _, _ = env.step(act)
        assert reward == 1


def test_the_saved_policy_acts_as_the_one_in_memory(trained):
    ac, _, path = trained
    get_action = load_policy(path / "tf2_save", deterministic=True)
    assert isinstance(get_action, PolicyWithMemory)
    rng, state, saved_state = np.random.default_rng(0), None, None
    for _ in range(20):
        obs = rng.uniform(-1, 1, 1).astype(np.float32)
        act, state = ac.act(obs, deterministic=True, state=state)
        saved, saved_state = get_action(obs, saved_state)
        assert saved == act
        np.testing.assert_allclose(saved_state, state, rtol=1e-3, atol=1e-4)
    with pytest.raises(UserError, match=r"state has shape \(3,\), and this policy's is \(24,\)"):
        get_action(obs, np.zeros(3))


def test_the_savedmodel_takes_and_returns_the_state(trained):
    import tensorflow as tf

    ac, _, path = trained
    info = json.loads((path / "tf2_save" / "model_info.json").read_text())
    assert (info["inputs"], info["state_size"]) == (["x", "noise", "state"], 24)
    model = tf.saved_model.load(str(path / "tf2_save"))
    obs, state = np.ones((3, 1), np.float32), np.random.default_rng(0).normal(size=(3, 24))
    state = state.astype(np.float32)
    outputs = model.policy(obs, np.zeros((3, 2), np.float32), state)
    acts, states = ac.act(obs, deterministic=True, state=state)
    np.testing.assert_array_equal(outputs["mu"], acts)
    np.testing.assert_allclose(outputs["state"], states, rtol=1e-5)


def test_episodes_begin_with_nothing_remembered(trained, capsys):
    """`test_policy` and `evaluate`, which plays several episodes at a time."""
    _, _, path = trained
    get_action = load_policy(path / "tf2_save", deterministic=True)
    row = run_policy(Recall(), get_action, num_episodes=20, render=False, seed=0)
    assert row["AverageEpRet"] == 1
    assert evaluate_run(path, 20)["greedy"]["EpRet"] == 1
    first, second = (in_episode(get_action) for _ in range(2))
    nothing = np.zeros(1, np.float32)
    first(np.ones(1, np.float32))
    second(-np.ones(1, np.float32))
    for _ in range(2):
        first(nothing)
        second(nothing)
    assert (first(nothing), second(nothing)) == (1, 0)


@pytest.mark.slow
def test_in_a_process_of_its_own(trained):
    """As test_policy runs it where something is drawn."""
    _, _, path = trained
    with test_policy._agent_apart([], path / "tf2_save", True, None, False, False) as get_action:
        row = run_policy(Recall(), get_action, num_episodes=5, render=False, seed=0)
    assert row["AverageEpRet"] == 1


def test_export_refuses_by_name(trained, tmp_path):
    _, _, path = trained
    for format in ("numpy", "savedmodel"):
        with pytest.raises(UserError, match="This policy has a memory"):
            spinup_tf2.export(path, format, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# A2C with a memory: tests/resume/test_variants.py.
OTHERS = {
    "vpg": (vpg, dict(train_v_iters=2)),
    "trpo": (trpo, dict(train_v_iters=2)),
    "ppo": (
        ppo,
        dict(train_pi_iters=2, objective="penalty", ent_coef=0.01, normalize_reward=True)
        | dict(recompute_adv=True, adv_normalization="minibatch", minibatch_size=100)
        | dict(num_test_episodes=2, behavior_policy=lambda t, obs: t % 2 or None),
    ),
}


@pytest.mark.parametrize(("algorithm", "kwargs"), OTHERS.values(), ids=OTHERS)
def test_every_on_policy_algorithm(tmp_path, algorithm, kwargs):
    ac, rows = runs.train(algorithm, tmp_path, ac_kwargs=dict(SMALL, memory="gru"), **kwargs)
    assert len(rows) == 2
    assert all(np.isfinite(variable.numpy()).all() for variable in ac.variables)


def test_recomputed_advantages_are_those_of_the_present_weights(tmp_path, monkeypatch):
    """Also what follows the batch is valued by them."""
    valued, value = [], RecurrentStep.value

    def compared(step, obs, state):
        result = value(step, obs, state)
        valued.append((result, step.memory.value(obs, state)))
        return result

    monkeypatch.setattr(RecurrentStep, "value", compared)
    kwargs = dict(recompute_adv=True, minibatch_size=100, vf_lr=1e-2, train_v_iters=3, epochs=1)
    runs.train(ppo, tmp_path, ac_kwargs=dict(SMALL, memory="gru"), **kwargs)
    assert len(valued) > 2
    for ours, expected in valued:
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_off_policy_algorithms_refuse_by_name(tmp_path):
    from spinup_tf2.utils.run_utils import call_experiment

    with pytest.raises(UserError, match="have no argument 'memory'"):
        call_experiment(
            "x", sac, env_name="Pendulum-v1", ac_kwargs=SMALL, data_dir=str(tmp_path / "data")
        )
