"""Presets: settings of an algorithm that have been found to do well on some environments.

    python -m spinup_tf2.run ppo --preset mario

They are data, which take the place of the algorithm's defaults. Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True)
class Preset:
    """Tuned settings of an algorithm for a kind of environment.

    Attributes:
        doc: What they are for, in a line.
        algorithm: Its name.
        env: Id of the environment that is taken if none is named.
        fits: Which other ids they are meant for, as a pattern with `*`.
        settings: Keyword arguments of the algorithm, which take the place of its defaults.
        env_kwargs: Keyword arguments of the environment.
    """

    doc: str
    algorithm: str
    env: str
    fits: str
    settings: dict[str, Any]
    env_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """All of it as keyword arguments, for `call_experiment` and `ExperimentGrid`."""
        return dict(env_name=self.env, env_kwargs=dict(self.env_kwargs), **self.settings)


def presets_for(algorithm: str, env_name: str | None = None) -> dict[str, Preset]:
    """The presets of an algorithm by name; with `env_name`, those that fit this environment."""
    return {
        name: preset
        for name, preset in PRESETS.items()
        if preset.algorithm == algorithm
        and (env_name is None or fnmatchcase(env_name, preset.fits))
    }


def as_flags(arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"gamma": 1, "ac_kwargs": {"conv": 2}}` as `{"gamma": 1, "ac_kwargs:conv": 2}`."""
    flags = {}
    for name, value in arguments.items():
        name = f"{prefix}{name}"
        flags |= as_flags(value, f"{name}:") if isinstance(value, dict) else {name: value}
    return flags


_MARIO = dict(
    # Eight emulators, whose frames cost far more than anything that is done with them: so the
    # experience of an epoch is used often, in small batches.
    num_envs=8,
    vectorization="threads",
    steps_per_epoch=2048,
    minibatch_size=256,
    train_pi_iters=8,
    target_kl=None,
    # What an action was good for shows within a second or two of the game.
    gamma=0.9,
    lam=0.95,
    pi_lr=5e-4,
    ent_coef=0.01,
    max_grad_norm=0.5,
    normalize_reward=True,
    # The game's own clock ends an episode after 2,000 steps at most, or 2,400 of the slower ROM.
    max_ep_len=2500,
    epochs=190,
    num_test_episodes=10,
    test_freq=20,
    ac_kwargs=dict(conv=((16, 8, 4), (32, 4, 2), (32, 3, 2)), hidden_sizes=(256,)),
)

_RUNNING = dict(actions="run", noop_max=30, no_progress=75)

_QUADRUPED = dict(
    steps_per_epoch=4000,
    lam=0.95,
    target_kl=0.02,
    # The mean action begins at that of a standing robot.
    orthogonal_init=True,
    # Noise moves a robot that only stands: whether it walks is seen without it.
    num_test_episodes=4,
    test_freq=10,
    # Large steps to find a gait, small ones to become reliable.
    lr_schedule="linear",
)

PRESETS: dict[str, Preset] = {
    "mario": Preset(
        doc="Super Mario Bros with two actions: run, and run and jump.",
        algorithm="ppo",
        env="SuperMarioBros-1-1-v0",
        fits="SuperMarioBros*",
        settings=_MARIO,
        env_kwargs=_RUNNING,
    ),
    "mario-finish": Preset(
        doc="What follows mario, with --init_from its run: a learning rate that falls to 0.",
        algorithm="ppo",
        env="SuperMarioBros-1-1-v0",
        fits="SuperMarioBros*",
        # With a constant one the agent keeps unlearning here what it learns there. By now it has
        # tried enough: no entropy bonus.
        settings=_MARIO
        | dict(pi_lr=2.5e-4, lr_schedule="linear", ent_coef=0.0, epochs=80, test_freq=10),
        env_kwargs=_RUNNING,
    ),
    "mario-simple": Preset(
        doc="Super Mario Bros with seven actions (SIMPLE_MOVEMENT).",
        algorithm="ppo",
        env="SuperMarioBros-1-1-v0",
        fits="SuperMarioBros*",
        settings=_MARIO | dict(ent_coef=0.02, pi_lr=2.5e-4, lr_schedule="linear", epochs=1600),
        env_kwargs=dict(actions="simple", noop_max=30, no_progress=75),
    ),
    "quadruped-walk": Preset(
        doc="A quadruped in PyBullet that walks straight ahead.",
        algorithm="ppo",
        env="QuadrupedWalk-v0",
        fits="QuadrupedWalk*",
        # Noise that does not carry a robot far that only stands.
        settings=_QUADRUPED | dict(epochs=80, max_ep_len=400, ac_kwargs=dict(log_std_init=-1.5)),
        env_kwargs=dict(straight=True),
    ),
    "quadruped-recover": Preset(
        doc="A quadruped in PyBullet that gets up after a fall.",
        algorithm="ppo",
        env="QuadrupedRecover-v0",
        fits="QuadrupedRecover*",
        settings=_QUADRUPED
        | dict(epochs=80, max_ep_len=100, num_test_episodes=20, ac_kwargs=dict(log_std_init=-1.0)),
    ),
}
