"""How environments are spread over processes does not change what is learned.

Real `mpirun` processes train PPO on four environments: 1 process x 4, 2 x 2 and 4 x 1.
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
import sys
import gymnasium as gym
import numpy as np
from spinup_tf2 import ppo
from spinup_tf2.core import on_policy
from spinup_tf2.utils.mpi_tools import proc_id
from spinup_tf2.utils.mpi_tf import flat_concat

out, env_id, num_envs = sys.argv[1], sys.argv[2], int(sys.argv[3])
collect, epochs = on_policy.collect, []

def remember(envs, act, buffer, *args):
    obs = collect(envs, act, buffer, *args)
    epochs.append(buffer.act.copy())
    return obs

on_policy.collect = remember
on_policy.check_params = lambda params: None  # it would even out small differences between ranks
ac = ppo(
    lambda: gym.make(env_id), seed=1, steps_per_epoch=1200, epochs=3, num_envs=num_envs,
    train_pi_iters=20, train_v_iters=20, logger_kwargs=dict(output_dir=out + "/run", quiet=True),
)
params = flat_concat(ac.pi.trainable_variables + ac.v.trainable_variables)
np.savez(f"{out}/rank{proc_id()}.npz", act=epochs[0], params=params)
"""


def run(path, env_id, num_procs, num_envs):
    """Train; returns actions [T, 4, ...], each rank's parameters, and the rows of progress.txt."""
    path.mkdir()
    program = path / "program.py"
    program.write_text(PROGRAM)
    mpirun = [find_mpirun(), "-np", str(num_procs)] if num_procs > 1 else []
    command = [*mpirun, sys.executable, str(program), str(path), env_id, str(num_envs)]
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
    act, _, rows = run(tmp_path / "1x4", env_id, 1, 4)
    assert act.shape[:2] == (300, 4)
    assert len(rows) == 3
    for num_procs in (2, 4):
        other = run(tmp_path / f"{num_procs}", env_id, num_procs, 4 // num_procs)
        np.testing.assert_allclose(other[0], act, atol=1e-4)
        np.testing.assert_allclose(other[2], rows, rtol=1e-3, atol=1e-5)
        for params in other[1]:
            np.testing.assert_array_equal(params, other[1][0])
