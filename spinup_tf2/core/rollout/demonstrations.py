"""Demonstrations: actions that a behavior policy takes instead of the policy that learns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.core.nets.recurrent_acting import Policy
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError


class Demonstrations:
    """An Actor in which actions that `behavior_policy` returns replace those of the policy.

    Args:
        act: The policy.
        behavior_policy: Function that is called with the number of the step in the episode, from 0,
            and a copy of the observation of one environment, as a flat vector or an image and not
            normalized. It returns the action as the environment's `step` takes it, or None to let
            the policy act.
        envs: The environments in which to act.
    """

    def __init__(
        self, act: Policy, behavior_policy: Callable[[int, np.ndarray], Any], envs: VectorEnv
    ):
        self.act, self.behavior_policy, self.envs = act, behavior_policy, envs

    def refresh(self) -> None:
        self.act.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, which: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return actions and values for the environments `which`, as an Actor does.

        Raises:
            UserError: An action of `behavior_policy` does not have the shape of the action space,
                is not in it (discrete actions), or holds numbers that are not finite.
        """
        act, val = self.act(obs, noise, which)
        act = act.copy()
        for i, (t, obs_i) in enumerate(zip(self.envs.elapsed[which], obs, strict=True)):
            shown = self.behavior_policy(int(t), obs_i.copy())
            if shown is not None:
                act[i] = self._to_policy(shown)
        return act, val

    def _to_policy(self, act):
        spec, act = self.envs.action_spec, np.asarray(act)
        space = spec.space
        # As for the policy's own actions, the environment itself enforces the bounds of a Box.
        is_box = spec.num_choices is None
        possible = act.shape == space.shape and (np.isfinite(act).all() if is_box else act in space)
        if not possible:
            raise UserError(
                f"behavior_policy returned {act.tolist()}, of shape {act.shape}; the action space "
                f"is {space}. Return an action in it, or None to let the policy act."
            )
        return spec.from_env(act)
