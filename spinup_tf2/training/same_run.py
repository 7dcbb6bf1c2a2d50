"""Describes the run that a checkpoint belongs to, and checks whether a run may resume from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from spinup_tf2.arguments.checks import MAY_CHANGE, PYTHON_ONLY, check_epochs_left
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import UserError, shortened
from spinup_tf2.files.as_json import space_to_json, to_json
from spinup_tf2.files.env_spec import describe_env
from spinup_tf2.files.run_directory import holds_rows, holds_run, resume_command
from spinup_tf2.files.serialization import convert_json, is_json_serializable
from spinup_tf2.parallel.mpi import gather_objects, num_procs, on_root
from spinup_tf2.training.checkpoints import Checkpoints, Saved
from spinup_tf2.training.settings import Settings

if TYPE_CHECKING:
    import keras

# The first three are represented by other entries.
_NOT_COMPARED = ("env_fn", "logger_kwargs", "num_envs", "resume", "callbacks")

# Arguments that may differ between ranks, or are used only on rank 0.
_OWN_TO_RANK = (
    *("env_fn", "logger_kwargs", "behavior_policy", "callbacks", "track", "record_every"),
    *("render_every", "verbose_episodes", "vectorization", "env_retries", "stall_timeout"),
)


def checkpoint_to_resume(
    run_dir: str | None,
    description: Mapping[str, Any],
    epochs: int,
    output_fname: str = "progress.txt",
) -> Saved | None:
    """Return the newest checkpoint in a run's directory; None if it has none yet. Collective.

    Args:
        run_dir: Directory of the run.
        description: Description by `describe_run` of the run to be resumed.
        epochs: Total number of epochs that it is to have.
        output_fname: Name of its file of rows.

    Raises:
        UserError: The directory holds another run, one with rows but without checkpoints, or one
            that has already had more epochs.
    """
    if run_dir is None:
        raise UserError("resume is True, but logger_kwargs has no output_dir to resume from.")
    saved = Checkpoints(run_dir).newest()
    if saved is not None:
        check_same_run(saved.run, description, run_dir)
        check_epochs_left(epochs, saved.counters["epoch"], run_dir)
    elif on_root(lambda: holds_run(run_dir, output_fname) and holds_rows(run_dir, output_fname)):
        raise UserError(
            f"{run_dir} holds a run without checkpoints, which cannot be resumed; start it again "
            "with --overwrite (overwrite=True), or choose another exp_name, seed or data_dir."
        )
    return saved


def describe_run(
    algorithm: str,
    arguments: Mapping[str, Any],
    env: gym.Env,
    networks: Sequence[keras.Variable],
    function: str,
    known: bool,
    exp_name: str | None,
    preset: str | None,
) -> dict[str, Any]:
    """Describe a run as JSON, with everything that must be the same to resume it.

    The entry `command` holds the arguments with which `python -m spinup_tf2.run resume` starts the
    run; None if only a Python program can start it.

    Args:
        algorithm: Name of the algorithm.
        arguments: All its arguments, by name.
        env: The environment.
        networks: Variables of the actor-critic.
        function: The algorithm as the command line names it: `ppo`, or `module:function`.
        known: Whether the command line can start it, with these networks.
        exp_name: Name of the experiment.
        preset: Name of the preset that it was started with.
    """
    env_fn = arguments["env_fn"]
    left_out = (*PYTHON_ONLY, "resume")
    plain = {name: value for name, value in arguments.items() if name not in left_out}
    command = None
    if (
        hasattr(env_fn, "env_name")
        and known
        and arguments.get("behavior_policy") is None
        and "output_fname" not in (arguments.get("logger_kwargs") or {})
        and is_json_serializable(plain)
    ):
        with suppress(TypeError):  # JSON cannot represent the environment's arguments
            env_kwargs = to_json(env_fn.env_kwargs)
            command = dict(plain, env_name=env_fn.env_name, env_kwargs=env_kwargs)
            if wrappers := getattr(env_fn, "wrappers", ()):
                command["wrapper"] = [*wrappers]
    compared = {name: x for name, x in arguments.items() if name not in _NOT_COMPARED}
    try:
        environment = describe_env(env, env_fn)
    except (TypeError, ValueError):
        environment = type(env.unwrapped).__name__
    run = dict(
        algorithm=algorithm,
        function=function,
        environment=environment,
        observation_space=space_to_json(env.observation_space),
        action_space=space_to_json(env.action_space),
        networks=[[variable.name, list(variable.shape)] for variable in networks],
        num_envs=arguments["num_envs"] * num_procs(),
        arguments=convert_json(compared),
        exp_name=exp_name,
        preset=preset,
        num_procs=num_procs(),
        command=command,
    )
    return json.loads(json.dumps(run))  # as it will be read back: tuples are lists


def how_to_go_on(run_dir: str, settings: Settings, description: Mapping[str, Any]) -> str:
    """Return the sentence that says how a run is resumed once it has ended.

    Args:
        run_dir: Its directory.
        settings: Its settings.
        description: Its description by `describe_run`.
    """
    if not settings.checkpoint_freq:
        return "It has no checkpoint (checkpoint_freq is 0)."
    command = description["command"]
    if command is None:
        return f"Resume it with the same call and resume=True; it is in {run_dir}."
    modules = [
        *getattr(settings.env_fn, "modules", ()),
        *modules_of(settings.callbacks),
        *modules_of([description["function"]]),
    ]
    again = resume_command(run_dir, command["env_name"], modules)
    if settings.track and {*settings.track} - {"tensorboard"}:  # a run's file cannot ask for it
        again += f" --track {' '.join(settings.track)}"
    return f"Resume it with: {again}"


def check_same_on_all_ranks(
    algorithm: str, arguments: Mapping[str, Any], networks: Sequence[keras.Variable]
) -> None:
    """Raise UserError on all ranks if they have not all been started for the same run. Collective.

    Otherwise they would train together all the same, or wait for each other forever.

    Args:
        algorithm, arguments, networks: As in `describe_run`.
    """
    env_fn = arguments["env_fn"]
    own = dict(algorithm=algorithm)
    own |= {name: getattr(env_fn, name, None) for name in ("env_name", "env_kwargs", "wrappers")}
    own |= {name: value for name, value in arguments.items() if name not in _OWN_TO_RANK}
    own["shapes of the networks' variables"] = [list(variable.shape) for variable in networks]
    texts = {name: json.dumps(_by_name(value), sort_keys=True) for name, value in own.items()}
    ranks = gather_objects(texts)
    for rank, others in enumerate(ranks):
        for name in ranks[0] | others:
            here, there = ranks[0].get(name), others.get(name)
            if here != there:
                raise UserError(
                    f"the processes of this MPI job have different arguments: {name} is "
                    f"{shortened(str(here))} on rank 0 and {shortened(str(there))} on rank {rank}. "
                    "Start all ranks with the same arguments; for several seeds, use --seed 0 1 "
                    "with --workers, or start a job for each."
                )


def _by_name(value):
    """Return an argument as JSON, with functions and classes as their names.

    Other objects become None, as their contents may differ between ranks.
    """
    if isinstance(value, dict):
        return {str(name): _by_name(each) for name, each in value.items()}
    if is_json_serializable(value):
        return value
    return getattr(value, "__name__", None)


def check_same_run(saved: Mapping[str, Any], run: Mapping[str, Any], run_dir: str) -> None:
    """Raise UserError if a checkpoint belongs to a different run.

    Args:
        saved: Description of the run that the checkpoint belongs to.
        run: Description of the run that is to be resumed from it.
        run_dir: Directory of the checkpoint's run, for messages.
    """
    for name in ("algorithm", "environment", "observation_space", "action_space", "networks"):
        if saved.get(name) != run[name]:
            raise _another_run(run_dir, name.replace("_", " "), saved.get(name), run[name])
    if saved.get("num_envs") != run["num_envs"]:
        raise UserError(
            f"the run in {run_dir} has {saved.get('num_envs')} environments, and this would have "
            f"{run['num_envs']} ({run['num_envs'] // num_procs()} in each of {num_procs()} "
            "processes). Any number of processes can continue it, if num_envs is such that there "
            "are as many environments as before."
        )
    before, now = dict(saved.get("arguments") or {}), run["arguments"]
    free = list(MAY_CHANGE)
    if now.get("deterministic_resume"):
        free.remove("checkpoint_freq")  # it determines when environments begin new episodes
    for name in [*before, *now]:
        if name not in free and before.get(name) != now.get(name):
            raise _another_run(run_dir, name, before.get(name), now.get(name))


def _another_run(run_dir, what, before, now):
    before, now = (shortened(repr(value)) for value in (before, now))
    return UserError(
        f"the run in {run_dir} cannot be continued: its {what} was {before} and is now {now}. "
        "Resume it as it was, or choose another exp_name, seed or data_dir."
    )
