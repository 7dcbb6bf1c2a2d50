"""The start of every run: seeds, environments, and the run's directory."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras

from spinup_tf2.core.nets.checks import class_for
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import environment_seed, seed_global_generators
from spinup_tf2.envs.modules import is_own
from spinup_tf2.envs.spaces import ActionSpec, action_spec, pixels_as_numbers
from spinup_tf2.files.env_spec import write_env_spec
from spinup_tf2.files.lock import run_lock
from spinup_tf2.files.run_directory import (
    REPLACED,
    files_of_run,
    forget_replaced,
    holds_run,
    move_back,
    put_back,
    remove_run,
    set_aside,
)
from spinup_tf2.parallel.mpi import (
    broadcast_object,
    exit_together,
    gather_objects,
    on_root,
    proc_id,
)
from spinup_tf2.parallel.threads import limit_tensorflow
from spinup_tf2.training.callbacks import Callbacks, callbacks_of
from spinup_tf2.training.checkpoint_writer import CheckpointWriter
from spinup_tf2.training.evaluation import make_test_envs
from spinup_tf2.training.init_from import begin_with
from spinup_tf2.training.run import Networks, Run
from spinup_tf2.training.same_run import (
    Position,
    check_same_on_all_ranks,
    checkpoint_to_resume,
    describe_run,
    position_of,
)
from spinup_tf2.training.settings import Settings, comes_with_package
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import sync_params


@contextmanager
def environments(
    settings: Settings, make_action_spec: Callable[..., ActionSpec] = action_spec
) -> Iterator[tuple[VectorEnv, VectorEnv | None]]:
    """Context manager that creates the training and the test environments, and seeds the networks.

    The test environments are None if this rank plays no test episodes.
    """
    limit_tensorflow()
    # For environments whose constructors draw from global generators.
    seed_global_generators(environment_seed(settings.seed, proc_id() * settings.num_envs))
    make = partial(
        VectorEnv,
        settings.env_fn,
        seed=settings.seed,
        max_ep_len=settings.max_ep_len,
        vectorization=settings.vectorization,
        make_action_spec=make_action_spec,
        env_retries=settings.env_retries,
    )
    with (
        make(settings.num_envs) as envs,
        make_test_envs(make, envs, settings.num_test_episodes) as test_envs,
    ):
        # The same on all ranks, which start with the same networks.
        keras.utils.set_random_seed(int(settings.seed))
        yield envs, test_envs


@contextmanager
def opened_run(
    algorithm: str,
    settings: Settings,
    arguments: Mapping[str, Any],
    envs: VectorEnv,
    test_envs: VectorEnv | None,
    ac: Networks,
    sizes: Mapping[str, int],
) -> Iterator[Run[Networks]]:
    """Context manager that opens a run: its directory, configuration, weights and checkpoints.

    As long as it is open, no other run can write to the directory.

    Args:
        algorithm: Name of the algorithm.
        settings: The run's settings.
        arguments: All of the algorithm's arguments by name.
        envs: The training environments.
        test_envs: The environments for evaluation, or None.
        ac: The actor-critic.
        sizes: Numbers of parameters to print, by name of the network.

    Raises:
        UserError: The directory cannot be used, or a run is to be resumed and it holds another one,
            or the MPI ranks have different arguments. Nothing in the directory has been changed.
    """
    env = envs.prototype
    actor_critic = class_for(arguments["actor_critic"], envs.observation_space)
    arguments = {**arguments, "actor_critic": actor_critic}
    check_same_on_all_ranks(algorithm, arguments, ac.variables)
    callbacks: list[Any] = []  # of rank 0
    on_root(lambda: callbacks.extend(callbacks_of(settings, env)))
    ac.env_observation_space = env.observation_space
    logger_kwargs = dict(settings.logger_kwargs or {})
    run_dir = broadcast_object(logger_kwargs.get("output_dir"))
    rows = logger_kwargs.get("output_fname", "progress.txt")
    description = describe_run(
        algorithm,
        arguments,
        env,
        ac.variables,
        is_own(actor_critic.__module__) and comes_with_package(),
        logger_kwargs.get("exp_name"),
        logger_kwargs.get("preset"),
    )
    with ExitStack() as stack:
        saved = None
        if run_dir is not None:
            lock = run_lock(run_dir)
            on_root(lambda: stack.enter_context(lock))
            on_root(lambda: move_back(run_dir))
        undo = stack.enter_context(ExitStack())
        if settings.resume:
            saved = checkpoint_to_resume(run_dir, description, settings.epochs, rows)
            if saved is None:  # a run that was killed before its first checkpoint starts over
                logger_kwargs |= dict(keep_rows=0)
            else:
                logger_kwargs |= dict(keep_rows=saved.counters["epoch"])
        if saved is None and settings.init_from is not None:
            begin_with(ac, settings.init_from)
            gather_objects(None)  # wait: rank 0 may move files that the others are still reading
        if run_dir is not None:
            overwrite = bool(logger_kwargs.get("overwrite"))  # used on rank 0 only
            on_root(lambda: _prepare(run_dir, rows, overwrite, undo))
        logger = EpochLogger(**logger_kwargs)
        run_dir = broadcast_object(logger.output_dir)
        checkpoints = CheckpointWriter(run_dir, settings.keep_checkpoints, saved)
        logger.save_config(dict(arguments))
        if saved is None and is_own(actor_critic.__module__):
            for text in pixels_as_numbers(env.observation_space):
                logger.warn_once(text)
        if proc_id() == 0:
            write_env_spec(Path(run_dir, "env_spec.json"), env, settings.env_fn)
        sync_params(ac.trainable_variables)
        _seed_global_generators(settings, envs, saved)
        counts = ", ".join(f"\t {name}: {size}" for name, size in sizes.items())
        logger.log(f"\nNumber of parameters: {counts}\n")

        def begun():
            undo.pop_all()
            on_root(lambda: forget_replaced(run_dir))

        with exit_together(), ExitStack() as contexts:
            yield Run(
                settings=settings,
                envs=envs,
                test_envs=test_envs,
                ac=ac,
                logger=logger,
                description=description,
                checkpoints=checkpoints,
                saved=saved,
                callbacks=Callbacks(callbacks),
                on_begin=begun,
                contexts=contexts,
            )


def _prepare(run_dir, rows, overwrite, undo):
    """Make room for a new run; `undo` restores the directory if the run fails to start.

    Until then, a run that is to be replaced is kept aside.
    """
    if not holds_run(run_dir, rows):
        # An old run may be aside because its replacement failed. As long as files of the latter
        # are there, the directory is not taken for an empty one.
        if not os.path.isdir(os.path.join(run_dir, REPLACED)):
            undo.callback(remove_run, run_dir, rows, keep=files_of_run(run_dir, rows))
    elif overwrite:
        undo.callback(put_back, run_dir, rows)
        set_aside(run_dir, rows)


def _seed_global_generators(settings, envs, saved):
    """Seed the global generators differently on each rank, and after each resumption.

    The networks have been initialized before, with the same weights on all ranks.
    """
    begins = Position() if saved is None else position_of(saved)
    if proc_id() > 0 or begins != Position():
        moment = begins.epoch, begins.step
        seed_global_generators(environment_seed(settings.seed, envs.indices[0], *moment))
