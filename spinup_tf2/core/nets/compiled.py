"""Compilation of functions with `tf.function`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf


def compiled(
    function: Callable, autograph: bool = False, **options: Any
) -> tf.types.experimental.PolymorphicFunction:
    """Compile a function of a run with `tf.function`, by default without AutoGraph.

    AutoGraph rewrites Python's `if` and `while` for tensors, in everything that is called. That
    takes seconds at the start of a run, and hardly anything here needs it (GradientSteps does).
    """
    # TensorFlow warns of functions that are compiled again and again, which it identifies by their
    # code; several runs in one program would trigger it. A partial has no code of its own.
    return tf.function(partial(function), autograph=autograph, **options)
