"""Load the agent of a run, and let it act; give the run's directory."""

import sys

from spinup_tf2.utils.test_policy import load_policy_and_env, run_policy

if __name__ == "__main__":
    env, get_action = load_policy_and_env(sys.argv[1], deterministic=True)

    obs, _ = env.reset(seed=0)
    ep_ret, over = 0.0, False
    while not over:
        obs, rew, terminated, truncated, _ = env.step(get_action(obs))
        ep_ret += rew
        over = terminated or truncated
    print("return of one episode:", ep_ret)

    row = run_policy(env, get_action, num_episodes=3, render=False, seed=0)
    print("average of three:", row["AverageEpRet"])
