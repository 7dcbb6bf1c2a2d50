"""Scripts to learn from.

`ppo_cartpole` and `ppo_pendulum` hold a whole algorithm each, and need no other part of the
package. `quadruped_demo` puts its parts to use: a demonstration is imitated, and improved by PPO.
"""
