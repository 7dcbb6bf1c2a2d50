"""Spinning Up's PPO loop in plain PyTorch, for `throughput.py` and `learning_others.py`.

It does what the original's PyTorch version does, at the same cost: one environment, one call of the
networks per environment step, Python lists of statistics, and full-batch updates that call PyTorch
op by op. Episodes are cut at the end of an epoch, as in the original. Written for gymnasium, so the
value of the last observation is used if and only if the episode has not terminated.
"""

import time
from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import joblib
import numpy as np
import scipy.signal
import torch
from measure import STEPS_PER_EPOCH, clocks, epochs_for, last
from torch import nn
from torch.distributions import Categorical, Distribution, Normal

# The PyTorch that Spinning Up was written for did not check arguments; today's checks cost time.
Distribution.set_default_validate_args(False)


def mlp(sizes):
    """Linear layers of the given sizes with tanh between them."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class CategoricalActor(nn.Module):
    """A policy over `num_actions` discrete actions."""

    def __init__(self, obs_dim, num_actions, hidden_sizes):
        super().__init__()
        self.logits_net = mlp([obs_dim, *hidden_sizes, num_actions])

    def forward(self, obs):
        return Categorical(logits=self.logits_net(obs))

    def log_prob(self, pi, act):
        return pi.log_prob(act)


class GaussianActor(nn.Module):
    """A diagonal Gaussian policy whose standard deviation does not depend on the observation."""

    def __init__(self, obs_dim, act_dim, hidden_sizes):
        super().__init__()
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        self.mu_net = mlp([obs_dim, *hidden_sizes, act_dim])

    def forward(self, obs):
        return Normal(self.mu_net(obs), torch.exp(self.log_std))

    def log_prob(self, pi, act):
        return pi.log_prob(act).sum(axis=-1)


class ActorCritic(nn.Module):
    """Separate networks for the policy and the value."""

    def __init__(self, observation_space, action_space, hidden_sizes):
        super().__init__()
        obs_dim = observation_space.shape[0]
        if isinstance(action_space, gym.spaces.Discrete):
            self.actor = CategoricalActor(obs_dim, int(action_space.n), hidden_sizes)
        else:
            self.actor = GaussianActor(obs_dim, action_space.shape[0], hidden_sizes)
        self.critic = mlp([obs_dim, *hidden_sizes, 1])

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def step(self, obs):
        """Return action, value and log-probability for one observation, as NumPy."""
        with torch.no_grad():
            pi = self.actor(obs)
            act = pi.sample()
            logp = self.actor.log_prob(pi, act)
            val = self.value(obs)
        return act.numpy(), val.numpy(), logp.numpy()


def discount_cumsum(x, discount):
    """Discounted sums of the rest of `x`, from each position on."""
    return scipy.signal.lfilter([1], [1, -discount], x[::-1], axis=0)[::-1]


class Buffer:
    """The transitions of one epoch; `finish_path` turns a trajectory into GAE advantages."""

    def __init__(self, observation_space, action_space, size, gamma, lam):
        self.obs = np.zeros((size, *observation_space.shape), np.float32)
        self.act = np.zeros((size, *action_space.shape), np.float32)
        self.adv, self.rew, self.ret, self.val, self.logp = np.zeros((5, size), np.float32)
        self.gamma, self.lam = gamma, lam
        self.ptr = self.path_start = 0

    def store(self, obs, act, rew, val, logp):
        t = self.ptr
        self.obs[t], self.act[t], self.rew[t], self.val[t], self.logp[t] = obs, act, rew, val, logp
        self.ptr += 1

    def finish_path(self, last_val):
        path = slice(self.path_start, self.ptr)
        rews = np.append(self.rew[path], last_val)
        vals = np.append(self.val[path], last_val)
        deltas = rews[:-1] + self.gamma * vals[1:] - vals[:-1]
        self.adv[path] = discount_cumsum(deltas, self.gamma * self.lam)
        self.ret[path] = discount_cumsum(rews, self.gamma)[:-1]
        self.path_start = self.ptr

    def get(self):
        """Return the epoch as tensors, advantages normalised, and start again."""
        self.ptr = self.path_start = 0
        adv = (self.adv - self.adv.mean()) / self.adv.std()
        data = {"obs": self.obs, "act": self.act, "ret": self.ret, "adv": adv, "logp": self.logp}
        return {name: torch.as_tensor(array, dtype=torch.float32) for name, array in data.items()}


def policy_loss(ac, data, clip_ratio):
    """The clipped surrogate objective, negated, and what is logged with it."""
    pi = ac.actor(data["obs"])
    logp = ac.actor.log_prob(pi, data["act"])
    ratio = torch.exp(logp - data["logp"])
    clipped = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio)
    loss = -torch.min(ratio * data["adv"], clipped * data["adv"]).mean()
    outside = ratio.gt(1 + clip_ratio) | ratio.lt(1 - clip_ratio)
    info = {
        "KL": (data["logp"] - logp).mean().item(),
        "Entropy": pi.entropy().mean().item(),
        "ClipFrac": outside.float().mean().item(),
    }
    return loss, info


def value_loss(ac, data):
    """Mean squared error of the value function."""
    return ((ac.value(data["obs"]) - data["ret"]) ** 2).mean()


def statistics(name, values, with_min_and_max=False):
    """The columns that Spinning Up's logger makes of a list of numbers."""
    if not values:
        return {}
    row = {f"Average{name}": np.mean(values), f"Std{name}": np.std(values)}
    if with_min_and_max:
        row |= {f"Max{name}": np.max(values), f"Min{name}": np.min(values)}
    return row


def ppo(
    env_fn,
    output_dir,
    hidden_sizes=(64, 64),
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    clip_ratio=0.2,
    pi_lr=3e-4,
    vf_lr=1e-3,
    train_pi_iters=80,
    train_v_iters=80,
    lam=0.97,
    max_ep_len=1000,
    target_kl=0.01,
    save_freq=10,
):
    """Train with Spinning Up's defaults and yield the logged row of each epoch.

    Each row holds, beside Spinning Up's columns, `PiSteps`: the number of gradient steps that the
    policy made before the KL divergence stopped it.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)

    env = env_fn()
    ac = ActorCritic(env.observation_space, env.action_space, hidden_sizes)
    buf = Buffer(env.observation_space, env.action_space, steps_per_epoch, gamma, lam)
    pi_optimizer = torch.optim.Adam(ac.actor.parameters(), lr=pi_lr)
    vf_optimizer = torch.optim.Adam(ac.critic.parameters(), lr=vf_lr)
    output_dir = Path(output_dir)

    def update():
        data = buf.get()
        loss_pi_old, info_old = policy_loss(ac, data, clip_ratio)
        loss_v_old = value_loss(ac, data)

        pi_steps = 0
        for _ in range(train_pi_iters):
            pi_optimizer.zero_grad()
            loss_pi, info = policy_loss(ac, data, clip_ratio)
            if info["KL"] > 1.5 * target_kl:
                break
            loss_pi.backward()
            pi_optimizer.step()
            pi_steps += 1

        for _ in range(train_v_iters):
            vf_optimizer.zero_grad()
            loss_v = value_loss(ac, data)
            loss_v.backward()
            vf_optimizer.step()

        return {
            "LossPi": loss_pi_old.item(),
            "LossV": loss_v_old.item(),
            "DeltaLossPi": (loss_pi - loss_pi_old).item(),
            "DeltaLossV": (loss_v - loss_v_old).item(),
            "Entropy": info_old["Entropy"],
            "KL": info["KL"],
            "ClipFrac": info["ClipFrac"],
            "StopIter": min(pi_steps, train_pi_iters - 1),
            "PiSteps": pi_steps,
        }

    start_time = time.time()
    obs, _ = env.reset(seed=seed)
    ep_ret, ep_len = 0.0, 0
    with open(output_dir / "progress.txt", "w", encoding="utf-8") as progress:
        for epoch in range(epochs):
            ep_rets, ep_lens, v_vals = [], [], []
            for t in range(steps_per_epoch):
                act, val, logp = ac.step(torch.as_tensor(obs, dtype=torch.float32))
                next_obs, rew, terminated, truncated, _ = env.step(act)
                ep_ret += rew
                ep_len += 1
                buf.store(obs, act, rew, val, logp)
                v_vals.append(val)
                obs = next_obs  # Update obs (critical!)

                episode_ended = terminated or truncated or ep_len == max_ep_len
                if episode_ended or t == steps_per_epoch - 1:
                    last_val = 0.0
                    if not terminated:
                        _, last_val, _ = ac.step(torch.as_tensor(obs, dtype=torch.float32))
                    buf.finish_path(last_val)
                    if episode_ended:
                        ep_rets.append(ep_ret)
                        ep_lens.append(ep_len)
                    obs, _ = env.reset()
                    ep_ret, ep_len = 0.0, 0

            if epoch % save_freq == 0 or epoch == epochs - 1:
                joblib.dump({"env": env}, output_dir / "vars.pkl")
                torch.save(ac, output_dir / "model.pt")

            losses = update()
            row = {
                "Epoch": epoch,
                **statistics("EpRet", ep_rets, with_min_and_max=True),
                "EpLen": np.mean(ep_lens) if ep_lens else "",
                **statistics("VVals", v_vals, with_min_and_max=True),
                "TotalEnvInteracts": (epoch + 1) * steps_per_epoch,
                **losses,
                "Time": time.time() - start_time,
            }
            for name, value in row.items():
                print(f"{name:>20} {value!s:>20}")
            progress.write("\t".join(map(str, row.values())) + "\n")
            progress.flush()
            yield row
    env.close()


# ---------------------------------------------------------------- runs, measured


def on_policy(algorithm, env, num_envs, seed, steps, profile):
    """PPO at Spinning Up's defaults."""
    epoch_ends, rows = [], []
    epochs = epochs_for(steps, STEPS_PER_EPOCH)
    for row in ppo(lambda: gym.make(env), ".", seed=seed, epochs=epochs):
        epoch_ends.append(clocks())
        rows.append(row)
    return {
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epoch_ends": epoch_ends,
        "gradient_steps": [row["PiSteps"] + 80 for row in rows],  # and those of the values
        "last_return": last([row["AverageEpRet"] for row in rows if "AverageEpRet" in row]),
    }


def checked(**spec):
    """The same with the checks of arguments that PyTorch makes by default today."""
    Distribution.set_default_validate_args(True)
    return on_policy(**spec)
