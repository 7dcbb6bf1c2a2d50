"""Makes environments by their names."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium as gym

from spinup_tf2.envs.modules import (
    import_named,
    import_namespace,
    import_registering,
    no_such_module,
    not_installed,
)
from spinup_tf2.errors import UserError, one_line

# These only show or record what happens. That is up to whoever rebuilds the environment, not to the
# arguments of a run, which may name any file.
DISPLAY_WRAPPERS = ("HumanRendering", "RecordVideo", "Recorder", "RenderCollection")

INSTALL_MUJOCO = 'pip install "spinup_tf2[mujoco]"'


@dataclass(frozen=True, slots=True, repr=False)
class EnvFn:
    """Picklable factory of the environment `env_name` with the arguments `env_kwargs`.

    Atari games and Super Mario Bros are preprocessed; see `spinup_tf2.envs.atari.make_atari` and
    `spinup_tf2.envs.mario.make_mario`.

    Args:
        env_name: Id of a registered environment, or `module:id` to import `module` first, which
            registers it.
        env_kwargs: Keyword arguments for the environment.
        modules: Modules to import first, in the process in which the environment is made.
        wrappers: Wrappers around it, the innermost first, as `wrapper_of` reads them.
    """

    env_name: str
    env_kwargs: dict | None = None
    modules: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()

    def __repr__(self) -> str:
        wrappers = f", wrappers={self.wrappers!r}" if self.wrappers else ""
        return f"EnvFn(env_name={self.env_name!r}, env_kwargs={self.env_kwargs!r}{wrappers})"

    @property
    def shows_pictures(self) -> bool:
        """Whether the environment is a game whose observations are known to be images."""
        from spinup_tf2.envs.atari import is_atari
        from spinup_tf2.envs.envpool import is_procgen
        from spinup_tf2.envs.mario import is_mario

        name = str(self.env_name)
        return is_atari(name) or is_mario(name) or is_procgen(name)

    def __call__(self) -> gym.Env:
        import_named(self.modules)
        env = self._made()
        for wrapper, kwargs in map(wrapper_of, self.wrappers):
            env = wrapper(env, **kwargs)
        return env

    def _made(self):
        from spinup_tf2.envs.atari import is_atari, make_atari
        from spinup_tf2.envs.mario import is_mario, make_mario

        kwargs = self.env_kwargs or {}
        if is_atari(str(self.env_name)):
            return make_atari(self.env_name, **kwargs)
        if is_mario(str(self.env_name)):
            return make_mario(self.env_name, **kwargs)
        module, _, env_id = str(self.env_name).rpartition(":")
        if module:
            try:
                import_module(module)
            except ModuleNotFoundError as error:
                if reason := no_such_module(module, error):
                    raise UserError(f"the environment {self.env_name}: {reason}") from error
                raise  # the module exists, but imports something that does not
        if env_id not in gym.registry:
            import_registering(env_id)
        if env_id not in gym.registry:
            import_namespace(env_id)
        if env_id not in gym.registry:
            raise UserError(_unknown_environment(env_id))
        try:
            return gym.make(self.env_name, **kwargs)
        except gym.error.DependencyNotInstalled as error:
            raise UserError(f"{env_id} cannot be made: {one_line(error)}") from error
        except ImportError as error:
            newest = _newest(env_id)
            if not str(gym.registry[newest].entry_point).startswith("gymnasium.envs.mujoco"):
                raise
            raise UserError(  # gymnasium has dropped v2 and v3
                f"{env_id} is no longer there; use {newest} ({INSTALL_MUJOCO})."
            ) from error


def wrapper_of(text: str) -> tuple[type[gym.Wrapper], dict[str, Any]]:
    """Return class and arguments of a wrapper: `module:Class`, or `Class(low=-1, high=1)`.

    A name without a module is one of gymnasium.wrappers. Modules must have been imported.

    Raises:
        UserError: It is something else, or an argument is not a Python literal.
    """
    given = re.fullmatch(r"(?:([\w.]+):)?(\w+)\s*(\(.*\))?", str(text), re.DOTALL)
    try:
        call: Any = ast.parse(f"f{given[3] or '()'}", mode="eval").body if given else None
        kwargs = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        if call.args or None in kwargs or not isinstance(call.func, ast.Name):
            raise ValueError
        wrapper = vars(sys.modules[given[1] or "gymnasium.wrappers"])[given[2]]
        if not issubclass(wrapper, gym.Wrapper) or wrapper.__name__ in DISPLAY_WRAPPERS:
            raise TypeError
    except (AttributeError, KeyError, SyntaxError, TypeError, ValueError) as error:
        raise UserError(
            f"wrapper is {text!r}, which wraps no environment of a run; it must be module:Class or "
            "a class of gymnasium.wrappers, with arguments by name, such as "
            "'RescaleAction(min_action=-1, max_action=1)'."
        ) from error
    return wrapper, kwargs


def _unknown_environment(env_id):
    from spinup_tf2.envs.atari import INSTALL
    from spinup_tf2.envs.envpool.procgen import no_such_game

    if no_game := no_such_game(env_id):
        return no_game
    if to_install := not_installed(env_id):
        return f"{env_id} is not registered with gymnasium: {to_install}."
    if same := [known for known in gym.registry if known.lower() == env_id.lower()]:
        advice = f"Did you mean {same[0]}?"
    else:
        try:
            gym.spec(env_id)
        except gym.error.DeprecatedEnv as error:
            return str(error)
        except gym.error.Error as error:  # its message suggests similar names and other versions
            advice = str(error)
        if newest := _newest(env_id):
            advice += f" Did you mean {newest}?"
    if re.fullmatch(r"\w+-v[04]", env_id) and find_spec("ale_py") is None:
        advice += f" If it is an Atari game, install the emulator with: {INSTALL}."
    return (
        f"{env_id} is not registered with gymnasium. {advice} Check for a typo (did you include "
        "the version tag?). An environment of another package is given as package:EnvId, and one "
        "of your own, which must be registered in a module, as module:EnvId, because experiments "
        "run in processes of their own."
    )


def _newest(env_id):
    """Return the id of the newest registered version of an environment; "" if there is none."""
    name = re.sub(r"-v\d+$", "", env_id)
    versions = [known for known in gym.registry if re.fullmatch(rf"{re.escape(name)}-v\d+", known)]
    return max(versions, key=lambda known: int(known.removeprefix(f"{name}-v")), default="")
