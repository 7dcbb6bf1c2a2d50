"""Mario is shown how to clear a level, and goes on learning from there with PPO.

    python -m spinup_tf2.examples.mario_demo --stage 4-1
    python -m spinup_tf2.examples.mario_demo --stage 1-1 1-2 1-4 4-1 --exp_name four

The package knows a sequence of buttons that clears the level (`envs.mario.demonstrations`). It does
not look at the screen, so that an enemy that comes a moment later ends it. A network is first made
to do the same from what it sees, after frames of doing nothing, too (`clone`), and is saved as a
run of its own. PPO then begins with this network (`init_from`): its episodes start along the
demonstration, near the flag at first and earlier with every epoch (`demonstration_epochs`); then
for half of the time they start at the beginning of the level, after some frames of doing nothing.
Of several levels, each episode has one at random, and one agent learns all of them; it takes as
many times longer.
"""

import argparse
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.envs.mario.search import plan_after
from spinup_tf2.errors import UserError
from spinup_tf2.examples.cloning import add_arguments, begin_imitation, check_runs
from spinup_tf2.presets import load
from spinup_tf2.utils.run_utils import EnvFn, call_experiment

PRESET = "mario-demo"


def demonstrate(
    env: gym.Env, stages: Sequence[str], noops: Sequence[int], cpu: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Observations `[steps, ...]`, and the action `[steps]` that a demonstration takes in each.

    Args:
        env: Super Mario Bros, preprocessed, with actions for four frames.
        stages: The levels whose demonstrations are played, one after the other.
        noops: How many frames of doing nothing come before one: each level is shown with each of
            these numbers, or not at all where it has become another level by then, and no way
            through is found.
        cpu: Number of threads that look for it; their emulators run at the same time.
    """
    starts = [*itertools.product(stages, noops)]
    find = partial(plan_after, letters=env.unwrapped.letters)
    seen, shown = [], []
    with ThreadPoolExecutor(cpu) as pool:
        plans = pool.map(find, *zip(*starts, strict=True))
        for (stage, number), plan in zip(starts, plans, strict=True):
            if plan is None:
                print(f"No way through {stage} was found after {number} frames of doing nothing.")
                continue
            obs, _ = env.reset(options=dict(stages=[stage], noops=number))
            for act in env.unwrapped.actions_of(plan):
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
    noops: Sequence[int] = range(0, 31, 3),
    cpu: int = 1,
    passes: int = 60,
    loss: float = 1e-4,
    batch_size: int = 32,
    lr: float = 1e-3,
) -> None:
    """Make a policy imitate the demonstrations, and save it as a run.

    Maximum likelihood of the actions: max_theta sum log pi_theta(a | s). It goes on until the
    policy hardly does anything else any more: with a loss of 1e-4 a step, the samples of 300 steps
    are those of the demonstration with a probability of exp(-300e-4) = 0.97.

    Args:
        env_fn: Makes the environment.
        stages: The levels.
        seed: Of the weights and the order of the steps.
        logger_kwargs: Arguments of the logger.
        ac_kwargs: Arguments of the network.
        noops: How many frames of doing nothing come before a demonstration, see `demonstrate`. The
            frames after them are others, and what is imitated has to be recognized in all of them.
        cpu: Number of threads that look for demonstrations.
        passes: The largest number of passes over all steps.
        loss: The loss at which it is over.
        batch_size: Steps in each minibatch.
        lr: Adam's learning rate at first; it falls to 0.
    """
    config = dict(locals())
    make_ac = partial(CNNActorCritic, **ac_kwargs)
    env, ac, logger = begin_imitation(env_fn, seed, logger_kwargs, config, make_ac)
    obs, act = demonstrate(env, stages, noops, cpu)
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
        reached, accuracy = ac.pi.net.evaluate(obs, act, batch_size=256, verbose=0)
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("TotalEnvInteracts", len(obs))
        logger.log_tabular("LossPi", reached)
        logger.log_tabular("Accuracy", accuracy)
        logger.dump_tabular()
        if reached <= loss:
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
    ac_kwargs = preset.settings["ac_kwargs"]
    clone(imitated, args.stage, args.seed, imitation, ac_kwargs, cpu=args.cpu)
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
