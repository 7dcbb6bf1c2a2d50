"""Proximal policy optimization, with the clipped objective (Schulman et al. 2017)."""

from collections.abc import Callable

import gymnasium as gym
import keras
import tensorflow as tf

from spinup_tf2.core import on_policy
from spinup_tf2.core.arguments import check_arguments
from spinup_tf2.core.networks import count_variables
from spinup_tf2.core.optimization import GradientSteps, adam
from spinup_tf2.core.policies import ActorCritic, MLPActorCritic, build
from spinup_tf2.core.saved_policy import SavedPolicy
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import sync_params
from spinup_tf2.utils.mpi_tools import num_procs
from spinup_tf2.utils.threads import limit_tensorflow


def policy_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, clip_ratio: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Clipped surrogate objective, negated (Schulman et al. 2017, eq. 7). All inputs [batch].

    L = -E[min(r A, clip(r, 1 - eps, 1 + eps) A)],  r = pi(a|s) / pi_old(a|s)
    """
    ratio = tf.exp(logp - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    loss = -tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))
    info = dict(
        KL=tf.reduce_mean(logp_old - logp),  # estimates KL(pi_old || pi) from samples of pi_old
        Entropy=-tf.reduce_mean(logp),  # estimates the entropy, likewise
        ClipFrac=tf.reduce_mean(tf.cast(ratio != clipped, tf.float32)),
    )
    return loss, info


def value_loss(val: tf.Tensor, ret: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Mean squared error of the values against the rewards-to-go. Both [batch]."""
    return tf.reduce_mean(tf.square(ret - val)), {}


def ppo(
    env_fn: Callable[[], gym.Env],
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    clip_ratio: float = 0.2,
    pi_lr: float = 3e-4,
    vf_lr: float = 1e-3,
    train_pi_iters: int = 80,
    train_v_iters: int = 80,
    lam: float = 0.97,
    max_ep_len: int = 1000,
    target_kl: float = 0.01,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    num_envs: int = 1,
    vectorization: str = "sync",
) -> ActorCritic:
    """Proximal Policy Optimization (by clipping), with early stopping based on approximate KL.

    Args:
        env_fn: A function that makes a new copy of the environment (gymnasium's API).

        actor_critic: A function or class called as
            `actor_critic(observation_space, action_space, **ac_kwargs)`. What it returns has

            ===========  ================  ==================================================
            Attribute    Output            Description
            ===========  ================  ==================================================
            `pi(obs)`    distribution      Of tensorflow_probability, over the actions for
                                           observations of shape (batch, obs_dim).
            `v(obs)`     (batch,)          Value estimates for these observations. (Critical:
                                           make sure that the shape is not (batch, 1)!)
            ===========  ================  ==================================================

            `pi` and `v` are Keras models.

        ac_kwargs (dict): Arguments of the actor-critic: for the default MLPActorCritic
            `hidden_sizes` (64, 64) and `activation` 'tanh'.

        seed (int): Seed of the networks, the environments and the actions.

        steps_per_epoch (int): Steps of interaction in each epoch, of all environments of all
            processes together.

        epochs (int): Number of epochs, each one policy update. (Always at least 1.)

        gamma (float): Discount factor. (Always between 0 and 1.)

        clip_ratio (float): How far the new policy may go from the old one while profiting from
            it: the objective does not reward a probability ratio outside 1 - clip_ratio to
            1 + clip_ratio. (Usually small, 0.1 to 0.3.)

        pi_lr (float): Learning rate of the policy.

        vf_lr (float): Learning rate of the value function.

        train_pi_iters (int): The most gradient steps on the policy in each epoch; early stopping
            may take fewer.

        train_v_iters (int): Gradient steps on the value function in each epoch.

        lam (float): Lambda of generalised advantage estimation. (Always between 0 and 1, close
            to 1.)

        max_ep_len (int): A time limit on episodes, on top of the environment's own.

        target_kl (float): Roughly what KL divergence between old and new policy is right for an
            update; beyond 1.5 times this the policy steps of the epoch end. (Usually small, 0.01
            or 0.05.)

        logger_kwargs (dict): Arguments of EpochLogger.

        save_freq (int): How often (in epochs) to save the policy; the last epoch always does.

        num_envs (int): Environments in each process. Together they take steps_per_epoch steps.

        vectorization (str): 'sync' steps the environments of a process in turn, 'async' gives each
            of them a process of its own, which pays when a step takes longer than about 0.1 ms.

    Returns the trained actor-critic. Raises UserError (a ValueError), before anything is written,
    for an argument or an environment that cannot be used.
    """
    config = dict(locals())
    check_arguments(config, num_procs())
    limit_tensorflow()
    keras.utils.set_random_seed(int(seed))  # the same on all ranks: one network to start from

    with VectorEnv(env_fn, num_envs, seed, max_ep_len, vectorization) as envs:
        env = envs.prototype
        ac = actor_critic(envs.observation_space, env.action_space, **(ac_kwargs or {}))
        build(ac, envs.observation_space, env.action_space)

        logger = EpochLogger(**(logger_kwargs or {}))
        logger.save_config(config)
        logger.save_env_spec(env, env_fn)
        sync_params(ac.pi.trainable_variables + ac.v.trainable_variables)
        pi_size, v_size = count_variables(ac.pi), count_variables(ac.v)
        logger.log(f"\nNumber of parameters: \t pi: {pi_size}, \t v: {v_size}\n")
        logger.setup_tf_saver(SavedPolicy(ac, env.observation_space, env.action_space))

        def pi_loss(batch):
            logp = ac.pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["logp"], batch["adv"], clip_ratio)

        def v_loss(batch):
            return value_loss(ac.v(batch["obs"]), batch["ret"])

        pi_steps = GradientSteps(
            pi_loss,
            ac.pi.trainable_variables,
            adam(pi_lr),
            train_pi_iters,
            stop=lambda info: info["KL"] > 1.5 * target_kl,
        )
        v_steps = GradientSteps(v_loss, ac.v.trainable_variables, adam(vf_lr), train_v_iters)
        log_prob = tf.function(lambda obs, act: ac.pi(obs).log_prob(act))

        def update(batch):
            obs, act, adv, ret = (tf.constant(batch[key]) for key in ("obs", "act", "adv", "ret"))
            logp = log_prob(obs, act)  # of the policy that acted
            pi_before, pi_after, steps = pi_steps(dict(obs=obs, act=act, adv=adv, logp=logp))
            if steps < train_pi_iters:
                logger.log(f"Early stopping at step {steps} due to reaching max kl.")
            v_before, v_after, _ = v_steps(dict(obs=obs, ret=ret))
            return dict(
                LossPi=pi_before["Loss"],
                LossV=v_before["Loss"],
                DeltaLossPi=pi_after["Loss"] - pi_before["Loss"],
                DeltaLossV=v_after["Loss"] - v_before["Loss"],
                Entropy=pi_before["Entropy"],
                KL=pi_after["KL"],
                ClipFrac=pi_after["ClipFrac"],
                StopIter=min(steps, train_pi_iters - 1),
            )

        on_policy.train(
            envs,
            ac,
            update,
            logger,
            steps_per_epoch=steps_per_epoch,
            epochs=epochs,
            gamma=gamma,
            lam=lam,
            save_freq=save_freq,
            save=lambda: logger.save_state({"env": env}, None),
        )
    return ac
