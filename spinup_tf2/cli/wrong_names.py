"""What flags and commands of other libraries, and mistyped ones, are called here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.cli.flags import RUN_KEYS, SUBSTITUTIONS, one_dash
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.checks import network_arguments, signature_of

_PRODUCT = "their product is the number of steps"

# Names of flags elsewhere: what they are called here (an algorithm may have only some of these),
# and, after a colon, how to convert the value if its unit differs.
_FLAGS = {
    "total_timesteps timesteps total_steps num_timesteps num_env_steps max_steps num_steps steps": (
        f"epochs steps_per_epoch: {_PRODUCT}"
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
    "log_dir logdir output_dir save_dir log_folder tensorboard_log out": "data_dir",
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


def check_names(algorithm: str, flags: Mapping[str, list]) -> None:
    """Raise UserError for unknown flags of an algorithm, and for flags with a single dash."""
    known = [name for name in signature_of(algorithm).defaults if name not in PYTHON_ONLY]
    known += [f"ac_kwargs:{name}" for name in network_arguments(algorithm)]
    known += ["env_name", "env_kwargs", "exp_name", *RUN_KEYS]
    typed = [*known, *SUBSTITUTIONS]
    for value in [value for values in flags.values() for value in values]:
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and word[:1] == "-" and word[1:] in typed:
                raise one_dash(word)
    for name in flags:
        head, _, rest = name.partition(":")
        plain = ":".join(name.split(":")[:2]) in known
        own_networks = head == "ac_kwargs" and ":" in algorithm and head in known
        if plain or (rest and (head == "env_kwargs" or own_networks)):
            continue
        if name in PYTHON_ONLY:
            raise UserError(f"--{name} cannot be given here; call spinup_tf2.{algorithm} instead.")
        raise UserError(
            f"--{name} is not a flag of {algorithm};{_meant(algorithm, name, typed, flags)} "
            f"python -m spinup_tf2.run {algorithm} --help shows them all."
        )


def _meant(algorithm, wrong, known, flags):
    """Return what a wrong flag is called here, as a part of a sentence; "" if that is not clear."""
    name = wrong.lower().replace("-", "_")
    if name in known:
        return f" it is called --{name}."
    names, _, note = _found(_FLAGS, name).partition(": ")
    here = [f"--{each}" for each in names.split() if each in known]
    if not here:
        return did_you_mean(name, known, "--")
    if note == _PRODUCT and here == ["--epochs", "--steps_per_epoch"]:
        default = signature_of(algorithm).defaults["steps_per_epoch"]
        steps, per_epoch = flags[wrong][0], flags.get("steps_per_epoch", [default])[0]
        if isinstance(steps, int | float) and isinstance(per_epoch, int) and per_epoch > 0:
            note += f"; {steps:.0f} are --epochs {math.ceil(steps / per_epoch)}"
    return f" here it is {' and '.join(here)}{note and f' ({note})'}."


def no_command(command: str, known: list[str]) -> UserError:
    """Return the error for a command that is none of the known ones."""
    plain = re.sub("_(tf1|pytorch)$", "", command.lower())  # as in Spinning Up
    meant = _found(_COMMANDS, plain)
    hint = f" {meant};" if meant else did_you_mean(plain, known)
    file = re.match(r"(.*)\.py(:|$)", command)
    return UserError(
        f"{command!r} is not a command;{hint} the commands are {', '.join(known)}."
        + (
            f" An algorithm of your own is {file[1]}:NAME, with the name of the function."
            if file
            else ""
        )
    )
