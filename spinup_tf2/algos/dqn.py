"""Deep Q-network (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016)."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import Options
from spinup_tf2.core.gradient_steps import Loss, adam
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.core.off_policy import Schedule, networks, pays_to_compile, replay_buffer, train
from spinup_tf2.core.update_block import (
    HardCopy,
    Minimize,
    PolyakAverage,
    UpdateBlock,
    bellman_backup,
)
from spinup_tf2.envs.spaces import discrete_action_spec
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def value_of_best(q_choosing: tf.Tensor, q_judging: tf.Tensor) -> tf.Tensor:
    """Value [batch] of the action that is best by other values. Both [batch, num_actions].

    V(s) = Q_judging(s, argmax_a Q_choosing(s, a))   (van Hasselt et al. 2016, eq. 4)
    """
    return tf.gather(q_judging, tf.argmax(q_choosing, axis=-1), batch_dims=1)


def q_loss(q: tf.Tensor, backup: tf.Tensor, huber: bool = True) -> Loss:
    """Mean Huber loss of the error x = Q(s, a) - backup; or without huber, L = E[x^2] / 2.

    L = E[h(x)],  h(x) = x^2 / 2 where abs(x) <= 1, else abs(x) - 1/2   (Mnih et al. 2015)
    """
    error = tf.abs(q - backup)
    square = tf.square(error) / 2
    loss = tf.reduce_mean(tf.where(error <= 1, square, error - 0.5) if huber else square)
    return loss, dict(QVals=q, LossQ=loss)


def epsilon_greedy(act: np.ndarray, noise: np.ndarray, epsilon: float) -> np.ndarray:
    """Return uniform actions [n] with probability epsilon, else act [n].

    noise: Gumbel noise [n, num_actions], whose largest element decides whether to explore. Its
        index, which is independent of its size, is the action to explore with.
    """
    uniform = np.exp(-noise.shape[-1] * np.exp(-noise.max(-1)))  # distribution function of the max
    return np.where(uniform <= epsilon, noise.argmax(-1), act)


@algorithm()
def dqn(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., QActorCritic] = MLPQActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int = 1_000_000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    q_lr: float = 1e-3,
    batch_size: int = 100,
    start_steps: int = 1000,
    update_after: int = 1000,
    update_every: int = 50,
    eps_start: float = 1.0,
    eps_end: float = 0.05,
    eps_steps: int = 10_000,
    num_test_episodes: int = 10,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 1,
    *,
    double_q: bool = True,
    huber: bool = True,
    copy_every: int | None = None,
    num_updates: int | None = None,
    **options: Unpack[Options],
) -> QActorCritic:
    """Deep Q-Network: Q-learning with a replay buffer and a target network, for Discrete actions.

    Args:
        eps_start (float): Probability of random actions at first. (But see start_steps.)
        eps_end (float): Probability of random actions in the end. (0.01 to 0.1.)
        eps_steps (int): Interactions from eps_start to eps_end. In between it changes linearly.
        double_q (bool): Whether to use double Q-learning. It overestimates less, as the Q-function
            chooses the action whose value the target network gives. False: that does both.
        huber (bool): Whether the loss is Huber's. False: the squared error.
        copy_every (int): Updates between copies to the target network. None: it follows slowly
            instead (polyak).
        num_updates (int): Updates in a block. None: update_every, one for each interaction.
    """
    settings = Settings.of(locals())
    schedule = Schedule(
        replay_size, batch_size, start_steps, update_after, update_every, num_updates
    )
    with environments(settings, discrete_action_spec) as (envs, test_envs):
        ac, target = networks(actor_critic, ac_kwargs, envs, settings.init, num_q=1)

        def loss_of_q(batch):
            next_obs = batch["next_obs"]
            (judging,) = target.q_values(next_obs)
            (choosing,) = ac.q_values(next_obs) if double_q else [judging]
            next_val = value_of_best(choosing, judging)
            backup = bellman_backup(batch["rew"], batch["terminated"], next_val, gamma)
            (q,) = ac.q_values(batch["obs"])
            return q_loss(tf.gather(q, batch["act"], batch_dims=1), backup, huber)

        pairs = target.q_variables, ac.q_variables
        minimize = Minimize(loss_of_q, ac.q_variables, adam(q_lr))
        follow = HardCopy(*pairs, copy_every) if copy_every else PolyakAverage(*pairs, polyak)
        update = UpdateBlock([minimize, follow], pays_to_compile(settings, schedule, ac))
        replay = replay_buffer(envs, schedule, settings)
        state = dict(target=target, update=update, replay=replay)
        columns = dict(QVals=True, LossQ=False, Epsilon=False)
        with open_run("dqn", settings, envs, test_envs, ac, state, columns) as run:

            def explore(act, noise, t):
                epsilon = np.interp(t, [0, eps_steps], [eps_start, eps_end])
                run.record(dict(Epsilon=epsilon))
                return epsilon_greedy(act, noise, epsilon)

            train(run, target, update, replay, schedule, explore=explore)
    return ac
