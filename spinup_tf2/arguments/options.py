"""The arguments that all algorithms share beyond Spinning Up's own, one entry each.

An algorithm takes them as `**options: Unpack[Options]`. To add one, add an entry to `OPTIONS` and
its type to `Options`. Imports no TensorFlow.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
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


class OnPolicyOptions(Options, total=False):
    """Options of every on-policy algorithm."""

    behavior_policy: Callable[[int, np.ndarray], Any] | None
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
        'sync' steps the environments of a process in turn, 'async' gives each of them a process of
        its own, which pays when a step takes longer than about 0.1 ms. 'threads' steps several at
        a time in threads of the process, which pays for environments that release the GIL, such as
        the emulator of Super Mario Bros.
        """,
        default="sync",
        may_change=True,
    ),
    "init": Argument(
        optional(one_of("glorot", "torch", "orthogonal")),
        "str",
        """
        The first weights of all networks: 'glorot' as in TensorFlow, 'torch' as in PyTorch
        (uniform within 1/sqrt(fan_in), biases as well), or 'orthogonal' kernels, scaled by sqrt(2),
        in the policy's last layer by 0.01 and in those of the others by 1. None: 'orthogonal' for
        a2c, and 'torch' for all others; an actor_critic of your own keeps the weights that it
        comes with.
        """,
        default=None,
    ),
    "init_from": Argument(
        optional(DIRECTORY),
        "str",
        """
        Directory of an earlier run, with whose trained networks (those of its last save)
        this one begins. They must have the same layers. Nothing else is taken over: no optimizer's
        state, no experience, no settings. None: networks begin with random weights.
        """,
        default=None,
    ),
    "resume": Argument(
        SWITCH,
        "bool",
        """
        Whether to go on from the newest checkpoint in the run's directory. If the directory
        holds no run yet, the training starts from its beginning.
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
        Whether a run that is interrupted and resumed is to give exactly the
        numbers of one that is not. To this end all environments begin new episodes, from seeds of
        their own, before every epoch whose number is a multiple of checkpoint_freq.
        """,
        default=False,
    ),
    "env_retries": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        How many times each environment is made anew after it has raised an exception.
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
        Objects that are told of the start of the training, of each epoch, and of the end: see
        `spinup_tf2.callbacks`. A string `module:Name` stands for an object in a module, or for a
        class without arguments.
        """,
        default=None,
        may_change=True,
    ),
    "stop_at_return": Argument(
        optional(NUMBER),
        "float",
        """
        The mean return of an epoch with which the training ends; that of the test episodes if
        there are any. None: it ends after its epochs.
        """,
        default=None,
        may_change=True,
    ),
    "stop_without_improvement": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        "After how many epochs without a better mean return the training ends. None: never.",
        default=None,
        may_change=True,
    ),
    "stop_after": Argument(
        optional(DURATION),
        "str",
        """
        The time after which the training ends, at the end of an epoch, such as '8h', '90m' or
        '1h30m'. A run that is resumed has as much again. None: never.
        """,
        default=None,
        may_change=True,
    ),
    "track": Argument(
        optional(some_of("tensorboard", "wandb", "mlflow")),
        "list",
        """
        What else gets all that is logged: any of 'tensorboard', 'wandb' (Weights & Biases) and
        'mlflow'.
        """,
        default=None,
        may_change=True,
    ),
    "record_every": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        """
        How often (in epochs, from the first) an episode of the policy is recorded, in the folder
        `videos` of the run's directory. It takes place in an environment of its own. None: never.
        """,
        default=None,
        may_change=True,
    ),
    "render_every": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        "How often (in epochs, from the first) an episode is shown in a window. None: never.",
        default=None,
        may_change=True,
    ),
    "behavior_policy": Argument(
        BEHAVIOR_POLICY,
        "",
        """
        A function `behavior_policy(t, obs)` that is asked for a demonstration before
        each step: t counts the steps of the episode from 0, obs is the observation as a flat vector
        or an image, not normalized. It returns the action that is taken instead of the policy's, in
        the form that the environment's `step` takes, or None to let the policy act.
        """,
        default=None,
    ),
    "num_test_episodes": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        Episodes in which the policy is evaluated, without noise, at the end of an epoch. Each
        starts from the same seed every time. They take place in environments that serve nothing
        else: as many as num_envs, or fewer (processes if vectorization is 'async'). With noise a
        policy may seem to do what it cannot, and the other way round. 0: there is no evaluation.
        """,
        default=0,
    ),
    "test_freq": Argument(
        POSITIVE_INTEGER,
        "int",
        "How often (in epochs) the policy is evaluated; after the last epoch in any case.",
        default=1,
    ),
}
