"""How every training begins: arguments checked, seeds set, the run's directory opened."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
from tqdm import tqdm

from spinup_tf2.arguments.checks import check_arguments
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, QActorCritic
from spinup_tf2.core.nets.saved_policy import SavedPolicy, begin_with
from spinup_tf2.core.rollout.vector_env import VectorEnv
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.parallel.mpi import broadcast_object, exit_together, num_procs, on_root, proc_id
from spinup_tf2.parallel.threads import limit_tensorflow
from spinup_tf2.persistence.checkpoints import Checkpoints
from spinup_tf2.persistence.env_spec import write_env_spec
from spinup_tf2.persistence.keeper import Keeper, checkpoint_to_resume, describe_run
from spinup_tf2.persistence.run_lock import run_lock
from spinup_tf2.utils.logx import EpochLogger, Logger
from spinup_tf2.utils.mpi_tf import sync_params


def check_and_seed(arguments: Mapping[str, Any]) -> SimpleNamespace:
    """Check an algorithm's arguments and seed its networks; returns the arguments as attributes."""
    check_arguments(arguments, num_procs())
    limit_tensorflow()
    args = SimpleNamespace(**arguments)
    keras.utils.set_random_seed(int(args.seed))  # the same on all ranks: one network to start from
    return args


def with_env_fn(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An algorithm's arguments; where env_fn is the id of an environment, with what makes it."""
    env_fn = arguments["env_fn"]
    return {**arguments, "env_fn": EnvFn(env_fn) if isinstance(env_fn, str) else env_fn}


@contextmanager
def opened_run(
    algorithm: str,
    arguments: Mapping[str, Any],
    envs: VectorEnv,
    ac: ActorCritic | QActorCritic,
    sizes: Mapping[str, int],
    extra: Iterable[keras.Variable] = (),
) -> Iterator[Keeper]:
    """Open the run's directory: configuration, environment, what will be saved, checkpoints.

    algorithm: its name. arguments: all its arguments by name.
    sizes: numbers of parameters to print.
    extra: variables that are saved with the actor-critic and not used by it.
    While it is open no other run can write there. Raises UserError, before anything in it is
    changed, if the directory cannot be used, or if it is to be resumed and holds another run.
    """
    args, env = SimpleNamespace(**arguments), envs.prototype
    if type(ac) in (CNNActorCritic, CNNQActorCritic):  # also where the default was asked for
        arguments = {**arguments, "actor_critic": type(ac)}
    ac.env_observation_space = env.observation_space
    logger_kwargs = dict(args.logger_kwargs or {})
    run_dir = broadcast_object(logger_kwargs.get("output_dir"))
    names = {key: logger_kwargs.get(key) for key in ("exp_name", "preset")}
    run = describe_run(algorithm, arguments, env, ac.variables, **names)
    with ExitStack() as stack:
        saved = None
        if run_dir is not None:
            lock = run_lock(run_dir)
            on_root(lambda: stack.enter_context(lock))
        if args.resume:
            saved = checkpoint_to_resume(run_dir, run, args.epochs)
        if saved is not None:
            logger_kwargs |= dict(keep_rows=saved.counters["epoch"], overwrite=False)
        elif args.resume:
            logger_kwargs |= dict(keep_rows=0)  # of a run that was killed before its first one
        if saved is None and args.init_from is not None:
            begin_with(ac, args.init_from)
        logger = EpochLogger(**logger_kwargs)
        run_dir = broadcast_object(logger.output_dir)
        checkpoints = Checkpoints(run_dir, args.keep_checkpoints, saved)
        logger.save_config(dict(arguments))
        if proc_id() == 0:
            write_env_spec(Path(run_dir, "env_spec.json"), env, args.env_fn)
        sync_params(ac.trainable_variables)
        counts = ", ".join(f"\t {name}: {size}" for name, size in sizes.items())
        logger.log(f"\nNumber of parameters: {counts}\n")
        logger.setup_tf_saver(SavedPolicy(ac, env.observation_space, env.action_space, extra))
        with exit_together():
            yield Keeper(args, run, envs, ac.variables, logger, checkpoints, saved)


def progress_bar(epochs: int, logger: Logger, done: int = 0) -> tqdm:
    """A bar over epochs, of which some are done, on rank 0's terminal; none with `quiet`."""
    hidden = logger.quiet or proc_id() != 0 or not sys.stderr.isatty()
    return tqdm(total=epochs, initial=done, unit="epoch", disable=hidden, dynamic_ncols=True)
