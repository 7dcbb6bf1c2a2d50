"""Super Mario Bros, from pixels.

    env = make_mario("SuperMarioBros-1-1-v0", actions="run")  # observations uint8 [84, 84, 4]

The game and its emulator come with the `mario` extra; without them this package can be imported.
"""

from spinup_tf2.envs.mario.wrappers import create_train_env, is_mario, make_mario, preprocess

__all__ = ["create_train_env", "is_mario", "make_mario", "preprocess"]
