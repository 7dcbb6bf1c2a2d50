"""Episodes of the current policy, in a video or a window, after some of the epochs."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from spinup_tf2.callbacks import Callback
from spinup_tf2.core.nets.recurrent_acting import actor_for
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV
from spinup_tf2.envs.rendering import HINT_IN_TRAINING, check_shown_in_training, choose_render_mode
from spinup_tf2.errors import UserError, kind_and_line
from spinup_tf2.files.env_spec import describe_env
from spinup_tf2.training.drawing import Drawing
from spinup_tf2.training.evaluation import NO_RESULTS, evaluate
from spinup_tf2.training.settings import Settings

VIDEOS = "videos"  # the folder in the run's directory

_GRAPHICS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_NO_SIGNAL_HANDLERS", "MUJOCO_GL")


class ShowEpisodes(Callback):
    """Callback that shows or records an episode after every `every` epochs, from the first on.

    The episode is the first test episode: without noise, from the same seed every time. Its
    environment runs in a process of its own, because graphics libraries clash with TensorFlow and
    must not end the training. The first failure is reported with a warning. An episode that is
    broken off leaves no video.

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
        check_shown_in_training(option)
        try:
            description = describe_env(env, settings.env_fn)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"The environment cannot be made a second time, to be drawn: {error}. {hint}"
            ) from error
        mode = choose_render_mode(self.records, norender=False, hint=hint)
        graphics = {name: os.environ[name] for name in _GRAPHICS if name in os.environ}
        self._drawing = Drawing(description, mode, graphics, hint)
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
        finally:
            if folder is not None and not shown["TestEpRet"]:
                # If the environment was closed, the video is finished; if killed, a part is left.
                for path in (*folder.glob(f"{name}-*.mp4"), *folder.glob(f".{name}-*.mp4")):
                    with suppress(OSError):
                        path.unlink()
        videos = [] if folder is None else sorted(folder.glob(f"{name}-*.mp4"))
        if self.records:
            run.videos = videos
        for ret, length in zip(shown["TestEpRet"], shown["TestEpLen"], strict=True):
            where = "".join(f", in {VIDEOS}/{path.name}" for path in videos)
            run.logger.log(f"Shown: an episode with return {ret:.3f} and length {length}{where}.")
