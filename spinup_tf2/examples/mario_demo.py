"""Mario is shown how to clear a level, and continues to learn from there with PPO.

    python -m spinup_tf2.examples.mario_demo --stage 4-1
    python -m spinup_tf2.examples.mario_demo --stage 1-1 2-1 3-2 4-1 --exp_name four

The package has a sequence of buttons that clears the level (`envs.mario.demonstrations`). It does
not depend on the screen, so that it fails if an enemy comes a moment later. A network first learns
this sequence, or a similar one, from frames, also for starts after some idle frames (`clone`). Then
it plays, and where it fails, it is shown what would have led to the flag (`mario_corrections`; Ross
and others 2011). It is saved as a run of its own. PPO then starts from this network (`init_from`):
its episodes begin along the demonstration, near the flag at first, and earlier with every epoch
(`demonstration_epochs`); after that, half of them begin at the start of the level, after some idle
frames. With several levels, one is drawn for each episode, and one agent learns all of them; that
takes as many times longer.

To continue after an interruption, use the same command with `--resume`.
"""

import os

from spinup_tf2.parallel.launched import FAST_CONVOLUTIONS

if __name__ == "__main__":
    os.environ.update(FAST_CONVOLUTIONS | os.environ)  # as in experiments with image observations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.examples.cloning import (
    add_arguments,
    begin_imitation,
    check_same_imitation,
    imitate_and_improve,
)
from spinup_tf2.examples.mario_corrections import LONGEST, correct_with
from spinup_tf2.examples.mario_ways import Shown, Start, Ways, first_ways, frames_of, together
from spinup_tf2.experiments.presets import load
from spinup_tf2.files.run_directory import run_lock
from spinup_tf2.training.rebuilding import begin_with, network_arguments
from spinup_tf2.utils.run_utils import EnvFn

PRESET = "mario-demo"
THIRDS = 3  # each round uses a third of the starts of a level, and learns from three rounds
SAMPLED = 4  # episodes per level with sampled actions in each round of corrections


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
    """Make a policy imitate demonstrations and corrections of itself, and save it as a run.

    It maximizes the likelihood of the actions, max_theta sum log pi_theta(a | s), until the policy
    hardly takes any others: with a loss of 1e-4 per step, 300 sampled steps are the same as in the
    demonstration with a probability of exp(-300e-4) = 0.97.

    Args:
        env_fn: Factory of the environment.
        stages: Names of the levels.
        seed: Seed of the initial weights and of the order of the steps.
        logger_kwargs: Arguments of the logger.
        ac_kwargs: Arguments of the network.
        init_from: Run of a network that is to be corrected; there are no demonstrations then.
        noops: Numbers of idle frames with which an episode may begin. Each level is demonstrated
            for every third of these numbers, except where the enemies have moved so far that no way
            through is found. What follows looks different for each of them, and the policy has to
            recognize it every time.
        rounds: Maximum number of rounds in which it then plays, is corrected, and learns from this
            round and the two before it, except demonstrations. In each round, the most likely
            actions are taken with another third of `noops`, and always with the first of them, and
            sampled actions are taken SAMPLED times per level. The rounds end early when three in a
            row have needed no corrections.
        cpu: Number of threads that search for demonstrations and corrections.
        passes: Maximum number of passes over the demonstrations.
        lr: Adam's initial learning rate; it falls to 0 along half a cosine.
        correction_passes, correction_lr: The same for each round of corrections.
        loss: Loss at which a round ends.
        batch_size: Number of steps in each minibatch.
        resume: Whether to continue the run in the directory. `rounds` may then be larger than
            before.

    Returns:
        Whether anything new was learned.

    Raises:
        UserError: The run to be resumed has other arguments, or a round has found no way to the
            flag.
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
            taught = range(number, oldest - 1, -1)  # later rounds take precedence over earlier ones
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
    """Return the starts of the episodes in a round of corrections; in round 0, demonstrations."""
    third = noops[number % THIRDS :: THIRDS]
    starts = [Start(stage, frames) for stage in stages for frames in sorted({noops[0], *third})]
    if number:
        rng = np.random.default_rng(number)
        for stage in stages:
            seeds = range(SAMPLED * number, SAMPLED * (number + 1))
            starts += [Start(stage, int(rng.choice(noops)), seed) for seed in seeds]
    return starts


class Lessons:
    """Trains a network round by round, with a checkpoint after each pass.

    Args:
        net: Network that maps observations to logits `[batch, num_actions]`.
        run_dir: Directory of the run, for checkpoints. Training resumes from one if it exists.
        seed: Seed of the order of the steps.
    """

    _ROWS = "rows/.ATTRIBUTES/VARIABLE_VALUE"  # name of this variable in a checkpoint

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
        """Return the number of completed passes, and so of logged rows, in a run's directory."""
        latest = tf.train.latest_checkpoint(cls._directory(run_dir))
        return int(tf.train.load_variable(latest, cls._ROWS)) if latest else 0

    @property
    def round(self) -> int:
        """Number of completed rounds."""
        return int(self._at["round"])

    def learn(
        self, shown: Shown, passes: int, lr: float, loss: float, batch_size: int
    ) -> Iterator[tuple[float, float]]:
        """Train in this round until the loss is reached, for at most this number of passes.

        Yields the mean loss and accuracy of each pass; its checkpoint is written when the next one
        is requested.
        The learning rate falls from `lr` to 0 along half a cosine.
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
        """End this round, and write a checkpoint."""
        self._at["round"].assign_add(1)
        self._at["passes"].assign(0)
        self._at["loss"].assign(np.inf)
        self._manager.save()


def commonest_grey(env_fn: EnvFn, stages: Sequence[str]) -> float:
    """Return the most common gray at the start of levels, from 0 to 1: that of the sky or a cave.

    It is the `background` of the networks, which is subtracted from the pixels.

    Raises:
        UserError: The demonstration of a level needs actions that the environment does not have.
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
    preset = load("ppo", PRESET)
    epochs = preset.settings["epochs"] * len(args.stage) if args.epochs is None else args.epochs
    env_kwargs = {**preset.env_kwargs, "stages": args.stage}
    settings = preset.arguments | dict(epochs=epochs, env_kwargs=env_kwargs)
    env_fn = EnvFn(preset.env, env_kwargs)

    def imitate(logger_kwargs):
        for stage in args.stage:
            demonstration(stage)
        background = commonest_grey(env_fn, args.stage)
        if args.init_from:
            background = network_arguments(args.init_from).get("background", 0.0)
        ac_kwargs = {**preset.settings["ac_kwargs"], "background": background}
        options = dict(init_from=args.init_from, rounds=args.rounds, cpu=args.cpu)
        of_run = args.stage, args.seed, logger_kwargs, ac_kwargs
        return clone(env_fn, *of_run, **options, resume=args.resume), dict(ac_kwargs=ac_kwargs)

    try:
        name = args.exp_name or "-".join(["mario", *args.stage])
        evaluation = dict(episodes=10, noops=9, max_ep_len=LONGEST)
        imitate_and_improve(args, name, PRESET, settings, imitate, **evaluation)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
