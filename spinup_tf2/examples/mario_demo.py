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
from functools import partial
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.examples.cloning import add_arguments, begin_imitation, check_runs
from spinup_tf2.presets import load
from spinup_tf2.utils.run_utils import EnvFn, call_experiment

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
    make_ac = partial(CNNActorCritic, **ac_kwargs)
    env, ac, logger = begin_imitation(env_fn, seed, logger_kwargs, config, make_ac)
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
    add_arguments(parser, "mario and the levels", "40 for each level")
    args = parser.parse_args()
    name = args.exp_name or "-".join(["mario", *args.stage])
    imitation = check_runs(parser, args, name, improved=True)
    try:
        for stage in args.stage:
            demonstration(stage)
    except UserError as error:
        parser.error(str(error))

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
