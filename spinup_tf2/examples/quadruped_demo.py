"""A quadruped is shown how to walk, or how to get up, and continues to learn from there with PPO.

    python -m spinup_tf2.examples.quadruped_demo --task walk --seed 0

The environment has a demonstration: a trot, or keyframes with which the robot rolls over and stands
up. It uses no feedback, so that it only works as long as nothing disturbs it; for `--task command`
it is the same trot for all commands. The policy is first trained to imitate it, which takes two
minutes (`clone`), and is saved as a run of its own. PPO then starts from these networks
(`init_from`) and improves on them.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.errors import UserError
from spinup_tf2.examples.cloning import (
    add_arguments,
    begin_imitation,
    check_same_imitation,
    imitate_and_improve,
)
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn

EPOCHS = {"walk": 60, "recover": 30, "command": 200}  # epochs of PPO


def demonstrate(env: gym.Env, steps: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return observations `[steps, obs_dim]`, and the demonstration's actions `[steps, 12]`.

    Args:
        env: The quadruped.
        steps: Number of steps.
        noise: Standard deviation of noise that is added to the actions before the robot takes them.
            A policy that has only seen a perfect trot does not know how to correct deviations.
        seed: Seed of the environment and of the noise.
    """
    rng, robot = np.random.default_rng(seed), env.unwrapped
    seen, shown = [], []
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        act = robot.target_policy(robot.t)
        seen.append(obs)
        shown.append(act)
        obs, _, terminated, truncated, _ = env.step(act + noise * rng.normal(size=act.shape))
        if terminated or truncated:
            obs, _ = env.reset()
    return np.array(seen), np.array(shown)


def clone(
    env_fn: EnvFn,
    seed: int,
    logger_kwargs: Mapping[str, Any],
    steps: int,
    noise: float = 0.2,
    passes: int = 40,
    lr: float = 1e-3,
    log_std: float = -1.5,
    hidden_sizes: Sequence[int] = (64, 64),
    resume: bool = False,
) -> bool:
    """Make a Gaussian policy imitate the demonstration, and save it as a run.

    With a fixed standard deviation, maximum likelihood is the same as least squares:
    max_theta sum log N(a; mu_theta(s), sigma)  <=>  min_theta sum |a - mu_theta(s)|^2.

    Args:
        env_fn: Factory of the environment.
        seed: Seed of the initial weights and of the demonstration.
        logger_kwargs: Arguments of the logger.
        steps: Length of the demonstration in steps.
        noise: See `demonstrate`.
        passes: Number of passes over these steps.
        lr: Adam's learning rate.
        log_std: Logarithm of the standard deviation with which PPO then explores. If it is much
            larger, what has been learned is lost before it can be used.
        hidden_sizes: Widths of the networks' hidden layers, which must be the same as in PPO.
        resume: Whether the run's directory may hold this run: an incomplete run starts over, and a
            complete one is kept.

    Returns:
        Whether anything was done.
    """
    config = {name: value for name, value in locals().items() if name != "resume"}
    if resume:
        directory = Path(logger_kwargs["output_dir"])
        check_same_imitation(directory, config)
        if (directory / "tf2_save").exists():
            return False
    make_ac = partial(MLPActorCritic, hidden_sizes=hidden_sizes, log_std_init=log_std)
    keep_rows = 0 if resume else None
    env, ac, logger = begin_imitation(env_fn, seed, logger_kwargs, config, make_ac, keep_rows)
    obs, act = demonstrate(env, steps, noise, seed)
    env.close()
    ac.pi.net.compile(keras.optimizers.Adam(lr), loss="mse")
    history = ac.pi.net.fit(obs, act, batch_size=256, epochs=passes, verbose=0)
    for epoch, loss in enumerate(history.history["loss"]):
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("TotalEnvInteracts", steps)
        logger.log_tabular("LossPi", loss)
        logger.dump_tabular()
    logger.save_state({}, None)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", choices=EPOCHS, default="walk")
    parser.add_argument("--steps", type=int, default=20_000, help="of the demonstration")
    usual_epochs = ", ".join(f"{epochs} to {task}" for task, epochs in EPOCHS.items())
    add_arguments(parser, "the task's name", usual_epochs)
    args = parser.parse_args()
    preset_name = f"quadruped-{args.task}"
    preset = load("ppo", preset_name)
    epochs = EPOCHS[args.task] if args.epochs is None else args.epochs
    settings = preset.arguments | dict(epochs=epochs)
    sizes = {k: x for k, x in preset.settings["ac_kwargs"].items() if k == "hidden_sizes"}
    env_fn = EnvFn(preset.env, preset.env_kwargs)

    def imitate(logger_kwargs):
        options = dict(**sizes, resume=args.resume)
        return clone(env_fn, args.seed, logger_kwargs, args.steps, **options), {}

    try:
        name = args.exp_name or args.task
        imitate_and_improve(args, name, preset_name, settings, imitate, episodes=10)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
