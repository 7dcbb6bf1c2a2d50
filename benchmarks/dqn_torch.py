"""DQN's loop as CleanRL writes it, in plain PyTorch: a yardstick of `throughput.py`.

One environment behind gymnasium's vector interface, one call of the network per environment step,
an update op by op every ten steps, and a copy to the target network every 500.
"""

import gymnasium as gym
import numpy as np
import torch
from measure import DQN, STEPS_PER_EPOCH, UPDATE_AFTER, clocks, epochs_for, last
from torch import nn


class Replay:
    """The last interactions, as arrays."""

    def __init__(self, size, obs_dim):
        self.obs, self.next_obs = np.zeros((2, size, obs_dim), np.float32)
        self.act, self.size, self.stored = np.zeros(size, np.int64), size, 0
        self.rew, self.terminated = np.zeros((2, size), np.float32)

    def add(self, obs, next_obs, act, rew, terminated):
        i = self.stored % self.size
        self.obs[i], self.next_obs[i], self.act[i] = obs, next_obs, act
        self.rew[i], self.terminated[i] = rew, terminated
        self.stored += 1

    def sample(self, n, rng):
        rows = rng.integers(min(self.stored, self.size), size=n)
        arrays = self.obs, self.next_obs, self.act, self.rew, self.terminated
        return [torch.from_numpy(array[rows]) for array in arrays]


def network(obs_dim, num_actions):
    """Two hidden layers with ReLU."""
    first, second = DQN["hidden_sizes"]
    layers = nn.Linear(obs_dim, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(second, num_actions))


def off_policy(algorithm, env, num_envs, seed, steps, profile):
    """DQN with CleanRL's settings, but for a shorter start."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(env))],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    obs_dim, num_actions = envs.single_observation_space.shape[0], envs.single_action_space.n
    q, target = network(obs_dim, num_actions), network(obs_dim, num_actions)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=DQN["q_lr"])
    replay = Replay(DQN["replay_size"], obs_dim)
    total = epochs_for(steps, STEPS_PER_EPOCH) * STEPS_PER_EPOCH
    epoch_ends, returns, updates, by_epoch = [], [], 0, [0]
    obs, _ = envs.reset(seed=seed)
    for t in range(total):
        epsilon = max(DQN["eps_end"], 1 - (1 - DQN["eps_end"]) * t / DQN["eps_steps"])
        if rng.random() < epsilon:
            act = np.array([envs.single_action_space.sample()])
        else:
            act = torch.argmax(q(torch.Tensor(obs)), dim=1).numpy()
        next_obs, rew, terminated, truncated, infos = envs.step(act)
        real_next_obs = next_obs
        if terminated[0] or truncated[0]:
            real_next_obs = infos["final_obs"][0][None]
            returns.append(float(infos["final_info"]["episode"]["r"][0]))
        replay.add(obs[0], real_next_obs[0], act[0], rew[0], terminated[0])
        obs = next_obs
        if t > UPDATE_AFTER:
            if t % DQN["update_every"] == 0:
                o, next_o, a, r, d = replay.sample(DQN["batch_size"], rng)
                with torch.no_grad():
                    backup = r + 0.99 * target(next_o).max(dim=1)[0] * (1 - d)
                loss = nn.functional.mse_loss(q(o).gather(1, a[:, None]).squeeze(), backup)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                updates += 1
            if t % (DQN["copy_every"] * DQN["update_every"]) == 0:
                target.load_state_dict(q.state_dict())
        if (t + 1) % STEPS_PER_EPOCH == 0:
            epoch_ends.append(clocks())
            by_epoch.append(updates)
    return {
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epoch_ends": epoch_ends,
        "gradient_steps": np.diff(by_epoch).tolist(),
        "last_return": last(returns),
        "steps_without_updates": UPDATE_AFTER,
    }
