"""The arguments that several algorithms have in common, one entry each.

Spinning Up's own arguments appear in the signatures of the algorithms, with their defaults. The
others are options, with the defaults of this table: an algorithm takes them as
`**options: Unpack[Options]`. To add one, add its type to `Options` and a row to `ARGUMENTS`.

Descriptions begin with a short sentence, which is what `--help` shows. Imports no TensorFlow.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from spinup_tf2.arguments.rules import (
    ACTOR_CRITIC,
    BEHAVIOR_POLICY,
    CALLBACKS,
    DIRECTORY,
    DURATION,
    ENV_FN,
    FRACTION,
    KEYWORDS,
    NON_NEGATIVE,
    NON_NEGATIVE_INTEGER,
    NUMBER,
    POSITIVE,
    POSITIVE_INTEGER,
    SEED,
    SWITCH,
    Rule,
    one_of,
    optional,
    some_of,
)


class Options(TypedDict, total=False):
    """Options of every algorithm."""

    num_envs: int
    vectorization: str
    init: str | None
    init_from: str | os.PathLike | None
    resume: bool
    checkpoint_freq: int
    keep_checkpoints: int
    deterministic_resume: bool
    env_retries: int
    stall_timeout: float | None
    callbacks: Sequence[Any] | None
    stop_at_return: float | None
    stop_without_improvement: int | None
    stop_after: str | None
    track: Sequence[str] | None
    record_every: int | None
    render_every: int | None
    verbose_episodes: bool


class OnPolicyOptions(Options, total=False):
    """Options of every on-policy algorithm."""

    behavior_policy: Callable[..., Any] | None
    num_test_episodes: int
    test_freq: int


@dataclass(frozen=True)
class Argument:
    """An argument that several algorithms have.

    Attributes:
        rule: Rule for its values.
        text: Description.
        default: Default of an option.
        may_change: Whether it may be changed when a run is resumed. A change of any other argument
            would make it a different run.
        off_policy: Description for the off-policy algorithms, if it differs.
    """

    rule: Rule
    text: str
    default: Any = None
    may_change: bool = False
    off_policy: str = ""


ARGUMENTS = {
    "env_fn": Argument(
        ENV_FN,
        """A function that makes a new copy of the environment (gymnasium's API); or the id of an
        environment, as `--env` of the command line takes it, such as 'CartPole-v1'.""",
    ),
    "actor_critic": Argument(
        ACTOR_CRITIC,
        """A function or class called as
        `actor_critic(observation_space, action_space, **ac_kwargs)`. It returns an
        `ActorCritic(pi, v, action_space)` (of spinup_tf2.core.nets.actor_critic), made from two
        Keras models:

        ===========  ================  ==================================================
        Model        Output            Description
        ===========  ================  ==================================================
        `pi(obs)`    distribution      Of tensorflow_probability, over the actions for
                                       observations of shape (batch, obs_dim).
        `v(obs)`     (batch,)          Value estimates for these observations. (Critical:
                                       make sure that the shape is not (batch, 1)!)
        ===========  ================  ==================================================
        """,
        off_policy="""A function or class called as
        `actor_critic(observation_space, action_space, **ac_kwargs)`, twice: the second time for the
        target networks. It returns a QActorCritic, which has

        ====================  ================  =============================================
        Attribute             Output            Description
        ====================  ================  =============================================
        `pi(obs)`             (batch, act_dim)  The policy's actions in [-1, 1], for
                                                observations of shape (batch, obs_dim). For SAC
                                                a distribution over these or, where actions are
                                                Discrete, over all actions. For DQN (batch,).
        `q_values(obs, act)`  list of (batch,)  What each of the Q-functions `qs` gives for
                                                these observations and actions in [-1, 1]: one
                                                for DDPG and DQN, two for TD3 and SAC. For
                                                Discrete `q_values(obs)`, (batch, num_actions).
        ====================  ================  =============================================

        `pi` and the elements of `qs` are Keras models. What lies in [-1, 1] here is scaled to each
        dimension's own low and high for the environment.""",
    ),
    "ac_kwargs": Argument(
        KEYWORDS,
        """Arguments of the networks. For the default MLPActorCritic `hidden_sizes` (64, 64) and
        `activation` 'tanh'. Where observations are images, the default is CNNActorCritic with
        `conv` 'nature' (for small images 'minatar'), `hidden_sizes` (512,), `activation` 'relu' and
        `background` 0, which is subtracted from the pixels that are scaled to 0 ... 1. Both have
        `shared`, whether policy and value function have these layers in common, and `memory`,
        'lstm' or 'gru' for a policy that remembers the episode so far, with `memory_size` 64 and
        `seq_len` 25.""",
        off_policy="""Arguments of the networks. For the default MLPQActorCritic `hidden_sizes`
        (256, 256) and `activation` 'relu'. Where observations are images, the default is
        CNNQActorCritic, which has `conv` before these layers; the Q-functions have it in common. It
        takes `background` as well, by default 0.""",
    ),
    "seed": Argument(SEED, "Seed of networks, environments and actions."),
    "steps_per_epoch": Argument(
        POSITIVE_INTEGER,
        """Steps in each epoch, of all environments. Those of all processes count. An epoch is the
        time between two rows of the log.""",
    ),
    "epochs": Argument(POSITIVE_INTEGER, "Number of epochs. (Always at least 1.)", may_change=True),
    "gamma": Argument(FRACTION, "Discount factor. (Always between 0 and 1.)"),
    "lam": Argument(
        FRACTION,
        """Lambda of the advantage estimation (GAE). (Always between 0 and 1, close to 1.)""",
    ),
    "beta": Argument(
        POSITIVE,
        """Coefficient of the penalty at first. It is doubled after an update with a KL divergence
        above 1.5 * target_kl, and halved after one below target_kl / 1.5.""",
    ),
    "lam1": Argument(optional(FRACTION), "With coeff, lambda of the first estimate. None: lam."),
    "lam2": Argument(FRACTION, "With coeff, lambda of the second estimate."),
    "coeff": Argument(
        optional(FRACTION),
        """Weight of the first of two estimates. It is from 0 to 1; the second estimate of the
        advantages has the rest. They are normalized before they are mixed. None: a single estimate,
        with lam.""",
    ),
    "adv_normalization": Argument(
        one_of("epoch", "minibatch", "none"),
        """By 'epoch', 'minibatch' or 'none'. Advantages are shifted and scaled to mean 0 and
        standard deviation 1 once over the epoch, in each minibatch, or not at all.""",
    ),
    "recompute_adv": Argument(
        SWITCH,
        """Recompute advantages before each pass. So are value targets, with the current value
        function, for each pass over the epoch's experience. The passes of the policy and of the
        value function then alternate.""",
    ),
    "value_target": Argument(
        one_of("rewards_to_go", "lambda_return"),
        """'rewards_to_go' or 'lambda_return'. The target of the value function is the discounted
        sum of the rewards that followed; or the advantage (before it is normalized) plus the value
        that it was computed with, which has less variance but is biased.""",
    ),
    "pi_lr": Argument(NON_NEGATIVE, "Learning rate of the policy."),
    "vf_lr": Argument(NON_NEGATIVE, "Learning rate of the value function."),
    "train_v_iters": Argument(NON_NEGATIVE_INTEGER, "Gradient steps on the value per epoch."),
    "max_ep_len": Argument(
        POSITIVE_INTEGER,
        "Time limit of episodes, in steps. It is in addition to the environment's own.",
    ),
    "logger_kwargs": Argument(KEYWORDS, "Arguments of EpochLogger."),
    "save_freq": Argument(
        POSITIVE_INTEGER,
        """Epochs from one save to the next. The policy is saved after each epoch whose number is a
        multiple of save_freq, and after the last epoch.""",
        may_change=True,
    ),
    "ent_coef": Argument(
        NON_NEGATIVE,
        """Weight of the entropy bonus. It keeps the policy from becoming certain too early. (0 to
        0.01.)""",
    ),
    "vf_coef": Argument(NON_NEGATIVE, "Weight of the value loss in a sum of losses."),
    "max_grad_norm": Argument(
        optional(POSITIVE),
        """Largest norm of a gradient (None: any). It is that over all parameters that are trained
        together; longer gradients are scaled down to it. (Usually None or 0.5.)""",
    ),
    "lr_schedule": Argument(
        one_of("constant", "linear"),
        """'constant', or 'linear': falling to 0. Learning rates then reach 0 at the end of the last
        epoch.""",
    ),
    "replay_size": Argument(
        POSITIVE_INTEGER,
        """Interactions that are kept to learn from. The size of the replay buffer, summed over all
        environments of all processes. Memory is used as it fills.""",
    ),
    "polyak": Argument(
        FRACTION,
        """How slowly the target networks follow. After each update (TD3: of the policy) target =
        polyak * target + (1 - polyak) * variable. (Always between 0 and 1, close to 1.)""",
    ),
    "q_lr": Argument(NON_NEGATIVE, "Learning rate of the Q-functions."),
    "batch_size": Argument(
        POSITIVE_INTEGER, "Interactions in a minibatch. Of all processes together."
    ),
    "start_steps": Argument(
        NON_NEGATIVE_INTEGER,
        """Interactions at random, before the policy. Actions are drawn uniformly up to and
        including the interaction of this number, counted from 0. Where several environments step
        together, the first interaction of a step decides for all of them. Networks that are already
        trained (init_from) act from the beginning.""",
    ),
    "update_after": Argument(
        NON_NEGATIVE_INTEGER,
        """Interactions before the first update. The number, counted from 0, of the one after which
        updates may begin, so that the replay buffer holds enough to learn from.""",
    ),
    "update_every": Argument(
        POSITIVE_INTEGER,
        """Interactions between two blocks of updates. A block consists of update_every updates, so
        that there is one for each interaction.""",
    ),
    "act_noise": Argument(
        NON_NEGATIVE,
        """Std of the noise in training's actions. It is Gaussian; this is a fraction of half of
        each dimension's range.""",
    ),
    "noise": Argument(
        one_of("normal", "ou"),
        """'normal', or 'ou': noise that pushes in one direction. Noise in training's actions is
        drawn anew in each step; or it is the Ornstein-Uhlenbeck process of DDPG's paper, x = 0.85 x
        + act_noise * N(0, 1), which acts in the same direction for about 7 steps.""",
    ),
    "minibatch_size": Argument(
        optional(POSITIVE_INTEGER),
        """Steps in a minibatch (None: the epoch). Those of all processes count: a multiple of the
        number of environments that divides steps_per_epoch.""",
    ),
    "normalize_obs": Argument(
        SWITCH,
        """Scale observations by running statistics. The networks see them shifted and scaled to
        mean 0 and variance 1, and clipped at 10. The statistics are saved with the policy. They
        change between epochs, each time so little that the policy moves by a KL divergence of at
        most 0.001.""",
    ),
    "normalize_reward": Argument(
        SWITCH,
        """Scale rewards by the std of the returns. Divide them by the running standard deviation of
        the discounted returns, and clip them at 10. EpRet is logged unscaled.""",
    ),
    # ---------------------------------------------------------------- options
    "num_envs": Argument(
        POSITIVE_INTEGER,
        "Environments in each process. Together they take steps_per_epoch steps.",
        default=1,
    ),
    "vectorization": Argument(
        one_of("sync", "async", "threads"),
        """'sync', 'async' (processes) or 'threads'. How the environments of a process are stepped:
        one after the other; each in its own process, which pays off if a step takes longer than
        about 0.1 ms; or several at a time in threads of the process, which pays off for
        environments that release the GIL, such as the emulator of Super Mario Bros.""",
        default="sync",
        may_change=True,
    ),
    "init": Argument(
        optional(one_of("glorot", "torch", "orthogonal")),
        """'glorot', 'torch' or 'orthogonal' weights. Initially, in all networks: as in TensorFlow;
        as in PyTorch (uniform within 1/sqrt(fan_in), biases as well); or orthogonal kernels, scaled
        by sqrt(2), except by 0.01 in the last layer of the policy and by 1 in the last layers of
        other networks. None: 'orthogonal' for a2c and 'torch' for all others; your own actor_critic
        keeps the weights that it comes with.""",
    ),
    "init_from": Argument(
        optional(DIRECTORY),
        """Run with whose networks this one starts. Its directory; the networks are those of its
        last save, and must have the same layers. Nothing else is taken over: no optimizer state, no
        experience, no settings. None: networks start with random weights.""",
    ),
    "resume": Argument(
        SWITCH,
        """Continue the run in the directory, if any. It continues from its newest checkpoint. If
        the directory holds no run yet, the training starts from the beginning.""",
        default=False,
    ),
    "checkpoint_freq": Argument(
        NON_NEGATIVE_INTEGER,
        """Epochs from one checkpoint to the next. From a checkpoint the run can be resumed. It is
        written at most once a minute, and in any case after the last epoch and when the run is
        interrupted. 0: never.""",
        default=1,
        may_change=True,
    ),
    "keep_checkpoints": Argument(
        POSITIVE_INTEGER, "How many of the latest checkpoints to keep.", default=2, may_change=True
    ),
    "deterministic_resume": Argument(
        SWITCH,
        """Resume to exactly the same numbers. They are those of a run without an interruption. For
        this, all environments start new episodes, with their own seeds, before every epoch whose
        number is a multiple of checkpoint_freq.""",
        default=False,
    ),
    "env_retries": Argument(
        NON_NEGATIVE_INTEGER,
        """How often an environment may be replaced. It is, by a new one, after it has raised an
        exception. Nothing is learned from the step that failed. With 0 an exception ends the
        run.""",
        default=0,
        may_change=True,
    ),
    "stall_timeout": Argument(
        optional(POSITIVE),
        """Seconds until stuck MPI processes end. If one of them neither takes a step nor hears from
        the others, the run ends itself. None: never.""",
        default=600,
        may_change=True,
    ),
    "callbacks": Argument(
        CALLBACKS,
        """Your own, called at every epoch. Objects with methods that are called at the start of the
        training, after each epoch and at the end. See `spinup_tf2.callbacks`. A string
        `module:Name` stands for an object in a module, or for a class without arguments.""",
        may_change=True,
    ),
    "stop_at_return": Argument(
        optional(NUMBER),
        """End at this mean return. It is that of an epoch; of its test episodes if there are any.
        None: train for all epochs.""",
        may_change=True,
    ),
    "stop_without_improvement": Argument(
        optional(POSITIVE_INTEGER),
        "End after epochs without improvement. So many, without a better mean return. None: never.",
        may_change=True,
    ),
    "stop_after": Argument(
        optional(DURATION),
        """End after this time, such as '8h'. Or '90m' or '1h30m'; with the epoch that is going on.
        A run that is resumed gets the same time again. None: never.""",
        may_change=True,
    ),
    "track": Argument(
        optional(some_of("tensorboard", "wandb", "mlflow")),
        """Any of tensorboard, wandb and mlflow. Everything that is logged is also sent to them
        (wandb is Weights & Biases).""",
        may_change=True,
    ),
    "record_every": Argument(
        optional(POSITIVE_INTEGER),
        """Epochs from one video to the next. Episodes are recorded, from the first epoch on, in a
        separate environment, in the folder `videos` of the run's directory. None: never.""",
        may_change=True,
    ),
    "render_every": Argument(
        optional(POSITIVE_INTEGER),
        """Epochs from one shown episode to the next. From the first epoch on, in a window. None:
        never.""",
        may_change=True,
    ),
    "verbose_episodes": Argument(
        SWITCH,
        """Print a line for each episode. Off-policy at the end of the epoch in which it ended,
        on-policy as soon as the experience of an update is complete.""",
        default=False,
        may_change=True,
    ),
    "behavior_policy": Argument(
        BEHAVIOR_POLICY,
        """A function `behavior_policy(t, obs)`, `(t, obs, act)` or `(t, obs, act, env)` that is
        called before each step and may give a demonstration. t counts the steps of the episode from
        0, obs is the observation as a flat vector or an image, not normalized, act the policy's
        action, and env the number of the environment. The function returns the action to take
        instead, in the form that the environment's `step` takes, or None to let the policy act.""",
    ),
    "num_test_episodes": Argument(
        NON_NEGATIVE_INTEGER,
        """Test episodes per evaluation (0: none). The policy acts without noise, and may do better
        or worse so. Each episode starts from the same seed every time. They run in separate
        environments, at most num_envs of them (in processes if vectorization is 'async').""",
        default=0,
    ),
    "test_freq": Argument(
        POSITIVE_INTEGER,
        "Epochs from one evaluation to the next. There is one after the last epoch in any case.",
        default=1,
    ),
}

OPTIONS = {name: ARGUMENTS[name] for name in OnPolicyOptions.__annotations__}
