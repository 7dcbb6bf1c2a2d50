"""Episodes of the policy as it is after an epoch: in a video, or in a window."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.callbacks import Callback
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.envs.rendering import INSTALL, choose_render_mode, make_to_render, record
from spinup_tf2.envs.spaces import to_network
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.parallel.heartbeat import beat
from spinup_tf2.persistence.env_spec import make_again

VIDEOS = "videos"  # the folder in the run's directory

_WITHOUT = "Train without {}, and look at the agent with test_policy."


class ShowEpisodes(Callback):
    """Shows an episode after the first of every `every` epochs, in an environment of its own.

    Neither the training's environments nor its random numbers have a part in it. A recording that
    fails warns once.

    Args:
        option: Name of the option that asks for it: 'record_every' for a video, mp4, in
            `RUN_DIR/videos`, or 'render_every' for a window.
        every: How many epochs.
        env: An environment like it is shown.
        env_fn: What has made it.

    Raises:
        UserError: It cannot be drawn.
    """

    def __init__(self, option: str, every: int, env: gym.Env, env_fn: Callable[[], gym.Env]):
        self.option, self.every, self.env, self.env_fn = option, every, env, env_fn
        self.records = option == "record_every"
        hint = _WITHOUT.format(option)
        if self.records and find_spec("imageio_ffmpeg") is None:
            raise UserError(f"{option} needs imageio-ffmpeg; install it with: {INSTALL}.")
        self.render_mode = choose_render_mode(self.records, norender=False, hint=hint)
        with _global_random_numbers_kept():
            make_to_render(self._make, self.render_mode, hint).close()

    def _make(self, render_mode):
        return make_again(self.env, self.env_fn, render_mode)

    def on_start(self, run: Any) -> None:
        self.actor = Actor(run.ac)

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        if self.records:
            run.videos = []
        if run.epoch % self.every:
            return
        try:
            with _global_random_numbers_kept():
                ret, length = self._show(run)
        except Exception as error:  # every graphics library has its own
            run.logger.warn_once(
                f"{self.option}: no episode of epoch {run.logged_epoch} is shown "
                f"({type(error).__name__}: {one_line(error)}). The training goes on.",
                about=self.option,
            )
            return
        where = ""
        if self.records:
            folder = Path(run.logger.output_dir, VIDEOS)
            run.videos = [*folder.glob(f"{_name(run)}-*.mp4")]
            where = f", recorded in {VIDEOS}/{_name(run)}-episode-0.mp4"
        run.logger.log(f"An episode: return {ret:.3f}, length {length}{where}.")

    def _show(self, run):
        """Return and length of an episode."""
        env = self._make(self.render_mode)
        if self.records:
            env = record(env, Path(run.logger.output_dir, VIDEOS), _name(run))
        rng = np.random.default_rng([run.settings.seed, run.epoch])
        self.actor.refresh()
        with closing(env):
            if env.has_wrapper_attr("add_epoch"):
                for _ in range(run.epoch):
                    env.get_wrapper_attr("add_epoch")()
            return self._episode(run, env, rng)

    def _episode(self, run, env, rng):
        spec, space = run.ac.action_spec, run.ac.env_observation_space
        obs, _ = env.reset(seed=int(rng.integers(2**31)))
        ret, length, over = 0.0, 0, False
        while not over and not run.interruption.requested:
            beat()
            act, _ = self.actor(to_network(space, obs)[None], spec.draw_noise(rng, 1))
            obs, rew, terminated, truncated, _ = env.step(spec.to_env(act)[0])
            ret, length = ret + float(rew), length + 1
            over = terminated or truncated or length == run.settings.max_ep_len
        return ret, length


def _name(run):
    return f"epoch-{run.logged_epoch}"


@contextmanager
def _global_random_numbers_kept() -> Iterator[None]:
    """Some environments draw from these, and so does what trains in this process."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
