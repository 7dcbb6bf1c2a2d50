"""How functions are compiled."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf


def compiled(
    function: Callable, autograph: bool = False, **options: Any
) -> tf.types.experimental.PolymorphicFunction:
    """`tf.function` for the functions of a run.

    AutoGraph rewrites Python's `if` and `while` for tensors, in everything that is called. That
    takes seconds at the start of a run, and nearly nothing here needs it (GradientSteps does).
    """
    # TensorFlow warns of a function that is compiled again and again, and knows it by its code. To
    # it, several runs in one program would be such a function. A partial has no code of its own.
    return tf.function(partial(function), autograph=autograph, **options)
