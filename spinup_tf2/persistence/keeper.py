"""What both loops do so that a run can be stopped at any moment and goes on as if it never had.

State that must survive is declared in one place: the variables and parts that `Keeper.attached` is
given. What is not among them is not resumed.
"""

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NoReturn, Protocol

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2 import user_config
from spinup_tf2.arguments.checks import MAY_CHANGE, check_epochs_left
from spinup_tf2.core.experience.replay_buffer import ReplayBuffer
from spinup_tf2.core.finite import check_step, check_variables
from spinup_tf2.core.nets.actor_critic import CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic
from spinup_tf2.core.rollout.vector_env import VectorEnv
from spinup_tf2.envs.modules import import_flag
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.interruption import Interruption
from spinup_tf2.parallel.mpi import (
    broadcast_object,
    gather_objects,
    num_procs,
    on_root,
    proc_id,
)
from spinup_tf2.parallel.watchdog import Watchdog
from spinup_tf2.persistence.checkpoints import (
    Checkpoints,
    DamagedCheckpoint,
    Saved,
    read_best,
    read_ranks,
    read_steps,
    restore_variables,
)
from spinup_tf2.persistence.env_spec import describe_env
from spinup_tf2.persistence.space_json import space_to_json
from spinup_tf2.run_files import holds_rows, holds_run
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.serialization_utils import convert_json, is_json_serializable

_NOT_COMPARED = (
    "env_fn",
    "logger_kwargs",
    "num_envs",
    "resume",
)  # there are other entries for these


# Of wrappers of gymnasium: their running means and variances outlive every reset.
_REMEMBERING = (gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward)

# How many steps are taken again only to see whether environments answer as before: it is seen at
# once where it is seen at all, and some environments are slow.
_COMPARED_STEPS = 100

_DEFAULT_NETWORKS = (MLPActorCritic, CNNActorCritic, MLPQActorCritic, CNNQActorCritic)


class Part(Protocol):
    """A part of a training that remembers something of each environment.

    `restart` is called when all environments begin new episodes. `env_state` and `set_env_state`,
    where there are any, give and take what is remembered of one environment of this process.
    """

    def restart(self) -> None: ...


@dataclass
class Position:
    """Where a training goes on: `step` of each environment of `epoch`.

    infos: what the updates of this epoch have logged before.
    """

    epoch: int = 0
    step: int = 0
    infos: list[dict[str, float]] = field(default_factory=list)


class Keeper:
    """Writes the checkpoints of a training, stops it when it is asked to, and resumes it.

    args: the algorithm's arguments. run: as `describe_run` gives it. envs: those that train.
    networks: the actor-critic's variables.
    saved: the checkpoint to go on from, or None.
    """

    def __init__(
        self,
        args: Any,
        run: Mapping[str, Any],
        envs: VectorEnv,
        networks: Sequence[keras.Variable],
        logger: EpochLogger,
        checkpoints: Checkpoints,
        saved: Saved | None,
    ):
        self.args, self.run, self.envs, self.logger = args, run, envs, logger
        self.checkpoints, self.saved = checkpoints, saved
        self.networks = networks
        self.best = dict(score=None, epoch=None)
        self.best_weights = self.acting = [each.numpy() for each in networks]
        self.last_save, self.save_failed = -np.inf, False
        envs.remember = args.deterministic_resume
        wrappers = remembering_wrappers(envs.prototype)
        if args.deterministic_resume and wrappers and saved is None:
            logger.warn_once(
                f"with deterministic_resume, this run cannot go on with the same numbers if it is "
                f"stopped: the environment's wrapper {' and '.join(wrappers)} keeps statistics "
                "that begin anew then. Those of the algorithms' own normalize_obs and "
                "normalize_reward are saved."
            )

    @contextmanager
    def attached(
        self,
        variables: Iterable[keras.Variable],
        parts: Mapping[str, Part | None],
        replay: ReplayBuffer | None = None,
        first_epoch: int = 0,
    ) -> Iterator[Position]:
        """While the loop runs. Gives the position at which it begins.

        variables: all from which the training goes on, equal on all ranks.
        parts: what remembers something of environments, by name. replay: one of them.
        first_epoch: how the log numbers the first epoch.
        """
        self.first_epoch = first_epoch
        self.variables = [*{id(each): each for each in variables}.values()]
        self.parts = {name: part for name, part in parts.items() if part is not None}
        self.replay = replay
        self.began = time.monotonic()
        position = Position()
        if self.saved is not None:
            position = self._restore()
        elif self.args.checkpoint_freq:
            self._save(position)
        with ExitStack() as stack:
            stack.enter_context(Watchdog(self.args.stall_timeout, self._how_to_go_on()))
            self.interruption = stack.enter_context(Interruption())
            yield position

    # --------------------------------------------------------------------------- the loop's calls

    def observations(self, obs: np.ndarray | None, epoch: int, step: int) -> np.ndarray:
        """What the environments show where collecting begins; new episodes if that is due.

        obs: what they have shown last; None at the beginning of a training or of its resumption.
        """
        args = self.args
        due = args.deterministic_resume and step == 0 and epoch % args.checkpoint_freq == 0
        if obs is not None and not due:
            return obs
        if args.deterministic_resume and not due:
            obs = self.envs.replay()
            self._say_what_strayed()
            return obs
        if args.deterministic_resume and obs is None and self.saved is not None:
            self.envs.replay(steps=_COMPARED_STEPS)
            self._say_what_strayed()
        for part in self.parts.values():
            part.restart()
        obs = self.envs.reset(epoch, step)
        check_step(self.envs, self.first_epoch + epoch, step, obs)
        return obs

    def _say_what_strayed(self):
        """Warn of environments that a replay has not brought back to where they were."""
        strayed = [item for each in gather_objects(self.envs.strayed) for item in each.items()]
        if not strayed:
            return
        names = [f"{label} from {f'step {t}' if t else 'the reset'} on" for label, t in strayed]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        memory = " and ".join(remembering_wrappers(self.envs.prototype))
        memory = memory or "a random generator of its own, or statistics that a wrapper keeps"
        self.logger.warn_once(
            "environments do not come back as they were. Reset with the seeds of before and given "
            f"the same actions, they answer differently: {', '.join(names[:3])}{more}. Something "
            f"in them is not set by a seed ({memory}). The run goes on, but not with the numbers "
            "that it would have had without the stop."
        )

    def asked_to_stop(self) -> bool:
        """Whether somebody wants the run to stop. Collective."""
        return self.interruption.agreed()

    def stop(self, position: Position) -> NoReturn:
        """Save and leave, after `asked_to_stop`. Collective."""
        text = self._how_to_go_on()
        if self.args.checkpoint_freq and not self._save(position):
            text = f"What came after the last checkpoint is lost. {text}"
        self.save_policy()  # to look at what there is
        self.interruption.leave(text)

    def save_policy(self) -> bool:
        """Save what `test_policy` shows; returns whether there was room. Collective."""
        # The other ranks wait, since one that leaves takes rank 0 with it.
        return broadcast_object(self.logger.save_state({"env": self.envs.prototype}, None))

    def note_acting_policy(self) -> None:
        """The present weights are those that the next score belongs to."""
        self.acting = [each.numpy() for each in self.networks]

    def epoch_over(self, epoch: int, score: Sequence[float] | None) -> None:
        """Save if it is time to. Collective.

        score: success rate and mean return of the weights of `note_acting_policy`, of which the
            first counts for more; None if they are not known.
        """
        best = self.best
        if score is not None and (
            best["score"] is None or score > [best.get("success", 0.0), best["score"]]
        ):
            success, ret = score
            self.best = dict(score=ret, success=success, epoch=self.first_epoch + epoch)
            self.best_weights = self.acting
        args = self.args
        if not args.checkpoint_freq:
            return
        at_once = epoch == args.epochs - 1 or self.save_failed
        waited = time.monotonic() - self.last_save >= user_config.CHECKPOINT_INTERVAL
        if broadcast_object(at_once or ((epoch + 1) % args.checkpoint_freq == 0 and waited)):
            self._save(Position(epoch + 1))

    def seconds(self) -> float:
        """How long the run has taken, without the time between its parts."""
        return time.monotonic() - self.began

    # ------------------------------------------------------------------------- saving, restoring

    def _how_to_go_on(self):
        run_dir = broadcast_object(self.logger.output_dir)
        if not self.args.checkpoint_freq:
            return "It has no checkpoint (checkpoint_freq is 0)."
        if self.run["command"] is None:
            return f"Resume it with the same call and resume=True; it is in {run_dir}."
        modules = getattr(self.args.env_fn, "modules", ())
        flag = import_flag(self.run["command"]["env_name"], modules)
        return f"Resume it with: python -m spinup_tf2.run resume {shlex.quote(run_dir)}{flag}"

    def _save(self, position):
        """Write a checkpoint; returns whether there was room for it."""
        check_variables(self.variables, self.first_epoch + position.epoch)
        arrays = {f"log/{key}": values for key, values in self.logger.stored().items()}
        steps = None
        for column, i in enumerate(self.envs.indices):
            for name, part in self._with_state().items():
                state = part.env_state(column)
                arrays |= {f"env{i}/{name}/{key}": value for key, value in state.items()}
        if self.replay is not None and self.replay.steps > 0:
            steps = {
                f"env{i}/{key}": value
                for column, i in enumerate(self.envs.indices)
                for key, value in self.replay.new_steps(column).items()
            }
        counters = dict(
            epoch=position.epoch,
            step=position.step,
            infos=position.infos,
            seconds=self.seconds(),
            best=self.best,
            columns=self.logger.log_headers,
        )
        replay_range = self.replay.new_range() if self.replay is not None else None
        try:
            self.checkpoints.save(
                self.run,
                counters,
                self.variables,
                self.best_weights,
                arrays,
                steps,
                replay_range,
                before=self.logger.sync,
            )
        except OSError as error:
            self.logger.warn_once(
                f"the checkpoint cannot be written ({error}). The one before stays, the training "
                "goes on, and it is tried again after each epoch.",
                about="checkpoint",
            )
            self.save_failed = True
            return False
        if self.replay is not None:
            self.replay.saved = self.replay.steps
        self.last_save, self.save_failed = time.monotonic(), False
        return True

    def _with_state(self):
        parts = {"envs": self.envs, **self.parts}
        return {name: part for name, part in parts.items() if hasattr(part, "env_state")}

    def _restore(self):
        """Put everything back; returns the position."""
        saved, counters = self.saved, self.saved.counters
        position = position_of(saved)
        try:
            restore_variables(saved, self.variables)
            self.best_weights, self.best = read_best(saved.path), dict(counters["best"])
            ranks = read_ranks(saved)
            for values in ranks[proc_id() :: num_procs()]:
                stored = {key: x for key, x in values.items() if key.startswith("log/")}
                self.logger.store(**{key.removeprefix("log/"): x for key, x in stored.items()})
            merged = {key: x for rank in ranks for key, x in rank.items()}
            for column, i in enumerate(self.envs.indices):
                for name, part in self._with_state().items():
                    part.set_env_state(column, _below(merged, f"env{i}/{name}/"))
            if self.replay is not None:
                self._restore_steps()
            self.began = time.monotonic() - counters["seconds"]
        except (DamagedCheckpoint, KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(
                f"the checkpoint {saved.path} cannot be used ({error}). Remove it to resume from "
                "the one before, or start the run anew with --overwrite (overwrite=True)."
            ) from error
        self.last_save = time.monotonic()
        where = f"{position.epoch} of {self.args.epochs} epochs"
        if position.step:
            where += f", and {position.step} steps of each environment"
        self.logger.log(f"Resuming from {saved.path}, after {where}.")
        if position.epoch >= self.args.epochs:
            self.logger.log("There is nothing left to do; more epochs would go on with it.")
            self.save_policy()  # a crash may have left none
        else:
            self._check_columns(counters.get("columns", []))
        return position

    def _check_columns(self, columns):
        """Raise UserError if the rows that are there have lost columns; their file may be gone."""
        headers = self.logger.log_headers
        lost = [name for name in columns if name not in headers]
        if headers and lost:
            raise UserError(
                f"progress.txt in {broadcast_object(self.logger.output_dir)} has no column "
                f"{' and none '.join(lost)}, which the run writes. Put what was taken out back, or "
                "start the run anew with --overwrite (overwrite=True)."
            )

    def _restore_steps(self):
        own = [f"env{i}/" for i in self.envs.indices]
        for entry, arrays in read_steps(self.saved, lambda name: name.startswith(tuple(own))):
            for column, prefix in enumerate(own):
                steps = _below(arrays, prefix)
                if steps:  # the file may be another rank's
                    self.replay.put_steps(column, entry["first"], steps)


def remembering_wrappers(env: gym.Env) -> list[str]:
    """Names of the wrappers of an environment that are known to remember what no reset undoes."""
    names = []
    while isinstance(env, gym.Wrapper):
        names += [type(env).__name__] if isinstance(env, _REMEMBERING) else []
        env = env.env
    return names


def _below(arrays, prefix):
    return {key.removeprefix(prefix): x for key, x in arrays.items() if key.startswith(prefix)}


# ---------------------------------------------------------------------- is it the same run?


def checkpoint_to_resume(run_dir: str | None, run: Mapping[str, Any], epochs: int) -> Saved | None:
    """The newest checkpoint in a run's directory; None if nothing is over yet. Collective.

    epochs: how many the run is to have. Raises UserError if there is none of this run, or it has
    had more.
    """
    if run_dir is None:
        raise UserError("resume is True, but logger_kwargs has no output_dir to resume from.")
    saved = Checkpoints(run_dir).newest()
    if saved is not None:
        check_same_run(saved.run, run, run_dir)
        check_epochs_left(epochs, position_of(saved).epoch, run_dir)
    elif on_root(lambda: holds_run(run_dir) and holds_rows(run_dir)):
        raise UserError(
            f"{run_dir} holds a run without checkpoints, which cannot be resumed; start it anew "
            "with --overwrite (overwrite=True), or choose another exp_name, seed or data_dir."
        )
    return saved


def position_of(saved: Saved) -> Position:
    """Where a checkpoint was made."""
    counters = saved.counters
    try:
        position = Position(counters["epoch"], counters["step"], [*counters["infos"]])
        if not all(type(x) is int and x >= 0 for x in (position.epoch, position.step)):
            raise ValueError(f"epoch {position.epoch!r}, step {position.step!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the checkpoint {saved.path} does not say where it was made ({error})."
        ) from error
    return position


def describe_run(
    algorithm: str,
    arguments: Mapping[str, Any],
    env: gym.Env,
    networks: Sequence[keras.Variable],
    exp_name: str | None,
    preset: str | None,
) -> dict[str, Any]:
    """What a checkpoint belongs to, as JSON: what must be the same for a run to go on.

    `command` holds what `python -m spinup_tf2.run resume` starts the run with; None for what only
    a Python program can start.
    """
    env_fn = arguments["env_fn"]
    plain = {
        name: value
        for name, value in arguments.items()
        if name not in ("env_fn", "actor_critic", "logger_kwargs", "behavior_policy", "resume")
    }
    command = None
    if (
        hasattr(env_fn, "env_name")
        and arguments["actor_critic"] in _DEFAULT_NETWORKS
        and arguments.get("behavior_policy") is None
        and is_json_serializable([plain, env_fn.env_kwargs])
    ):
        command = dict(plain, env_name=env_fn.env_name, env_kwargs=env_fn.env_kwargs)
    compared = {name: x for name, x in arguments.items() if name not in _NOT_COMPARED}
    try:
        environment = describe_env(env, env_fn)
    except (TypeError, ValueError):
        environment = type(env.unwrapped).__name__
    run = dict(
        algorithm=algorithm,
        environment=environment,
        observation_space=space_to_json(env.observation_space),
        action_space=space_to_json(env.action_space),
        networks=[[variable.name, list(variable.shape)] for variable in networks],
        num_envs=arguments["num_envs"] * num_procs(),
        arguments=compared,
        exp_name=exp_name,
        preset=preset,
        num_procs=num_procs(),
        command=command,
    )
    return json.loads(json.dumps(convert_json(run)))  # as it will come back: tuples are lists


def check_same_run(saved: Mapping[str, Any], run: Mapping[str, Any], run_dir: str) -> None:
    """Raise UserError if a checkpoint belongs to another run than this one."""
    words = {
        "algorithm": "algorithm",
        "environment": "environment",
        "observation_space": "observation space",
        "action_space": "action space",
        "networks": "networks (names and shapes of their variables)",
    }
    for name, word in words.items():
        if saved.get(name) != run[name]:
            raise _another_run(run_dir, word, saved.get(name), run[name])
    if saved.get("num_envs") != run["num_envs"]:
        raise UserError(
            f"the run in {run_dir} has {saved.get('num_envs')} environments, and this would have "
            f"{run['num_envs']} ({run['num_envs'] // num_procs()} in each of {num_procs()} "
            "processes). Any number of processes can go on with it, if num_envs is such that there "
            "are as many environments as before."
        )
    before, now = dict(saved.get("arguments") or {}), run["arguments"]
    free = list(MAY_CHANGE)
    if now.get("deterministic_resume"):
        free.remove("checkpoint_freq")  # it says when environments begin new episodes
    for name in [*before, *now]:
        if name not in free and before.get(name) != now.get(name):
            raise _another_run(run_dir, name, before.get(name), now.get(name))


def _another_run(run_dir, what, before, now):
    if isinstance(before, list) and isinstance(now, list):  # say where they differ first
        pairs = enumerate(zip_longest(before, now))
        number, (before, now) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        what = f"{what}, number {number + 1},"
    return UserError(
        f"the run in {run_dir} cannot go on: its {what} was {_short(before)} and is now "
        f"{_short(now)}. Resume it as it was, or choose another exp_name, seed or data_dir."
    )


def _short(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
