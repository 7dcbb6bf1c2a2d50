"""Twin delayed DDPG (Fujimoto et al. 2018)."""

from collections.abc import Callable

import gymnasium as gym
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import Options
from spinup_tf2.core.gradient_steps import Loss, adam
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.core.off_policy import (
    ActionNoise,
    Schedule,
    networks,
    pays_to_compile,
    replay_buffer,
    train,
)
from spinup_tf2.core.update_block import Minimize, PolyakAverage, UpdateBlock, bellman_backup
from spinup_tf2.envs.spaces import bounded_action_spec
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def smoothed_action(
    act: tf.Tensor, noise: tf.Tensor, target_noise: float, noise_clip: float
) -> tf.Tensor:
    """Add clipped noise to the target policy's action. act, noise: [batch, act_dim].

    a' = clip(pi'(s') + clip(epsilon, -c, c), -1, 1),  epsilon ~ N(0, sigma)
    (Fujimoto et al. 2018, eq. 14; sigma: target_noise, c: noise_clip)
    """
    epsilon = tf.clip_by_value(target_noise * noise, -noise_clip, noise_clip)
    return tf.clip_by_value(act + epsilon, -1.0, 1.0)


def q_loss(q1: tf.Tensor, q2: tf.Tensor, backup: tf.Tensor) -> Loss:
    """Mean squared errors against the backup, summed. All [batch].

    L = E[(Q_1 - y)^2] + E[(Q_2 - y)^2],  y = R + gamma (1 - d) min(Q'_1, Q'_2)(s', a')
    (Fujimoto et al. 2018, algorithm 1)
    """
    loss = tf.reduce_mean(tf.square(q1 - backup)) + tf.reduce_mean(tf.square(q2 - backup))
    return loss, dict(Q1Vals=q1, Q2Vals=q2, LossQ=loss)


def policy_loss(q1_pi: tf.Tensor) -> Loss:
    """The first Q-function's value of the policy's own actions, negated. q1_pi: [batch].

    L = -E[Q_1(s, pi(s))]   (Fujimoto et al. 2018, algorithm 1)
    """
    loss = -tf.reduce_mean(q1_pi)
    return loss, dict(LossPi=loss)


@algorithm()
def td3(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., QActorCritic] = MLPQActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int = 1_000_000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    pi_lr: float = 1e-3,
    q_lr: float = 1e-3,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    act_noise: float = 0.1,
    target_noise: float = 0.2,
    noise_clip: float = 0.5,
    policy_delay: int = 2,
    num_test_episodes: int = 10,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 1,
    *,
    noise: str = "normal",
    **options: Unpack[Options],
) -> QActorCritic:
    """Twin Delayed DDPG: two Q-functions, a policy that learns less often, smoothed targets.

    Args:
        target_noise (float): Std of the noise in the targets' actions. As a fraction of half of
            each dimension's range.
        noise_clip (float): Limit of that noise's absolute value.
        policy_delay (int): Updates of the Q-functions for each of pi. The policy and all target
            networks are updated once every policy_delay updates of the Q-functions, beginning with
            the first update of the run. (2 or 3.)
    """
    settings = Settings.of(locals())
    schedule = Schedule(replay_size, batch_size, start_steps, update_after, update_every)
    with environments(settings, bounded_action_spec) as (envs, test_envs):
        ac, target = networks(actor_critic, ac_kwargs, envs, settings.init, num_q=2)

        def loss_of_q(batch):
            next_obs = batch["next_obs"]
            noise = batch["target_noise"]
            next_act = smoothed_action(target.pi(next_obs), noise, target_noise, noise_clip)
            next_q = tf.minimum(*target.q_values(next_obs, next_act))
            backup = bellman_backup(batch["rew"], batch["terminated"], next_q, gamma)
            q1, q2 = ac.q_values(batch["obs"], batch["act"])
            return q_loss(q1, q2, backup)

        def loss_of_pi(batch):
            q1_pi, _ = ac.q_values(batch["obs"], ac.pi(batch["obs"]))
            return policy_loss(q1_pi)

        update = UpdateBlock(
            [
                Minimize(loss_of_q, ac.q_variables, adam(q_lr)),
                Minimize(loss_of_pi, ac.pi.trainable_variables, adam(pi_lr), every=policy_delay),
                PolyakAverage(
                    target.trainable_variables, ac.trainable_variables, polyak, every=policy_delay
                ),
            ],
            pays_to_compile(settings, schedule, ac),
        )
        replay = replay_buffer(envs, schedule, settings)
        explore = ActionNoise(noise, act_noise, envs)
        state = dict(target=target, update=update, replay=replay, noise=explore)
        columns = dict(Q1Vals=True, Q2Vals=True, LossPi=False, LossQ=False)
        with open_run("td3", settings, envs, test_envs, ac, state, columns) as run:
            train(run, target, update, replay, schedule, noise=["target_noise"], explore=explore)
    return ac
