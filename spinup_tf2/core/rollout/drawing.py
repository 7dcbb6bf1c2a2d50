"""Environments that are drawn in processes of their own, which do not import TensorFlow.

A process that has loaded TensorFlow may crash in a graphics library, such as Mesa's.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from spinup_tf2.envs.rendering import make_to_render, record
from spinup_tf2.persistence.env_spec import make_described


@dataclass(frozen=True)
class Drawing:
    """How an environment is drawn; `drawing()` makes one.

    Attributes:
        description: What `describe_env` says of it.
        render_mode: gymnasium's.
        graphics: Variables of the process that trains, which the graphics libraries read.
        hint: What to do where it cannot be drawn.
        folder, name: For `Recorder`; None: there is no video.
    """

    description: Mapping[str, Any]
    render_mode: str | None
    graphics: Mapping[str, str]
    hint: str
    folder: Path | None = None
    name: str = ""

    def __call__(self) -> gym.Env:
        return _DrawnEnv(self)

    def make(self, render_mode: str | None) -> gym.Env:
        return make_described(self.description, render_mode)


class _DrawnEnv(gym.Wrapper):
    """An environment that is drawn from its first reset on.

    That takes place in its own process only, and can say there what is wrong.
    """

    def __init__(self, drawing: Drawing):
        super().__init__(drawing.make(None))
        self._drawing: Drawing | None = drawing

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            os.environ.update(drawing.graphics)
            self.env.close()
            self.env = make_to_render(drawing.make, drawing.render_mode, drawing.hint)
            if drawing.folder is not None:
                self.env = record(self.env, drawing.folder, drawing.name)
        return self.env.reset(seed=seed, options=options)
