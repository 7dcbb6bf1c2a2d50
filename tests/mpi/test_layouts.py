"""How environments are spread over processes does not change what is learned.

Real `mpirun` processes train PPO on four environments, 1 process x 4, 2 x 2 and 4 x 1, and every
other algorithm on two.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

from spinup_tf2.utils.mpi_tools import find_mpirun, mpirun_environment

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

# Each rank writes the actions of its environments in the first epoch, and its final parameters.
PROGRAM = """
import json
import sys
import gymnasium as gym
import numpy as np
import spinup_tf2
from spinup_tf2.core import on_policy
from spinup_tf2.utils.mpi_tools import proc_id
from spinup_tf2.utils.mpi_tf import flat_concat

out, algorithm, env_id, num_envs = *sys.argv[1:4], int(sys.argv[4])
collect, epochs = on_policy.collect, []

def remember(envs, act, buffer, *args):
    obs = collect(envs, act, buffer, *args)
    epochs.append(buffer.act.copy())
    return obs

on_policy.collect = remember
on_policy.check_params = lambda params: None  # it would even out small differences between ranks
ac = getattr(spinup_tf2, algorithm)(
    lambda: gym.make(env_id), seed=1, num_envs=num_envs, **json.loads(sys.argv[5]),
    logger_kwargs=dict(output_dir=out + "/run", quiet=True),
)
params = flat_concat(ac.trainable_variables)
np.savez(f"{out}/rank{proc_id()}.npz", act=epochs[0], params=params)
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


def run(path, algorithm, env_id, num_procs, num_envs, **kwargs):
    """Train; returns actions [T, n, ...], each rank's parameters, and the rows of progress.txt."""
    path.mkdir()
    program = path / "program.py"
    program.write_text(PROGRAM)
    mpirun = [find_mpirun(), "-np", str(num_procs)] if num_procs > 1 else []
    command = [*mpirun, sys.executable, str(program), str(path), algorithm, env_id]
    command += [str(num_envs), json.dumps(kwargs)]
    done = subprocess.run(
        command, env=mpirun_environment(num_procs), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [np.load(path / f"rank{rank}.npz") for rank in range(num_procs)]
    act = np.concatenate([rank["act"] for rank in ranks], axis=1)
    lines = (path / "run" / "progress.txt").read_text().splitlines()
    assert json.loads((path / "run" / "config.json").read_text())["num_envs"] == num_envs
    rows = [[float(x) if x else np.nan for x in line.split("\t")[:-1]] for line in lines[1:]]
    return act, [rank["params"] for rank in ranks], np.array(rows)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_layouts_are_equivalent(tmp_path, env_id):
    act, _, rows = run(tmp_path / "1x4", "ppo", env_id, 1, 4, **PPO)
    assert act.shape[:2] == (300, 4)
    assert len(rows) == 3
    for num_procs in (2, 4):
        other = run(tmp_path / f"{num_procs}", "ppo", env_id, num_procs, 4 // num_procs, **PPO)
        np.testing.assert_allclose(other[0], act, atol=1e-4)
        np.testing.assert_allclose(other[2], rows, rtol=1e-3, atol=1e-5)
        for params in other[1]:
            np.testing.assert_array_equal(params, other[1][0])


@pytest.mark.parametrize("algorithm", OTHERS)
def test_two_ranks_equal_one_process_after_the_first_update(tmp_path, algorithm):
    kwargs = OTHERS[algorithm]
    act, (params,), rows = run(tmp_path / "1x2", algorithm, "CartPole-v1", 1, 2, **kwargs)
    other_act, ranks, other_rows = run(tmp_path / "2x1", algorithm, "CartPole-v1", 2, 1, **kwargs)
    np.testing.assert_array_equal(other_act, act)
    np.testing.assert_allclose(other_rows, rows, rtol=1e-4, atol=1e-6)
    for rank in ranks:
        np.testing.assert_array_equal(rank, ranks[0])
        assert np.linalg.norm(rank - params) <= 1e-4 * np.linalg.norm(params)
