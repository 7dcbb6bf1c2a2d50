"""Train PPO with the settings of a preset, changed to one short epoch."""

from spinup_tf2 import ppo
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn

if __name__ == "__main__":
    mario = load("ppo", "mario")
    ppo(
        EnvFn(mario.env, mario.env_kwargs),
        **mario.settings | dict(epochs=1, steps_per_epoch=256),
        logger_kwargs=dict(output_dir="data/preset/preset_s0", exp_name="preset", preset="mario"),
    )
