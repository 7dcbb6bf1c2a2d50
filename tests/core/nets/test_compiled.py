"""Compiled functions."""

import logging
from functools import partial

import pytest
import tensorflow as tf

from spinup_tf2.core.nets.layers import compiled


@pytest.fixture
def warnings_of_tensorflow():
    messages = []

    class Keep(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    keep = Keep()
    tf.get_logger().addHandler(keep)
    yield messages
    tf.get_logger().removeHandler(keep)


def test_several_runs_do_not_look_like_one_function_compiled_again(warnings_of_tensorflow):
    """Each run makes its compiled functions anew, from the same code."""

    def train(compile_it):
        compile_it(lambda x: x + 1)(tf.constant(1.0))

    for _ in range(8):
        train(compiled)
        train(partial(compiled, autograph=True))
    assert not warnings_of_tensorflow
    for _ in range(8):
        train(tf.function)
    assert "retracing" in warnings_of_tensorflow[0]  # this is how it would look
