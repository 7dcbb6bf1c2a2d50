"""Environments that are rendered in processes of their own, which do not import TensorFlow.

A process that has loaded TensorFlow may crash in a graphics library, such as Mesa.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from spinup_tf2.envs.rendering import make_to_render, record
from spinup_tf2.files.env_spec import make_described


@dataclass(frozen=True)
class Drawing:
    """How to render an environment; `drawing()` creates the environment.

    Attributes:
        description: The environment's description, as `describe_env` returns it.
        render_mode: gymnasium's render mode.
        graphics: Environment variables of the training process that graphics libraries read.
        hint: Advice for the error message if it cannot be rendered.
        folder, name: Arguments of `Recorder`; without a folder, no video is recorded.
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
    """An environment that is rendered from its first reset on.

    The first reset takes place in the process of the environment, where errors can be reported.
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
