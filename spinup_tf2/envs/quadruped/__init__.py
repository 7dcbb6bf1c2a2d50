"""A quadruped robot in PyBullet, which comes with the `quadruped` extra.

    env = gymnasium.make("QuadrupedWalk-v0")  # or QuadrupedRecover-v0

Without the extra this package can be imported; making an environment says how to install it.
"""
