"""The callbacks of a run: those passed in `callbacks`, and those that other options create."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import gymnasium as gym

from spinup_tf2.callbacks import (
    HOOKS,
    Callback,
    StopAfter,
    StopAtReturn,
    StopWithoutImprovement,
    has_hooks,
    seconds_of,
)
from spinup_tf2.core.on_policy import actor_for
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV
from spinup_tf2.envs.modules import import_named
from spinup_tf2.envs.rendering import HINT_IN_TRAINING, Drawing, mode_in_training
from spinup_tf2.errors import UserError, kind_and_line
from spinup_tf2.files.env_spec import describe_env, make_described
from spinup_tf2.files.logger import number_in
from spinup_tf2.parallel.mpi import broadcast_object
from spinup_tf2.tracking import Tracker, check_installed
from spinup_tf2.training.evaluation import NO_RESULTS, evaluate
from spinup_tf2.training.settings import Settings

VIDEOS = "videos"  # the folder in the run's directory

_GRAPHICS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_NO_SIGNAL_HANDLERS", "MUJOCO_GL")


def callbacks_of(settings: Settings, env: gym.Env) -> list[Any]:
    """Return the callbacks for the settings of a run.

    Args:
        settings: The run's settings.
        env: An environment of the same kind as those that train.

    Raises:
        UserError: A callback cannot be created.
    """
    callbacks = [
        _named(each) if isinstance(each, str) else each for each in settings.callbacks or ()
    ]
    if settings.stop_at_return is not None:
        callbacks.append(StopAtReturn(settings.stop_at_return))
    if settings.stop_without_improvement is not None:
        callbacks.append(StopWithoutImprovement(settings.stop_without_improvement))
    if (seconds := seconds_of(settings.stop_after)) is not None:
        callbacks.append(StopAfter(seconds=seconds))
    for option in ("record_every", "render_every"):  # before trackers, which upload the videos
        if getattr(settings, option) is not None:
            callbacks.append(ShowEpisodes(option, settings, env))
    for name in settings.track or ():
        check_installed(name)
        callbacks.append(Tracker(name))
    return callbacks


def _named(name):
    """Return the object that `module:Name` stands for; an instance if it is a class."""
    module, _, attribute = name.rpartition(":")
    try:
        import_named(module)
        found = getattr(sys.modules[module], attribute)
        if not has_hooks(found):  # checked before it is called
            raise TypeError(f"it has none of the methods {', '.join(HOOKS)}")
        return found() if isinstance(found, type) else found
    except Exception as error:  # a module may raise anything
        raise UserError(
            f"the callback {name} cannot be had ({kind_and_line(error)}); give it as module:Name, "
            "where Name is an object in the module, or a class without arguments."
        ) from error


class Callbacks:
    """Calls the callbacks of a run, on rank 0. All methods are collective.

    Args:
        callbacks: Objects with some of the methods of `spinup_tf2.callbacks.Callback`; none on
            other ranks.
    """

    def __init__(self, callbacks: Sequence[Any]):
        self._callbacks = callbacks
        self._started: list[Any] = []
        self.reason: str | None = None  # reason to stop, on rank 0

    def start(self, run: Any) -> None:
        for callback in self._callbacks:
            if hasattr(callback, "on_start"):
                callback.on_start(run)
            self._started.append(callback)

    def end_epoch(self, run: Any, row: Mapping[str, Any]) -> str | None:
        """Call `on_epoch_end`; return the reason to stop or None, the same on all ranks."""
        self._call("on_epoch_end", run, row)
        return broadcast_object(self.reason)

    def columns(self, run: Any) -> list[tuple[str, float | str]]:
        """Return the columns that callbacks add to the row of this epoch, the same on all ranks."""
        added = [
            (name, "" if value is None else float(number_in(name, value)))
            for _, columns in self._call("columns", run)
            for name, value in (columns or {}).items()
        ]
        return broadcast_object(added)

    def end(self, run: Any) -> None:
        """Call `on_end` of all callbacks whose `on_start` did not fail, even if one raises."""
        with ExitStack() as stack:
            for each in reversed(self._started):
                if hasattr(each, "on_end"):
                    stack.callback(each.on_end, run)

    def _call(self, hook, *arguments):
        """Call a method of all callbacks that have it; return pairs (callback, result)."""
        able = [each for each in self._started if hasattr(each, hook)]
        return [(each, getattr(each, hook)(*arguments)) for each in able]

    def states(self) -> list[tuple[str, dict]]:
        """Return (kind, state) of each callback with a state, as JSON, in which arrays are lists.

        Raises:
            UserError: JSON cannot hold a state.
        """
        states = [(_kind(each), state) for each, state in self._call("state_dict")]
        try:
            return json.loads(json.dumps(states, default=methodcaller("tolist")))
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"a state_dict of the callbacks {', '.join(kind for kind, _ in states)} cannot be "
                f"saved: {error}. It may hold numbers, texts, None, lists, dicts and arrays."
            ) from error

    def restore(self, states: Sequence[tuple[str, dict]]) -> None:
        """Restore callbacks, each from the first unused state of its kind, if there is one."""
        left = [*states]
        for each in self._callbacks:
            found = next((state for state in left if state[0] == _kind(each)), None)
            if found is not None and hasattr(each, "load_state_dict"):
                left.remove(found)
                each.load_state_dict(found[1])


def _kind(callback):
    return f"{type(callback).__name__} {getattr(callback, 'name', '')}".strip()


class ShowEpisodes(Callback):
    """Callback that shows or records an episode after every `every` epochs, from the first on.

    The episode is the first test episode: without noise, from the same seed every time. Its
    environment runs in a process of its own, because graphics libraries clash with TensorFlow and
    must not end the training. The first failure is reported with a warning.

    Args:
        option: Name of the option that creates the callback: 'record_every' for an mp4 video in
            `RUN_DIR/videos`, or 'render_every' for a window.
        settings: The run's settings.
        env: An environment of the same kind.

    Raises:
        UserError: The environment cannot be rendered.
    """

    def __init__(self, option: str, settings: Settings, env: gym.Env):
        self.option, self.settings, self.env = option, settings, env
        self.every = getattr(settings, option)
        self.records = option == "record_every"
        hint = HINT_IN_TRAINING.format(option)
        mode = mode_in_training(option)
        description = describe_env(env, settings.env_fn)
        graphics = {name: os.environ[name] for name in _GRAPHICS if name in os.environ}
        self._drawing = Drawing(partial(make_described, description), mode, graphics, hint)
        with self._environment(self._drawing, action_spec=None) as envs:
            envs.reset()  # starts rendering, which raises what is wrong

    def _environment(self, drawing: Drawing, action_spec: Any) -> VectorEnv:
        return VectorEnv(
            drawing,
            seed=self.settings.seed,
            max_ep_len=self.settings.max_ep_len,
            vectorization="async",
            first_env=FIRST_TEST_ENV,
            make_action_spec=lambda _: action_spec,
            prototype=self.env,
        )

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        if self.records:  # if not, run.videos belongs to another callback
            run.videos = []
        if run.epoch % self.every:
            return
        name = f"epoch-{run.logged_epoch}"
        folder = Path(run.logger.output_dir, VIDEOS) if self.records else None
        shown = NO_RESULTS
        try:
            if folder is not None:
                folder.mkdir(exist_ok=True)  # without parents: the run may have been moved away
            drawing = replace(self._drawing, folder=folder, name=name)
            with self._environment(drawing, run.ac.action_spec) as envs:
                actor = actor_for(run.ac, envs)
                shown = evaluate(envs, actor, epoch=run.epoch, interruption=run.interruption)
        except Exception as error:  # every graphics library has its own
            run.logger.warn_once(
                f"{self.option}: no episode of epoch {run.logged_epoch} is shown "
                f"({kind_and_line(error)}). The training continues.",
                about=self.option,
            )
        videos = [] if folder is None else sorted(folder.glob(f"{name}-*.mp4"))
        while len(videos) > 1:  # what follows is the next game, begun by a button
            videos.pop().unlink(missing_ok=True)
        if self.records:
            run.videos = videos
        for ret, length in zip(shown["TestEpRet"], shown["TestEpLen"], strict=True):
            where = "".join(f", in {VIDEOS}/{path.name}" for path in videos)
            run.logger.log(f"Shown: an episode with return {ret:.3f} and length {length}{where}.")
