"""Rules for the values of arguments. Imports no TensorFlow."""

import math
import os
from collections.abc import Callable
from inspect import isclass, signature
from numbers import Integral, Real
from typing import Any, NamedTuple

from spinup_tf2.callbacks import has_hooks, seconds_of
from spinup_tf2.errors import UserError


class Rule(NamedTuple):
    """What the values of an argument must be.

    Attributes:
        is_valid: Function that says whether a value is valid.
        expected: The expected value, for messages.
        kind: Name of the type, for descriptions; "" if that is obvious.
    """

    is_valid: Callable[[Any], object]
    expected: str
    kind: str = ""


def check(rule: Rule, **values: Any) -> None:
    """Raise UserError for the first of the named values that violates a rule."""
    for name, value in values.items():
        if not rule.is_valid(value):
            raise UserError(f"{name} is {value!r}; it must be {rule.expected}.")


def _is_number(value):
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer that is larger than any float
        return False


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


# ---------------------------------------------------------------- kinds of values


def at_least(least: int) -> Rule:
    """Return a rule that allows whole numbers from `least` on."""
    is_valid = lambda v: _is_integer(v) and v >= least  # noqa: E731
    return Rule(is_valid, f"a whole number of at least {least}", "int")


def optional(rule: Rule) -> Rule:
    """Return a rule that also allows None."""
    return Rule(lambda v: v is None or rule.is_valid(v), f"{rule.expected}, or None", rule.kind)


def one_of(*words: str) -> Rule:
    """Return a rule that allows one of some words."""
    quoted = [repr(word) for word in words]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    return Rule(lambda v: isinstance(v, str) and v in words, expected, "str")


def some_of(*words: str) -> Rule:
    """Return a rule that allows non-empty lists of some words, each at most once."""

    def is_valid(value):
        listed = isinstance(value, list | tuple) and all(word in words for word in value)
        return listed and len({*value}) == len(value) > 0

    return Rule(is_valid, f"a list of some of {', '.join(map(repr, words))}", "list")


NON_NEGATIVE_INTEGER = at_least(0)
POSITIVE_INTEGER = at_least(1)
POSITIVE = Rule(lambda v: _is_number(v) and v > 0, "a number above 0", "float")
NON_NEGATIVE = Rule(lambda v: _is_number(v) and v >= 0, "a number of at least 0", "float")
FRACTION = Rule(lambda v: _is_number(v) and 0 <= v <= 1, "a number between 0 and 1", "float")
NUMBER = Rule(_is_number, "a number", "float")
SWITCH = Rule(lambda v: isinstance(v, bool), "True or False", "bool")
SEED = Rule(
    lambda v: _is_integer(v) and 0 <= v < 2**32, "a whole number from 0 to 4294967295", "int"
)
KEYWORDS = optional(Rule(lambda v: isinstance(v, dict), "a dict of arguments", "dict"))
DIRECTORY = Rule(lambda v: isinstance(v, str | os.PathLike), "the directory of a run", "str")
DURATION = Rule(
    lambda v: seconds_of(v) is not None, "a duration such as '8h', '90m' or '1h30m'", "str"
)
ENV_FN = Rule(
    lambda v: callable(v) or isinstance(v, str),
    "a function that creates a new environment each time, such as "
    "lambda: gymnasium.make('CartPole-v1'), or the id of one that is registered",
)
ACTOR_CRITIC = Rule(
    callable,
    "a function or class, called as actor_critic(observation_space, action_space, **ac_kwargs)",
)


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


BEHAVIOR_POLICY = optional(
    Rule(behavior_inputs, "a function (t, obs), (t, obs, act) or (t, obs, act, env) -> action")
)


def _is_callback(value):
    if isinstance(value, str):
        module, _, name = value.rpartition(":")
        return all(part.isidentifier() for part in [*module.split("."), name])
    return has_hooks(value) and not isclass(value)


CALLBACKS = optional(
    Rule(
        lambda v: isinstance(v, list | tuple) and all(map(_is_callback, v)),
        "a list of objects with on_start, columns, on_epoch_end or on_end, as in "
        "spinup_tf2.callbacks.Callback (Keras has others), or of their names, as module:Name",
        "list",
    )
)


def _is_alpha(value):
    """Return whether a value is a number of at least 0, or 'auto', or 'auto_' and one above 0."""
    if not isinstance(value, str):
        return NON_NEGATIVE.is_valid(value)
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
    "backtrack_coeff": Rule(lambda v: _is_number(v) and 0 < v < 1, "a number above 0 and below 1"),
    "algo": one_of("trpo", "npg"),
    "objective": one_of("clip", "penalty"),
    "lr": NON_NEGATIVE,
    "target_noise": NON_NEGATIVE,
    "noise_clip": NON_NEGATIVE,
    "policy_delay": POSITIVE_INTEGER,
    "alpha": Rule(
        _is_alpha, "a number of at least 0, or 'auto', or 'auto_' and a number above 0 to start at"
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


# ---------------------------------------------------------------- rules for networks

ACTIVATIONS = (
    *("elu", "gelu", "leaky_relu", "linear", "relu", "selu"),
    *("sigmoid", "silu", "softplus", "softsign", "swish", "tanh"),
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


CONVOLUTIONS = ("nature", "small", "minatar", "impala")


def _are_sizes(value):
    return isinstance(value, list | tuple) and all(map(POSITIVE_INTEGER.is_valid, value))


def _are_convolutions(value):
    if not isinstance(value, list | tuple):
        return value is None or value in CONVOLUTIONS
    return len(value) > 0 and all(_are_sizes(each) and len(each) == 3 for each in value)


NETWORK_RULES = {
    "hidden_sizes": Rule(_are_sizes, "a list of layer widths such as [64,64]"),
    "activation": Rule(
        _is_activation,
        f"one of {', '.join(ACTIVATIONS)}, a class of such a name (keras.layers.ReLU), or a "
        "function of a tensor (for LeakyReLU, whose slope differs from one library to another, "
        "leaky_relu, which has 0.2, or lambda x: keras.activations.leaky_relu(x, 0.01))",
    ),
    "conv": Rule(
        _are_convolutions,
        f"one of {', '.join(CONVOLUTIONS)}, a list of (filters, kernel size, stride) such as "
        "[[32,8,4],[64,4,2]], or None",
    ),
    "background": FRACTION,
    "shared": SWITCH,
    "stochastic": SWITCH,
    "num_q": Rule(lambda v: _is_integer(v) and v in (1, 2), "1 or 2"),
    "log_std_init": NUMBER,
    "memory": optional(one_of("lstm", "gru")),
    "memory_size": POSITIVE_INTEGER,
    "seq_len": POSITIVE_INTEGER,
}
