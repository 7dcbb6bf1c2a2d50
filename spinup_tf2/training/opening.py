"""The start of every run: seeds, environments, and the run's directory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from spinup_tf2.core.nets.actor_critic import BaseActorCritic
from spinup_tf2.core.nets.checks import check_memory, class_for
from spinup_tf2.core.nets.distributions import forget_results
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import environment_seed, seed_global_generators
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import is_own
from spinup_tf2.envs.spaces import ActionSpec, action_spec, actions_out_of_reach, pixels_as_numbers
from spinup_tf2.files.env_spec import write_env_spec
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.files.run_directory import run_lock
from spinup_tf2.parallel.launched import limit_tensorflow
from spinup_tf2.parallel.mpi import (
    broadcast_object,
    exit_together,
    gather_objects,
    on_root,
    proc_id,
)
from spinup_tf2.parallel.tensors import sync_params
from spinup_tf2.training.callbacks import Callbacks, callbacks_of
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.training.evaluation import make_test_envs
from spinup_tf2.training.keeper import variables_of
from spinup_tf2.training.rebuilding import begin_with
from spinup_tf2.training.replay import warn_of_changes
from spinup_tf2.training.run import Run
from spinup_tf2.training.same_run import check_same_on_all_ranks, checkpoint_to_resume, describe_run
from spinup_tf2.training.saved_policy import SavedPolicy
from spinup_tf2.training.settings import Settings, running


@contextmanager
def environments(
    settings: Settings, make_action_spec: Callable[..., ActionSpec] = action_spec
) -> Iterator[tuple[VectorEnv, VectorEnv | None]]:
    """Context manager that creates the training and the test environments.

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
        try:
            yield envs, test_envs
        finally:
            forget_results()


@contextmanager
def open_run(
    algorithm: str,
    settings: Settings,
    envs: VectorEnv,
    test_envs: VectorEnv | None,
    ac: BaseActorCritic,
    state: Mapping[str, Any],
    columns: Mapping[str, bool] | None = None,
) -> Iterator[Run]:
    """Context manager that opens a run: its directory, configuration, weights and checkpoints.

    If the run is resumed, everything in `state` is restored. As long as it is open, no other run
    can write to the directory.

    Args:
        algorithm: Name of the algorithm.
        settings: The run's settings.
        envs: The training environments.
        test_envs: The environments for evaluation, or None.
        ac: The actor-critic.
        state: All that a checkpoint holds besides the actor-critic, by name: Keras variables, and
            objects or lists of objects that have `variables`, or a state of each environment
            (`Keeper`). None stands for nothing. The names `replay`, of a replay buffer whose
            new steps are saved, and `scaler`, whose variables are saved with the policy, are known.
        columns: Keys of values that are stored with the logger, any number of times per epoch; True
            logs standard deviation, maximum and minimum besides the average. Everything else that
            updates return must be scalar, and its mean over the epoch is logged.

    Raises:
        UserError: The directory cannot be used, or a run is to be resumed and it holds another one,
            or the MPI ranks have different arguments. Nothing in the directory has been changed.
    """
    env = envs.prototype
    actor_critic = class_for(settings.arguments["actor_critic"], envs.observation_space)
    arguments = {**settings.arguments, "actor_critic": actor_critic}
    check_same_on_all_ranks(algorithm, arguments, ac.variables)
    if ac.memory is not None:
        check_memory(ac.memory, settings)
    callbacks: list[Any] = []  # of rank 0
    on_root(lambda: callbacks.extend(callbacks_of(settings, env)))
    ac.env_observation_space = env.observation_space
    scaling = variables_of(dict(scaler=state.get("scaler")))
    saved_policy = SavedPolicy(ac, env.observation_space, env.action_space, scaling)
    logger_kwargs = dict(settings.logger_kwargs)
    run_dir = broadcast_object(logger_kwargs.get("output_dir"))
    function = running(algorithm, actor_critic)
    names = (logger_kwargs.get(name) for name in ("exp_name", "preset"))
    description = describe_run(algorithm, arguments, env, ac.variables, *function, *names)
    with ExitStack() as stack:
        if run_dir is not None:
            on_root(lambda: stack.enter_context(run_lock(run_dir)))
        saved = None
        if settings.resume:
            rows = logger_kwargs.get("output_fname", "progress.txt")
            saved = checkpoint_to_resume(run_dir, description, settings.epochs, rows)
            # A run that was killed before its first checkpoint starts over.
            logger_kwargs["keep_rows"] = 0 if saved is None else saved.counters["epoch"]
        if saved is None and settings.init_from is not None:
            begin_with(ac, settings.init_from)
            gather_objects(None)  # wait: rank 0 may move files that the others are still reading
        logger = EpochLogger(**logger_kwargs)
        beginning = stack.enter_context(ExitStack())  # of which nothing is left if it fails
        beginning.callback(logger.take_back)
        logger.setup_tf_saver(saved_policy)
        run_dir = broadcast_object(logger.output_dir)
        logger.save_config(dict(arguments))
        if saved is None and is_own(actor_critic.__module__):
            seen = pixels_as_numbers(env.observation_space)
            for text in (*seen, *actions_out_of_reach(envs.action_spec)):
                logger.warn_once(text)
        if proc_id() == 0:
            write_env_spec(Path(run_dir, "env_spec.json"), env, settings.env_fn)
        # All networks, also frozen copies of them; counters are the same on all ranks.
        sync_params([each for each in variables_of({"ac": ac, **state}) if each.dtype == "float32"])
        # Differently on each rank, and after each resumption; the networks have been initialized
        # before, with the same weights on all ranks.
        moment = (0, 0) if saved is None else (saved.counters["epoch"], saved.counters["step"])
        if proc_id() > 0 or moment != (0, 0):
            seed_global_generators(environment_seed(settings.seed, envs.indices[0], *moment))
        counts = ", ".join(f"\t {name}: {size}" for name, size in ac.sizes().items())
        logger.log(f"\nNumber of parameters: {counts}\n")
        with exit_together(), ExitStack() as contexts:
            run = Run(
                settings=settings,
                envs=envs,
                test_envs=test_envs,
                ac=ac,
                state=state,
                columns=columns or {},
                logger=logger,
                saved_policy=saved_policy,
                description=description,
                checkpoints=Checkpoints(run_dir, settings.keep_checkpoints, saved),
                saved=saved,
                callbacks=Callbacks(callbacks),
                contexts=contexts,
            )
            beginning.pop_all()
            by_name = isinstance(settings.env_fn, EnvFn)  # to which nothing can have been done
            if saved is None and proc_id() == 0 and not by_name:
                warn_of_changes(settings.env_fn, env, description["environment"], logger)
            yield run
