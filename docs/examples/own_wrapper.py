"""Train in an environment that cannot be built again, and build it."""

from half_reward import make_env

from spinup_tf2 import ppo
from spinup_tf2.utils.test_policy import load_policy_and_env, run_policy

if __name__ == "__main__":
    run_dir = "data/own_wrapper/own_wrapper_s0"
    logger_kwargs = dict(output_dir=run_dir, exp_name="own_wrapper")
    ppo(make_env, epochs=2, logger_kwargs=logger_kwargs)

    env, get_action = load_policy_and_env(run_dir)  # prints why env is None
    run_policy(env or make_env(), get_action, num_episodes=3, render=False)
