"""The arguments that several algorithms have in common, one entry each.

Spinning Up's own arguments appear in the signatures of the algorithms, with their defaults. The
others are passed as `**options`, with the defaults in `options`. Imports no TensorFlow.
"""

from spinup_tf2.arguments.options import OPTIONS
from spinup_tf2.arguments.rules import (
    ACTOR_CRITIC,
    ENV_FN,
    FRACTION,
    KEYWORDS,
    NON_NEGATIVE,
    NON_NEGATIVE_INTEGER,
    POSITIVE,
    POSITIVE_INTEGER,
    SEED,
    SWITCH,
    Argument,
    one_of,
    optional,
)

ARGUMENTS = {
    "env_fn": Argument(
        ENV_FN,
        "",
        """
        A function that makes a new copy of the environment (gymnasium's API); or the id of an
        environment, as `--env` of the command line takes it, such as 'CartPole-v1'.
        """,
    ),
    "actor_critic": Argument(
        ACTOR_CRITIC,
        "",
        """
        A function or class called as
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
        off_policy="""
        A function or class called as
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
        dimension's own low and high for the environment.
        """,
    ),
    "ac_kwargs": Argument(
        KEYWORDS,
        "dict",
        """
        Arguments of the actor-critic: for the default MLPActorCritic
        `hidden_sizes` (64, 64) and `activation` 'tanh'. Where observations are images, the default
        is CNNActorCritic with `conv` 'nature', `hidden_sizes` (512,), `activation` 'relu' and
        `background` 0, which is subtracted from the pixels that are scaled to 0 ... 1. Both
        have `shared`, whether policy and value function have these layers in common, and `memory`,
        'lstm' or 'gru' for a policy that remembers the episode so far, with `memory_size` 64 and
        `seq_len` 25.
        """,
        off_policy="""
        Arguments of the actor-critic: for the default MLPQActorCritic `hidden_sizes`
        (256, 256) and `activation` 'relu'. Where observations are images, the default is
        CNNQActorCritic, which has `conv` 'nature' before these layers; the Q-functions have it in
        common. It takes `background` as well, by default 0.
        """,
    ),
    "seed": Argument(
        SEED,
        "int",
        "Seed of the networks, the environments and the actions.",
    ),
    "steps_per_epoch": Argument(
        POSITIVE_INTEGER,
        "int",
        """
        Environment steps in each epoch, summed over all environments of all processes. An epoch is
        the time between two rows of the log.
        """,
    ),
    "epochs": Argument(
        POSITIVE_INTEGER,
        "int",
        "Number of epochs. (Always at least 1.)",
        may_change=True,
    ),
    "gamma": Argument(
        FRACTION,
        "float",
        "Discount factor. (Always between 0 and 1.)",
    ),
    "lam": Argument(
        FRACTION,
        "float",
        """
        Lambda of generalized advantage estimation. (Always between 0 and 1, close
        to 1.)
        """,
    ),
    "beta": Argument(
        POSITIVE,
        "float",
        """
        Coefficient of the penalty in the first epoch. It is doubled after an update with a KL
        divergence above 1.5 * target_kl, and halved after one below target_kl / 1.5.
        """,
    ),
    "lam1": Argument(
        optional(FRACTION),
        "float",
        "With coeff, the lambda of the first advantage estimate. None: lam.",
    ),
    "lam2": Argument(
        FRACTION,
        "float",
        "With coeff, the lambda of the second advantage estimate.",
    ),
    "coeff": Argument(
        optional(FRACTION),
        "float",
        """
        Weight of the first advantage estimate, from 0 to 1; the second one has the rest. They are
        normalized before they are mixed. None: a single estimate, with lam.
        """,
    ),
    "adv_normalization": Argument(
        one_of("epoch", "minibatch", "none"),
        "str",
        """
        Where advantages are shifted and scaled to mean 0 and standard deviation 1: once over the
        'epoch', in each 'minibatch' on its own, or not at all ('none').
        """,
    ),
    "recompute_adv": Argument(
        SWITCH,
        "bool",
        """
        Whether advantages and value targets are recomputed before each pass over the epoch's
        experience, with the current value function. The passes of the policy and of the value
        function then alternate.
        """,
    ),
    "value_target": Argument(
        one_of("rewards_to_go", "lambda_return"),
        "str",
        """
        The target of the value function: 'rewards_to_go', the discounted sum of the rewards that
        followed; or 'lambda_return', the advantage (before it is normalized) plus the value that
        it was computed with, which has less variance but is biased.
        """,
    ),
    "pi_lr": Argument(
        NON_NEGATIVE,
        "float",
        "Learning rate of the policy.",
    ),
    "vf_lr": Argument(
        NON_NEGATIVE,
        "float",
        "Learning rate of the value function.",
    ),
    "train_v_iters": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        "Gradient steps on the value function in each epoch.",
    ),
    "max_ep_len": Argument(
        POSITIVE_INTEGER,
        "int",
        "Time limit of episodes in steps, in addition to the environment's own.",
    ),
    "logger_kwargs": Argument(
        KEYWORDS,
        "dict",
        "Arguments of EpochLogger.",
    ),
    "save_freq": Argument(
        POSITIVE_INTEGER,
        "int",
        """
        How often (in epochs) to save the policy: after each epoch whose number is a multiple of
        save_freq, and after the last epoch.
        """,
        may_change=True,
    ),
    "ent_coef": Argument(
        NON_NEGATIVE,
        "float",
        """
        Weight of the entropy bonus, which keeps the policy from becoming certain too
        early. (0 to 0.01.)
        """,
    ),
    "vf_coef": Argument(
        NON_NEGATIVE,
        "float",
        "Weight of the value loss, if it is added to the policy loss.",
    ),
    "max_grad_norm": Argument(
        optional(POSITIVE),
        "float",
        """
        Largest norm of a gradient over all parameters that are trained together; longer gradients
        are scaled down to it. None: no limit. (Usually None or 0.5.)
        """,
    ),
    "lr_schedule": Argument(
        one_of("constant", "linear"),
        "str",
        """
        'constant', or 'linear' for learning rates that fall linearly, to 0 at the end of the last
        epoch.
        """,
    ),
    "replay_size": Argument(
        POSITIVE_INTEGER,
        "int",
        """
        Size of the replay buffer: how many of the latest interactions are kept to learn from,
        summed over all environments of all processes. Memory is used as it fills.
        """,
    ),
    "polyak": Argument(
        FRACTION,
        "float",
        """
        How slowly the target networks follow: after each update (TD3: of the policy)
        target = polyak * target + (1 - polyak) * variable. (Always between 0 and 1, close to 1.)
        """,
    ),
    "q_lr": Argument(
        NON_NEGATIVE,
        "float",
        "Learning rate of the Q-functions.",
    ),
    "batch_size": Argument(
        POSITIVE_INTEGER,
        "int",
        "Interactions in a minibatch, summed over all processes.",
    ),
    "start_steps": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        Actions are drawn uniformly at random, instead of from the policy, up to and including the
        interaction of this number, counted from 0. Where several environments step together, the
        first interaction of a step decides for all of them. Networks that are already trained
        (init_from) act from the beginning.
        """,
    ),
    "update_after": Argument(
        NON_NEGATIVE_INTEGER,
        "int",
        """
        Number of the interaction, counted from 0, after which updates may begin, so that the
        replay buffer holds enough to learn from.
        """,
    ),
    "update_every": Argument(
        POSITIVE_INTEGER,
        "int",
        """
        Interactions between two blocks of updates. A block consists of update_every
        updates, so that there is one for each interaction.
        """,
    ),
    "act_noise": Argument(
        NON_NEGATIVE,
        "float",
        """
        Standard deviation of the Gaussian noise that is added to the policy's actions
        while training, as a fraction of half of each dimension's range.
        """,
    ),
    "minibatch_size": Argument(
        optional(POSITIVE_INTEGER),
        "int",
        """
        Steps in each minibatch, summed over all processes: a multiple of the number of
        environments that divides steps_per_epoch. None: each gradient step uses the whole epoch.
        """,
    ),
    "normalize_obs": Argument(
        SWITCH,
        "bool",
        """
        Whether the networks see observations shifted and scaled to mean 0 and variance 1 by
        running statistics, and clipped at 10. The statistics are saved with the policy. They
        change between epochs, each time so little that the policy moves by a KL divergence of at
        most 0.001.
        """,
    ),
    "normalize_reward": Argument(
        SWITCH,
        "bool",
        """
        Whether rewards are divided by the running standard deviation of the discounted returns,
        and clipped at 10. EpRet is logged unscaled.
        """,
    ),
} | OPTIONS
