"""One experiment in a process of its own, as the command line runs it."""

from spinup_tf2 import ppo
from spinup_tf2.utils.run_utils import call_experiment

if __name__ == "__main__":
    call_experiment(
        "experiment",  # exp_name
        ppo,
        env_name="CartPole-v1",
        seed=0,
        data_dir="data",
        num_cpu=1,
        ac_kwargs=dict(hidden_sizes=(32, 32)),
        epochs=5,
    )
