"""The arguments that all algorithms share beyond Spinning Up's own, one entry each.

An algorithm takes them as `**options: Unpack[Options]`. To add one, add an entry to `OPTIONS` and
its type to `Options`. Imports no TensorFlow.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import TypedDict

from spinup_tf2.arguments.rules import (
    BEHAVIOR_POLICY,
    CALLBACKS,
    DIRECTORY,
    DURATION,
    NON_NEGATIVE_INTEGER,
    NUMBER,
    POSITIVE,
    POSITIVE_INTEGER,
    SWITCH,
    Argument,
    one_of,
    optional,
    some_of,
)


class Options(TypedDict, total=False):
    """Options of every algorithm."""

    num_envs: int
    vectorization: str
    init: str | None
    init_from: str | os.PathLike | None
    resume: bool
    checkpoint_freq: int
    keep_checkpoints: int
    deterministic_resume: bool
    env_retries: int
    stall_timeout: float | None
    callbacks: Sequence[Any] | None
    stop_at_return: float | None
    stop_without_improvement: int | None
    stop_after: str | None
    track: Sequence[str] | None
    record_every: int | None
    render_every: int | None
    verbose_episodes: bool


class OnPolicyOptions(Options, total=False):
    """Options of every on-policy algorithm."""

    behavior_policy: Callable[..., Any] | None
    num_test_episodes: int
    test_freq: int


OPTIONS = {
    "num_envs": Argument(
        POSITIVE_INTEGER,
        "int",
        "Environments in each process. Together they take steps_per_epoch steps.",
        default=1,
    ),
    "vectorization": Argument(
        one_of("sync", "async", "threads"),
        "str",
        """
        How the environments of a process are stepped: 'sync', one after the other; 'async', each
        in its own process, which pays off if a step takes longer than about 0.1 ms; or 'threads',
        several at a time in threads of the process, which pays off for environments that release
        the GIL, such as the emulator of Super Mario Bros.
        """,
        default="sync",
        may_change=True,
    ),
    "init": Argument(
        optional(one_of("glorot", "torch", "orthogonal")),
        "str",
        """
        Initial weights of all networks: 'glorot' as in TensorFlow; 'torch' as in PyTorch (uniform
        within 1/sqrt(fan_in), biases as well); or 'orthogonal' kernels, scaled by sqrt(2), except
        by 0.01 in the last layer of the policy and by 1 in the last layers of other networks.
        None: 'orthogonal' for a2c and 'torch' for all others; your own actor_critic keeps the
        weights that it comes with.
        """,
        default=None,
    ),
    "init_from": Argument(
        optional(DIRECTORY),
        "str",
        """
        Directory of an earlier run. This run starts with its trained networks (those of its last
        save), which must have the same layers. Nothing else is taken over: no optimizer state, no
        experience, no settings. None: networks start with random weights.
        """,
        default=None,
    ),
    "resume": Argument(
        SWITCH,
        "bool",
        """
        Whether to continue from the newest checkpoint in the run's directory. If the directory
        holds no run yet, the training starts from the beginning.
        """,
        default=False,
    ),
    "checkpoint_freq": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        How often (in epochs) to write a checkpoint, from which the run can be
        resumed; at most once a minute, and in any case after the last epoch and when the run is
        interrupted. 0: never.
        """,
        default=1,
        may_change=True,
    ),
    "keep_checkpoints": Argument(
        POSITIVE_INTEGER,
        "int",
        "How many of the latest checkpoints to keep.",
        default=2,
        may_change=True,
    ),
    "deterministic_resume": Argument(
        SWITCH,
        "bool",
        """
        Whether a run that is interrupted and resumed gives exactly the same numbers as one that is
        not. For this, all environments start new episodes, with their own seeds, before every
        epoch whose number is a multiple of checkpoint_freq.
        """,
        default=False,
    ),
    "env_retries": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        How many times each environment is replaced by a new one after it has raised an exception.
        Nothing is learned from the step that failed. With 0 an exception ends the run.
        """,
        default=0,
        may_change=True,
    ),
    "stall_timeout": Argument(
        optional(POSITIVE),
        "float",
        """
        Seconds after which a run of several MPI processes ends itself if one of
        them neither takes a step nor hears from the others. None: never.
        """,
        default=600,
        may_change=True,
    ),
    "callbacks": Argument(
        CALLBACKS,
        "list",
        """
        Objects with methods that are called at the start of the training, after each epoch, and
        at the end: see `spinup_tf2.callbacks`. A string `module:Name` stands for an object in a
        module, or for a class without arguments.
        """,
        default=None,
        may_change=True,
    ),
    "stop_at_return": Argument(
        optional(NUMBER),
        "float",
        """
        End the training once the mean return of an epoch reaches this value; that of the test
        episodes if there are any. None: train for all epochs.
        """,
        default=None,
        may_change=True,
    ),
    "stop_without_improvement": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        "End the training after this many epochs without a better mean return. None: never.",
        default=None,
        may_change=True,
    ),
    "stop_after": Argument(
        optional(DURATION),
        "str",
        """
        End the training after this time, at the end of an epoch, such as '8h', '90m' or '1h30m'.
        A run that is resumed gets the same time again. None: never.
        """,
        default=None,
        may_change=True,
    ),
    "track": Argument(
        optional(some_of("tensorboard", "wandb", "mlflow")),
        "list",
        """
        Experiment trackers to which everything that is logged is also sent: any of 'tensorboard',
        'wandb' (Weights & Biases) and 'mlflow'.
        """,
        default=None,
        may_change=True,
    ),
    "record_every": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        """
        How often (in epochs, from the first) to record an episode of the policy, in the folder
        `videos` of the run's directory. A separate environment is used for it. None: never.
        """,
        default=None,
        may_change=True,
    ),
    "render_every": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        "How often (in epochs, from the first) to show an episode in a window. None: never.",
        default=None,
        may_change=True,
    ),
    "verbose_episodes": Argument(
        SWITCH,
        "bool",
        """
        Whether to print a line for each episode of the training: off-policy at the end of the
        epoch in which it ended, on-policy as soon as the experience of an update is complete.
        """,
        default=False,
        may_change=True,
    ),
    "behavior_policy": Argument(
        BEHAVIOR_POLICY,
        "",
        """
        A function `behavior_policy(t, obs)`, `(t, obs, act)` or `(t, obs, act, env)` that is called
        before each step and may give a demonstration. t counts the steps of the episode from 0, obs
        is the observation as a flat vector or an image, not normalized, act the policy's action,
        and env the number of the environment. The function returns the action to take instead, in
        the form that the environment's `step` takes, or None to let the policy act.
        """,
        default=None,
    ),
    "num_test_episodes": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        Episodes in which the policy is evaluated, without noise, at the end of an epoch. Each
        starts from the same seed every time. They run in separate environments, at most num_envs
        of them (in processes if vectorization is 'async'). A policy may do better or worse with
        the noise of training than without it. 0: no evaluation.
        """,
        default=0,
    ),
    "test_freq": Argument(
        POSITIVE_INTEGER,
        "int",
        "How often (in epochs) to evaluate the policy; after the last epoch in any case.",
        default=1,
    ),
}
