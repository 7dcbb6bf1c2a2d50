"""Code shared by `quadruped_demo` and `mario_demo`: a run of imitation, followed by one of PPO."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.calling import resolve_num_cpu
from spinup_tf2.experiments.checks import check_experiment
from spinup_tf2.files.disk import read_json
from spinup_tf2.files.env_spec import write_env_spec
from spinup_tf2.files.run_directory import holds_run
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.training.saved_policy import SavedPolicy
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.run_utils import EnvFn, call_experiment, setup_logger_kwargs


def add_arguments(parser: argparse.ArgumentParser, usual_name: str, usual_epochs: str) -> None:
    """Add the arguments of both programs; `usual_name` and `usual_epochs` describe the defaults."""
    epochs_help = f"of PPO, by default {usual_epochs}; 0: only the imitation"
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help=epochs_help)
    parser.add_argument("--cpu", type=int, default=1, help="processes of PPO")
    name_help = f"the runs are NAME-clone and NAME-demo; by default {usual_name}"
    parser.add_argument("--exp_name", metavar="NAME", help=name_help)
    parser.add_argument("--data_dir")
    resume_help = "continue these runs where they were stopped"
    parser.add_argument("--resume", action="store_true", help=resume_help)


def imitate_and_improve(
    args: argparse.Namespace,
    name: str,
    preset: str,
    settings: Mapping[str, Any],
    clone: Callable[[Mapping[str, Any]], tuple[bool, Mapping[str, Any]]],
    **evaluation: Any,
) -> None:
    """Make the run `name`-clone, evaluate it if anything was learned, and go on as `name`-demo.

    Both runs are checked first, before minutes have been spent on the imitation.

    Args:
        args: Arguments of the program.
        name: Beginning of the names of the runs.
        preset: Name of the preset of PPO.
        settings: Arguments of PPO, except `init_from`. With 0 epochs there is only the imitation.
        clone: Function of the logger's arguments that makes the imitation. It returns whether
            anything was learned, and further arguments of PPO.
        **evaluation: Arguments of `evaluate_run`.

    Raises:
        UserError: An argument is wrong, or a run exists already and is not resumed.
    """
    checked = dict(settings, seed=args.seed, epochs=settings["epochs"] or 1)
    check_experiment("ppo", checked, resolve_num_cpu(args.cpu))
    runs = ["clone", "demo"] if settings["epochs"] else ["clone"]
    kwargs = [setup_logger_kwargs(f"{name}-{run}", args.seed, args.data_dir) for run in runs]
    for run in kwargs:
        if holds_run(run["output_dir"]) and not args.resume:
            raise UserError(
                f"{run['output_dir']} already holds a run; choose another --exp_name, --seed or "
                "--data_dir, or continue it with --resume"
            )
    learned, more = clone(kwargs[0])
    imitation = kwargs[0]["output_dir"]
    if learned:
        evaluate_run(imitation, **evaluation)
    if settings["epochs"]:
        options = dict(num_cpu=args.cpu, data_dir=args.data_dir, resume=args.resume, preset=preset)
        settings = {**settings, **more, "seed": args.seed, "init_from": imitation}
        call_experiment(f"{name}-demo", ppo, **options, **settings)


def check_same_imitation(
    output_dir: Path, config: Mapping[str, Any], may_change: Sequence[str] = ()
) -> None:
    """Raise UserError if a directory holds an imitation with other arguments than `config`.

    The arguments in `may_change` may differ.
    """
    path = output_dir / "config.json"
    if not path.exists():
        return
    before, now = read_json(path), json.loads(json.dumps(convert_json(config)))
    for name in now:
        if name not in (*may_change, "logger_kwargs") and before.get(name) != now[name]:
            raise UserError(
                f"the imitation in {output_dir} cannot be continued: its {name} was "
                f"{before.get(name)} and is now {now[name]}. Resume it as it was, or "
                "choose another --exp_name, --seed or --data_dir."
            )


def begin_imitation(
    env_fn: EnvFn,
    seed: int,
    logger_kwargs: Mapping[str, Any],
    config: Mapping[str, Any],
    make_ac: Callable[[gym.Space, gym.Space], Any],
    keep_rows: int | None = None,
) -> tuple[gym.Env, Any, EpochLogger]:
    """Make environment, networks and logger for a run without an algorithm of the package.

    `config` is written as config.json; `make_ac` makes the networks for two spaces; of a run that
    is resumed, `keep_rows` rows of the log are kept.
    """
    keras.utils.set_random_seed(seed)
    env = env_fn()
    logger = EpochLogger(**logger_kwargs, keep_rows=keep_rows)
    logger.save_config(config)
    write_env_spec(Path(logger.output_dir, "env_spec.json"), env, env_fn)
    spaces = (env.observation_space, env.action_space)
    ac = make_ac(*spaces)
    ac.step(np.zeros(spaces[0].shape, spaces[0].dtype))  # creates its variables
    logger.setup_tf_saver(SavedPolicy(ac, *spaces))
    return env, ac, logger
