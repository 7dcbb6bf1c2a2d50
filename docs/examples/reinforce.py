"""REINFORCE with a baseline that is a running mean of returns (Williams 1992)."""

import keras
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import GradientSteps, adam
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.on_policy import actor_for, networks, train
from spinup_tf2.core.trajectories import gae
from spinup_tf2.parallel.mpi import mpi_avg
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def policy_loss(logp, ret, baseline, valid):
    """L = -E[log pi(a|s) (R - b)], R: what was gained afterwards. logp, ret, valid: [batch]."""
    loss = -tf.reduce_mean(tf.where(valid, logp * (ret - baseline), 0.0))
    return loss, dict(LossPi=loss)


@algorithm()
def reinforce(
    env_fn,
    actor_critic=MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    pi_lr: float = 3e-3,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    decay: float = 0.9,
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """REINFORCE: one step up the gradient of log pi(a|s) (R - b) per epoch.

    Args:
        decay (float): How much of the baseline b stays in an update; the rest is the mean return.
    """
    settings = Settings.of(locals())
    with environments(settings) as (envs, test_envs):
        ac = networks(actor_critic, ac_kwargs, envs, settings.init)
        baseline = keras.Variable(0.0, trainable=False)

        def pi_loss(batch):
            logp = ac.pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["ret"], baseline, batch["valid"])

        step = GradientSteps(pi_loss, ac.pi.trainable_variables, adam(pi_lr))

        def update(batch, fresh):
            info = step.step(batch)
            mean = mpi_avg(float(tf.reduce_mean(batch["ret"])))
            baseline.assign(decay * baseline + (1 - decay) * mean)
            return dict(LossPi=info["LossPi"], Baseline=float(baseline))

        def returns(rew, val, next_val, terminated, truncated, valid):
            return gae(rew, val, 0 * next_val, terminated, truncated, gamma, lam=1.0)

        actor = actor_for(ac, envs)
        state = dict(actor=actor, step=step, baseline=baseline)
        with open_run("reinforce", settings, envs, test_envs, ac, state) as run:
            train(run, actor, update, returns)
    return ac
