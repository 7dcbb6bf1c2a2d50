"""Train a changed copy of VPG with three baselines and three seeds each."""

from my_vpg import vpg

from spinup_tf2.utils.run_utils import ExperimentGrid

if __name__ == "__main__":
    same = dict(env_fn="CartPole-v1", epochs=40, steps_per_epoch=1000, pi_lr=1e-2)
    grid = ExperimentGrid(name="baseline", base=same)
    grid.add("baseline", ["none", "constant", "value"], "")
    grid.add("seed", [0, 1, 2])
    grid.run(vpg, data_dir="data", workers=2)
