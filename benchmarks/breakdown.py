"""Where the time of a PPO run goes, and how far its update is from the machine's limit.

The package holds no timing code: its functions are wrapped from here.
"""

import time
from collections import defaultdict
from functools import wraps
from importlib import import_module
from itertools import pairwise

# What the sections of a run are made of, as "module:Class.method". Time in nested calls counts for
# the inner section only; what is in none of them is "rest".
SECTIONS = {
    "environment": ["spinup_tf2.core.vector_env:VectorEnv.step"],
    "acting": [
        "spinup_tf2.core.acting:Actor.__call__",
        "spinup_tf2.core.acting:Actor.refresh",
        "spinup_tf2.core.vector_env:VectorEnv.noise",
    ],
    "storing": ["spinup_tf2.core.buffers:TrajectoryBuffer.store"],
    "advantage": ["spinup_tf2.core.buffers:TrajectoryBuffer.get"],
    "update": ["spinup_tf2.core.optimization:GradientSteps.__call__"],
    "logging": [
        "spinup_tf2.utils.logx:EpochLogger.store",
        "spinup_tf2.utils.logx:EpochLogger.log_tabular",
        "spinup_tf2.utils.logx:EpochLogger.dump_tabular",
    ],
    "saving": ["spinup_tf2.utils.logx:EpochLogger.save_state"],
}
REST = "rest"


class Stopwatch:
    """Divides the wall time among sections; at every moment exactly one of them is running."""

    def __init__(self, clock=time.perf_counter):
        self._clock = clock
        self._seconds = defaultdict(float)
        self._section = REST
        self._since = clock()

    def switch(self, section):
        """Let the time from now on count for `section`; return the section before."""
        now = self._clock()
        self._seconds[self._section] += now - self._since
        previous, self._section, self._since = self._section, section, now
        return previous

    def read(self):
        """Return the seconds of each section until now."""
        self.switch(self._section)
        return dict(self._seconds)

    def wrap(self, function, section):
        """Return `function`, with its time counted for `section`."""

        @wraps(function)
        def timed(*args, **kwargs):
            previous = self.switch(section)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch(previous)

        return timed

    def watch(self, sections):
        """Wrap the methods of a table like `SECTIONS` where they are defined."""
        for section, targets in sections.items():
            for target in targets:
                module, _, path = target.partition(":")
                class_name, _, method = path.partition(".")
                owner = getattr(import_module(module), class_name)
                setattr(owner, method, self.wrap(getattr(owner, method), section))


def gradient_step_matmuls(batch, sizes):
    """The matrix products of one full-batch gradient step of an MLP, as (m, k, n).

    Each layer of `sizes[i]` inputs and `sizes[i + 1]` outputs multiplies once forward, once for the
    gradient of its weights and, except for the first, once for the gradient of its inputs.
    """
    products = []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        products.append((batch, inputs, outputs))
        products.append((inputs, batch, outputs))
        if layer > 0:
            products.append((batch, outputs, inputs))
    return products


def matmul_flops(products):
    """The floating-point operations of matrix products (m, k, n): a multiply and an add each."""
    return sum(2 * m * k * n for m, k, n in products)


def matmul_seconds(m, k, n, tries=5):
    """The best time of one float32 product [m, k] x [k, n] in TensorFlow, measured in a graph."""
    import tensorflow as tf

    left, right = tf.random.normal((m, k)), tf.random.normal((k, n))
    repeats = max(3, min(1000, int(2e9 / matmul_flops([(m, k, n)]))))

    # Not compiled by XLA, which would see that the product is the same each time.
    @tf.function(jit_compile=False)
    def multiply():
        _, product = tf.while_loop(
            lambda i, _: i < repeats,
            lambda i, _: (i + 1, tf.matmul(left, right)),
            (0, tf.zeros((m, n))),
        )
        return product

    multiply()  # trace
    best = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        multiply().numpy()
        best = min(best, time.perf_counter() - start)
    return best / repeats


def update_limit(batch, pi_sizes, v_sizes, pi_steps, v_steps, update_seconds):
    """Compare the updates of a run with the float32 matrix products that they cannot avoid.

    `pi_steps` and `v_steps` are the gradient steps that took `update_seconds`. Only matrix products
    are counted: no activations, distributions, optimizers, nor the losses taken for logging.
    """
    pi_step = gradient_step_matmuls(batch, pi_sizes)
    v_step = gradient_step_matmuls(batch, v_sizes)
    flops = pi_steps * matmul_flops(pi_step) + v_steps * matmul_flops(v_step)

    large = (2048, 2048, 2048)
    seconds_of = {shape: matmul_seconds(*shape) for shape in {*pi_step, *v_step, large}}
    own_shapes_seconds = pi_steps * sum(seconds_of[shape] for shape in pi_step)
    own_shapes_seconds += v_steps * sum(seconds_of[shape] for shape in v_step)
    return {
        "gradient_steps": pi_steps + v_steps,
        "update_gflops": flops / update_seconds / 1e9,
        "large_matmul_gflops": matmul_flops([large]) / seconds_of[large] / 1e9,
        "own_shapes_gflops": flops / own_shapes_seconds / 1e9,
        "matmul_gflops": {
            "x".join(map(str, shape)): matmul_flops([shape]) / seconds / 1e9
            for shape, seconds in sorted(seconds_of.items())
        },
    }
