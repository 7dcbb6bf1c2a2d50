"""Where the time of a run goes, and how far its update is from the machine's limit.

The package holds no timing code: its functions are wrapped from here.
"""

import time
from collections import defaultdict
from functools import wraps
from importlib import import_module
from itertools import pairwise

# What the sections of a run are made of, as "module:Class.method". Time in nested calls counts for
# the inner section only; what is in none of them is "rest".
COMMON_SECTIONS = {
    "acting": [
        "spinup_tf2.core.nets.acting:Actor.__call__",
        "spinup_tf2.core.nets.acting:Actor.refresh",
        "spinup_tf2.core.workers.randomness:Randomness.noise",
    ],
    "environment": ["spinup_tf2.core.vector_env:VectorEnv.step"],
    "logging": [
        "spinup_tf2.files.logger:EpochLogger.store",
        "spinup_tf2.files.logger:EpochLogger.log_tabular",
        "spinup_tf2.files.logger:EpochLogger.dump_tabular",
    ],
    "saving": ["spinup_tf2.files.logger:EpochLogger.save_state"],
}
ON_POLICY_SECTIONS = COMMON_SECTIONS | {
    "storing": ["spinup_tf2.core.trajectories:TrajectoryBuffer.store"],
    "advantage": ["spinup_tf2.core.trajectories:TrajectoryBuffer.get"],
    "update": ["spinup_tf2.core.gradient_steps:Training.__call__"],
}
OFF_POLICY_SECTIONS = COMMON_SECTIONS | {
    "storing": ["spinup_tf2.core.replay_buffer:ReplayBuffer.store"],
    "sampling": ["spinup_tf2.core.replay_buffer:ReplayBuffer.sample"],
    "update": ["spinup_tf2.core.update_block:UpdateBlock.__call__"],
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
        """Wrap the methods of such a table of sections where they are defined."""
        for section, targets in sections.items():
            for target in targets:
                module, _, path = target.partition(":")
                class_name, _, method = path.partition(".")
                owner = getattr(import_module(module), class_name)
                setattr(owner, method, self.wrap(getattr(owner, method), section))


def forward(batch, sizes):
    """The matrix products of an MLP's outputs, as (m, k, n) for [m, k] x [k, n].

    Layer i has `sizes[i]` inputs and `sizes[i + 1]` outputs.
    """
    return [(batch, inputs, outputs) for inputs, outputs in pairwise(sizes)]


def weight_gradients(batch, sizes):
    """Those of the gradients of all weights, given the gradients of all layers' outputs."""
    return [(inputs, batch, outputs) for inputs, outputs in pairwise(sizes)]


def hidden_gradients(batch, sizes):
    """Those of the gradients of the hidden layers: the inputs of all layers but the first."""
    return [(batch, outputs, inputs) for inputs, outputs in pairwise(sizes[1:])]


def gradient_step_matmuls(batch, sizes):
    """Those of a gradient step of an MLP; nobody needs the gradient of its own inputs."""
    backward = weight_gradients(batch, sizes) + hidden_gradients(batch, sizes)
    return forward(batch, sizes) + backward


def off_policy_update_matmuls(algorithm, batch, obs_dim, act_dim, hidden_sizes):
    """Those of a step of the Q-functions, and those of a step of the policy, as two lists.

    SAC, with P and Q for the networks forward, dP and dQ for the gradients of their weights:

        Q-functions   P(next obs), 2 Q_target(next obs, its action), 2 Q(obs, act), 2 dQ
        policy        P(obs), 2 Q(obs, its action), 2 gradients of Q's action, dP

    SAC's policy has a mean and a standard deviation for each dimension of the action. TD3 has no
    second Q-function in the policy's step, and DDPG has only one.
    """
    outputs = 2 * act_dim if algorithm == "sac" else act_dim
    pi = (obs_dim, *hidden_sizes, outputs)
    q = (obs_dim + act_dim, *hidden_sizes, 1)
    num_q = 1 if algorithm == "ddpg" else 2
    num_q_of_policy = 2 if algorithm == "sac" else 1

    action_gradient = [*hidden_gradients(batch, q), (batch, hidden_sizes[0], act_dim)]
    q_step = forward(batch, pi) + num_q * forward(batch, q)
    q_step += num_q * gradient_step_matmuls(batch, q)
    pi_step = num_q_of_policy * (forward(batch, q) + action_gradient)
    pi_step += gradient_step_matmuls(batch, pi)
    return q_step, pi_step


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


def update_limit(steps, gradient_steps, update_seconds):
    """Compare the updates of a run with the float32 matrix products that they cannot avoid.

    steps: pairs of a number of steps and the matrix products of one of them; all steps together
        took `update_seconds`. Only matrix products are counted: no activations, distributions,
        optimizers, nor the losses taken for logging.
    gradient_steps: how many there were, in the sense of the report.
    """
    flops = sum(count * matmul_flops(products) for count, products in steps)
    large = (2048, 2048, 2048)
    shapes = {large}.union(*(products for _, products in steps))
    seconds_of = {shape: matmul_seconds(*shape) for shape in shapes}
    own_shapes_seconds = sum(
        count * seconds_of[shape] for count, products in steps for shape in products
    )
    return {
        "gradient_steps": gradient_steps,
        "update_gflops": flops / update_seconds / 1e9,
        "large_matmul_gflops": matmul_flops([large]) / seconds_of[large] / 1e9,
        "own_shapes_gflops": flops / own_shapes_seconds / 1e9,
        "matmul_gflops": {
            "x".join(map(str, shape)): matmul_flops([shape]) / seconds / 1e9
            for shape, seconds in sorted(seconds_of.items())
        },
    }
