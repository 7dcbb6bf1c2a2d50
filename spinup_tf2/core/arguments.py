"""What the arguments of the algorithms may be, said once for the command line and the functions.

Imports no TensorFlow: a wrong value is reported before anything is loaded or written. The same
name means the same thing in every algorithm, so that the rules are kept by name.
"""

import math
from collections.abc import Mapping
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


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


_POSITIVE_INTEGER = (lambda v: _is_integer(v) and v >= 1, "a whole number of at least 1")
_INTEGER = (lambda v: _is_integer(v) and v >= 0, "a whole number of at least 0")
_POSITIVE = (lambda v: _is_number(v) and v > 0, "a number above 0")
_NON_NEGATIVE = (lambda v: _is_number(v) and v >= 0, "a number of at least 0")
_FRACTION = (lambda v: _is_number(v) and 0 <= v <= 1, "a number between 0 and 1")

_RULES = {
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
    "target_kl": _POSITIVE,
    "pi_lr": _NON_NEGATIVE,
    "vf_lr": _NON_NEGATIVE,
    "delta": _POSITIVE,
    "damping_coeff": _NON_NEGATIVE,
    "cg_iters": _POSITIVE_INTEGER,
    "backtrack_iters": _POSITIVE_INTEGER,
    "backtrack_coeff": (lambda v: _is_number(v) and 0 < v < 1, "a number above 0 and below 1"),
    "algo": (lambda v: v in ("trpo", "npg"), "'trpo' or 'npg'"),
    "vectorization": (lambda v: v in ("sync", "async"), "'sync' or 'async'"),
    "ac_kwargs": (lambda v: v is None or isinstance(v, dict), "a dict of arguments, or None"),
}

_MLP_RULES = {
    "hidden_sizes": (
        lambda v: isinstance(v, list | tuple) and all(_is_integer(s) and s >= 1 for s in v),
        "a list of layer widths such as [64,64]",
    ),
    "activation": (
        lambda v: callable(v) or v is None or v in ACTIVATIONS,
        f"one of {', '.join(ACTIVATIONS)}, or a function of a tensor",
    ),
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
        _check_division(arguments["steps_per_epoch"], arguments.get("num_envs", 1), num_procs)


def check_mlp_arguments(ac_kwargs: Mapping[str, Any]) -> None:
    """Check the arguments of MLPActorCritic, as `check_arguments` does those of an algorithm."""
    _check_rules(_MLP_RULES, ac_kwargs)


def _check_rules(rules, arguments):
    for name, value in arguments.items():
        if name in rules:
            is_valid, expected = rules[name]
            if not is_valid(value):
                raise UserError(f"{name} is {value!r}; it must be {expected}.")


def _check_division(steps_per_epoch, num_envs, num_procs):
    """An epoch's steps are shared equally by all environments of all ranks."""
    environments = num_envs * num_procs
    if steps_per_epoch % environments:
        nearest = max(1, round(steps_per_epoch / environments)) * environments
        raise UserError(
            f"steps_per_epoch is {steps_per_epoch}, which {environments} environments ({num_envs} "
            f"in each of {num_procs} processes) cannot share equally; use a multiple of "
            f"{environments}, such as {nearest}."
        )
