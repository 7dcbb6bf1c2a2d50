"""Trust region policy optimization (Schulman et al. 2015), and the natural policy gradient."""

from collections.abc import Callable
from functools import partial

import gymnasium as gym
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import (
    GradientSteps,
    Loss,
    Training,
    adam,
    loss_columns,
    value_loss,
)
from spinup_tf2.core.natural_gradient import PolicyObjective, conjugate_gradient
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.on_policy import actor_for, networks, train
from spinup_tf2.core.trajectories import estimates
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def policy_loss(pi: Distribution, pi_old: Distribution, act: tf.Tensor, adv: tf.Tensor) -> Loss:
    """Surrogate objective, negated, and the KL divergence that must not exceed delta.

    L = -E[r A],  r = pi(a|s) / pi_old(a|s)   (Schulman et al. 2015, eq. 14)
    KL = E[KL(pi_old(.|s) || pi(.|s))]        (eq. 12)

    Args:
        pi, pi_old: Distributions over the actions in the states of the batch.
        act: Actions of pi_old in these states, `[batch, ...]`.
        adv: Advantages `[batch]`.
    """
    ratio = tf.exp(pi.log_prob(act) - pi_old.log_prob(act))
    loss = -tf.reduce_mean(ratio * adv)
    return loss, dict(LossPi=loss, KL=tf.reduce_mean(pi_old.kl_divergence(pi)))


@algorithm()
def trpo(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    delta: float = 0.01,
    vf_lr: float = 1e-3,
    train_v_iters: int = 80,
    damping_coeff: float = 0.1,
    cg_iters: int = 10,
    backtrack_iters: int = 10,
    backtrack_coeff: float = 0.8,
    lam: float = 0.97,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    algo: str = "trpo",
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """Trust Region Policy Optimization (with support for Natural Policy Gradient).

    Args:
        delta (float): Largest KL divergence of an update. (Usually small, 0.01 to 0.05.)
        damping_coeff (float): Times identity, added to the Fisher matrix. It is added before the
            natural gradient is solved for. More makes the solution more stable and the steps
            shorter, and turns them towards the plain gradient. (0.01 to 0.1.)
        cg_iters (int): Most conjugate-gradient iterations. More make it more exact and take longer.
            (About 10.)
        backtrack_iters (int): Most steps of the line search. (Usually the first few succeed.)
        backtrack_coeff (float): Factor from one of its steps to the next. (Between 0 and 1.)
        algo (str): 'trpo', or 'npg': natural policy gradient. This is the same step without the
            line search, so that nothing guarantees a KL divergence of at most delta.
    """
    settings = Settings.of(locals())
    with environments(settings) as (envs, test_envs):
        ac = networks(
            *(actor_critic, ac_kwargs, envs, settings.init),
            shared=False,
            closed_forms=["kl_divergence"],
        )

        def pi_loss(batch):
            return policy_loss(ac.pi(batch["obs"]), batch["pi_old"], batch["act"], batch["adv"])

        def v_loss(batch):
            return value_loss(ac.v(batch["obs"]), batch["ret"])

        objective = PolicyObjective(pi_loss, ac.pi.trainable_variables)
        v_steps = GradientSteps(v_loss, ac.v.trainable_variables, adam(vf_lr), train_v_iters)
        training = Training(v_steps)
        policy = compiled(lambda obs: ac.pi(obs))

        def natural_step(batch, gradient):
            """Return the natural-gradient step with KL divergence delta, to second order.

            It is to be subtracted from the parameters.
            """

            def product(v):
                return objective.fisher_product(batch, v) + damping_coeff * v

            x = conjugate_gradient(product, gradient, cg_iters)
            return np.sqrt(2 * delta / (x @ product(x) + 1e-8)) * x

        def line_search(batch, step, loss_before):
            """Shorten the step until the KL divergence is at most delta and the loss not worse."""
            params = objective.params
            for j in range(backtrack_iters):
                objective.params = params - backtrack_coeff**j * step
                after = objective.evaluate(batch)
                if after["KL"] <= delta and after["LossPi"] <= loss_before:  # False for nan
                    run.logger.log(f"Accepting new params at step {j} of line search.")
                    return after, j
            run.logger.log("Line search failed! Keeping old params.")
            objective.params = params
            return objective.evaluate(batch), j

        def update(batch, fresh):
            batch["pi_old"] = policy(batch["obs"])  # distributions of the policy that acted
            gradient, pi_before = objective.gradient(batch)
            step = natural_step(batch, gradient)
            search = {}
            if algo == "trpo":
                pi_after, search["BacktrackIters"] = line_search(batch, step, pi_before["LossPi"])
            else:
                objective.params = objective.params - step
                pi_after = objective.evaluate(batch)
            v_before, v_after, _ = training(batch)
            columns = loss_columns(pi_before | v_before, pi_after | v_after)
            return columns | dict(KL=pi_after["KL"]) | search

        returns = partial(estimates, gamma=gamma, lam=lam)
        actor = actor_for(ac, envs)
        state = dict(actor=actor, steps=v_steps)
        with open_run("trpo", settings, envs, test_envs, ac, state) as run:
            train(run, actor, update, returns)
    return ac
