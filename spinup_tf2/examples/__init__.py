"""Scripts to learn from.

`vpg_cartpole`, `ppo_cartpole`, `ppo_pendulum` and `sac_pendulum` hold a whole algorithm each, and
need no other part of the package. `quadruped_demo` and `mario_demo` put its parts to use: a
demonstration is imitated, and improved by PPO (`cloning` holds what they share). `quadruped_switch`
lets two agents have one robot in turn, and `quadruped_gait` draws when each foot is on the ground.
"""
