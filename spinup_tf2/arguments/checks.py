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

_DEFAULT_LAM2 = 0.93  # as in the signature of ppo


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
    if "steps_per_epoch" in arguments:
        # In an algorithm with a replay buffer, n_steps means n-step returns.
        n_steps = 1 if "replay_size" in arguments else arguments.get("n_steps", 1)
        num_envs = arguments.get("num_envs", 1)
        _check_division(arguments["steps_per_epoch"], num_envs, n_steps, num_procs)
    if arguments.get("minibatch_size") is not None:
        of = dict(steps_per_epoch=arguments["steps_per_epoch"])
        _check_minibatches("minibatch_size", arguments, of, num_procs)
    if "n_pi" in arguments and arguments.get("train_aux_iters"):
        of = {"n_pi * steps_per_epoch": arguments["n_pi"] * arguments["steps_per_epoch"]}
        _check_minibatches("aux_minibatch_size", arguments, of, num_procs)
    if "batch_size" in arguments:
        _check_batch_size(arguments["batch_size"], arguments["num_envs"], num_procs)
    if "replay_size" in arguments:
        _check_replay_size(arguments["replay_size"], arguments["num_envs"] * num_procs)
    if arguments.get("deterministic_resume") and arguments["checkpoint_freq"] == 0:
        raise UserError(
            "deterministic_resume is True, but checkpoint_freq is 0, so that nothing is saved; "
            "leave one of them out."
        )
    logger_kwargs = arguments.get("logger_kwargs") or {}
    check_resume(arguments.get("resume"), logger_kwargs.get("overwrite"))
    if arguments.get("objective") == "penalty" and arguments.get("target_kl", 0) is None:
        raise UserError(
            "target_kl is None, but objective 'penalty' adapts its coefficient to it; give a "
            "positive number such as 0.01, or use objective 'clip'."
        )
    if {"coeff", "lam1", "lam2"} <= arguments.keys():
        _check_mixture(arguments["lam1"], arguments["lam2"], arguments["coeff"])
        _check_plain_estimate(arguments)


def other_meanings(defaults: Mapping[str, Any]) -> set[str]:
    """Return the names of arguments that mean something else: their defaults violate the rules.

    Args:
        defaults: The defaults of an algorithm's arguments, by name.
    """
    return {
        name
        for name, (is_valid, _) in RULES.items()
        if name in defaults and not is_valid(defaults[name])
    }


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
    cases = [
        (["beta"], value("objective") == "clip", "objective is 'clip'"),
        (["clip_ratio"], value("objective") == "penalty", "objective is 'penalty'"),
        (["lam"], value("lam1") is not None, "the estimates have lam1 and lam2"),
        (["recompute_adv"], passes < 2, "there is one pass over an epoch's experience"),
        (["backtrack_iters", "backtrack_coeff"], value("algo") == "npg", "algo is 'npg'"),
        (["vf_lr", "train_v_iters"], value("arch") == "shared", "arch is 'shared'"),
        (["vf_coef"], value("arch") in ("dual", "detach"), f"arch is {value('arch')!r}"),
        (
            ["n_pi", "aux_lr", "beta_clone", "aux_minibatch_size"],
            value("train_aux_iters") == 0,
            "train_aux_iters is 0",
        ),
        (["target_entropy"], not isinstance(value("alpha", ""), str), "alpha is a number"),
        (["polyak"], value("copy_every") is not None, "the target network is copied (copy_every)"),
        (["test_freq"], value("num_test_episodes") == 0, "num_test_episodes is 0"),
        (["init"], value("init_from") is not None, "the weights are those of init_from"),
        (["start_steps"], value("init_from") is not None, "a policy from init_from acts at once"),
        (["keep_checkpoints"], value("checkpoint_freq") == 0, "checkpoint_freq is 0"),
    ]
    found = [
        f"{name} is {given[name]!r}, which has no effect: {why}."
        for names, applies, why in cases
        for name in names
        if applies and name in given
    ]
    networks = value("ac_kwargs") or {}
    found += [
        f"{name} is {networks[name]!r} in ac_kwargs, which has no effect: there is no memory."
        for name in ("memory_size", "seq_len")
        if name in networks and not networks.get("memory") and "actor_critic" not in given
    ]
    return found


def may_be_true(name: str) -> bool:
    """Return whether an argument may be True; True also if there is no rule for it."""
    is_valid, _ = RULES.get(name, (lambda _: True, ""))
    return bool(is_valid(True))


def whole_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` with floats such as 1e6 as integers where only whole numbers are valid."""

    def converted(name, value):
        if name not in RULES or not (isinstance(value, float) and value.is_integer()):
            return value
        is_valid, _ = RULES[name]
        return int(value) if not is_valid(value) and is_valid(int(value)) else value

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


def _check_rules(rules, arguments):
    for name, value in arguments.items():
        if name in rules:
            check(rules[name], **{name: value})


def _check_division(steps_per_epoch, num_envs, n_steps, num_procs):
    """Check that the environments of all ranks share an epoch's steps equally, in full updates."""
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


def _check_minibatches(name, arguments, of, num_procs):
    """Check that minibatches hold equally many steps of each environment, and use all steps."""
    given, environments = arguments[name], arguments["num_envs"] * num_procs
    [(whole, steps)] = of.items()
    if given % environments or steps % given:
        sizes = range(environments, steps + 1, environments)
        possible = [size for size in sizes if steps % size == 0]
        nearest = min(possible, key=lambda size: abs(size - given))
        raise UserError(
            f"{name} is {given}; it must be a multiple of the number of environments of all "
            f"processes, {environments}, and divide {whole}, {steps}; use one such as {nearest}."
        )


def _check_batch_size(batch_size, num_envs, num_procs):
    """Check that ranks sample equally many rows, and at least one from each environment."""
    environments = num_envs * num_procs
    if batch_size % num_procs or batch_size < environments:
        nearest = max(num_envs, -(-batch_size // num_procs)) * num_procs
        raise UserError(
            f"batch_size is {batch_size}; it must be a multiple of the number of processes, "
            f"{num_procs}, and at least the number of environments of all processes, "
            f"{environments}; use one such as {nearest}."
        )


def _check_replay_size(replay_size, environments):
    """Check that the buffer has room for at least one step of each environment."""
    if replay_size < environments:
        raise UserError(
            f"replay_size is {replay_size}; it must be at least the number of environments of all "
            f"processes, {environments}. A usual one is 1000000."
        )


def _check_mixture(lam1, lam2, coeff):
    """Check that lam1 and lam2 are only given together with coeff."""
    if coeff is None and (lam1 is not None or lam2 != _DEFAULT_LAM2):
        given = f"lam1 is {lam1}" if lam1 is not None else f"lam2 is {lam2}"
        raise UserError(
            f"{given}, but coeff is None; give coeff, the weight between 0 and 1 of the advantage "
            "with lam1 (lam2's is the rest), or use lam for a single lambda."
        )


def _check_plain_estimate(arguments):
    """Check that a mixture of estimates goes with the other arguments about advantages.

    Its estimates are normalized over the epoch, and there is no single lambda for its returns.
    """
    for name, needed in dict(adv_normalization="epoch", value_target="rewards_to_go").items():
        if arguments["coeff"] is not None and arguments[name] != needed:
            raise UserError(
                f"{name} is {arguments[name]!r}, but coeff is {arguments['coeff']}: a mixture of "
                f"two estimates needs {needed!r}. Leave one of them out."
            )
