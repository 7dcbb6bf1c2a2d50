"""Put the best weights of a run on CartPole into networks; give the run's directory."""

import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np

from spinup_tf2.core.policies import MLPActorCritic

if __name__ == "__main__":
    newest = max(Path(sys.argv[1], "checkpoint").glob("[0-9]" * 6))
    best = json.loads((newest / "manifest.json").read_text())["counters"]["best"]
    print(f"epoch {best['epoch']}: {best['score']}")

    env = gym.make("CartPole-v1")
    ac = MLPActorCritic(env.observation_space, env.action_space)
    with np.load(newest / "best.npz") as weights:
        for i, variable in enumerate(ac.variables):
            variable.assign(weights[str(i)])
    obs, _ = env.reset(seed=0)
    print("action:", ac.act(obs, deterministic=True))
