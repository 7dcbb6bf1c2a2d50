"""A robot that cannot be kept down: it walks, is pushed over, gets up, and walks on.

    python -m spinup_tf2.examples.quadruped_switch --push 150 --seconds 60 --record videos

Two agents control the robot in turns: one has learned to walk, the other to get up. A rule decides
which of them acts. When the walking episode would end, because the robot has fallen, the other
agent takes over; and as soon as the robot has stood for half a second, it walks again.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.quadruped.env import QuadrupedEnv
from spinup_tf2.envs.rendering import shown_or_recorded
from spinup_tf2.errors import UserError
from spinup_tf2.files.saves import find_save
from spinup_tf2.utils.test_policy import load_agent, load_env

WALK = "data/quadruped-walk-demo/quadruped-walk-demo_s0"
RECOVER = "data/quadruped-recover-demo/quadruped-recover-demo_s0"
STANDING = 0.5  # s, until the robot walks again
DOES = {"walk": "walks", "recover": "gets up"}


class SwitchedEnv(gym.Env):
    """A quadruped that switches between walking and getting up. It begins with a fall.

    Observations, rewards and infos are those of the current environment; episodes never end. The
    two environments share one robot once they have been switched.
    """

    def __init__(self, walk: QuadrupedEnv, recover: QuadrupedEnv):
        self.envs = {"walk": walk, "recover": recover}
        self.mode, self.falls = "recover", 0  # falls while walking
        self.metadata, self.render_mode = recover.metadata, recover.render_mode
        self._stood = 0.0  # s

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.mode, self.falls, self._stood = "recover", 0, 0.0
        return self.envs["recover"].reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        env = self.envs[self.mode]
        obs, rew, terminated, _, info = env.step(action)
        self._stood = self._stood + env.dt if info["is_success"] else 0.0
        if self.mode == "walk" and terminated:
            self.falls += 1
            obs, _ = self._switch("recover")
        elif self.mode == "recover" and self._stood >= STANDING:
            obs, _ = self._switch("walk")
        elif self.mode == "recover" and env.t >= 1 / env.phase_hz:  # an attempt without success
            obs, _ = self._switch("recover")
        return obs, rew, False, False, info

    def _switch(self, mode):
        robot_of, self.mode, self._stood = self.envs[self.mode], mode, 0.0
        return self.envs[mode].reset(options={"take_over": robot_of})

    def render(self) -> np.ndarray | None:
        return self.envs[self.mode].render()

    def close(self) -> None:
        for env in self.envs.values():
            env.close()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--walk", default=WALK, metavar="RUN_DIR", help=f"default {WALK}")
    parser.add_argument("--recover", default=RECOVER, metavar="RUN_DIR", help=f"default {RECOVER}")
    parser.add_argument("--push", type=float, default=150.0, help="N, every five seconds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", metavar="DIR", help="write a video into this directory")
    args = parser.parse_args(argv)
    try:
        play(args)
    except UserError as error:
        parser.error(str(error))


def play(args: argparse.Namespace) -> None:
    """Let the agents control the robot for the given number of seconds."""
    saves = {"walk": find_save(args.walk), "recover": find_save(args.recover)}
    env_kwargs = {"domain_randomization": {"push": args.push}}

    def make(render_mode: str | None) -> SwitchedEnv:
        made = (load_env(at, render_mode, env_kwargs=env_kwargs) for at in saves.values())
        return SwitchedEnv(*(env.unwrapped for env in made))

    render_mode = "rgb_array" if args.record else None
    with shown_or_recorded(make, render_mode, args.record, "switch") as env:
        agents = {mode: load_agent(save, deterministic=True) for mode, save in saves.items()}
        obs, _ = env.reset(seed=args.seed)
        switched = env.unwrapped
        mode, seconds = None, 0.0
        while seconds < args.seconds:
            if switched.mode != mode:
                mode = switched.mode
                print(f"{seconds:5.1f} s: {DOES[mode]}", flush=True)
            seconds += switched.envs[mode].dt
            obs, *_ = env.step(agents[mode](obs))
    print(
        f"{switched.falls} falls; it {'walks' if switched.mode == 'walk' else 'lies'} at the end."
    )


if __name__ == "__main__":
    main()
