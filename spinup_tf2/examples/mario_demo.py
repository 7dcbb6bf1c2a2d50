"""Mario is shown how to clear a level, and goes on learning from there with PPO.

    python -m spinup_tf2.examples.mario_demo --stage 4-1
    python -m spinup_tf2.examples.mario_demo --stage 1-1 1-2 1-4 4-1 --exp_name four

The package knows a sequence of buttons that clears the level (`envs.mario.demonstrations`). It does
not look at the screen, so that an enemy that comes a moment later ends it. A network is first made
to do the same from what it sees (`clone`), and is saved as a run of its own. PPO then begins with
this network (`init_from`): its episodes start along the demonstration, near the flag at first and
earlier with every epoch (`demonstration_epochs`); then for half of the time they start at the
beginning of the level, after some frames of doing nothing. Of several levels, each episode has one
at random, and one agent learns all of them; it takes as many times longer.
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
from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from spinup_tf2.core.runs.saved_policy import SavedPolicy
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.processes import resolve_num_cpu
from spinup_tf2.persistence.env_spec import write_env_spec
from spinup_tf2.presets import load
from spinup_tf2.runs.files import holds_run
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.run_utils import EnvFn, call_experiment, setup_logger_kwargs

PRESET = "mario-demo"


def demonstrate(env: gym.Env, stages: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Observations `[steps, ...]`, and the action `[steps]` that the demonstration takes in each.

    Args:
        env: Super Mario Bros, preprocessed, with actions for four frames.
        stages: The levels whose demonstrations are played, one after the other.
    """
    seen, shown = [], []
    for stage in stages:
        obs, _ = env.reset(options=dict(stages=[stage], noops=0))
        for act in env.unwrapped.demonstration():
            seen.append(obs)
            shown.append(act)
            obs, _, terminated, _, info = env.step(act)
        if not (terminated and info["is_success"]):
            raise UserError(f"The demonstration of {stage} does not reach the flag.")
    return np.array(seen), np.array(shown)


def clone(
    env_fn: EnvFn,
    stages: Sequence[str],
    seed: int,
    logger_kwargs: Mapping[str, Any],
    ac_kwargs: Mapping[str, Any],
    passes: int = 120,
    batch_size: int = 32,
    lr: float = 1e-3,
) -> None:
    """Make a policy imitate the demonstrations, and save it as a run.

    Maximum likelihood of the actions: max_theta sum log pi_theta(a | s). It is over as soon as the
    most likely action is the demonstration's in every step. The game is deterministic, so that the
    greedy policy then clears the levels in the same way.

    Args:
        env_fn: Makes the environment.
        stages: The levels.
        seed: Of the weights and the order of the steps.
        logger_kwargs: Arguments of the logger.
        ac_kwargs: Arguments of the network.
        passes: The largest number of passes over all steps.
        batch_size: Steps in each minibatch.
        lr: Adam's learning rate at first; it falls to 0.
    """
    config = dict(locals())
    keras.utils.set_random_seed(seed)
    env = env_fn()
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(config)
    write_env_spec(Path(logger.output_dir, "env_spec.json"), env, env_fn)
    ac = CNNActorCritic(env.observation_space, env.action_space, **ac_kwargs)
    ac.step(np.zeros(env.observation_space.shape, np.uint8))  # only now its variables exist
    logger.setup_tf_saver(SavedPolicy(ac, env.observation_space, env.action_space))

    obs, act = demonstrate(env, stages)
    env.close()
    decay = keras.optimizers.schedules.CosineDecay(lr, passes * -(-len(obs) // batch_size))
    ac.pi.net.compile(
        keras.optimizers.Adam(decay),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # convolutions are slower with XLA
    )
    for epoch in range(passes):
        ac.pi.net.fit(obs, act, batch_size=batch_size, verbose=0)
        loss, accuracy = ac.pi.net.evaluate(obs, act, batch_size=256, verbose=0)
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("TotalEnvInteracts", len(obs))
        logger.log_tabular("LossPi", loss)
        logger.log_tabular("Accuracy", accuracy)
        logger.dump_tabular()
        if accuracy == 1.0:
            break
    logger.save_state({}, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", nargs="+", default=["1-1"], help="the levels; default 1-1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="of PPO, by default 40 for each level; 0: none")
    parser.add_argument("--cpu", type=int, default=1, help="processes of PPO")
    name_help = "the runs are NAME-clone and NAME-demo; by default mario and the levels"
    parser.add_argument("--exp_name", metavar="NAME", help=name_help)
    parser.add_argument("--data_dir")
    args = parser.parse_args()
    name = args.exp_name or "-".join(["mario", *args.stage])
    imitation = setup_logger_kwargs(f"{name}-clone", args.seed, args.data_dir)
    improvement = setup_logger_kwargs(f"{name}-demo", args.seed, args.data_dir)
    # Before minutes have been spent.
    resolve_num_cpu(args.cpu)
    try:
        for stage in args.stage:
            demonstration(stage)
    except UserError as error:
        parser.error(str(error))
    for run in (imitation, improvement):
        if holds_run(run["output_dir"]):
            other = "choose another --exp_name, --seed or --data_dir"
            parser.error(f"{run['output_dir']} already holds a run; {other}")

    preset = load("ppo", PRESET)
    stages = dict(stages=args.stage)
    imitated = EnvFn(preset.env, {**preset.env_kwargs, **stages})
    clone(imitated, args.stage, args.seed, imitation, preset.settings["ac_kwargs"])
    # An agent that is stuck stands there until the clock runs out, unless it is cut off.
    evaluate_run(imitation["output_dir"], episodes=10, noops=9, max_ep_len=600)
    epochs = preset.settings["epochs"] * len(args.stage) if args.epochs is None else args.epochs
    if epochs == 0:
        return
    settings = preset.arguments | dict(epochs=epochs, init_from=imitation["output_dir"])
    settings["env_kwargs"] = {**preset.env_kwargs, **stages}
    options = dict(seed=args.seed, num_cpu=args.cpu, data_dir=args.data_dir, preset=PRESET)
    call_experiment(f"{name}-demo", ppo, **options, **settings)


if __name__ == "__main__":
    main()
