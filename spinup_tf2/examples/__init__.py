"""Example scripts.

`vpg_cartpole`, `ppo_cartpole`, `ppo_pendulum` and `sac_pendulum` contain a complete algorithm each,
and need no other part of the package. `quadruped_demo` and `mario_demo` use its parts to imitate a
demonstration and improve on it with PPO (`cloning` contains what they share). `quadruped_switch`
lets two agents control one robot in turns, and `quadruped_gait` draws when each foot is on the
ground.
"""
