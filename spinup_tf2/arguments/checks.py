"""What the arguments of the algorithms may be, said once for the command line and the functions.

Imports no TensorFlow: a wrong value is reported before anything is loaded or written. The same
name means the same thing in every algorithm, so that the rules are kept by name.
"""

import math
import os
from collections.abc import Mapping
from inspect import isclass
from numbers import Integral, Real
from typing import Any

from spinup_tf2.errors import UserError

ACTIVATIONS = (
    "elu",
    "gelu",
    "leaky_relu",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "swish",
    "tanh",
)

_OF_CLASSES = {name.replace("_", ""): name for name in ACTIVATIONS} | {"identity": "linear"}


def activation_of_class(layer: type) -> str | None:
    """The name of the activation that a layer of Keras or PyTorch is: 'relu' for ReLU."""
    return _OF_CLASSES.get(layer.__name__.lower())


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


_POSITIVE_INTEGER = (lambda v: _is_integer(v) and v >= 1, "a whole number of at least 1")
_INTEGER = (lambda v: _is_integer(v) and v >= 0, "a whole number of at least 0")
_POSITIVE = (lambda v: _is_number(v) and v > 0, "a number above 0")
_NON_NEGATIVE = (lambda v: _is_number(v) and v >= 0, "a number of at least 0")
_FRACTION = (lambda v: _is_number(v) and 0 <= v <= 1, "a number between 0 and 1")
_NUMBER = (_is_number, "a number")
_SWITCH = (lambda v: isinstance(v, bool), "True or False")
_DEFAULT_LAM2 = 0.93  # as in the signature of ppo


def _optional(rule):
    is_valid, expected = rule
    return (lambda v: v is None or is_valid(v), f"{expected}, or None")


_RULES = {
    "env_fn": (
        lambda v: callable(v) or isinstance(v, str),
        "a function that makes the environment anew each time, such as "
        "lambda: gymnasium.make('CartPole-v1'), or the id of one that is registered",
    ),
    "seed": (lambda v: _is_integer(v) and 0 <= v < 2**32, "a whole number from 0 to 4294967295"),
    "steps_per_epoch": _POSITIVE_INTEGER,
    "epochs": _POSITIVE_INTEGER,
    "save_freq": _POSITIVE_INTEGER,
    "max_ep_len": _POSITIVE_INTEGER,
    "num_envs": _POSITIVE_INTEGER,
    "train_pi_iters": _INTEGER,
    "train_v_iters": _INTEGER,
    "gamma": _FRACTION,
    "lam": _FRACTION,
    "clip_ratio": _POSITIVE,
    "target_kl": _optional(_POSITIVE),
    "pi_lr": _NON_NEGATIVE,
    "vf_lr": _NON_NEGATIVE,
    "delta": _POSITIVE,
    "damping_coeff": _NON_NEGATIVE,
    "cg_iters": _POSITIVE_INTEGER,
    "backtrack_iters": _POSITIVE_INTEGER,
    "backtrack_coeff": (lambda v: _is_number(v) and 0 < v < 1, "a number above 0 and below 1"),
    "algo": (lambda v: v in ("trpo", "npg"), "'trpo' or 'npg'"),
    "objective": (lambda v: v in ("clip", "penalty"), "'clip' or 'penalty'"),
    "beta": _POSITIVE,
    "lam1": _optional(_FRACTION),
    "lam2": _FRACTION,
    "coeff": _optional(_FRACTION),
    "ent_coef": _NON_NEGATIVE,
    "vf_coef": _NON_NEGATIVE,
    "minibatch_size": _optional(_POSITIVE_INTEGER),
    "max_grad_norm": _optional(_POSITIVE),
    "lr_schedule": (lambda v: v in ("constant", "linear"), "'constant' or 'linear'"),
    "orthogonal_init": _optional(_SWITCH),
    "lr": _NON_NEGATIVE,
    "q_lr": _NON_NEGATIVE,
    "replay_size": _POSITIVE_INTEGER,
    "polyak": _FRACTION,
    "batch_size": _POSITIVE_INTEGER,
    "start_steps": _INTEGER,
    "update_after": _INTEGER,
    "update_every": _POSITIVE_INTEGER,
    "act_noise": _NON_NEGATIVE,
    "target_noise": _NON_NEGATIVE,
    "noise_clip": _NON_NEGATIVE,
    "policy_delay": _POSITIVE_INTEGER,
    "num_test_episodes": _INTEGER,
    "test_freq": _POSITIVE_INTEGER,
    "alpha": (
        lambda v: v == "auto" or (_is_number(v) and v >= 0),
        "a number of at least 0, or 'auto'",
    ),
    "target_entropy": (lambda v: v is None or _is_number(v), "a number, or None"),
    "n_steps": _POSITIVE_INTEGER,
    "rms_eps": _POSITIVE,
    "rms_init": _NON_NEGATIVE,
    "normalize_adv": _SWITCH,
    "normalize_obs": _SWITCH,
    "normalize_reward": _SWITCH,
    "behavior_policy": (
        lambda v: v is None or callable(v),
        "a function (t, obs) -> action, or None",
    ),
    "init_from": (
        lambda v: v is None or isinstance(v, str | os.PathLike),
        "the directory of a run, or None",
    ),
    "resume": _SWITCH,
    "checkpoint_freq": _INTEGER,
    "keep_checkpoints": _POSITIVE_INTEGER,
    "deterministic_resume": _SWITCH,
    "env_retries": _INTEGER,
    "stall_timeout": _optional(_POSITIVE),
    "vectorization": (lambda v: v in ("sync", "async", "threads"), "'sync', 'async' or 'threads'"),
    "ac_kwargs": (lambda v: v is None or isinstance(v, dict), "a dict of arguments, or None"),
}

# What may be different when a run goes on. All else would make it another run.
MAY_CHANGE = (
    "epochs",
    "save_freq",
    "checkpoint_freq",
    "keep_checkpoints",
    "env_retries",
    "stall_timeout",
    "vectorization",
)

CONVOLUTIONS = ("nature", "small")


def _is_convolution(value):
    return (
        isinstance(value, list | tuple)
        and len(value) == 3
        and all(_is_integer(v) and v >= 1 for v in value)
    )


_NETWORK_RULES = {
    "hidden_sizes": (
        lambda v: isinstance(v, list | tuple) and all(_is_integer(s) and s >= 1 for s in v),
        "a list of layer widths such as [64,64]",
    ),
    "activation": (
        lambda v: (
            activation_of_class(v) if isclass(v) else callable(v) or v in (None, *ACTIVATIONS)
        ),
        f"one of {', '.join(ACTIVATIONS)}, a class of such a name (keras.layers.ReLU), or a "
        "function of a tensor",
    ),
    "conv": (
        lambda v: (
            v in CONVOLUTIONS
            or (isinstance(v, list | tuple) and len(v) > 0 and all(map(_is_convolution, v)))
        ),
        f"one of {', '.join(CONVOLUTIONS)}, or a list of (filters, kernel size, stride) such as "
        "[[32,8,4],[64,4,2]]",
    ),
    "shared": _SWITCH,
    "log_std_init": _NUMBER,
}


def check_arguments(arguments: Mapping[str, Any], num_procs: int = 1) -> None:
    """Check the arguments of an algorithm.

    arguments: all keyword arguments of one call, defaults included. Names without a rule are left
        to the function that takes them.
    num_procs: how many MPI ranks will share each epoch's steps.
    Raises UserError that names the argument, its value and what it should be.
    """
    _check_rules(_RULES, arguments)
    if "steps_per_epoch" in arguments:
        names = ("steps_per_epoch", "num_envs", "n_steps")
        _check_division(*(arguments.get(name, 1) for name in names), num_procs)
    if arguments.get("minibatch_size") is not None:
        environments = arguments["num_envs"] * num_procs
        _check_minibatches(arguments["minibatch_size"], arguments["steps_per_epoch"], environments)
    if "batch_size" in arguments:
        _check_batch_size(arguments["batch_size"], arguments["num_envs"], num_procs)
    if arguments.get("deterministic_resume") and arguments["checkpoint_freq"] == 0:
        raise UserError(
            "deterministic_resume is True, but checkpoint_freq is 0, so that nothing is saved; "
            "leave one of them out."
        )
    if arguments.get("objective") == "penalty" and arguments["target_kl"] is None:
        raise UserError(
            "target_kl is None, but objective 'penalty' adapts its coefficient to it; give a "
            "positive number such as 0.01, or use objective 'clip'."
        )
    if "coeff" in arguments:
        _check_mixture(arguments["lam1"], arguments["lam2"], arguments["coeff"])


def whole_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments`, in which 1e6 has become 1000000 where only a whole number will do."""

    def converted(name, value):
        is_valid, _ = _RULES.get(name, (callable, ""))
        whole = isinstance(value, float) and value.is_integer() and not is_valid(value)
        return int(value) if whole and is_valid(int(value)) else value

    return {name: converted(name, value) for name, value in arguments.items()}


def check_epochs_left(epochs: int, done: int, run_dir: str | os.PathLike) -> None:
    """Raise UserError if a run that is to go on has more epochs behind it than it is to have."""
    if epochs < done:
        raise UserError(
            f"epochs is {epochs}, and the run in {run_dir} has {done} behind it; give more than "
            f"{done} to go on with it."
        )


def check_network_arguments(ac_kwargs: Mapping[str, Any]) -> None:
    """Check arguments of the default networks, as `check_arguments` does those of an algorithm."""
    _check_rules(_NETWORK_RULES, ac_kwargs)


def _check_rules(rules, arguments):
    for name, value in arguments.items():
        if name in rules:
            is_valid, expected = rules[name]
            if not is_valid(value):
                raise UserError(f"{name} is {value!r}; it must be {expected}.")


def _check_division(steps_per_epoch, num_envs, n_steps, num_procs):
    """An epoch's steps are shared equally by all environments of all ranks, in whole updates."""
    environments = num_envs * num_procs
    unit = environments * n_steps
    if steps_per_epoch % unit:
        nearest = max(1, round(steps_per_epoch / unit)) * unit
        equally = "equally" if n_steps == 1 else f"equally in updates of {n_steps} steps each"
        raise UserError(
            f"steps_per_epoch is {steps_per_epoch}, which {environments} environments ({num_envs} "
            f"in each of {num_procs} processes) cannot share {equally}; use a multiple of "
            f"{unit}, such as {nearest}."
        )


def _check_minibatches(minibatch_size, steps_per_epoch, environments):
    """Every minibatch holds equally many steps of each environment, and every step is in one."""
    if minibatch_size % environments or steps_per_epoch % minibatch_size:
        sizes = range(environments, steps_per_epoch + 1, environments)
        possible = [size for size in sizes if steps_per_epoch % size == 0]
        nearest = min(possible, key=lambda size: abs(size - minibatch_size))
        raise UserError(
            f"minibatch_size is {minibatch_size}; it must be a multiple of the number of "
            f"environments of all processes, {environments}, and divide steps_per_epoch, "
            f"{steps_per_epoch}; use one such as {nearest}."
        )


def _check_batch_size(batch_size, num_envs, num_procs):
    """All ranks draw equally many rows, and from the past of every environment at least one."""
    environments = num_envs * num_procs
    if batch_size % num_procs or batch_size < environments:
        nearest = max(num_envs, -(-batch_size // num_procs)) * num_procs
        raise UserError(
            f"batch_size is {batch_size}; it must be a multiple of the number of processes, "
            f"{num_procs}, and at least the number of environments of all processes, "
            f"{environments}; use one such as {nearest}."
        )


def _check_mixture(lam1, lam2, coeff):
    """lam1 and lam2 mean something together with coeff only."""
    if coeff is None and (lam1 is not None or lam2 != _DEFAULT_LAM2):
        given = f"lam1 is {lam1}" if lam1 is not None else f"lam2 is {lam2}"
        raise UserError(
            f"{given}, but coeff is None; give coeff, the weight between 0 and 1 of the advantage "
            "with lam1 (lam2's is the rest), or use lam for a single lambda."
        )
