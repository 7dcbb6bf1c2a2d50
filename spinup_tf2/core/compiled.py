"""How functions are compiled."""

from functools import partial

import tensorflow as tf

# AutoGraph rewrites Python's `if` and `while` for tensors, in everything that is called. That takes
# seconds at the start of a run, and nearly nothing here needs it (GradientSteps does).
compiled = partial(tf.function, autograph=False)
