"""Parses the flags of a command line, and says what flags and commands of other libraries are here.

Nothing on the command line is executed: values are Python literals, names from a table, or strings.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.arguments.rules import ACTIVATIONS, activation_of_class
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.checks import ENVIRONMENT, check_dicts, network_arguments, signature_of
from spinup_tf2.experiments.presets import merged, nested

# Shorter forms of some common but long flags.
SUBSTITUTIONS = {
    "env": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
    "cpu": "num_cpu",
    "dt": "datestamp",
}

# Flags that determine how experiments are run, with one value each. They are not part of the grid.
SWITCHES = ("datestamp", "overwrite", "quiet", "skip_finished")
RUN_KEYS = (*SWITCHES, "num_cpu", "launcher", "data_dir", "preset", "workers")

# Flags whose values are taken literally: `--exp_name 1e3` is not the number 1000.
_TEXT_KEYS = ("exp_name", "env_name", "data_dir", "launcher", "preset", "init_from")

# Flags whose values are a single list of strings, and not a grid.
_LIST_KEYS = ("callbacks", "track", "wrapper")

# Flags that may not be repeated: if only the last one counted, values would be lost.
_ONLY_ONCE = ("preset", "env", "env_name", "wrapper")


def parse_flags(argv: Sequence[str]) -> tuple[dict[str, list], dict[str, str]]:
    """Parse `--flag value value --flag[shorthand] --flag=value ...`.

    Returns:
        `(flags, shorthands)`: the list of values, and the shorthand if one was given, for the full
        name of each flag. The order, which determines that of a grid, is the same as in Spinning
        Up: plain flags as typed, then those with a shorthand, then substituted ones.
    """
    words: dict[str, list[str]] = {}
    shorthands = {}
    for word in split_equals(argv):
        if word.startswith("--"):
            name, bracket, rest = word[2:].removesuffix("]").partition("[")
            if name in words and name in _ONLY_ONCE:
                raise UserError(f"--{name} is given twice; give it once, with all its values.")
            words[name] = []  # a repeated flag replaces the first
            shorthands.pop(name, None)
            if bracket:
                shorthands[name] = rest
        elif words:
            words[name].append(word)
        else:
            raise UserError(
                f"You didn't specify a first flag. {word!r} stands before any flag; "
                "write for instance --env CartPole-v1."
            )
    for name in shorthands:  # they come last in the names of experiments
        words[name] = words.pop(name)
    for short, name in SUBSTITUTIONS.items():
        if short in words:
            if name in words:
                raise UserError(f"--{short} and --{name} are the same flag; give it once.")
            words[name] = words.pop(short)
        if short in shorthands:
            shorthands[name] = shorthands.pop(short)
    return {name: _values(name, texts) for name, texts in words.items()}, shorthands


def _values(name, texts):
    """Return the values of a flag, which stand for True if there are none."""
    if name not in (*_TEXT_KEYS, *_LIST_KEYS):
        return [parse_value(text) for text in texts] or [True]
    if not texts or "" in texts:
        raise UserError(f"--{name} was given without a value; was a variable not set?")
    if name == "init_from":
        return [None if text == "None" else text for text in texts]
    if name in _LIST_KEYS:
        return [None if texts == ["None"] else texts]
    return texts


def split_equals(argv: Iterable[str]) -> list[str]:
    """Return a command line with `--flag=value` as two words."""
    pairs = (word.split("=", 1) if word.startswith("--") else [word] for word in argv)
    return [part for pair in pairs for part in pair]


# tf.nn.tanh, tf.tanh, torch.nn.Tanh, ...: activations by the names that their libraries give them.
# Keras knows them all by their plain names.
_ACTIVATION = re.compile(r"(?:tf(?:\.nn)?|(?:tf\.)?keras\.activations|torch\.nn)\.(\w+)")


def parse_value(text: str) -> Any:
    """Parse the name of an activation or a Python literal (`1e-3`, `[32,32]`, `True`, `None`).

    Anything else is returned as a string.
    """
    if named := _ACTIVATION.fullmatch(text):
        name = named[1] if named[1] in ACTIVATIONS else activation_of_class(named[1])
        return name or text  # torch.nn.LeakyReLU has a slope of its own
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's parser may warn about other text
            value = ast.literal_eval(text)
        repr(value)  # fails for a number of thousands of digits, which was not meant as one
        return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def only_value(key: str, values: list) -> Any:
    """Return the value of a flag that takes exactly one."""
    if len(values) > 1:
        given = " ".join(map(str, values))
        raise UserError(
            f"You can only provide one value for {key}; there are {len(values)}: {given}."
        )
    [value] = values
    if key in SWITCHES and not isinstance(value, bool):
        raise UserError(f"--{key} is a switch; give it without a value instead of {value!r}.")
    return value


ENV_KWARGS_HELP = (
    "Arguments of the environment that replace those of the run: --env_kwargs:NAME VALUE."
)


def split_env_kwargs(argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Split a command line into its other arguments and the dict for its `--env_kwargs` flags.

    They are for commands that make environments without training in them. Each flag
    `--env_kwargs:NAME` takes exactly one word, so that it may also precede positional arguments.
    """
    others, arguments = [], {}
    words = iter(split_equals(argv))
    for word in words:
        if word.partition(":")[0] != "--env_kwargs":
            others.append(word)
            continue
        text = next(words, "--")
        if text.startswith("--"):
            raise UserError(f"{word} was given without a value.")
        arguments = merged(arguments, nested(word[2:], parse_value(text)))
    check_dicts(arguments)
    env_kwargs = arguments.get("env_kwargs", {})
    if "render_mode" in env_kwargs:
        raise UserError("render_mode follows from --norender, --record and --mode; leave it out.")
    return others, env_kwargs


# ---------------------------------------------------------------- names that are wrong

# Names of flags elsewhere: what they are called here (an algorithm may have only some of these),
# and, after a colon, how to convert the value if its unit differs.
_FLAGS = {
    "total_timesteps timesteps total_steps num_timesteps num_env_steps max_steps num_steps steps": (
        "epochs steps_per_epoch: their product is the number of steps"
    ),
    "lr learning_rate actor_lr critic_lr policy_lr value_lr": "lr pi_lr vf_lr q_lr",
    "n_steps rollout_length": "steps_per_epoch: of all environments together",
    "batch minibatch batch_size minibatch_size mini_batch_size": "batch_size minibatch_size",
    "num_minibatches nminibatches": "minibatch_size: the steps in each of them",
    "n_epochs update_epochs noptepochs num_epochs": (
        "train_pi_iters train_v_iters: with minibatches, the passes over an epoch's steps"
    ),
    "n_envs num_env nenvs envs n_env parallel_envs": "num_envs: in each process",
    "discount discount_factor": "gamma",
    "gae_lambda lambda lambda_ gae_lam": "lam",
    "clip clip_range clip_coef clip_param cliprange epsilon": "clip_ratio",
    "entropy_coef ent_coeff entropy_coeff entropy_cost": "ent_coef alpha",
    "value_coef vf_coeff value_loss_coef": "vf_coef",
    "max_kl": "delta target_kl",
    "tau": "polyak: which is 1 - tau",
    "buffer_size replay_buffer_size memory_size buffer": "replay_size",
    "learning_starts warmup_steps": "update_after start_steps: where actions are random until then",
    "train_freq train_frequency": "update_every: the steps between blocks of as many updates",
    "gradient_steps": "num_updates update_every: the updates of a block",
    "target_update_interval target_network_frequency target_update": "copy_every: in updates",
    "exploration_initial_eps start_e": "eps_start",
    "exploration_final_eps end_e": "eps_end",
    "exploration_fraction": "eps_steps: in interactions, not as a fraction of the training",
    "policy_freq policy_frequency": "policy_delay",
    "exploration_noise action_noise": "act_noise",
    "net_arch layers hidden hidden_sizes hidden_layers hidden_dim": "hid: such as [64,64]",
    "activation activation_fn nonlinearity": "act",
    "environment env_id gym_id envname task": "env",
    "experiment run_name name": "exp_name",
    "log_dir logdir output_dir save_dir log_folder out": "data_dir",
    "wandb use_wandb wandb_project wandb_project_name wandb_entity": "track: --track wandb",
    "tensorboard use_tensorboard tensorboard_log tensorboard_dir": "track: --track tensorboard",
    "n_cpu n_cpus cpus num_procs n_proc processes np": "cpu",
    "hosts machines hostfile": "launcher: with mpirun's own flags, such as 'mpirun -hosts A,B'",
    "n_jobs jobs parallel num_workers": "workers",
    "seeds random_seed": "seed: with several values for several runs",
    "save_every save_interval": "save_freq: in epochs",
    "checkpoint_every checkpoint_interval": "checkpoint_freq: in epochs",
    "max_episode_steps max_episode_length horizon time_limit": "max_ep_len",
    "eval_freq eval_every eval_interval": "test_freq: in epochs",
    "n_eval_episodes eval_episodes": "num_test_episodes",
    "load load_from pretrained load_path": "init_from: the directory of a run",
    "render": "render_every: in epochs",
    "record video capture_video": "record_every: in epochs",
    "force": "overwrite",
    "silent verbose": "quiet",
    "env_wrapper wrappers": "wrapper",
    "gui": "env_kwargs: --env_kwargs:render_mode GUI",
    "prev_epochs": "env_kwargs: --env_kwargs:prev_epochs, of the quadruped",
}

_COMMANDS = {
    "ddqn rainbow qrdqn c51": "of its family, dqn is here, with double Q-learning",
    "reinforce pg": "the policy gradient with a baseline is vpg",
    "a3c": "its synchronous form is a2c",
    "npg": "it is trpo --algo npg",
    "rppo recurrentppo ppo_lstm": "it is ppo --ac_kwargs:memory lstm",
    "train run learn": "the algorithm is the command, such as ppo --env CartPole-v1",
    "watch enjoy render test": "an agent is shown by test_policy",
    "eval": "it is called evaluate",
    "list": "it is called ls",
}


def _found(table, name):
    return next((says for names, says in table.items() if name in names.split()), "")


def check_names(algorithm: str, flags: Iterable[str]) -> None:
    """Raise UserError for unknown flags of an algorithm."""
    known = [name for name in signature_of(algorithm).defaults if name not in PYTHON_ONLY]
    known += [f"ac_kwargs:{name}" for name in network_arguments(algorithm)]
    known += [*ENVIRONMENT, "exp_name", *RUN_KEYS]
    for name in flags:
        head, _, rest = name.partition(":")
        plain = ":".join(name.split(":")[:2]) in known
        own_networks = head == "ac_kwargs" and ":" in algorithm and head in known
        if plain or (rest and (head == "env_kwargs" or own_networks)):
            continue
        raise UserError(
            f"--{name} is not a flag of {algorithm};{_meant(name, [*known, *SUBSTITUTIONS])} "
            f"python -m spinup_tf2.run {algorithm} --help shows them all."
        )


def _meant(name, known):
    """Return what a wrong flag is called here, as a part of a sentence; "" if that is not clear."""
    name = name.lower().replace("-", "_")
    if name in known:
        return f" it is called --{name}."
    names, _, note = _found(_FLAGS, name).partition(": ")
    here = [f"--{each}" for each in names.split() if each in known]
    if not here:
        return did_you_mean(name, known, "--")
    return f" here it is {' and '.join(here)}{note and f' ({note})'}."


def no_command(command: str, known: list[str]) -> UserError:
    """Return the error for a command that is none of the known ones."""
    plain = re.sub("_(tf1|pytorch)$", "", command.lower())  # as in Spinning Up
    meant = _found(_COMMANDS, plain)
    hint = f" {meant};" if meant else did_you_mean(plain, known)
    return UserError(f"{command!r} is not a command;{hint} the commands are {', '.join(known)}.")
