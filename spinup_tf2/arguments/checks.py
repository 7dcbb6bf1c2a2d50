"""Checks of the arguments of an algorithm, for the command line and the functions.

Imports no TensorFlow: a wrong value is reported before anything is loaded or written.
"""

import os
from collections.abc import Mapping
from typing import Any

from spinup_tf2.arguments.rules import NETWORK_RULES, OWN_RULES, check
from spinup_tf2.arguments.table import ARGUMENTS
from spinup_tf2.errors import UserError

# Rules are kept by name, because a name means the same in every algorithm of the package. In a
# user's algorithm it may mean something else: see `other_meanings`.
RULES = OWN_RULES | {name: argument.rule for name, argument in ARGUMENTS.items()}

# Arguments that only a Python program can give.
PYTHON_ONLY = ("env_fn", "actor_critic", "logger_kwargs", "behavior_policy")

# Arguments that may be changed when a run is resumed.
MAY_CHANGE = tuple(name for name, argument in ARGUMENTS.items() if argument.may_change)


def check_arguments(arguments: Mapping[str, Any], num_procs: int = 1) -> None:
    """Check the arguments of an algorithm.

    Args:
        arguments: All keyword arguments of one call, including defaults. Arguments without a rule
            are left to the function that takes them.
        num_procs: Number of MPI ranks that will share each epoch's steps.

    Raises:
        UserError: An argument cannot be used; the message names it, its value and the expected one.
    """
    _check_rules(RULES, arguments)
    value = arguments.get
    steps, environments = value("steps_per_epoch"), value("num_envs", 1) * num_procs
    if steps is not None:
        # In an algorithm with a replay buffer, n_steps means n-step returns.
        unit = environments * (1 if "replay_size" in arguments else value("n_steps", 1))
        if steps % unit:
            raise UserError(
                f"steps_per_epoch is {steps}, which {environments} environments (of all processes "
                f"together) cannot share equally; use a multiple of {unit}, such as "
                f"{max(1, round(steps / unit)) * unit}."
            )
    if value("minibatch_size") is not None:
        _check_minibatches("minibatch_size", arguments, environments, "steps_per_epoch", steps)
    if value("n_pi") and value("train_aux_iters"):
        steps_of = ("n_pi * steps_per_epoch", arguments["n_pi"] * steps)
        _check_minibatches("aux_minibatch_size", arguments, environments, *steps_of)
    batch_size = value("batch_size")
    if batch_size is not None and (batch_size % num_procs or batch_size < environments):
        raise UserError(
            f"batch_size is {batch_size}; it must be a multiple of the number of processes, "
            f"{num_procs}, and at least the number of environments of all processes, "
            f"{environments}."
        )
    if "replay_size" in arguments and arguments["replay_size"] < environments:
        raise UserError(
            f"replay_size is {arguments['replay_size']}; it must be at least the number of "
            f"environments of all processes, {environments}. A usual one is 1000000."
        )
    if value("deterministic_resume") and arguments["checkpoint_freq"] == 0:
        raise UserError(
            "deterministic_resume is True, but checkpoint_freq is 0, so that nothing is saved; "
            "leave one of them out."
        )
    check_resume(value("resume"), (value("logger_kwargs") or {}).get("overwrite"))
    if value("objective") == "penalty" and value("target_kl", 0) is None:
        raise UserError(
            "target_kl is None, but objective 'penalty' adapts its coefficient to it; give a "
            "positive number such as 0.01, or use objective 'clip'."
        )
    # The two estimates are normalized over the epoch, and have no single lambda for returns.
    for name, needed in dict(adv_normalization="epoch", value_target="rewards_to_go").items():
        if value("coeff") is not None and value(name, needed) != needed:
            raise UserError(
                f"{name} is {value(name)!r}, but coeff is {value('coeff')}: a mixture of two "
                f"estimates needs {needed!r}. Leave one of them out."
            )


def _check_rules(rules, arguments):
    for name, value in arguments.items():
        if name in rules:
            check(rules[name], **{name: value})


def _check_minibatches(name, arguments, environments, whole, steps):
    """Check that minibatches hold equally many steps of each environment, and use all steps."""
    given = arguments[name]
    if given % environments or steps % given:
        raise UserError(
            f"{name} is {given}; it must be a multiple of the number of environments of all "
            f"processes, {environments}, and divide {whole}, {steps}."
        )


def other_meanings(defaults: Mapping[str, Any]) -> set[str]:
    """Return the names of arguments that mean something else: their defaults violate the rules.

    Args:
        defaults: The defaults of an algorithm's arguments, by name.
    """
    known = defaults.keys() & RULES.keys()
    return {name for name in known if not RULES[name].is_valid(defaults[name])}


def check_resume(resume: object, overwrite: object) -> None:
    """Raise UserError if a run is to be both resumed and removed."""
    if resume and overwrite:
        raise UserError("resume continues a run, and overwrite removes it; give one of them.")


def without_effect(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return warnings about arguments that have no effect because of the values of others.

    Args:
        given: The arguments that differ from their defaults.
        arguments: All arguments.
    """
    value = arguments.get
    passes = max(value("train_pi_iters", 0), value("train_v_iters", 0))
    auxiliary = ("n_pi", "aux_lr", "beta_clone", "aux_minibatch_size")
    cases = [
        (["beta"], value("objective") == "clip", "objective is 'clip'"),
        (["clip_ratio"], value("objective") == "penalty", "objective is 'penalty'"),
        (["lam"], None not in (value("coeff"), value("lam1")), "the estimates have lam1 and lam2"),
        (["lam1", "lam2"], value("coeff") is None, "coeff is None, and there is one estimate"),
        (["recompute_adv"], passes < 2, "there is one pass over an epoch's experience"),
        (["backtrack_iters", "backtrack_coeff"], value("algo") == "npg", "algo is 'npg'"),
        (["vf_lr", "train_v_iters"], value("arch") == "shared", "arch is 'shared'"),
        (["vf_coef"], value("arch") in ("dual", "detach"), f"arch is {value('arch')!r}"),
        (auxiliary, value("train_aux_iters") == 0, "train_aux_iters is 0"),
        (["target_entropy"], not isinstance(value("alpha", ""), str), "alpha is a number"),
        (["polyak"], value("copy_every") is not None, "the target network is copied (copy_every)"),
        (["test_freq"], value("num_test_episodes") == 0, "num_test_episodes is 0"),
        (["init"], value("init_from") is not None, "the weights are those of init_from"),
        (["start_steps"], value("init_from") is not None, "a policy from init_from acts at once"),
        (["keep_checkpoints"], value("checkpoint_freq") == 0, "checkpoint_freq is 0"),
    ]
    return [
        f"{name} is {given[name]!r}, which has no effect: {why}."
        for names, applies, why in cases
        for name in names
        if applies and name in given
    ]


def whole_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` with floats such as 1e6 as integers where only whole numbers are valid."""

    def converted(name, value):
        is_whole = isinstance(value, float) and value.is_integer()
        is_meant = is_whole and name in RULES and not RULES[name].is_valid(value)
        return int(value) if is_meant and RULES[name].is_valid(int(value)) else value

    return {name: converted(name, value) for name, value in arguments.items()}


def check_epochs_left(epochs: int, done: int, run_dir: str | os.PathLike) -> None:
    """Raise UserError if a run to be resumed has already completed more than `epochs` epochs."""
    if epochs < done:
        raise UserError(
            f"epochs is {epochs}, and the run in {run_dir} has {done} behind it; give more than "
            f"{done} to continue it."
        )


def check_network_arguments(ac_kwargs: Mapping[str, Any]) -> None:
    """Check arguments of the default networks; raise UserError if one cannot be used."""
    _check_rules(NETWORK_RULES, ac_kwargs)
