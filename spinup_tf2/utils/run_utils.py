"""Running experiments: one (`call_experiment`), or all variants of a grid (`ExperimentGrid`).

    eg = ExperimentGrid(name="ppo-cartpole")
    eg.add("env_name", "CartPole-v1", "", True)
    eg.add("seed", [0, 10, 20])
    eg.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    eg.run(ppo, num_cpu=4)

Each experiment runs in a new process, or in `num_cpu` processes under mpirun. If the script itself
runs under MPI (`mpirun -np 4 python my_grid.py`), no processes are started: every rank runs the
experiments itself.
"""

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.experiments.calling import call_experiment
from spinup_tf2.experiments.experiment import setup_logger_kwargs
from spinup_tf2.experiments.grid import ExperimentGrid, all_bools, valid_str
