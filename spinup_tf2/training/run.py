"""What all runs share: epochs, rows of the log, tests, saves, checkpoints, and stopping."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from tqdm import tqdm

from spinup_tf2.core.nets.actor_critic import BaseActorCritic, unique
from spinup_tf2.core.on_policy import actor_for
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.files.printing import is_terminal, say
from spinup_tf2.parallel.mpi import beat, broadcast_object, proc_id
from spinup_tf2.parallel.stopping import Interruption, Watchdog
from spinup_tf2.parallel.tensors import check_params
from spinup_tf2.tracking import HISTOGRAMS
from spinup_tf2.training.callbacks import Callbacks
from spinup_tf2.training.checkpoints import Checkpoints, Saved
from spinup_tf2.training.evaluation import NO_RESULTS, evaluate, own_test_episodes
from spinup_tf2.training.finite import check_experience, check_info, check_step, check_variables
from spinup_tf2.training.keeper import Keeper, variables_of
from spinup_tf2.training.replay import REPEATED_STEPS, ActionLog, warn_of_strayed, warn_of_wrappers
from spinup_tf2.training.rows import BestWeights, Rows, score_of
from spinup_tf2.training.same_run import how_to_go_on
from spinup_tf2.training.saved_policy import SavedPolicy
from spinup_tf2.training.settings import Settings

Item = TypeVar("Item")


class Run:
    """A run whose directory is open. The loops of the algorithms look like this:

        for epoch in run.epochs():
            ...                                  # collect
            run.record(update(batch))
            run.finish_epoch()

    Arguments are those of `opening.open_run`, and what it has made of them.

    Attributes:
        settings: The run's settings.
        envs: The training environments.
        test_envs: The environments for evaluation; None if this rank plays no test episodes.
        ac, policy: The actor-critic.
        logger: The EpochLogger.
        variables: All variables that a checkpoint holds, equal on all ranks.
        epoch: Number of the current epoch, from 0.
        first_step: The step of each environment at which the current epoch begins: 0, unless the
            run was stopped within this epoch and has been resumed.
        videos: Paths of the videos recorded at the end of the latest epoch.
        progress: Fraction of the training that is over, from 0 to just below 1: on-policy at the
            first step of the current batch, off-policy at the current step.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        envs: VectorEnv,
        test_envs: VectorEnv | None,
        ac: BaseActorCritic,
        state: Mapping[str, Any],
        columns: Mapping[str, bool],
        logger: EpochLogger,
        saved_policy: SavedPolicy,
        description: dict[str, Any],
        checkpoints: Checkpoints,
        saved: Saved | None,
        callbacks: Callbacks,
        contexts: ExitStack,
    ):
        self.settings, self.envs, self.test_envs = settings, envs, test_envs
        self.ac = self.policy = ac
        self.logger, self.description = logger, description
        self.epoch, self.first_step, self.progress = 0, 0, 0.0
        self.best = BestWeights(ac.variables)
        self.videos: list[Path] = []
        self._saved_policy, self._callbacks = saved_policy, callbacks
        self._contexts, self._stopped, self._resumed = contexts, "", saved is not None
        # Off-policy as in Spinning Up: epochs are counted from 1, and tests always have columns.
        replay = state.get("replay")
        self._first_epoch = 0 if replay is None else 1
        self._tests = replay is not None or settings.num_test_episodes > 0
        self._rows = Rows(logger, columns, (envs, test_envs), self._tests)
        self._test_actor = actor_for(ac, test_envs) if test_envs is not None else None
        self.variables = unique([*ac.variables, *variables_of(state)])
        self._log = envs.log = ActionLog(envs) if settings.deterministic_resume else None
        parts = {"envs": self._log, "episodes": envs.episodes, **state}
        self._restarted = [part for part in parts.values() if hasattr(part, "restart")]
        self._keeper = Keeper(
            description, checkpoints, logger, envs.indices, self.variables, self.best, parts, replay
        )
        if broadcast_object(bool(settings.track)):  # keeping values is collective
            logger.keep = HISTOGRAMS
        self._began, self._policy_saved = time.monotonic(), True
        if saved is not None:
            self._restore(saved)
        else:
            warn_of_wrappers(envs.prototype, logger)
        contexts.callback(callbacks.end, self)
        callbacks.start(self)
        if saved is None and settings.checkpoint_freq:
            self._save_checkpoint(0)

    def epochs(self) -> Iterator[int]:
        """Yield the numbers of the epochs that are left to train, counted from 0."""
        settings = self.settings
        self._contexts.enter_context(Watchdog(settings.stall_timeout, self._how_to_go_on()))
        self.interruption = self._contexts.enter_context(Interruption())
        hidden = self.logger.quiet or proc_id() != 0 or not is_terminal(sys.stderr)
        looks = dict(unit="epoch", dynamic_ncols=True, disable=hidden)
        bar = tqdm(total=settings.epochs, initial=self.epoch, **looks)
        self._bar = self._contexts.enter_context(bar)
        for epoch in range(self.epoch, settings.epochs):
            self.epoch = epoch
            yield epoch
            if self._stopped:
                break
        self._check_saved()

    def observations(self, obs: np.ndarray | None, step: int) -> np.ndarray:
        """Return the observations from which to act, of new episodes if these are due. Collective.

        Args:
            obs: The latest observations, `[n, ...]`; None at the start of a training run or of its
                resumption.
            step: How many steps of the epoch each environment has taken.
        """
        settings, log = self.settings, self._log
        self.progress = (self.epoch + step / settings.local_steps) / settings.epochs
        new = log is not None and step == 0 and self.epoch % settings.checkpoint_freq == 0
        if obs is not None and not new:
            return obs
        if log is not None and (not new or (obs is None and self._resumed)):
            again = log.replay(REPEATED_STEPS if new else None)
            warn_of_strayed(log, self.logger)
            if not new:
                return again
        for part in self._restarted:
            part.restart()
        obs = self.envs.reset(self.epoch, step)
        check_step(self.envs, self.logged_epoch, step, obs)
        return obs

    def check_step(
        self, step: int, obs: np.ndarray, rew: np.ndarray, final_obs: Mapping[int, Any]
    ) -> None:
        """Check the answers to step `step` of the epoch; see `finite.check_step`."""
        check_step(self.envs, self.logged_epoch, step, obs, rew, final_obs, self.variables)

    def until_stopped(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, one per step, until a stop is requested; send a heartbeat for each."""
        for item in items:
            beat()
            if self.interruption.requested:
                return
            yield item

    def collected(self, actor: Any, buffer: Any, obs: np.ndarray, start: int) -> None:
        """Check and count what has been collected, or leave if a stop was requested. Collective.

        Args:
            actor: The actor.
            buffer: The TrajectoryBuffer that has been filled.
            obs: Observations after its last step, `[n, ...]`.
            start: How many steps of the epoch each environment had taken before.
        """
        rows = buffer.rows
        if self.asked_to_stop():
            if self._log is not None:  # the batch will be collected again, by the same policy
                self._log.forget(buffer.t)
            if buffer.t and "state" in rows:
                actor.state = rows["state"][0].copy()
            self.leave(start)
        if start + buffer.size == self.settings.local_steps:
            self.best.note_acting()
        last = [each for each in buffer.final_obs if each[2] is not None]
        seen = (rows["obs"], rows["rew"], last, obs)
        check_experience(self.envs, self.logged_epoch, start, *seen, self.ac.variables)
        self.count_episodes(rows["rew"], buffer.ends, buffer.lost)

    def count_episodes(self, rew: np.ndarray, ends: np.ndarray, lost: np.ndarray) -> None:
        """Log the episodes that ended in these steps, all `[T, n]`; see `Episodes.count`."""
        ended = self.envs.episodes.count(rew, ends, lost)
        self.logger.store(**ended)
        if self.settings.verbose_episodes and not self.logger.quiet:  # on all ranks
            for ret, length in zip(ended["EpRet"], ended["EpLen"], strict=True):
                say(f"Epoch {self.logged_epoch}: episode of {length} steps, return {ret:.5g}")

    def minibatches(
        self, size: int | None, passes: int, epochs: int = 1, stream: int = 1
    ) -> np.ndarray | None:
        """Return the rows of each minibatch, `[passes, count, local size]`; None without `size`.

        With a memory, a row is a segment.

        Args:
            size: Steps of all processes in each minibatch; None: there are no minibatches.
            passes: Number of passes over the data.
            epochs: Number of epochs whose steps the data hold.
            stream: Stream of random numbers to draw from; see Randomness.minibatches.
        """
        if size is None:
            return None
        count = epochs * self.settings.steps_per_epoch // size
        rows = self.settings.local_steps
        if self.ac.memory is not None:
            rows //= self.ac.memory.segment_length(rows)
        draw = self.envs.randomness.minibatches
        return draw(self.epoch, epochs * rows, passes, count, stream)

    def asked_to_stop(self) -> bool:
        """Return whether a stop was requested on any rank. Collective."""
        return self.interruption.agreed()

    def leave(self, step: int) -> NoReturn:
        """Save everything and exit, after `step` steps of the epoch. Collective.

        To be called when `asked_to_stop` returns True.
        """
        text = self._how_to_go_on()
        if self.settings.checkpoint_freq and not self._save_checkpoint(self.epoch, step):
            text = f"What came after the last checkpoint is lost. {text}"
        self._save_policy()  # so that it can be watched
        self.interruption.leave(text)

    def record(self, info: Mapping[str, Any]) -> None:
        """Log what an update has returned in the row of this epoch."""
        check_info(info, self.logged_epoch)
        self._rows.record(info)

    def finish_epoch(self) -> None:
        """Write the epoch's row of the log; if due, test and save the policy, and checkpoint.

        Collective.
        """
        settings, logger, epoch = self.settings, self.logger, self.epoch
        last = epoch == settings.epochs - 1
        check_variables(self.variables, self.logged_epoch)  # before they are acted with
        if self._tests:
            self._evaluate(due=last or (epoch + 1) % settings.test_freq == 0)
        self.envs.add_epoch()
        interacts = (epoch + 1) * settings.steps_per_epoch
        self._rows.log(self.logged_epoch, interacts, self._seconds())
        for name, value in self._callbacks.columns(self):
            logger.log_tabular(name, value)
        row = self._rows.write()
        self.best.judge(score_of(row, settings.num_test_episodes > 0), self.logged_epoch)
        self._stopped = self._callbacks.end_epoch(self, row) or ""
        last = last or self._stopped != ""
        if last or self.logged_epoch % settings.save_freq == 0 or not self._policy_saved:
            check_params(self.variables)
            self._policy_saved = self._save_policy()
        self.first_step = 0
        if settings.checkpoint_freq:
            due = self._keeper.has_waited and (epoch + 1) % settings.checkpoint_freq == 0
            if broadcast_object(last or self._keeper.save_failed or due):
                self._save_checkpoint(epoch + 1)
        self._bar.update()
        if self._stopped:
            logger.log(f"Stopped: {self._stopped}. {self._how_to_go_on()}")

    # ---------------------------------------------------------------------- for callbacks

    def stop(self, reason: str) -> None:
        """Ask for the training to end after this epoch."""
        self._callbacks.reason = str(reason) or "a callback has asked for it"

    # ------------------------------------------------------------------- the end of an epoch

    @property
    def logged_epoch(self) -> int:
        """Number of the current epoch, as it is logged."""
        return self._first_epoch + self.epoch

    def _evaluate(self, due):
        results = NO_RESULTS
        if due:
            self.best.note_acting()
            episodes = own_test_episodes(self.settings.num_test_episodes)
            args = self.test_envs, self._test_actor, episodes, self.epoch, self.interruption
            results = evaluate(*args)
            if self.asked_to_stop():
                self.leave(self.settings.local_steps)
        self.logger.store(**results)

    def _check_saved(self):
        """Raise an error if the finished training's results are not on disk. Collective."""
        self.logger.check_in_place()
        run_dir = self.logger.output_dir
        missing = [] if self._policy_saved else ["the policy"]
        missing += ["the checkpoint"] if self._keeper.save_failed else []
        missing += [] if broadcast_object(self.logger.all_written) else ["the last rows"]
        if missing:
            raise OSError(
                f"The training is over, but not written to {broadcast_object(run_dir)}: "
                f"{', '.join(missing)} (a warning above says why). Files that were there before "
                f"still are. Make room. {self._how_to_go_on()} Without any checkpoint, it has to "
                "start again."
            )

    # ------------------------------------------------------------------------ saving, restoring

    def _save_policy(self):
        """Save the policy for `test_policy`; return whether it was saved. Collective."""
        self.logger.check_in_place()
        # A run that is resumed with nothing left to do is past its last epoch.
        self._saved_policy.info["epoch"] = min(self.epoch, self.settings.epochs - 1)
        # The other ranks wait: a rank that exits takes rank 0 down with it.
        return broadcast_object(self.logger.save_state({"env": self.envs.prototype}, None))

    def _save_checkpoint(self, epoch, step=0):
        self.logger.check_in_place()
        check_variables(self.variables, self._first_epoch + epoch)
        counters = dict(
            epoch=epoch,
            step=step,
            infos=self._rows.infos,
            seconds=self._seconds(),
            callbacks=self._callbacks.states(),
            stopped=self._stopped,
        )
        return self._keeper.save(counters, step == self.settings.local_steps)

    def _restore(self, saved):
        counters = saved.counters
        self._keeper.restore(saved)
        self.epoch, self.first_step = counters["epoch"], counters["step"]
        self._rows.infos = counters["infos"]
        self._began = time.monotonic() - counters["seconds"]
        where = f"{self.epoch} of {self.settings.epochs} epochs"
        if self.first_step:
            where += f", and {self.first_step} steps of each environment"
        self.logger.log(f"Resuming from {saved.path}, after {where}.")
        self._callbacks.restore(counters["callbacks"])
        if counters["stopped"]:
            self.logger.log(f"It had stopped: {counters['stopped']}.")
        if self.epoch >= self.settings.epochs:
            self.logger.log("There is nothing left to do; more epochs would continue it.")
            self._policy_saved = self._save_policy()  # after a crash there may be none

    def _seconds(self):
        """Return how long the run has taken, excluding the time between stops and resumptions."""
        return time.monotonic() - self._began

    def _how_to_go_on(self):
        run_dir = broadcast_object(self.logger.output_dir)
        return how_to_go_on(run_dir, self.settings, self.description)
