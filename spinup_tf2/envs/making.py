"""Makes environments by their names."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from spinup_tf2.envs.modules import import_named, import_namespace, import_registering
from spinup_tf2.errors import UserError, one_line

# These only show or record what happens. That is up to whoever rebuilds the environment, not to the
# arguments of a run, which may name any file.
DISPLAY_WRAPPERS = ("HumanRendering", "RecordVideo", "Recorder", "RenderCollection")


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
            import_named(module)
        reason = "" if env_id in gym.registry else import_registering(env_id)
        if env_id not in gym.registry:
            import_namespace(env_id)
        try:
            gym.spec(env_id)
        except gym.error.Error as error:
            raise UserError(
                f"{env_id} is not registered with gymnasium.{reason} {one_line(error)} Give an "
                "environment of another package as package:EnvId, and one of your own as "
                "module:EnvId with the module that registers it."
            ) from error
        try:
            return gym.make(env_id, **kwargs)
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            raise UserError(f"{env_id} cannot be made: {one_line(error)}") from error


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
