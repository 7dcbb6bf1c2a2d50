"""Which share of the units of a network for images is dead: 0 in every frame that was looked at.

    python benchmarks/dead_units.py data/pong/pong_s0 data/pong/pong_s1

A unit with ReLU that is dead gets no gradient, so that it stays as it is. The frames are those of
random actions, and the layers are the hidden ones of the policy. A filter counts once.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gymnasium as gym
import keras
import numpy as np
from spinup_tf2.files.saves import find_save, read_info, read_weights
from spinup_tf2.training.rebuilding import build_again
from throughput import markdown_table

from spinup_tf2.core.nets.acting import layers_of
from spinup_tf2.utils.test_policy import load_env


def frames(env: gym.Env, steps: int) -> np.ndarray:
    """Every fourth observation of so many random steps."""
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    seen = []
    for step in range(steps):
        if step % 4 == 0:
            seen.append(obs)
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            obs, _ = env.reset()
    return np.array(seen)


def dead_shares(net: keras.Sequential, obs: np.ndarray) -> list[float]:
    """The share of dead units of each hidden layer; a filter is one unit, wherever it is."""
    *hidden, _ = layers_of(net)
    shares, x = [], obs
    for layer in hidden:
        x = layer(x)
        if isinstance(layer, (keras.layers.Conv2D, keras.layers.Dense)):
            active = (keras.ops.convert_to_numpy(x) != 0).any(axis=tuple(range(x.ndim - 1)))
            shares.append(1 - active.mean())
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    rows = []
    for run in args.runs:
        save = find_save(run)
        env = load_env(save)
        obs = frames(env, args.steps)
        networks, weights = read_info(save)["networks"], read_weights(save)
        ac = build_again(networks, env.observation_space, env.action_space, weights)
        rows.append([run.name, *(f"{share:.0%}" for share in dead_shares(ac.pi.net, obs))])
        env.close()
    widest = max(map(len, rows))
    print(markdown_table(["run", *(f"layer {i}" for i in range(1, widest))], rows))


if __name__ == "__main__":
    main()
