"""Rules for the values of arguments. Imports no TensorFlow."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isclass, signature
from numbers import Integral, Real
from typing import Any

from spinup_tf2.callbacks import has_hooks, seconds_of
from spinup_tf2.errors import UserError

# A function that says whether a value is valid, and the expected value for messages.
Rule = tuple[Callable[[Any], object], str]

REQUIRED = object()  # stands for the default of an argument that has none, or several


@dataclass(frozen=True)
class Argument:
    """An argument that several algorithms have.

    Attributes:
        rule: Rule for its values.
        type: Name of its type in the description; "" if that is obvious.
        text: Description.
        default: Default value; REQUIRED if the signatures of the algorithms define it.
        may_change: Whether it may be changed when a run is resumed. A change of any other argument
            would make it a different run.
        off_policy: Description for the off-policy algorithms, if it differs.
    """

    rule: Rule
    type: str
    text: str
    default: Any = REQUIRED
    may_change: bool = False
    off_policy: str = ""


def _is_number(value):
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer that is larger than any float
        return False


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_callback(value):
    if isinstance(value, str):
        module, _, name = value.rpartition(":")
        return name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return has_hooks(value) and not isclass(value)


def behavior_inputs(value: Any) -> int:
    """Return how many of (t, obs, act, env) a behavior_policy takes: 2 to 4; 0 if it is none."""
    for number in (2, 3, 4):
        try:
            # The signature of the call: a wrapper may take more than the function that it wraps.
            signature(value, follow_wrapped=False).bind(*range(number))
        except ValueError:  # written in C, without a known signature
            return 2
        except TypeError:
            continue
        return number
    return 0


def at_least(least: int) -> Rule:
    """Return a rule that allows whole numbers from `least` on."""
    return (lambda v: _is_integer(v) and v >= least, f"a whole number of at least {least}")


NON_NEGATIVE_INTEGER = at_least(0)
POSITIVE_INTEGER = at_least(1)
POSITIVE: Rule = (lambda v: _is_number(v) and v > 0, "a number above 0")
NON_NEGATIVE: Rule = (lambda v: _is_number(v) and v >= 0, "a number of at least 0")
FRACTION: Rule = (lambda v: _is_number(v) and 0 <= v <= 1, "a number between 0 and 1")
NUMBER: Rule = (_is_number, "a number")
SWITCH: Rule = (lambda v: isinstance(v, bool), "True or False")


def check(rule: Rule, **values: Any) -> None:
    """Raise UserError for the first of the named values that violates a rule."""
    is_valid, expected = rule
    for name, value in values.items():
        if not is_valid(value):
            raise UserError(f"{name} is {value!r}; it must be {expected}.")


def optional(rule: Rule) -> Rule:
    """Return a rule that also allows None."""
    is_valid, expected = rule
    return (lambda v: v is None or is_valid(v), f"{expected}, or None")


def one_of(*words: str) -> Rule:
    """Return a rule that allows one of some words."""
    quoted = [repr(word) for word in words]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    return (lambda v: isinstance(v, str) and v in words, expected)


def some_of(*words: str) -> Rule:
    """Return a rule that allows non-empty lists of some words, each at most once."""
    return (
        lambda v: (
            isinstance(v, list | tuple)
            and all(isinstance(word, str) and word in words for word in v)
            and len({*v}) == len(v) > 0
        ),
        f"a list of some of {', '.join(map(repr, words))}",
    )


SEED: Rule = (lambda v: _is_integer(v) and 0 <= v < 2**32, "a whole number from 0 to 4294967295")
ENV_FN: Rule = (
    lambda v: callable(v) or isinstance(v, str),
    "a function that creates a new environment each time, such as "
    "lambda: gymnasium.make('CartPole-v1'), or the id of one that is registered",
)
ACTOR_CRITIC: Rule = (
    callable,
    "a function or class, called as actor_critic(observation_space, action_space, **ac_kwargs)",
)
KEYWORDS = optional((lambda v: isinstance(v, dict), "a dict of arguments"))
DIRECTORY: Rule = (lambda v: isinstance(v, str | os.PathLike), "the directory of a run")
DURATION: Rule = (lambda v: seconds_of(v) is not None, "a duration such as '8h', '90m' or '1h30m'")
CALLBACKS: Rule = (
    lambda v: v is None or (isinstance(v, list | tuple) and all(map(_is_callback, v))),
    "a list of objects with on_start, columns, on_epoch_end or on_end, as in "
    "spinup_tf2.callbacks.Callback (Keras has others), or of their names, as module:Name",
)
BEHAVIOR_POLICY = optional(
    (behavior_inputs, "a function (t, obs), (t, obs, act) or (t, obs, act, env) -> action")
)


def _is_learned_alpha(value):
    if not isinstance(value, str):
        return False
    auto, _, start = value.partition("_")
    try:
        return auto == "auto" and (value == auto or 0 < float(start) < math.inf)
    except ValueError:
        return False


# Rules for arguments of single algorithms. Algorithms outside the package check their own.
OWN_RULES = {
    "train_pi_iters": NON_NEGATIVE_INTEGER,
    "clip_ratio": POSITIVE,
    "target_kl": optional(POSITIVE),
    "delta": POSITIVE,
    "damping_coeff": NON_NEGATIVE,
    "cg_iters": POSITIVE_INTEGER,
    "backtrack_iters": POSITIVE_INTEGER,
    "backtrack_coeff": (lambda v: _is_number(v) and 0 < v < 1, "a number above 0 and below 1"),
    "algo": one_of("trpo", "npg"),
    "objective": one_of("clip", "penalty"),
    "lr": NON_NEGATIVE,
    "target_noise": NON_NEGATIVE,
    "noise_clip": NON_NEGATIVE,
    "policy_delay": POSITIVE_INTEGER,
    "alpha": (
        lambda v: _is_learned_alpha(v) or (_is_number(v) and v >= 0),
        "a number of at least 0, or 'auto', or 'auto_' and a number above 0 to start at",
    ),
    "target_entropy": optional(NUMBER),
    "eps_start": FRACTION,
    "eps_end": FRACTION,
    "eps_steps": POSITIVE_INTEGER,
    "double_q": SWITCH,
    "huber": SWITCH,
    "copy_every": optional(POSITIVE_INTEGER),
    "num_updates": optional(POSITIVE_INTEGER),
    "n_steps": POSITIVE_INTEGER,
    "rms_decay": FRACTION,
    "rms_eps": POSITIVE,
    "rms_init": NON_NEGATIVE,
    "normalize_adv": SWITCH,
    "arch": one_of("dual", "shared", "detach"),
    "n_pi": POSITIVE_INTEGER,
    "train_aux_iters": NON_NEGATIVE_INTEGER,
    "aux_lr": NON_NEGATIVE,
    "beta_clone": NON_NEGATIVE,
    "aux_minibatch_size": POSITIVE_INTEGER,
}


# ------------------------------------------------------------------------ rules for networks

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
# The slope of LeakyReLU is 0.3 in Keras and 0.01 in PyTorch; that of the function is 0.2.
del _OF_CLASSES["leakyrelu"]


def activation_of_class(name: str) -> str | None:
    """Return the activation for the name of a class of Keras or PyTorch, such as 'relu' for ReLU.

    None if there is none.
    """
    return _OF_CLASSES.get(name.lower())


def _is_activation(value):
    if isclass(value):
        return activation_of_class(value.__name__)
    return callable(value) or value in (None, *ACTIVATIONS)


CONVOLUTIONS = ("nature", "small", "impala")


def _is_convolution(value):
    return (
        isinstance(value, list | tuple)
        and len(value) == 3
        and all(_is_integer(v) and v >= 1 for v in value)
    )


NETWORK_RULES = {
    "hidden_sizes": (
        lambda v: isinstance(v, list | tuple) and all(_is_integer(s) and s >= 1 for s in v),
        "a list of layer widths such as [64,64]",
    ),
    "activation": (
        _is_activation,
        f"one of {', '.join(ACTIVATIONS)}, a class of such a name (keras.layers.ReLU), or a "
        "function of a tensor (for LeakyReLU, whose slope differs from one library to another, "
        "leaky_relu, which has 0.2, or lambda x: keras.activations.leaky_relu(x, 0.01))",
    ),
    "conv": (
        lambda v: (
            v in CONVOLUTIONS
            or (isinstance(v, list | tuple) and len(v) > 0 and all(map(_is_convolution, v)))
        ),
        f"one of {', '.join(CONVOLUTIONS)}, or a list of (filters, kernel size, stride) such as "
        "[[32,8,4],[64,4,2]]",
    ),
    "background": FRACTION,
    "shared": SWITCH,
    "stochastic": SWITCH,
    "num_q": (lambda v: _is_integer(v) and v in (1, 2), "1 or 2"),
    "log_std_init": NUMBER,
    "memory": optional(one_of("lstm", "gru")),
    "memory_size": POSITIVE_INTEGER,
    "seq_len": POSITIVE_INTEGER,
}
