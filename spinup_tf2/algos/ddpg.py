"""Deep deterministic policy gradient (Lillicrap et al. 2016)."""

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


def q_loss(q: tf.Tensor, backup: tf.Tensor) -> Loss:
    """Mean squared error against the backup. Both [batch].

    L = E[(Q(s, a) - y)^2],  y = R + gamma (1 - d) Q'(s', pi'(s'))   (Lillicrap et al. 2016, eq. 4)
    """
    loss = tf.reduce_mean(tf.square(q - backup))
    return loss, dict(QVals=q, LossQ=loss)


def policy_loss(q_pi: tf.Tensor) -> Loss:
    """The value of the policy's own actions, negated. q_pi: Q(s, pi(s)), [batch].

    L = -E[Q(s, pi(s))]   (Lillicrap et al. 2016, eq. 6)
    """
    loss = -tf.reduce_mean(q_pi)
    return loss, dict(LossPi=loss)


@algorithm()
def ddpg(
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
    num_test_episodes: int = 10,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 1,
    *,
    noise: str = "normal",
    **options: Unpack[Options],
) -> QActorCritic:
    """Deep Deterministic Policy Gradient."""
    settings = Settings.of(locals())
    schedule = Schedule(replay_size, batch_size, start_steps, update_after, update_every)
    with environments(settings, bounded_action_spec) as (envs, test_envs):
        ac, target = networks(actor_critic, ac_kwargs, envs, settings.init, num_q=1)

        def loss_of_q(batch):
            next_obs = batch["next_obs"]
            (next_q,) = target.q_values(next_obs, target.pi(next_obs))
            backup = bellman_backup(batch["rew"], batch["terminated"], next_q, gamma)
            (q,) = ac.q_values(batch["obs"], batch["act"])
            return q_loss(q, backup)

        def loss_of_pi(batch):
            (q_pi,) = ac.q_values(batch["obs"], ac.pi(batch["obs"]))
            return policy_loss(q_pi)

        update = UpdateBlock(
            [
                Minimize(loss_of_q, ac.q_variables, adam(q_lr)),
                Minimize(loss_of_pi, ac.pi.trainable_variables, adam(pi_lr)),
                PolyakAverage(target.trainable_variables, ac.trainable_variables, polyak),
            ],
            pays_to_compile(settings, schedule, ac),
        )
        replay = replay_buffer(envs, schedule, settings)
        explore = ActionNoise(noise, act_noise, envs)
        state = dict(target=target, update=update, replay=replay, noise=explore)
        columns = dict(QVals=True, LossPi=False, LossQ=False)
        with open_run("ddpg", settings, envs, test_envs, ac, state, columns) as run:
            train(run, target, update, replay, schedule, explore=explore)
    return ac
