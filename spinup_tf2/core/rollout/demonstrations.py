"""Actions that are shown to the learner instead of chosen by its policy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.envs.spaces import ActionSpec
from spinup_tf2.errors import UserError


class Demonstrations:
    """Puts what `behavior_policy(t, obs)` returns in the place of the policy's actions.

    behavior_policy: gets the number of the step in the episode, from 0, and the observation of one
        environment as a flat vector or an image, not normalised, a copy; returns the action as the
        environment's `step` takes it, or None to let the policy act.
    """

    def __init__(
        self, behavior_policy: Callable[[int, np.ndarray], Any], spec: ActionSpec, num_envs: int
    ):
        self.behavior_policy = behavior_policy
        self.spec = spec
        self.t = np.zeros(num_envs, int)

    def replace(self, obs: np.ndarray, act: np.ndarray, columns: slice = slice(None)) -> np.ndarray:
        """The actions to take for `obs` `[n, ...]`, where the policy has chosen `act`.

        columns: which environments these are.
        Raises UserError for an action of another shape than the action space's, for a
        discrete action that it does not have, and for numbers that are not finite.
        """
        act = act.copy()
        for i, (t, obs_i) in enumerate(zip(self.t[columns], obs, strict=True)):
            shown = self.behavior_policy(int(t), obs_i.copy())
            if shown is not None:
                act[i] = self._to_policy(shown)
        return act

    def restart(self) -> None:
        """All environments begin new episodes."""
        self.t[:] = 0

    def step(self, ends: np.ndarray, columns: slice = slice(None)) -> None:
        """Count a step; ends: bool `[n]`, whether it was the last of an episode."""
        self.t[columns] = np.where(ends, 0, self.t[columns] + 1)

    def _to_policy(self, act):
        space, act = self.spec.space, np.asarray(act)
        # As with the policy's own actions, the bounds of a Box are the environment's affair.
        is_box = self.spec.num_choices is None
        possible = act.shape == space.shape and (np.isfinite(act).all() if is_box else act in space)
        if not possible:
            raise UserError(
                f"behavior_policy returned {act.tolist()}, of shape {act.shape}; the action space "
                f"is {space}. Return an action in it, or None to let the policy act."
            )
        return self.spec.from_env(act)
