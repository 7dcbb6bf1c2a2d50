"""Mario is shown how to clear a level, and goes on learning from there with PPO.

    python -m spinup_tf2.examples.mario_demo --stage 4-1
    python -m spinup_tf2.examples.mario_demo --stage 1-1 2-1 3-2 4-1 --exp_name four

The package knows a sequence of buttons that clears the level (`envs.mario.demonstrations`). It does
not look at the screen, so that an enemy that comes a moment later ends it. A network first learns
this sequence, or one like it, from what it sees, after frames of doing nothing, too (`clone`). Then
it plays, and where it has failed it is shown what would have led on from there
(`mario_corrections`; Ross and others 2011). It is saved as a run of its own. PPO then begins with
this network (`init_from`): its episodes start along the demonstration, near the flag at first and
earlier with every epoch (`demonstration_epochs`); then for half of the time they start at the
beginning of the level, after some frames of doing nothing. Of several levels, each episode has one
at random, and one agent learns all of them; it takes as many times longer.

What has been stopped goes on with the same command and `--resume`.
"""

import os

from spinup_tf2.parallel.threads import FAST_CONVOLUTIONS

if __name__ == "__main__":
    os.environ.update(FAST_CONVOLUTIONS | os.environ)  # as experiments have it that see pictures

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2 import ppo
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from spinup_tf2.core.runs.init_from import begin_with, network_arguments
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.examples.cloning import (
    add_arguments,
    begin_imitation,
    check_runs,
    check_same_imitation,
    run_options,
)
from spinup_tf2.examples.mario_corrections import LONGEST, correct_with
from spinup_tf2.examples.mario_ways import Shown, Start, Ways, first_ways, frames_of, together
from spinup_tf2.presets import load
from spinup_tf2.runs.lock import run_lock
from spinup_tf2.utils.run_utils import EnvFn, call_experiment

PRESET = "mario-demo"
THIRDS = 3  # of the starts of a level: each round has one of them, and learns from three rounds
SAMPLED = 4  # episodes of each level with sampled actions, in each round of corrections


def clone(
    env_fn: EnvFn,
    stages: Sequence[str],
    seed: int,
    logger_kwargs: Mapping[str, Any],
    ac_kwargs: Mapping[str, Any],
    init_from: str | None = None,
    noops: Sequence[int] = range(31),
    rounds: int = 9,
    cpu: int = 1,
    passes: int = 100,
    lr: float = 1e-3,
    correction_passes: int = 30,
    correction_lr: float = 5e-4,
    loss: float = 1e-4,
    batch_size: int = 32,
    resume: bool = False,
) -> bool:
    """Make a policy imitate the demonstrations and corrections of itself, and save it as a run.

    Maximum likelihood of the actions: max_theta sum log pi_theta(a | s). It goes on until the
    policy hardly does anything else any more: with a loss of 1e-4 a step, the samples of 300 steps
    are those of the demonstration with a probability of exp(-300e-4) = 0.97.

    Args:
        env_fn: Makes the environment.
        stages: The levels.
        seed: Of the weights and the order of the steps.
        logger_kwargs: Arguments of the logger.
        ac_kwargs: Arguments of the network.
        init_from: The run of a network that is to be corrected; then there are no demonstrations.
        noops: How many frames of doing nothing may come before an episode. A level is shown after
            every third of these numbers, or not at all where it has become another level by then,
            and no way through is found. The frames after them are others, and what is imitated has
            to be recognized in all of them.
        rounds: How often at most it then plays, is corrected, and learns from this round and the
            two before it, demonstrations excepted. The most likely actions are taken after another
            third of `noops` in each round, and always after none. Sampled ones are taken SAMPLED
            times. There are no more rounds when three in a row needed no corrections.
        cpu: Number of threads that look for demonstrations and corrections.
        passes: The largest number of passes over the demonstrations.
        lr: Adam's learning rate at first; it falls to 0, as half of a cosine does.
        correction_passes, correction_lr: The same in each round of corrections.
        loss: The loss at which a round is over.
        batch_size: Steps in each minibatch.
        resume: Go on with what the directory of the run holds. `rounds` may be more than before.

    Returns:
        Whether anything was learned that had not been learned before.

    Raises:
        UserError: Another imitation is to be resumed, or a round has found no way to the flag.
    """
    config = {name: value for name, value in locals().items() if name != "resume"}
    directory = Path(logger_kwargs["output_dir"])
    with run_lock(directory):
        if resume:
            check_same_imitation(directory, config, may_change=("rounds", "cpu"))
        keep_rows = Lessons.rows_in(directory) if resume else None
        make_ac = partial(CNNActorCritic, **ac_kwargs)
        env, ac, logger = begin_imitation(env_fn, seed, logger_kwargs, config, make_ac, keep_rows)
        letters = env.unwrapped.letters
        env.close()
        ways, shown = Ways(directory / "ways.jsonl"), dict[int, list[Shown]]()
        lessons = Lessons(ac.pi.net, directory, seed)
        if init_from is not None and lessons.round == 0:
            begin_with(ac, init_from)
            lessons.next_round()
        done = lessons.round
        for number in range(done, rounds + 1):
            oldest = max(number - THIRDS + 1, min(number, 1))
            taught = range(number, oldest - 1, -1)  # where two rounds differ, the later one counts
            starts = {each: starts_of_round(each, stages, noops) for each in taught}
            if number == 0:
                found = {0: first_ways(ways, starts[0], letters, cpu)}
            else:
                find = correct_with(env_fn, ac.pi.net)
                found = {each: ways.of_round(each, starts[each], find, cpu) for each in taught}
                successes = sum(way.success for way in found[number])
                total = len(found[number])
                print(f"Round {number}: {successes} of {total} episodes reached the flag.")
            if number >= THIRDS and all(way.success for each in taught for way in found[each]):
                print(f"No episode of the last {THIRDS} rounds needed help: this was the last one.")
                break
            shown = {
                each: shown[each] if each in shown else frames_of(env_fn, found[each], cpu)
                for each in taught
            }
            if not any(shown.values()):
                raise UserError(
                    f"In round {number} no way to the flag was found in any episode, so that there "
                    "is nothing to learn. Correct a network that comes further, or fewer levels."
                )
            frames = together(pair for each in taught for pair in shown[each])
            steps = (passes, lr) if number == 0 else (correction_passes, correction_lr)
            for reached, accuracy in lessons.learn(frames, *steps, loss, batch_size):
                logger.log_tabular("Round", number)
                logger.log_tabular("TotalEnvInteracts", len(frames[0]))
                logger.log_tabular("LossPi", reached)
                logger.log_tabular("Accuracy", accuracy)
                logger.dump_tabular()
            logger.save_state({}, None)
            lessons.next_round()
    return lessons.round > done


def starts_of_round(number: int, stages: Sequence[str], noops: Sequence[int]) -> list[Start]:
    """How the episodes of a round of corrections begin; round 0 is that of the demonstrations."""
    third = noops[number % THIRDS :: THIRDS]
    starts = [Start(stage, frames) for stage in stages for frames in sorted({noops[0], *third})]
    if number:
        rng = np.random.default_rng(number)
        for stage in stages:
            seeds = range(SAMPLED * number, SAMPLED * (number + 1))
            starts += [Start(stage, int(rng.choice(noops)), seed) for seed in seeds]
    return starts


class Lessons:
    """A network that learns what it is shown, round by round, and is kept after each pass.

    Args:
        net: The logits `[batch, num_actions]` of observations.
        run_dir: Of the run in which it is kept, and from which it goes on.
        seed: Of the order of the steps.

    Attributes:
        round: How many rounds are over.
    """

    _ROWS = "rows/.ATTRIBUTES/VARIABLE_VALUE"  # its name in a checkpoint

    def __init__(self, net: keras.Model, run_dir: Path, seed: int):
        self._net, self._seed = net, seed
        optimizer = keras.optimizers.Adam()
        optimizer.build(net.trainable_variables)
        net.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            jit_compile=False,  # convolutions are slower with XLA
        )
        numbers = {name: tf.Variable(0, dtype=tf.int64) for name in ("round", "passes", "rows")}
        self._at = numbers | dict(loss=tf.Variable(np.inf))
        checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, **self._at)
        self._manager = tf.train.CheckpointManager(checkpoint, self._directory(run_dir), 1)
        if self._manager.latest_checkpoint:
            checkpoint.restore(self._manager.latest_checkpoint).assert_consumed()

    @staticmethod
    def _directory(run_dir):
        return str(run_dir / "lessons")

    @classmethod
    def rows_in(cls, run_dir: Path) -> int:
        """How many passes are over in a run's directory: so many rows it has logged."""
        latest = tf.train.latest_checkpoint(cls._directory(run_dir))
        return int(tf.train.load_variable(latest, cls._ROWS)) if latest else 0

    @property
    def round(self) -> int:
        return int(self._at["round"])

    def learn(
        self, shown: Shown, passes: int, lr: float, loss: float, batch_size: int
    ) -> Iterator[tuple[float, float]]:
        """Go over all that is shown, up to so many times in this round, until the loss is reached.

        Gives the mean loss and accuracy of each pass, and is kept when the next one is asked for.
        """
        obs, act = shown
        while self._at["passes"] < passes and self._at["loss"] > loss:
            share = int(self._at["passes"]) / passes
            self._net.optimizer.learning_rate = lr * (1 + np.cos(np.pi * share)) / 2
            position = [self._seed, self.round, int(self._at["passes"])]
            keras.utils.set_random_seed(int(np.random.SeedSequence(position).generate_state(1)[0]))
            history = self._net.fit(obs, act, batch_size=batch_size, verbose=0).history
            reached, accuracy = history["loss"][0], history["accuracy"][0]
            self._at["loss"].assign(reached)
            self._at["passes"].assign_add(1)
            self._at["rows"].assign_add(1)
            yield reached, accuracy
            self._manager.save()

    def next_round(self) -> None:
        """This round is over."""
        self._at["round"].assign_add(1)
        self._at["passes"].assign(0)
        self._at["loss"].assign(np.inf)
        self._manager.save()


def commonest_grey(env_fn: EnvFn, stages: Sequence[str]) -> float:
    """The most common grey where levels begin, between 0 and 1: that of the sky, or of a cave.

    It is the `background` of the networks, which is subtracted from the pixels.

    Raises:
        UserError: The demonstration of one takes actions that the environment does not have.
    """
    env, frames = env_fn(), []
    try:
        for stage in stages:
            frames.append(env.reset(options=dict(stages=[stage], noops=0))[0])
            env.unwrapped.demonstration()
    finally:
        env.close()
    return int(np.bincount(np.ravel(frames)).argmax()) / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", nargs="+", default=["1-1"], help="the levels; default 1-1")
    add_arguments(parser, "mario and the levels", "40 for each level")
    rounds_help = "how often at most it plays and is corrected; default 9"
    parser.add_argument("--rounds", type=int, default=9, help=rounds_help)
    init_help = "an imitation that is to be corrected, instead of a new one"
    parser.add_argument("--init_from", metavar="RUN", help=init_help)
    args = parser.parse_args()
    if args.rounds < 0:
        parser.error(f"--rounds is {args.rounds}; it must be at least 0")
    if args.init_from and args.rounds == 0:
        parser.error("--init_from is given, and --rounds is 0: there would be nothing to do")
    name = args.exp_name or "-".join(["mario", *args.stage])
    preset = load("ppo", PRESET)
    epochs = preset.settings["epochs"] * len(args.stage) if args.epochs is None else args.epochs
    env_kwargs = {**preset.env_kwargs, "stages": args.stage}
    settings = preset.arguments | dict(epochs=epochs, env_kwargs=env_kwargs)
    imitation = check_runs(parser, args, name, settings)
    imitated = EnvFn(preset.env, env_kwargs)
    options = dict(init_from=args.init_from, rounds=args.rounds, cpu=args.cpu, resume=args.resume)
    try:
        for stage in args.stage:
            demonstration(stage)
        background = commonest_grey(imitated, args.stage)
        if args.init_from:
            background = network_arguments(args.init_from).get("background", 0.0)
        ac_kwargs = {**preset.settings["ac_kwargs"], "background": background}
        learned = clone(imitated, args.stage, args.seed, imitation, ac_kwargs, **options)
    except UserError as error:
        parser.error(str(error))
    if learned:
        evaluate_run(imitation["output_dir"], episodes=10, noops=9, max_ep_len=LONGEST)
    if epochs == 0:
        return
    settings |= dict(ac_kwargs=ac_kwargs, init_from=imitation["output_dir"])
    call_experiment(f"{name}-demo", ppo, **run_options(args, PRESET), **settings)


if __name__ == "__main__":
    main()
