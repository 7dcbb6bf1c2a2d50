"""How environments are spread over processes does not change what is learned.

Real `mpirun` processes train PPO and the off-policy algorithms on four environments, 1 process x 4,
2 x 2 and 4 x 1, and every other algorithm on two.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

from spinup_tf2.utils.launch import find_mpirun, mpirun_environment

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

# Each rank writes the actions of its environments in the first epoch (off-policy: in all of them),
# and its final parameters. argv: the directory, environments per rank, [algorithm, environment,
# arguments] of each run.
PROGRAM = """
import json
import sys
import gymnasium as gym
import numpy as np
import spinup_tf2
from spinup_tf2.core import off_policy, on_policy
from spinup_tf2.core.replay_buffer import ReplayBuffer
from spinup_tf2.utils.mpi_tools import proc_id
from spinup_tf2.utils.mpi_tf import flat_concat

out, num_envs, jobs = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
collect, store, epochs, steps = on_policy.collect, ReplayBuffer.store, [], []

def remember(envs, act, buffer, *args):
    obs = collect(envs, act, buffer, *args)
    epochs.append(buffer.act.copy())
    return obs

def remember_step(self, obs, act, *args):
    steps.append(np.array(act))
    store(self, obs, act, *args)

on_policy.collect = remember
ReplayBuffer.store = remember_step
for module in (on_policy, off_policy):
    module.check_params = lambda params: None  # it would even out small differences between ranks
for algorithm, env_id, kwargs in jobs:
    ac = getattr(spinup_tf2, algorithm)(
        lambda: gym.make(env_id), seed=1, num_envs=num_envs, **kwargs,
        logger_kwargs=dict(output_dir=f"{out}/{algorithm}_{env_id}", quiet=True),
    )
    act = epochs[0] if epochs else np.stack(steps)
    params = flat_concat(ac.trainable_variables)
    np.savez(f"{out}/{algorithm}_{env_id}_rank{proc_id()}.npz", act=act, params=params)
    epochs.clear()
    steps.clear()
"""


PPO = dict(steps_per_epoch=1200, epochs=3, train_pi_iters=20, train_v_iters=20)

# One or two updates of the other algorithms, and of PPO with what is not its default.
OTHERS = {
    "vpg": dict(steps_per_epoch=400, epochs=1, train_v_iters=5),
    "trpo": dict(steps_per_epoch=400, epochs=1, train_v_iters=5),
    "a2c": dict(steps_per_epoch=400, epochs=1, n_steps=100, lam=0.95),
    "ppo": dict(
        **dict(steps_per_epoch=400, epochs=1, train_pi_iters=5, train_v_iters=5),
        **dict(objective="penalty", coeff=0.5, minibatch_size=100, max_grad_norm=0.5),
        **dict(normalize_obs=True, normalize_reward=True, ent_coef=0.01),
    ),
}


# Three blocks of updates, after interactions 100, 120 and 140.
OFF_POLICY = dict(
    **dict(steps_per_epoch=160, epochs=1, start_steps=40, update_after=100, update_every=20),
    **dict(batch_size=32, num_test_episodes=3, max_ep_len=40, ac_kwargs=dict(hidden_sizes=(16,))),
)
OFF_POLICY_JOBS = [
    ("ddpg", "Pendulum-v1", OFF_POLICY),
    ("td3", "Pendulum-v1", OFF_POLICY | dict(policy_delay=3)),
    ("sac", "Pendulum-v1", OFF_POLICY | dict(alpha="auto")),
    ("sac", "CartPole-v1", OFF_POLICY),
]


def run_all(path, num_procs, num_envs, jobs):
    """Train each (algorithm, env_id, kwargs) in `jobs`, one after the other in the same processes.

    Returns for each: actions [T, n, ...], every rank's parameters, and the rows of progress.txt.
    """
    path.mkdir()
    program = path / "program.py"
    program.write_text(PROGRAM)
    mpirun = [find_mpirun(), "-np", str(num_procs)] if num_procs > 1 else []
    command = [*mpirun, sys.executable, str(program), str(path), str(num_envs), json.dumps(jobs)]
    done = subprocess.run(
        command, env=mpirun_environment(num_procs), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = []
    for algorithm, env_id, _ in jobs:
        run = path / f"{algorithm}_{env_id}"
        ranks = [np.load(f"{run}_rank{rank}.npz") for rank in range(num_procs)]
        act = np.concatenate([rank["act"] for rank in ranks], axis=1)
        lines = (run / "progress.txt").read_text().splitlines()
        assert json.loads((run / "config.json").read_text())["num_envs"] == num_envs
        rows = [[float(x) if x else np.nan for x in line.split("\t")[:-1]] for line in lines[1:]]
        results.append((act, [rank["params"] for rank in ranks], np.array(rows)))
    return results


def test_layouts_are_equivalent(tmp_path):
    jobs = [("ppo", env_id, PPO) for env_id in ("CartPole-v1", "Pendulum-v1")]
    expected = run_all(tmp_path / "1", 1, 4, jobs)
    for num_procs in (2, 4):
        results = run_all(tmp_path / f"{num_procs}", num_procs, 4 // num_procs, jobs)
        for (act, _, rows), (other_act, ranks, other_rows) in zip(expected, results, strict=True):
            assert act.shape[:2] == (300, 4)
            assert len(rows) == 3
            np.testing.assert_allclose(other_act, act, atol=1e-4)
            np.testing.assert_allclose(other_rows, rows, rtol=1e-3, atol=1e-5)
            for params in ranks:
                np.testing.assert_array_equal(params, ranks[0])


def test_two_ranks_equal_one_process_after_the_first_update(tmp_path):
    jobs = [(algorithm, "CartPole-v1", kwargs) for algorithm, kwargs in OTHERS.items()]
    expected = run_all(tmp_path / "1", 1, 2, jobs)
    results = run_all(tmp_path / "2", 2, 1, jobs)
    for (act, (params,), rows), (other_act, ranks, other_rows) in zip(
        expected, results, strict=True
    ):
        np.testing.assert_array_equal(other_act, act)
        np.testing.assert_allclose(other_rows, rows, rtol=1e-4, atol=1e-6)
        for rank in ranks:
            np.testing.assert_array_equal(rank, ranks[0])
            assert np.linalg.norm(rank - params) <= 1e-4 * np.linalg.norm(params)


def test_off_policy_layouts_are_equivalent(tmp_path):
    """Ranks average gradients of their own rows, so that sums are rounded differently."""
    expected = run_all(tmp_path / "1", 1, 4, OFF_POLICY_JOBS)
    for num_procs, jobs in ((2, OFF_POLICY_JOBS), (4, OFF_POLICY_JOBS[:1])):
        results = run_all(tmp_path / f"{num_procs}", num_procs, 4 // num_procs, jobs)
        for one, other in zip(expected, results, strict=False):
            (act, (params,), rows), (other_act, ranks, other_rows) = one, other
            assert len(act) == 40
            np.testing.assert_allclose(other_act, act, atol=1e-3)
            np.testing.assert_allclose(other_rows, rows, rtol=1e-3, atol=1e-4)
            for rank in ranks:
                np.testing.assert_array_equal(rank, ranks[0])
                assert np.linalg.norm(rank - params) <= 1e-3 * np.linalg.norm(params)
