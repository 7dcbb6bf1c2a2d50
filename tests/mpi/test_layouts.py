"""How environments are spread over processes does not change what is learned.

Real `mpirun` processes train every algorithm on four environments, 1 process x 4 and 2 x 2, and one
of each family and PPG also 4 x 1.
"""

import json
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from spinup_tf2.parallel.launch import find_mpirun, mpirun_environment
from tests.progress import rows_without_time

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
from spinup_tf2.core import on_policy
from spinup_tf2.core.replay_buffer import ReplayBuffer
from spinup_tf2.training import run
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.utils.mpi_tf import flat_concat

out, num_envs, jobs = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
collect, store, epochs, steps = on_policy.collect, ReplayBuffer.store, [], []

def remember(envs, act, buffer, *args):
    obs = collect(envs, act, buffer, *args)
    epochs.append(buffer.rows["act"].copy())
    return obs

def remember_step(self, obs, act, *args):
    steps.append(np.array(act))
    store(self, obs, act, *args)

on_policy.collect = remember
ReplayBuffer.store = remember_step
assert hasattr(run, "check_params")
run.check_params = lambda params: None  # it would even out small differences between ranks
for i, (algorithm, env_id, kwargs) in enumerate(jobs):
    ac = getattr(spinup_tf2, algorithm)(
        lambda: gym.make(env_id), seed=1, num_envs=num_envs, **kwargs,
        logger_kwargs=dict(output_dir=f"{out}/{i}", quiet=True),
    )
    act = epochs[0] if epochs else np.stack(steps)
    params = flat_concat(ac.trainable_variables)
    np.savez(f"{out}/{i}_rank{proc_id()}.npz", act=act, params=params)
    epochs.clear()
    steps.clear()
"""


class Job(NamedTuple):
    """A training, and how far two layouts may differ by the order in which numbers are added up."""

    algorithm: str
    env_id: str
    kwargs: dict[str, Any]
    act: float  # absolute: of the first epoch, before any update, or of all of an off-policy run
    learned: float  # relative: of the numbers that are logged and of the parameters


PPO = dict(steps_per_epoch=1200, epochs=3, train_pi_iters=20, train_v_iters=20)
UPDATE = dict(steps_per_epoch=400, epochs=1)
PPO_WITH_OPTIONS = dict(
    **dict(steps_per_epoch=400, epochs=2, lr_schedule="linear"),
    **dict(train_pi_iters=5, train_v_iters=5, objective="penalty", coeff=0.5, ent_coef=0.01),
    **dict(minibatch_size=100, max_grad_norm=0.5, normalize_obs=True, normalize_reward=True),
)
PASS_BY_PASS = dict(
    **dict(minibatch_size=100, recompute_adv=True, adv_normalization="minibatch"),
    **dict(value_target="lambda_return", train_pi_iters=4, train_v_iters=3),
)
PHASES = dict(epochs=2, n_pi=2, minibatch_size=100, aux_minibatch_size=200, train_aux_iters=2)
MEMORY = dict(
    **dict(train_pi_iters=3, train_v_iters=3, minibatch_size=200, recompute_adv=True),
    **dict(ac_kwargs=dict(hidden_sizes=(16,), memory="lstm", memory_size=16)),
)
# Three blocks of updates, after interactions 100, 120 and 140.
OFF_POLICY = dict(
    **dict(steps_per_epoch=160, epochs=1, start_steps=40, update_after=100, update_every=20),
    **dict(batch_size=32, num_test_episodes=3, max_ep_len=40, ac_kwargs=dict(hidden_sizes=(16,))),
)

JOBS = [
    Job("ppo", "CartPole-v1", PPO, 1e-4, 1e-3),
    Job("ddpg", "Pendulum-v1", OFF_POLICY, 1e-3, 1e-3),
    Job("ppg", "CartPole-v1", UPDATE | PHASES, 1e-6, 1e-4),
    Job("dqn", "CartPole-v1", OFF_POLICY | dict(copy_every=7, eps_steps=150), 1e-3, 1e-3),
    # These are not trained by four processes.
    Job("vpg", "CartPole-v1", UPDATE | dict(train_v_iters=5), 1e-6, 1e-4),
    Job("trpo", "CartPole-v1", UPDATE | dict(train_v_iters=5), 1e-6, 1e-4),
    Job("a2c", "CartPole-v1", UPDATE | dict(n_steps=100, lam=0.95), 1e-6, 1e-4),
    Job("ppo", "Pendulum-v1", PPO_WITH_OPTIONS, 1e-6, 1e-4),
    Job("ppo", "CartPole-v1", UPDATE | PASS_BY_PASS, 1e-6, 1e-4),
    Job("ppo", "CartPole-v1", UPDATE | MEMORY, 1e-6, 1e-4),
    Job("td3", "Pendulum-v1", OFF_POLICY | dict(policy_delay=3, noise="ou"), 1e-3, 1e-3),
    Job("sac", "Pendulum-v1", OFF_POLICY | dict(alpha="auto"), 1e-3, 1e-3),
    Job("sac", "CartPole-v1", OFF_POLICY, 1e-3, 1e-3),
]


def train(path, num_procs, jobs):
    """Train `jobs`, one after the other in the same processes.

    Returns for each: actions [T, 4, ...], every rank's parameters, and the rows of progress.txt.
    """
    path.mkdir()
    program = path / "program.py"
    program.write_text(PROGRAM)
    num_envs = 4 // num_procs
    mpirun = [find_mpirun(), "-np", str(num_procs)] if num_procs > 1 else []
    arguments = [str(path), str(num_envs), json.dumps([job[:3] for job in jobs])]
    done = subprocess.run(
        [*mpirun, sys.executable, str(program), *arguments],
        env=mpirun_environment(num_procs),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = []
    for i in range(len(jobs)):
        ranks = [np.load(path / f"{i}_rank{rank}.npz") for rank in range(num_procs)]
        act = np.concatenate([rank["act"] for rank in ranks], axis=1)
        run = path / str(i)
        _, *lines = rows_without_time(run / "progress.txt")
        assert json.loads((run / "config.json").read_text())["num_envs"] == num_envs
        rows = [[float(x) if x else np.nan for x in line] for line in lines]
        results.append((act, [rank["params"] for rank in ranks], np.array(rows)))
    return results


def test_layouts_are_equivalent(tmp_path):
    expected = train(tmp_path / "1x4", 1, JOBS)
    for num_procs, jobs in ((2, JOBS), (4, JOBS[:4])):
        results = train(tmp_path / f"{num_procs}x{4 // num_procs}", num_procs, jobs)
        for job, one, other in zip(JOBS, expected, results, strict=False):
            (act, (params,), rows), (other_act, ranks, other_rows) = one, other
            steps, epochs = job.kwargs["steps_per_epoch"], job.kwargs["epochs"]
            assert (act.shape[:2], len(rows)) == ((steps // 4, 4), epochs)
            name = f"{job}, {num_procs} processes"
            np.testing.assert_allclose(other_act, act, atol=job.act, err_msg=name)
            tolerance = dict(rtol=job.learned, atol=job.learned / 10, err_msg=name)
            np.testing.assert_allclose(other_rows, rows, **tolerance)
            for rank in ranks:
                np.testing.assert_array_equal(rank, ranks[0], err_msg=name)
                distance = np.linalg.norm(rank - params) / np.linalg.norm(params)
                assert distance <= job.learned, name
