"""Runs of Stable-Baselines3, and of sbx, which is its counterpart in JAX, measured."""

from itertools import pairwise

import gymnasium as gym
import numpy as np
import stable_baselines3
from measure import DQN, STEPS_PER_EPOCH, UPDATE_AFTER, clocks, epochs_for
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecFrameStack

UPDATE_EVERY = 50  # Spinning Up's: so many steps, then as many updates


class LookAtTheClock(BaseCallback):
    """Notes the clocks and the number of updates whenever an epoch and its updates are over."""

    def __init__(self, steps_per_epoch):
        super().__init__()
        self.steps_per_epoch = steps_per_epoch
        self.epoch_ends = []
        self.updates = [0]

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        if self.model.num_timesteps > 0:  # the updates of the rollout before are done
            self.look()

    def _on_training_end(self):
        self.look()

    def look(self):
        if self.model.num_timesteps % self.steps_per_epoch == 0:
            self.epoch_ends.append(clocks())
            self.updates.append(self.model._n_updates)


def train(model, steps, steps_per_epoch):
    """Train for one epoch to warm up and then for `steps` steps, and return what was measured."""
    callback = LookAtTheClock(steps_per_epoch)
    model.learn(epochs_for(steps, steps_per_epoch) * steps_per_epoch, callback=callback)
    returns = [episode["r"] for episode in model.ep_info_buffer]  # of the last 100 episodes
    return {
        "steps_per_epoch": steps_per_epoch,
        "epoch_ends": callback.epoch_ends,
        "gradient_steps": [after - before for before, after in pairwise(callback.updates)],
        "last_return": np.mean(returns) if returns else None,
    }


def on_policy(algorithm, env, num_envs, seed, steps, profile, **settings):
    """PPO, TRPO or A2C at the defaults of Stable-Baselines3.

    An epoch is a rollout and its update; of A2C, whose rollouts are short, as long as ours.
    """
    if "NoFrameskip" in env or env.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
        policy, envs = "CnnPolicy", VecFrameStack(make_atari_env(env, num_envs, seed=seed), 4)
    else:
        # A DummyVecEnv of monitored environments, which is also what PPO makes of an id.
        policy, envs = "MlpPolicy", make_vec_env(env, num_envs, seed=seed)
    library = stable_baselines3
    if algorithm == "trpo":
        import sb3_contrib as library
    model = getattr(library, algorithm.upper())(policy, envs, seed=seed, device="cpu", **settings)
    if algorithm == "a2c":
        return train(model, steps, STEPS_PER_EPOCH)
    steps_per_epoch = model.n_steps * num_envs
    result = train(model, steps, steps_per_epoch)
    if algorithm == "trpo":  # one step of the policy, and those of the value function
        own = 1 + model.n_critic_updates * -(-steps_per_epoch // model.batch_size)
        return result | {"gradient_steps": [own] * len(result["epoch_ends"])}
    minibatches = -(-steps_per_epoch // model.batch_size)  # it counts passes, not gradient steps
    return result | {"gradient_steps": [n * minibatches for n in result["gradient_steps"]]}


def ppo_with_the_same_work(num_envs, **spec):
    """PPO with as many steps in an epoch as ours, and 80 gradient steps on all of them.

    Each step is one of the policy's network and one of the value function's, which are apart.
    """
    own = dict(n_steps=STEPS_PER_EPOCH // num_envs, batch_size=STEPS_PER_EPOCH, n_epochs=80)
    return on_policy(num_envs=num_envs, **spec, **own)


def off_policy_model(algorithm, envs, seed, library, learning_starts=UPDATE_AFTER):
    """SAC, TD3 or DDPG with the settings of spinup_tf2.

    Args:
        algorithm: "sac", "td3" or "ddpg".
        envs: A vector environment.
        seed: Of everything random.
        library: The module that has the algorithms.
        learning_starts: How many random actions are taken first, without updates.
    """
    settings = {
        "learning_rate": 1e-3,
        "learning_starts": learning_starts,
        "batch_size": 100,
        "train_freq": UPDATE_EVERY,
        "gradient_steps": UPDATE_EVERY,
        "policy_kwargs": {"net_arch": [256, 256]},
    }
    if algorithm == "sac":
        settings["ent_coef"] = 0.2
    else:
        zeros = np.zeros(envs.action_space.shape)
        settings["action_noise"] = NormalActionNoise(zeros, zeros + 0.1)
    algorithm_class = getattr(library, algorithm.upper())
    return algorithm_class("MlpPolicy", envs, seed=seed, device="cpu", **settings)


def dqn_model(envs, seed, steps):
    """DQN with the same settings as the others."""
    return stable_baselines3.DQN(
        "MlpPolicy",
        envs,
        seed=seed,
        device="cpu",
        learning_rate=DQN["q_lr"],
        buffer_size=DQN["replay_size"],
        learning_starts=UPDATE_AFTER,
        batch_size=DQN["batch_size"],
        train_freq=DQN["update_every"],
        gradient_steps=1,
        target_update_interval=DQN["copy_every"] * DQN["update_every"],
        exploration_fraction=min(1.0, DQN["eps_steps"] / steps),
        exploration_final_eps=DQN["eps_end"],
        policy_kwargs={"net_arch": [*DQN["hidden_sizes"]]},
    )


def off_policy(algorithm, env, num_envs, seed, steps, profile, library=stable_baselines3):
    """SAC, TD3, DDPG or DQN with the settings of spinup_tf2; an epoch is as long as there."""
    envs = make_vec_env(env, num_envs, seed=seed)
    if algorithm == "dqn":
        model = dqn_model(envs, seed, steps)
    else:
        model = off_policy_model(algorithm, envs, seed, library)
    return train(model, steps, STEPS_PER_EPOCH) | {"steps_without_updates": UPDATE_AFTER}


def off_policy_sbx(**spec):
    """The same in sbx."""
    import sbx

    return off_policy(**spec, library=sbx)
