"""A grid of experiments: two network sizes, two seeds each."""

from spinup_tf2 import ppo
from spinup_tf2.utils.run_utils import ExperimentGrid

if __name__ == "__main__":
    grid = ExperimentGrid(name="sizes")
    grid.add("env_name", "CartPole-v1", "", in_name=True)
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    grid.add("seed", [0, 10])
    grid.add("epochs", 3)
    grid.add("steps_per_epoch", 1000)
    grid.run(ppo, num_cpu=1, data_dir="data")
