"""The texts that `--help` prints."""

from __future__ import annotations

import inspect
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.arguments.signatures import Signature
from spinup_tf2.cli.flags import SUBSTITUTIONS
from spinup_tf2.experiments.checks import network_arguments, signature_of
from spinup_tf2.experiments.presets import as_flags, load, presets_for
from spinup_tf2.parallel import launched

HELP = ("--help", "-h", "help")

USAGE = """
Experiment in Spinning Up from the command line with

\tpython -m spinup_tf2.run CMD [ARGS...]

where CMD is a valid command. Current valid commands are:

{commands}

or module:function, an algorithm of your own.

FYI: When running an algorithm, any keyword argument to the
algorithm function can be used as a flag, eg

\tpython -m spinup_tf2.run ppo --env HalfCheetah-v5 --clip_ratio 0.1

If you need a quick refresher on valid kwargs, list them with

\tpython -m spinup_tf2.run [algo] --help

(--help --full prints the docstring.) See the "Running Experiments"
docs page for more details. The version is printed by

\tpython -m spinup_tf2.run --version

Also: Some common but long flags can be substituted for shorter
ones. Valid substitutions are:

{substitutions}

These flags go with every algorithm:

{common}
"""

COMMON = """
\t--env       ID ...    the environment, or several
\t--env_kwargs:KEY X    an argument of the environment
\t--wrapper   CLASS ... wrappers around it, such as FlattenObservation
\t--preset    NAME      tuned hyperparameters instead of the defaults
\t--exp_name  NAME      name of the experiment, and of its directory
\t--data_dir  DIR       where all experiments are saved
\t--num_cpu   N         MPI processes, or auto for all cores
\t--launcher  CMD       what starts the processes instead of mpirun
\t--workers   N         experiments of a grid that run at a time
\t--skip_finished       leave out experiments of a grid that are finished already
\t--datestamp           date and time in the names of directories
\t--overwrite           replace a run that is in the directory already
\t--resume              continue the run in this directory, if there is one
\t--quiet               print only errors and warnings
\t--debug               show where in the program an error comes from
""".strip("\n")

# The meaning of arguments whose description begins with a sentence that does not fit into a line.
SHORT = {
    "ac_kwargs": "Arguments of the networks, see below.",
    "seed": "Seed of networks, environments and actions.",
    "steps_per_epoch": "Steps in each epoch, of all environments.",
    "clip_ratio": "How far the policy may go in an update.",
    "train_pi_iters": "Most gradient steps on the policy per epoch.",
    "train_v_iters": "Gradient steps on the value per epoch.",
    "lam": "Lambda of the advantage estimation (GAE).",
    "max_ep_len": "Time limit of episodes, in steps.",
    "target_kl": "KL divergence that is right for an update.",
    "save_freq": "Epochs from one save to the next.",
    "objective": "'clip', or 'penalty' (beta times the KL).",
    "beta": "Coefficient of the penalty at first.",
    "lam1": "With coeff: lambda of the first estimate.",
    "lam2": "With coeff: lambda of the second estimate.",
    "coeff": "Weight of the first of two estimates.",
    "ent_coef": "Weight of the entropy bonus.",
    "minibatch_size": "Steps in a minibatch (None: the epoch).",
    "max_grad_norm": "Largest norm of a gradient (None: any).",
    "lr_schedule": "'constant', or 'linear': falling to 0.",
    "vf_coef": "Weight of the value loss in a sum of losses.",
    "normalize_obs": "Scale observations by running statistics.",
    "normalize_reward": "Scale rewards by the std of the returns.",
    "normalize_adv": "Scale advantages in each update.",
    "adv_normalization": "By 'epoch', 'minibatch', or 'none'.",
    "recompute_adv": "Recompute advantages before each pass.",
    "value_target": "'rewards_to_go' or 'lambda_return'.",
    "lr": "Learning rate of all networks together.",
    "replay_size": "Interactions that are kept to learn from.",
    "polyak": "How slowly the target networks follow.",
    "batch_size": "Interactions in a minibatch.",
    "start_steps": "Interactions at random, before the policy.",
    "update_after": "Interactions before the first update.",
    "act_noise": "Std of the noise in training's actions.",
    "alpha": "Temperature, or 'auto': it is learned.",
    "target_entropy": "Mean entropy for alpha 'auto'.",
    "n_steps": "Steps of each environment per update.",
    "pi_lr": "Learning rate of the policy.",
    "delta": "Largest KL divergence of an update.",
    "damping_coeff": "Times identity, added to the Fisher matrix.",
    "cg_iters": "Most conjugate-gradient iterations.",
    "backtrack_iters": "Most steps of the line search.",
    "backtrack_coeff": "Factor from one of its steps to the next.",
    "algo": "'trpo', or 'npg': natural policy gradient.",
    "arch": "'dual', 'shared' or 'detach' networks.",
    "train_aux_iters": "Passes over the steps in an auxiliary phase.",
    "beta_clone": "Weight of the KL from the policy before it.",
    "aux_minibatch_size": "Steps in a minibatch of the auxiliary phase.",
    "target_noise": "Std of the noise in the targets' actions.",
    "policy_delay": "Updates of the Q-functions for each of pi.",
    "rms_decay": "Decay of RMSprop's mean of squares.",
    "rms_eps": "RMSprop's epsilon, under the root.",
    "rms_init": "Where RMSprop's mean of squares starts.",
    "vectorization": "'sync', 'async' (processes) or 'threads'.",
    "init": "'glorot', 'torch' or 'orthogonal' weights.",
    "init_from": "Run with whose networks this one starts.",
    "resume": "Continue the run in the directory, if any.",
    "checkpoint_freq": "Epochs from one checkpoint to the next.",
    "keep_checkpoints": "How many checkpoints to keep.",
    "deterministic_resume": "Resume to exactly the same numbers.",
    "env_retries": "How often an environment may be replaced.",
    "stall_timeout": "Seconds until stuck MPI processes end.",
    "callbacks": "Your own, called at every epoch.",
    "stop_at_return": "End at this mean return.",
    "stop_without_improvement": "End after epochs without improvement.",
    "stop_after": "End after this time, such as '8h'.",
    "track": "tensorboard, wandb, mlflow.",
    "record_every": "Epochs from one video to the next.",
    "render_every": "Epochs from one shown episode to the next.",
    "verbose_episodes": "Print a line for each episode.",
    "num_test_episodes": "Test episodes per evaluation (0: none).",
    "test_freq": "Epochs from one evaluation to the next.",
}


def usage(commands: Iterable[str]) -> str:
    """Return the help text of the command line."""
    names = "\n".join(f"\t{name}" for name in commands)
    substitutions = "\n".join(
        f"\t--{short.ljust(10)}for       --{flag}" for short, flag in SUBSTITUTIONS.items()
    )
    return USAGE.format(commands=names, substitutions=substitutions, common=COMMON)


def algorithm_help(algorithm: str, argv: Sequence[str]) -> str:
    """Return the help text of an algorithm, with the settings of a preset named in `argv`.

    By default each flag has a line. With `--full` in `argv`, the text has the whole docstring.
    """
    signature = signature_of(algorithm)
    flags = {name: x for name, x in signature.defaults.items() if name not in PYTHON_ONLY}
    text = (
        _full(algorithm, signature, flags)
        if "--full" in argv
        else _short(algorithm, signature, flags)
    )
    name, env = _value_of(argv, "--preset"), _value_of(argv, "--env", "--env_name")
    if name is not None:
        settings = _flag_lines(as_flags(load(algorithm, name, env).arguments))
        text += f"\nThe hyperparameters of preset {name}:\n\n{settings}\n"
    return text


def _short(algorithm: str, signature: Signature, flags: dict) -> str:
    """Return the help text that has a line for each flag: its default, and its meaning."""
    own = algorithm not in ALGORITHMS
    meanings = _meanings(signature.doc) | ({} if own else SHORT)
    rows = [(_typed(name, default), meanings.get(name, "")) for name, default in flags.items()]
    every = [(line[1:23], line[23:]) for line in COMMON.splitlines()]
    networks = " ".join(f"--ac_kwargs:{name}" for name in network_arguments(algorithm))
    presets = f" Presets: python -m spinup_tf2.run presets {algorithm}"
    parts = [
        _filled(f"python -m spinup_tf2.run {algorithm} --env ID [--FLAG VALUE ...]"),
        _filled(" ".join(signature.doc.partition("\n\n")[0].split())),
        _filled("Flags, their defaults and meanings (several values make a grid):"),
        "\n".join(_filled(meaning, f"  {typed:31} ") for typed, meaning in rows),
        _filled(networks, "  "),
        "\n".join(_filled(meaning, f"  {typed}") for typed, meaning in every),
        _filled(f"In full: --help --full.{'' if own else presets}"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _typed(name, default):
    return f"--{name}" if default is inspect.Parameter.empty else f"--{name} {default!r}"


def _filled(text, before=""):
    """Wrap a text at the terminal's width, indented as far as what stands before it."""
    width = max(min(shutil.get_terminal_size().columns, 100), len(before) + 20)
    first, *rest = textwrap.wrap(text, width - len(before), break_on_hyphens=False) or [""]
    return f"\n{' ' * len(before)}".join([(before + first).rstrip(), *rest])


def _meanings(doc):
    """Return {argument: the first clause of its description} of a docstring in Google's style."""
    _, _, entries = doc.partition("Args:\n")
    found = re.findall(r"^ {4}(\w+)(?: \(.*?\))?: (.*(?:\n {5,}.*)*)", entries, re.MULTILINE)
    return {name: re.split(r"(?<=\.) |[:;] ", " ".join(text.split()))[0] for name, text in found}


def _full(algorithm: str, signature: Signature, flags: dict) -> str:
    """Return the help text that has the docstring."""
    name = algorithm.rpartition(":")
    text = (
        f"\n\nShowing docstring for {name[0] or 'spinup_tf2'}.{name[2]}:\n\n{signature.doc}\n\n"
        f"Flags and their defaults:\n\n{_flag_lines(flags)}\n\n"
        f"Those of the default networks:\n\n"
        + "\n".join(f"    --ac_kwargs:{name}" for name in network_arguments(algorithm))
        + f"\n\nThose of every algorithm:\n\n{COMMON.expandtabs(4)}\n"
    )
    presets = presets_for(algorithm)
    if presets:
        docs = {f"preset {name}": preset.doc for name, preset in presets.items()}
        lines = "\n".join(f"    --{flag.ljust(20)} {doc}" for flag, doc in docs.items())
        text += f"\nPresets, which take the place of the defaults:\n\n{lines}\n"
    return text


def _value_of(argv, *flags):
    """Return the word after one of these flags; None if there is none."""
    pairs = itertools.pairwise(argv)
    return next((word for flag, word in pairs if flag in flags and word[:1] != "-"), None)


def _flag_lines(flags):
    width = max(map(len, flags), default=0)
    return "\n".join(f"    --{name.ljust(width)} {value!r}" for name, value in flags.items())


def print_once(text: str) -> None:
    """Print a text on rank 0 only."""
    if launched.rank() == 0:
        print(text)
