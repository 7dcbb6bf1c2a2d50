"""How every training begins: arguments checked, seeds set, the run's directory opened."""

import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import keras
from tqdm import tqdm

from spinup_tf2.core.arguments import check_arguments
from spinup_tf2.core.policies import ActorCritic, CNNActorCritic
from spinup_tf2.core.q_actor_critic import CNNQActorCritic, QActorCritic
from spinup_tf2.core.saved_policy import SavedPolicy
from spinup_tf2.utils.logx import EpochLogger, Logger
from spinup_tf2.utils.mpi_tf import sync_params
from spinup_tf2.utils.mpi_tools import num_procs, proc_id
from spinup_tf2.utils.threads import limit_tensorflow


def check_and_seed(arguments: Mapping[str, Any]) -> SimpleNamespace:
    """Check an algorithm's arguments and seed its networks; returns the arguments as attributes."""
    check_arguments(arguments, num_procs())
    limit_tensorflow()
    args = SimpleNamespace(**arguments)
    keras.utils.set_random_seed(int(args.seed))  # the same on all ranks: one network to start from
    return args


def start_logger(
    arguments: Mapping[str, Any],
    env: gym.Env,
    ac: ActorCritic | QActorCritic,
    sizes: Mapping[str, int],
    extra: Iterable[keras.Variable] = (),
) -> EpochLogger:
    """Open the run's directory: configuration, environment and what will be saved.

    arguments: all arguments of the algorithm by name.
    sizes: numbers of parameters to print.
    extra: variables that are saved with the actor-critic and not used by it.
    """
    logger = EpochLogger(**(arguments["logger_kwargs"] or {}))
    if type(ac) in (CNNActorCritic, CNNQActorCritic):  # also where the default was asked for
        arguments = {**arguments, "actor_critic": type(ac)}
    logger.save_config(dict(arguments))
    logger.save_env_spec(env, arguments["env_fn"])
    sync_params(ac.trainable_variables)
    counts = ", ".join(f"\t {name}: {size}" for name, size in sizes.items())
    logger.log(f"\nNumber of parameters: {counts}\n")
    logger.setup_tf_saver(SavedPolicy(ac, env.observation_space, env.action_space, extra))
    return logger


def progress_bar(epochs: int, logger: Logger) -> tqdm:
    """A bar over epochs on rank 0's terminal; none where stderr is not one, or with `quiet`."""
    hidden = logger.quiet or proc_id() != 0 or not sys.stderr.isatty()
    return tqdm(total=epochs, unit="epoch", disable=hidden, dynamic_ncols=True)
