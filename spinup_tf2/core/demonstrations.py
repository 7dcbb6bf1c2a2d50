"""Actions that are shown to the learner instead of chosen by its policy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.core.spaces import ActionSpec
from spinup_tf2.errors import UserError


class Demonstrations:
    """Puts what `behavior_policy(t, obs)` returns in the place of the policy's actions.

    behavior_policy: gets the number of the step in the episode, from 0, and the observation of one
        environment as the networks see it; returns the action as the environment's `step` takes
        it, or None to leave the choice to the policy.
    """

    def __init__(
        self, behavior_policy: Callable[[int, np.ndarray], Any], spec: ActionSpec, num_envs: int
    ):
        self.behavior_policy = behavior_policy
        self.spec = spec
        self.t = [0] * num_envs

    def replace(self, obs: np.ndarray, act: np.ndarray) -> np.ndarray:
        """The actions to take for `obs` `[n, ...]`, where the policy has chosen `act`.

        Raises UserError for an action that does not have the action space's shape.
        """
        act = act.copy()
        for i, (t, obs_i) in enumerate(zip(self.t, obs, strict=True)):
            shown = self.behavior_policy(t, obs_i)
            if shown is not None:
                act[i] = self._to_policy(shown)
        return act

    def step(self, ends: np.ndarray) -> None:
        """Count a step; ends: bool `[n]`, whether it was the last of an episode."""
        self.t = [0 if end else t + 1 for t, end in zip(self.t, ends, strict=True)]

    def _to_policy(self, act):
        if np.shape(act) != self.spec.space.shape:
            raise UserError(
                f"behavior_policy returned an action of shape {np.shape(act)}; the action space is "
                f"{self.spec.space}. Return such an action, or None to let the policy act."
            )
        return self.spec.from_env(act)
