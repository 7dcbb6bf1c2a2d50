"""A quadruped robot in PyBullet, which comes with the `quadruped` extra.

    env = gymnasium.make("QuadrupedWalk-v0")  # or QuadrupedCommand-v0, QuadrupedRecover-v0

This package can be imported without the extra; making an environment then raises an error that
says how to install it.
"""
