"""A quadruped is shown how to walk, or how to get up, and goes on learning from there with PPO.

    python -m spinup_tf2.examples.quadruped_demo --task walk --seed 0

The environment knows a demonstration: a trot, or the keyframes of a robot that rolls over and
stands up. It does not look where the robot is, so that it only does as long as nothing happens; for
`--task command` it is the trot, too, whatever the command. The policy is first made to imitate it,
which takes two minutes (`clone`), and is saved as a run of its own. PPO then begins with these
networks (`init_from`) and finds out what is better.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.runs.saved_policy import SavedPolicy
from spinup_tf2.experiments.processes import resolve_num_cpu
from spinup_tf2.persistence.env_spec import write_env_spec
from spinup_tf2.presets import load
from spinup_tf2.runs.files import holds_run
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.run_utils import EnvFn, call_experiment, setup_logger_kwargs

EPOCHS = {"walk": 60, "recover": 30, "command": 200}  # of PPO


def demonstrate(env: gym.Env, steps: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations `[steps, obs_dim]`, and what the demonstration does in each, `[steps, 12]`.

    Args:
        env: The quadruped.
        steps: How many steps are shown.
        noise: Standard deviation of what is added to the actions before the robot takes them. A
            policy that has only seen a perfect trot does not know what to do a little beside it.
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
) -> None:
    """Make a Gaussian policy imitate the demonstration, and save it as a run.

    With a standard deviation that stays as it is, maximum likelihood is least squares:
    max_theta sum log N(a; mu_theta(s), sigma)  <=>  min_theta sum |a - mu_theta(s)|^2.

    Args:
        env_fn: Makes the environment.
        logger_kwargs: Arguments of the logger.
        seed: Of the weights and of the demonstration.
        steps: Length of the demonstration.
        noise: See `demonstrate`.
        passes: Number of passes over these steps.
        lr: Adam's learning rate.
        log_std: Logarithm of the standard deviation with which PPO then tries other actions. With
            much more than this, what has been learned is lost before it can be used.
        hidden_sizes: Units of the networks' hidden layers, which must be those of PPO.
    """
    config = dict(locals())
    keras.utils.set_random_seed(seed)
    env = env_fn()
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(config)
    write_env_spec(Path(logger.output_dir, "env_spec.json"), env, env_fn)
    spaces = (env.observation_space, env.action_space)
    ac = MLPActorCritic(*spaces, hidden_sizes=hidden_sizes, log_std_init=log_std)
    ac.step(np.zeros(env.observation_space.shape))  # only now its variables exist
    logger.setup_tf_saver(SavedPolicy(ac, *spaces))

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", choices=EPOCHS, default="walk")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20_000, help="of the demonstration")
    usual = ", ".join(f"{epochs} to {task}" for task, epochs in EPOCHS.items())
    epochs_help = f"of PPO, by default {usual}; 0: only the imitation"
    parser.add_argument("--epochs", type=int, help=epochs_help)
    parser.add_argument("--cpu", type=int, default=1, help="processes of PPO")
    name_help = "the runs are NAME-clone and NAME-demo; by default the task's name"
    parser.add_argument("--exp_name", metavar="NAME", help=name_help)
    parser.add_argument("--data_dir")
    args = parser.parse_args()
    epochs = EPOCHS[args.task] if args.epochs is None else args.epochs
    name, preset_name = args.exp_name or args.task, f"quadruped-{args.task}"
    imitation = setup_logger_kwargs(f"{name}-clone", args.seed, args.data_dir)
    improvement = setup_logger_kwargs(f"{name}-demo", args.seed, args.data_dir)
    # Before minutes have been spent.
    resolve_num_cpu(args.cpu)
    for run in (imitation, improvement) if epochs else (imitation,):
        if holds_run(run["output_dir"]):
            other = "choose another --exp_name, --seed or --data_dir"
            parser.error(f"{run['output_dir']} already holds a run; {other}")

    preset = load("ppo", preset_name)
    sizes = {k: x for k, x in preset.settings["ac_kwargs"].items() if k == "hidden_sizes"}
    clone(EnvFn(preset.env, preset.env_kwargs), args.seed, imitation, args.steps, **sizes)
    evaluate_run(imitation["output_dir"], episodes=10)
    if epochs == 0:
        return
    settings = preset.arguments | dict(epochs=epochs, init_from=imitation["output_dir"])
    options = dict(seed=args.seed, num_cpu=args.cpu, data_dir=args.data_dir, preset=preset_name)
    call_experiment(f"{name}-demo", ppo, **options, **settings)


if __name__ == "__main__":
    main()
