"""VPG, TRPO, PPO and A2C: whole runs computed again from what their environments have seen.

Every option that changes what is learned is in one of the runs of the tables below, where it makes
a difference.
"""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import a2c, ppo, trpo, vpg
from tests.off_policy_runs import Adam
from tests.on_policy_by_hand import (
    BOX,
    DISCRETE,
    Descent,
    HandRun,
    RMSprop,
    loss_and_gradient,
    recorded_run,
    rows_of,
    standardized,
)

# ---------------------------------------------------------------------- one update, by algorithm


class Update:
    """What is the same in all: losses of the parameters, by a HandRun's networks."""

    def __init__(self, run):
        self.o, self.networks = run.o, run.networks

    def log_prob(self, params, b):
        return self.networks.policy(params, b.obs).log_prob(b.act)

    def entropy(self, params, b):
        return tf.reduce_mean(self.networks.policy(params, b.obs).entropy())

    def divergence(self, old, params, b):
        """Mean of KL(old || new)."""
        old, new = (self.networks.policy(p, b.obs) for p in (old, params))
        return tf.reduce_mean(old.divergence_to(new))

    def value_loss(self, params, b):
        return tf.reduce_mean((b.ret - self.networks.value(params, b.obs)) ** 2)


class VPG(Update):
    def __init__(self, run):
        super().__init__(run)
        self.pi_step = Descent(Adam(run.o.pi_lr), [*run.networks.pi, *run.networks.log_std])
        self.v_step = Descent(Adam(run.o.vf_lr), run.networks.v)

    def policy_loss(self, params, b):
        return -tf.reduce_mean(self.log_prob(params, b) * b.adv)

    def __call__(self, run, batch):
        old = run.params
        run.params = self.pi_step(lambda params: self.policy_loss(params, batch), run.params)
        for _ in range(self.o.train_v_iters):
            run.params = self.v_step(lambda params: self.value_loss(params, batch), run.params)
        columns = differences(self, old, run.params, batch)
        logp, new_logp = self.log_prob(old, batch), self.log_prob(run.params, batch)
        return columns | dict(Entropy=-np.mean(logp), KL=np.mean(logp - new_logp))


def differences(update, old, new, b, last_pi=None, last_v=None):
    """The losses, and what an update did to them; with those of the last passes, if others."""
    loss_pi, loss_v = float(update.policy_loss(old, b)), float(update.value_loss(old, b))
    return dict(
        LossPi=loss_pi,
        LossV=loss_v,
        DeltaLossPi=float(update.policy_loss(new, last_pi or b)) - loss_pi,
        DeltaLossV=float(update.value_loss(new, last_v or b)) - loss_v,
    )


class PPO(Update):
    def __init__(self, run):
        super().__init__(run)
        o, networks = run.o, run.networks
        self.beta, self.shared = o.beta, networks.shared
        pi = [*networks.pi, *networks.log_std]
        which = sorted({*networks.pi, *networks.v}) if self.shared else pi
        self.pi_step = Descent(Adam(o.pi_lr), which, o.max_grad_norm)
        self.v_step = Descent(Adam(o.vf_lr), networks.v, o.max_grad_norm)

    def surrogate(self, params, b):
        """Of rows of the batch, with what the old policy was there."""
        o, ratio = self.o, tf.exp(self.log_prob(params, b) - b.logp)
        if o.objective == "clip":
            clipped = np.clip(ratio, 1 - o.clip_ratio, 1 + o.clip_ratio)
            # Where the clipped term is the smaller one, it is a constant.
            constant = clipped * b.adv < ratio * b.adv
            loss = -tf.reduce_mean(tf.where(constant, clipped * b.adv, ratio * b.adv))
        else:
            kl = self.divergence(self.old, params, b)
            loss = -tf.reduce_mean(ratio * b.adv) + self.beta * kl
        return loss - o.ent_coef * self.entropy(params, b)

    def policy_loss(self, params, b):
        return self.surrogate(params, b)

    def loss(self, params, b):
        loss = self.surrogate(params, b)
        return loss + self.o.vf_coef * self.value_loss(params, b) if self.shared else loss

    def kl(self, params, b):
        if self.o.objective == "penalty":
            return float(self.divergence(self.old, params, b))
        return np.mean(b.logp - self.log_prob(params, b))

    def renewed(self, run, batch, minibatches):
        """The batch of a pass."""
        b = SimpleNamespace(**vars(batch))
        if self.o.recompute_adv:
            b.adv, b.ret = run.estimates_again()
        if self.o.adv_normalization == "minibatch":
            b.adv = np.copy(b.adv)
            for index in minibatches:
                b.adv[index] = standardized(b.adv[index])
        return b

    def __call__(self, run, batch):
        o, self.old = self.o, run.params
        batch.logp = self.log_prob(run.params, batch).numpy()
        if o.lr_schedule == "linear":
            self.pi_step.decay(run.progress)
            self.v_step.decay(run.progress)
        size = len(batch.adv)
        parts = run.minibatches[run.epoch]
        if parts is None:
            parts = np.arange(size)[None, None].repeat(max(o.train_pi_iters, o.train_v_iters), 0)
        for each in parts:  # each pass sees every step once
            np.testing.assert_array_equal(np.sort(each.ravel()), np.arange(size))

        before, passes, stopped, first = self.columns(run.params, batch), 0, False, None
        looks = o.objective == "clip" and o.target_kl is not None
        for i, each in enumerate(parts):
            of_pass = self.renewed(run, batch, each)
            first = first or of_pass
            if i < o.train_pi_iters and not stopped:
                last_pi = of_pass
                stopped = looks and self.kl(run.params, batch) > 1.5 * o.target_kl
                for index in each if not stopped else ():
                    b = rows_of(of_pass, index)
                    run.params = self.pi_step(lambda params, b=b: self.loss(params, b), run.params)
                passes += not stopped
            if i < o.train_v_iters and not self.shared:
                last_v = of_pass
                for index in each:
                    b = rows_of(of_pass, index)
                    run.params = self.v_step(lambda p, b=b: self.value_loss(p, b), run.params)
        last_v = last_pi if self.shared else last_v

        after = self.columns(run.params, batch)
        columns = differences(self, self.old, run.params, first, last_pi, last_v)
        columns |= dict(Entropy=before["Entropy"], KL=after["KL"])
        if o.objective == "clip":
            stop = min(passes, o.train_pi_iters - 1)
            return columns | dict(ClipFrac=after["ClipFrac"], StopIter=stop)
        columns["Beta"] = self.beta
        if after["KL"] > 1.5 * o.target_kl:
            self.beta *= 2
        elif after["KL"] < o.target_kl / 1.5:
            self.beta /= 2
        return columns

    def columns(self, params, b):
        logp = self.log_prob(params, b).numpy()
        outside = np.abs(np.exp(logp - b.logp) - 1) > self.o.clip_ratio
        return dict(Entropy=-np.mean(logp), KL=self.kl(params, b), ClipFrac=np.mean(outside))


class A2C(Update):
    def __init__(self, run):
        super().__init__(run)
        o = run.o
        optimizer = RMSprop(o.lr, o.rms_decay, o.rms_eps, o.rms_init)
        self.step = Descent(optimizer, [*range(len(run.params))], o.max_grad_norm)

    def policy_loss(self, params, b):
        return -tf.reduce_mean(self.log_prob(params, b) * b.adv)

    def loss(self, params, b):
        loss = self.policy_loss(params, b) + self.o.vf_coef * self.value_loss(params, b)
        return loss - self.o.ent_coef * self.entropy(params, b)

    def __call__(self, run, batch):
        if self.o.lr_schedule == "linear":
            self.step.decay(run.progress)
        old = run.params
        run.params = self.step(lambda params: self.loss(params, batch), run.params)
        return dict(
            LossPi=float(self.policy_loss(old, batch)),
            LossV=float(self.value_loss(old, batch)),
            Entropy=-np.mean(self.log_prob(old, batch)),
        )


class TRPO(Update):
    """With the Fisher matrix itself, which a linear solver inverts; cg_iters must be 1 or many."""

    def __init__(self, run):
        super().__init__(run)
        self.which = [*run.networks.pi, *run.networks.log_std]
        self.v_step = Descent(Adam(run.o.vf_lr), run.networks.v)
        self.searches = []

    def policy_loss(self, params, b):
        ratio = tf.exp(self.log_prob(params, b) - self.log_prob(self.old, b))
        return -tf.reduce_mean(ratio * b.adv)

    def fisher_matrix(self, params, b):
        """E[(grad log pi)(grad log pi)^T] over states of the batch and all actions, exactly.

        J^T M J with J of the policy's outputs, and M of the distribution in these: for a choice
        diag(p) - p p^T in the logits; for a Gaussian 1 / sigma^2 in the mean, 2 in log sigma.
        """
        params = [tf.constant(p, tf.float64) for p in params]
        with tf.GradientTape() as tape:
            tape.watch(params)
            outputs = self.networks.output(self.networks.pi, params, b.obs)
        jacobians = tape.jacobian(outputs, [params[i] for i in self.networks.pi])
        n, k = outputs.shape
        j = np.concatenate([np.reshape(x, (n, k, -1)) for x in jacobians], axis=2)
        if self.networks.log_std:
            log_std = params[self.networks.log_std[0]].numpy()
            in_mean = np.einsum("nki,k,nkj->ij", j, np.exp(-2 * log_std), j) / n
            size = len(in_mean)
            fisher = np.zeros((size + k, size + k))
            fisher[:size, :size] = in_mean
            fisher[size:, size:] = 2 * np.eye(k)
            return fisher
        p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        m = np.eye(k) * p[:, None] - p[:, :, None] * p[:, None]
        return np.einsum("nki,nkl,nlj->ij", j, m, j) / n

    def moved(self, step):
        """The old parameters less a step `[n]`."""
        params = list(self.old)
        for i in self.which:
            size = params[i].size
            params[i], step = params[i] - step[:size].reshape(params[i].shape), step[size:]
        return params

    def __call__(self, run, batch):
        o, self.old = self.o, run.params
        loss, grads = loss_and_gradient(lambda p: self.policy_loss(p, batch), self.old)
        gradient = np.concatenate([grads[i].ravel() for i in self.which])
        damped = self.fisher_matrix(self.old, batch) + o.damping_coeff * np.eye(len(gradient))
        direction = np.linalg.solve(damped, gradient)
        if o.cg_iters == 1:  # along the gradient, as far as is best in that direction
            direction = gradient * (gradient @ gradient) / (gradient @ damped @ gradient)
        step = np.sqrt(2 * o.delta / (direction @ damped @ direction)) * direction
        trials = o.backtrack_iters if o.algo == "trpo" else 1
        for j in range(trials):
            run.params = self.moved(o.backtrack_coeff**j * step)
            good = self.divergence(self.old, run.params, batch) <= o.delta
            good = good and self.policy_loss(run.params, batch) <= loss
            if good or o.algo == "npg":
                break
        else:
            run.params = self.old
        self.searches.append((j, bool(good)))
        kl = float(self.divergence(self.old, run.params, batch))
        for _ in range(o.train_v_iters):
            run.params = self.v_step(lambda params: self.value_loss(params, batch), run.params)
        columns = differences(self, self.old, run.params, batch) | dict(KL=kl)
        return columns | (dict(BacktrackIters=j) if o.algo == "trpo" else {})


UPDATES = {vpg: VPG, ppo: PPO, a2c: A2C, trpo: TRPO}
SMALL = {  # of all runs, unless they say otherwise
    vpg: dict(pi_lr=0.02, vf_lr=0.03, train_v_iters=4),
    ppo: dict(pi_lr=0.02, vf_lr=0.03, train_pi_iters=4, train_v_iters=5, target_kl=None),
    a2c: dict(lr=0.01),
    trpo: dict(vf_lr=0.03, train_v_iters=4, cg_iters=60),
}


def options_of(algorithm, kwargs):
    """All options of a run; of those that only some algorithms have, what others always do."""
    others = dict(normalize_obs=False, normalize_reward=False, normalize_adv=True)
    others |= dict(lam1=None, lam2=None, coeff=None, n_steps=None)
    others |= dict(adv_normalization="epoch", value_target="rewards_to_go")
    signature = inspect.signature(algorithm).parameters
    return others | {name: p.default for name, p in signature.items()} | kwargs


TABLE = {
    "vpg": (vpg, BOX, dict(gamma=0.9, lam=0.8)),
    "trpo": (trpo, BOX, dict(damping_coeff=0.05, delta=0.02, gamma=0.9, lam=0.8)),
    "trpo, searches": (trpo, DISCRETE, dict(delta=1.5, backtrack_coeff=0.5, damping_coeff=0.01)),
    "npg": (trpo, DISCRETE, dict(algo="npg", delta=0.05, cg_iters=1)),
    "ppo, stops early": (
        ppo,
        BOX,
        dict(target_kl=0.005, pi_lr=0.01, clip_ratio=0.1, gamma=0.9, lam=0.8),
    ),
    "ppo, penalty": (
        ppo,
        DISCRETE,
        dict(objective="penalty", beta=0.5, target_kl=0.01, max_grad_norm=0.3, ent_coef=0.05),
    ),
    "ppo, normalized": (
        ppo,
        BOX,
        dict(
            **dict(normalize_obs=True, normalize_reward=True, ent_coef=0.1),
            **dict(lr_schedule="linear", resumed_after=1),
        ),
    ),
    "ppo, minibatches": (
        ppo,
        BOX,
        dict(minibatch_size=16, target_kl=0.03, coeff=0.3, lam2=0.2, max_grad_norm=1.0),
    ),
    "ppo, two lambdas": (
        ppo,
        DISCRETE,
        dict(minibatch_size=24, lam1=0.5, coeff=0.7, objective="penalty", target_kl=0.003),
    ),
    "ppo, recomputed": (
        ppo,
        BOX,
        dict(minibatch_size=16, recompute_adv=True, target_kl=0.03, gamma=0.9, lam=0.8),
    ),
    "ppo, recomputed before each step": (
        ppo,
        DISCRETE,
        dict(recompute_adv=True, adv_normalization="none", value_target="lambda_return", lam=0.8),
    ),
    "ppo, normalized in minibatches": (
        ppo,
        DISCRETE,
        dict(minibatch_size=8, adv_normalization="minibatch", normalize_reward=True, lam=0.5),
    ),
    "ppo, all of it": (
        ppo,
        BOX,
        dict(
            **dict(minibatch_size=12, adv_normalization="minibatch", recompute_adv=True),
            **dict(value_target="lambda_return", normalize_obs=True, resumed_after=1, lam=0.8),
        ),
    ),
    "ppo, shared and recomputed": (
        ppo,
        DISCRETE,
        dict(shared=True, recompute_adv=True, minibatch_size=24, target_kl=0.05),
    ),
    "ppo, shared": (
        ppo,
        DISCRETE,
        dict(shared=True, vf_coef=0.3, ent_coef=0.05, max_grad_norm=0.8, lr_schedule="linear"),
    ),
    "a2c": (a2c, BOX, dict(n_steps=4, lam=0.8, rms_init=0.5, max_grad_norm=2.0, gamma=0.9)),
    "a2c, choices": (
        a2c,
        DISCRETE,
        dict(
            **dict(n_steps=6, normalize_adv=True, ent_coef=0.1, vf_coef=0.1, rms_eps=0.01),
            **dict(lr_schedule="linear", max_grad_norm=None, rms_decay=0.8),
        ),
    ),
    "a2c, shared": (a2c, DISCRETE, dict(shared=True, n_steps=12, ent_coef=0.0)),
}


@pytest.mark.parametrize("name", TABLE)
def test_runs_by_hand(tmp_path, monkeypatch, name):
    """Parameters within 2e-5 and a thousandth of their way, and every column of progress.txt."""
    algorithm, space, kwargs = TABLE[name]
    small = dict(num_envs=2, steps_per_epoch=48, epochs=3)
    kwargs = small | SMALL[algorithm] | kwargs
    rows, ours, known = recorded_run(algorithm, tmp_path / "run", monkeypatch, space, **kwargs)
    run = HandRun(options_of(algorithm, kwargs), *known)
    expected = run.run(UPDATES[algorithm](run), run.o.epochs, run.o.n_steps)
    for row, theirs in zip(rows, expected, strict=True):
        assert row.keys() - theirs.keys() == {"Epoch", "TotalEnvInteracts", "Time"}
        for column, value in theirs.items():
            assert float(row[column]) == pytest.approx(value, rel=1e-3, abs=1e-4), column
    for x, y, start in zip(ours, run.params, known[0].start, strict=True):
        way = np.abs(y - start).max()
        assert way > 1e-3
        np.testing.assert_allclose(x, y, atol=2e-5 + 1e-3 * way)
