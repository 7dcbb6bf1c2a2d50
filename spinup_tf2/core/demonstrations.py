"""Demonstrations: actions that a behavior policy takes instead of the policy that learns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.arguments.rules import behavior_inputs
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.recurrent_acting import RecurrentActor
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError


class Demonstrations:
    """An Actor in which actions that `behavior_policy` returns replace those of the policy.

    Args:
        act: The policy.
        behavior_policy: Function of as many of these as it takes, for one environment: the number
            of the step in the episode, from 0; a copy of the observation, as a flat vector or an
            image and not normalized; a copy of the policy's action; the environment's number. It
            returns the action to take, or None for the policy's. Actions are in the form that the
            environment's `step` takes.
        envs: The environments in which to act.
    """

    def __init__(
        self,
        act: Actor | RecurrentActor,
        behavior_policy: Callable[..., Any],
        envs: VectorEnv,
    ):
        self.act, self.behavior_policy, self.envs = act, behavior_policy, envs
        self.inputs = behavior_inputs(behavior_policy)

    def refresh(self) -> None:
        self.act.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return actions and what else to keep of the step, as an Actor does.

        Raises:
            UserError: An action of `behavior_policy` does not have the shape of the action space,
                is not in it (discrete actions), or holds numbers that are not finite.
        """
        act, extras = self.act(obs, noise)
        act, own = act.copy(), self.envs.action_spec.to_env(act.copy())
        each = zip(self.envs.elapsed.tolist(), obs.copy(), own, self.envs.indices, strict=True)
        for i, given in enumerate(each):
            shown = self.behavior_policy(*given[: self.inputs])
            if shown is not None:
                act[i] = self._to_policy(shown)
        return act, extras

    def _to_policy(self, act):
        spec, act = self.envs.action_spec, np.asarray(act)
        if not spec.allows(act):
            raise UserError(
                f"behavior_policy returned {act.tolist()}, of shape {act.shape}; the action space "
                f"is {spec.space}. Return an action in it, or None to let the policy act."
            )
        return spec.from_env(act)
