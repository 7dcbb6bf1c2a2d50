"""REINFORCE with a baseline that is a running mean of returns (Williams 1992)."""

import keras
import tensorflow as tf
from spinup_tf2.core.gradient_steps import GradientSteps, adam
from spinup_tf2.core.trajectories import gae
from spinup_tf2.training.settings import Settings, algorithm
from typing_extensions import Unpack

from spinup_tf2.arguments.options import OnPolicyOptions
from spinup_tf2.core import on_policy
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.parallel.mpi import mpi_avg


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
    arguments = dict(locals())  # for config.json
    settings = Settings(
        env_fn, seed, steps_per_epoch, epochs, max_ep_len, logger_kwargs, save_freq, **options
    )
    with on_policy.opened("reinforce", settings, arguments, actor_critic, ac_kwargs) as run:
        pi, baseline = run.ac.pi, keras.Variable(0.0, trainable=False)

        def pi_loss(batch):
            logp = pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["ret"], baseline, batch["valid"])

        step = GradientSteps(pi_loss, pi.trainable_variables, adam(pi_lr), num_steps=1)

        def update(batch):
            before, _, _ = step(batch)
            mean = mpi_avg(float(tf.reduce_mean(batch["ret"])))
            baseline.assign(decay * baseline + (1 - decay) * mean)
            return dict(LossPi=before["LossPi"], Baseline=float(baseline))

        def returns(rew, val, next_val, terminated, truncated, valid):
            return gae(rew, val, 0 * next_val, terminated, truncated, gamma, lam=1.0)

        on_policy.train(run, update, [step], returns, state=[baseline])
    return run.ac
