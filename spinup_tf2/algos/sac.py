"""Soft actor-critic (Haarnoja et al. 2018; for discrete actions Christodoulou 2019)."""

from collections.abc import Callable

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import Options
from spinup_tf2.core.gradient_steps import Loss, adam
from spinup_tf2.core.nets.distributions import probs_and_log_probs, sample_and_log_prob
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.core.off_policy import Schedule, networks, pays_to_compile, replay_buffer, train
from spinup_tf2.core.update_block import Minimize, PolyakAverage, UpdateBlock, bellman_backup
from spinup_tf2.envs.spaces import bounded_or_discrete_action_spec
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def soft_value(q1: tf.Tensor, q2: tf.Tensor, logp: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
    """Soft value estimated from an action of the policy. All [batch], or [batch, num_actions].

    V(s) = min(Q_1(s, a), Q_2(s, a)) - alpha log pi(a|s)   (Haarnoja et al. 2018b, eq. 3)
    """
    return tf.minimum(q1, q2) - alpha * logp


def soft_choice_value(
    q1: tf.Tensor, q2: tf.Tensor, probs: tf.Tensor, logp: tf.Tensor, alpha: tf.Tensor
) -> tf.Tensor:
    """Exact soft value [batch] of a policy over discrete actions. Inputs [batch, num_actions].

    V(s) = sum_a pi(a|s) (min(Q_1(s, a), Q_2(s, a)) - alpha log pi(a|s))
    (Christodoulou 2019, eq. 10)
    """
    return tf.reduce_sum(probs * soft_value(q1, q2, logp, alpha), axis=-1)


def q_loss(q1: tf.Tensor, q2: tf.Tensor, backup: tf.Tensor) -> Loss:
    """Half the mean squared errors against the backup, summed. All [batch].

    L = 1/2 E[(Q_1 - y)^2] + 1/2 E[(Q_2 - y)^2]   (Haarnoja et al. 2018b, eq. 5)
    """
    loss_q1, loss_q2 = (tf.reduce_mean(tf.square(q - backup)) / 2 for q in (q1, q2))
    return loss_q1 + loss_q2, dict(Q1Vals=q1, Q2Vals=q2, LossQ1=loss_q1, LossQ2=loss_q2)


def policy_loss(val: tf.Tensor, logp: tf.Tensor) -> Loss:
    """The soft value, negated. Both [batch]; logp is E_a log pi(a|s), or an estimate of it.

    L = E[alpha log pi(a|s) - min(Q_1(s, a), Q_2(s, a))]   (Haarnoja et al. 2018b, eq. 7)
    """
    loss = -tf.reduce_mean(val)
    return loss, dict(LogPi=logp, LossPi=loss)


def temperature_loss(log_alpha: tf.Tensor, logp: tf.Tensor, target_entropy: float) -> tf.Tensor:
    """Loss whose minimization raises alpha while the entropy is below its target. logp: [batch].

    L = -log(alpha) E[log pi(a|s) + target_entropy]   (Haarnoja et al. 2018b, eq. 18, with log
    alpha in place of alpha, as in the authors' code)
    """
    return -log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + target_entropy)


@algorithm()
def sac(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., QActorCritic] = MLPQActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int = 1_000_000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    lr: float = 1e-3,
    alpha: float | str = 0.2,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    num_test_episodes: int = 10,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 1,
    *,
    target_entropy: float | None = None,
    **options: Unpack[Options],
) -> QActorCritic:
    """Soft Actor-Critic, with two Q-functions and a fixed or learned temperature.

    Args:
        lr (float): Learning rate of all networks together. And of the temperature.
        alpha (float): Temperature, or 'auto': it is learned. It is the weight of the entropy in
            what is maximized: the higher, the more the policy explores. 'auto': it starts at 1 and
            is learned, so that the entropy comes close to target_entropy. 'auto_0.1': it starts at
            0.1, which suits rewards that are small. (0.05 to 0.5 if rewards are of the order of 1.)
        target_entropy (float): Mean entropy for alpha 'auto'. None: minus the number of the
            action's dimensions; for Discrete, 0.98 times the logarithm of the number of actions.
    """
    settings = Settings.of(locals())
    schedule = Schedule(replay_size, batch_size, start_steps, update_after, update_every)
    with environments(settings, bounded_or_discrete_action_spec) as (envs, test_envs):
        ac, target = networks(
            actor_critic, ac_kwargs, envs, settings.init, num_q=2, stochastic=True
        )
        discrete = envs.action_spec.num_choices is not None
        if target_entropy is None:
            (size,) = envs.action_spec.noise_shape  # discrete: one for each action
            target_entropy = 0.98 * np.log(size) if discrete else -size
        auto, _, start = str(alpha).partition("_")
        log_alpha = keras.Variable(np.log(float(start or 1.0)), dtype="float32", name="log_alpha")
        learned = [log_alpha] if auto == "auto" else []

        def temperature():
            return tf.stop_gradient(tf.exp(log_alpha)) if learned else tf.constant(float(alpha))

        def value_and_log_prob(networks, obs, noise):
            """Return the current policy's V(s) by the Q-functions of `networks`, and log pi(a|s).

            Both are [batch]; for discrete actions, the latter is its expectation over the actions.
            """
            pi = ac.pi(obs)
            if discrete:
                probs, logp = probs_and_log_probs(pi)
                q1, q2 = networks.q_values(obs)
                val = soft_choice_value(q1, q2, probs, logp, temperature())
                return val, tf.reduce_sum(probs * logp, axis=-1)
            act, logp = sample_and_log_prob(pi, noise)
            q1, q2 = networks.q_values(obs, act)
            return soft_value(q1, q2, logp, temperature()), logp

        def q_of_batch(obs, act):
            if discrete:
                return [tf.gather(q, act, batch_dims=1) for q in ac.q_values(obs)]
            return ac.q_values(obs, act)

        def loss_of_q(batch):
            next_val, _ = value_and_log_prob(target, batch["next_obs"], batch.get("next_noise"))
            backup = bellman_backup(batch["rew"], batch["terminated"], next_val, gamma)
            q1, q2 = q_of_batch(batch["obs"], batch["act"])
            return q_loss(q1, q2, backup)

        def loss_of_pi(batch):
            val, logp = value_and_log_prob(ac, batch["obs"], batch.get("noise"))
            loss, info = policy_loss(val, logp)
            if learned:  # depends on other variables, so it does not affect the policy's gradient
                loss += temperature_loss(log_alpha, logp, target_entropy)
            return loss, dict(info, Alpha=temperature())

        update = UpdateBlock(
            [
                Minimize(loss_of_q, ac.q_variables, adam(lr)),
                Minimize(loss_of_pi, [*ac.pi.trainable_variables, *learned], adam(lr)),
                PolyakAverage(target.q_variables, ac.q_variables, polyak),
            ],
            pays_to_compile(settings, schedule, ac),
        )
        replay = replay_buffer(envs, schedule, settings)
        state = dict(target=target, update=update, replay=replay)
        columns = dict(
            Q1Vals=True,
            Q2Vals=True,
            LogPi=True,
            LossPi=False,
            LossQ1=False,
            LossQ2=False,
            Alpha=False,
        )
        with open_run("sac", settings, envs, test_envs, ac, state, columns) as run:
            noise = [] if discrete else ["next_noise", "noise"]
            train(run, target, update, replay, schedule, noise=noise)
    return ac
