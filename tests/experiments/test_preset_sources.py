"""Presets from RL Baselines3 Zoo beside its files, value by value.

The values were copied from its folder `hyperparams` (github.com/DLR-RM/rl-baselines3-zoo). What a
preset leaves out on purpose is in LEFT_OUT, with the reason; nothing else may differ.
"""

import pytest

from spinup_tf2.experiments.presets import load

# Exploration by state-dependent noise, and the initial weights that go with it, are not here.
NOT_HERE = {"use_sde", "sde_sample_freq", "ortho_init"}

LANDER = "n_envs=16 n_timesteps=1e6 n_steps=1024 batch_size=64 gae_lambda=0.98 gamma=0.999 "
LANDER += "n_epochs=4 ent_coef=0.01"
OFF_LANDER = "gamma=0.98 buffer_size=200000 learning_starts=10000 noise_type=normal noise_std=0.1 "
OFF_LANDER += "gradient_steps=-1 train_freq=episode learning_rate=1e-3 net_arch=[400,300]"
OU = "n_timesteps=3e5 noise_type=ou noise_std=0.5"
SDE_A2C = "normalize=True n_envs=8 n_timesteps=1e6 ent_coef=0.0 max_grad_norm=0.5 n_steps=8 "
SDE_A2C += "gae_lambda=0.9 vf_coef=0.4 gamma=0.9 learning_rate=lin_7e-4 use_sde=True "
SDE_A2C += "log_std_init=-2 ortho_init=False"
DQN = "learning_rate=6.3e-4 batch_size=128 buffer_size=50000 learning_starts=0 gamma=0.99 "
DQN += "target_update_interval=250 train_freq=4 gradient_steps=-1 exploration_fraction=0.12 "
DQN += "exploration_final_eps=0.1 net_arch=[256,256] n_timesteps=1e5"
SOURCES = {
    ("ppo", "Pendulum-v1"): "n_envs=4 n_timesteps=1e5 n_steps=1024 gae_lambda=0.95 gamma=0.9 "
    "n_epochs=10 ent_coef=0.0 learning_rate=1e-3 clip_range=0.2 use_sde=True sde_sample_freq=4",
    ("ppo", "CartPole-v1"): "n_envs=8 n_timesteps=1e5 n_steps=32 batch_size=256 gae_lambda=0.8 "
    "gamma=0.98 n_epochs=20 ent_coef=0.0 learning_rate=lin_1e-3 clip_range=lin_0.2",
    ("ppo", "MountainCar-v0"): "normalize=True n_envs=16 n_timesteps=1e6 n_steps=16 "
    "gae_lambda=0.98 gamma=0.99 n_epochs=4 ent_coef=0.0",
    ("ppo", "Acrobot-v1"): "normalize=True n_envs=16 n_timesteps=1e6 n_steps=256 gae_lambda=0.94 "
    "gamma=0.99 n_epochs=4 ent_coef=0.0",
    ("ppo", "BipedalWalker-v3"): "normalize=True n_envs=32 n_timesteps=5e6 n_steps=2048 "
    "batch_size=64 gae_lambda=0.95 gamma=0.999 n_epochs=10 ent_coef=0.0 learning_rate=3e-4 "
    "clip_range=0.18",
    ("ppo", "LunarLander-v3"): LANDER,
    ("ppo", "LunarLanderContinuous-v3"): LANDER,
    ("ppo", "Swimmer-v5"): "normalize=True n_timesteps=1e6 gamma=0.9999 n_envs=4 n_steps=1024 "
    "batch_size=256 learning_rate=6e-4 gae_lambda=0.98",
    ("a2c", "CartPole-v1"): "n_envs=8 n_timesteps=5e5 ent_coef=0.0",
    ("a2c", "LunarLander-v3"): "n_envs=8 n_timesteps=2e5 gamma=0.995 n_steps=5 "
    "learning_rate=lin_8.3e-4 ent_coef=1e-5",
    ("a2c", "MountainCar-v0"): "normalize=True n_envs=16 n_timesteps=1e6 ent_coef=0.0",
    ("a2c", "Acrobot-v1"): "normalize=True n_envs=16 n_timesteps=5e5 ent_coef=0.0",
    ("a2c", "Pendulum-v1"): SDE_A2C,
    ("a2c", "MountainCarContinuous-v0"): "normalize=True n_envs=4 n_steps=100 n_timesteps=1e5 "
    "ent_coef=0.0 use_sde=True sde_sample_freq=16 log_std_init=0.0 ortho_init=False",
    ("trpo", "Pendulum-v1"): "n_envs=2 n_timesteps=1e5 n_steps=1024 gamma=0.9 n_critic_updates=15 "
    "use_sde=True sde_sample_freq=4",
    ("trpo", "LunarLander-v3"): "n_envs=2 n_timesteps=2e5 n_steps=512 cg_damping=0.01 "
    "gae_lambda=0.98 gamma=0.99 learning_rate=1e-3 n_critic_updates=15",
    ("trpo", "Acrobot-v1"): "normalize=True n_envs=2 n_timesteps=1e5 n_steps=1024",
    ("trpo", "MountainCar-v0"): "normalize=True n_envs=2 n_timesteps=1e5 n_steps=1024 "
    "n_critic_updates=20",
    ("sac", "MountainCarContinuous-v0"): "n_timesteps=5e4 learning_rate=3e-4 buffer_size=50000 "
    "batch_size=512 ent_coef=0.1 train_freq=32 gradient_steps=32 gamma=0.9999 tau=0.01 "
    "learning_starts=0 use_sde=True log_std_init=-3.67 net_arch=[64,64]",
    ("sac", "LunarLanderContinuous-v3"): "n_timesteps=5e5 batch_size=256 learning_rate=lin_7.3e-4 "
    "buffer_size=1000000 ent_coef='auto' gamma=0.99 tau=0.01 train_freq=1 gradient_steps=1 "
    "learning_starts=10000 net_arch=[400,300]",
    ("sac", "BipedalWalker-v3"): "n_timesteps=5e5 learning_rate=7.3e-4 buffer_size=300000 "
    "batch_size=256 ent_coef='auto' gamma=0.98 tau=0.02 train_freq=64 gradient_steps=64 "
    "learning_starts=10000 use_sde=True log_std_init=-3 net_arch=[400,300]",
    ("ddpg", "MountainCarContinuous-v0"): OU,
    ("td3", "MountainCarContinuous-v0"): OU,
    ("ddpg", "LunarLanderContinuous-v3"): f"n_timesteps=3e5 {OFF_LANDER}",
    ("td3", "LunarLanderContinuous-v3"): f"n_timesteps=3e5 {OFF_LANDER}",
    ("ddpg", "BipedalWalker-v3"): f"n_timesteps=1e6 {OFF_LANDER}",
    ("td3", "BipedalWalker-v3"): f"n_timesteps=1e6 {OFF_LANDER}",
    ("dqn", "MountainCar-v0"): "n_timesteps=1.2e5 learning_rate=4e-3 batch_size=128 "
    "buffer_size=10000 learning_starts=1000 gamma=0.98 target_update_interval=600 train_freq=16 "
    "gradient_steps=8 exploration_fraction=0.2 exploration_final_eps=0.07 net_arch=[256,256]",
    ("dqn", "Acrobot-v1"): DQN,
}

UNSCALED = "not normalized here: the rows of Results are of runs without it"
BLOCKS = "updates come in blocks of a fixed length, not after each episode"
FIRST = "the replay buffer holds a thousand interactions before the first update"
LEFT_OUT = {
    ("ppo", "CartPole-v1"): dict(clip_range="a constant clip_ratio"),
    ("a2c", "MountainCar-v0"): dict(normalize=UNSCALED),
    ("a2c", "Acrobot-v1"): dict(normalize=UNSCALED),
    ("a2c", "Pendulum-v1"): dict(normalize=UNSCALED),
    ("a2c", "MountainCarContinuous-v0"): dict(normalize=UNSCALED),
    ("trpo", "Acrobot-v1"): dict(normalize=UNSCALED),
    ("trpo", "MountainCar-v0"): dict(normalize=UNSCALED),
    ("sac", "MountainCarContinuous-v0"): dict(
        **dict.fromkeys(("train_freq", "gradient_steps"), "blocks of 50 updates"),
        learning_starts="as on Pendulum",
        log_std_init="of state-dependent noise",
    ),
    ("sac", "LunarLanderContinuous-v3"): dict(
        **dict.fromkeys(("train_freq", "gradient_steps"), "blocks of 50 updates"),
        learning_rate="SAC has no schedule",
    ),
    ("sac", "BipedalWalker-v3"): dict(
        **dict.fromkeys(("train_freq", "gradient_steps"), "blocks of 50 updates"),
        log_std_init="of state-dependent noise",
    ),
    **{
        (algorithm, "MountainCarContinuous-v0"): dict(n_timesteps="a fifth is enough")
        for algorithm in ("ddpg", "td3")
    },
    **{
        (algorithm, env): dict.fromkeys(("train_freq", "gradient_steps"), BLOCKS)
        for algorithm in ("ddpg", "td3")
        for env in ("LunarLanderContinuous-v3", "BipedalWalker-v3")
    },
    ("dqn", "Acrobot-v1"): dict(learning_starts=FIRST),
}

PLAIN = {
    **dict(n_envs="num_envs", gae_lambda="lam", gamma="gamma", vf_coef="vf_coef"),
    **dict(max_grad_norm="max_grad_norm", cg_damping="damping_coeff", buffer_size="replay_size"),
    **dict(n_critic_updates="train_v_iters", learning_starts="start_steps"),
    **dict(noise_std="act_noise", exploration_final_eps="eps_end"),
}
RATES = dict(ppo="pi_lr vf_lr", a2c="lr", trpo="vf_lr", sac="lr", ddpg="pi_lr q_lr")
RATES |= dict(td3="pi_lr q_lr", dqn="q_lr")


def number(text):
    return float(text.removeprefix("lin_"))


def agrees(name, value, ours, algorithm, theirs):
    """Whether our settings have the value that the Zoo gives an argument of its own."""
    off_policy = algorithm in ("sac", "ddpg", "td3", "dqn")
    if name == "normalize":
        return ours.get("normalize_obs", False) and ours.get("normalize_reward", False)
    if name == "n_timesteps":  # in whole epochs
        steps = ours["steps_per_epoch"]
        return abs(number(value) - steps * ours["epochs"]) < steps
    if name == "n_steps" and algorithm == "a2c":
        return ours["n_steps"] == int(value)
    if name == "n_steps":
        return ours["steps_per_epoch"] == int(value) * ours["num_envs"]
    if name == "batch_size":
        return ours["batch_size" if off_policy else "minibatch_size"] == int(value)
    if name == "n_epochs":
        return ours["train_pi_iters"] == ours["train_v_iters"] == int(value)
    if name == "learning_rate":
        linear = ours.get("lr_schedule", "constant") == "linear"
        rates = [ours[each] for each in RATES[algorithm].split()]
        return rates == [number(value)] * len(rates) and linear == value.startswith("lin_")
    if name == "clip_range":
        return not value.startswith("lin_") and ours["clip_ratio"] == number(value)
    if name == "ent_coef":
        if algorithm == "sac":
            return repr(ours["alpha"]) == value
        return ours.get("ent_coef", 0.0) == number(value)
    if name == "tau":
        return ours["polyak"] == pytest.approx(1 - number(value))
    if name == "exploration_fraction":
        return ours["eps_steps"] == pytest.approx(number(value) * number(theirs["n_timesteps"]))
    if name == "train_freq":
        return value != "episode" and ours["update_every"] == int(value)
    if name == "gradient_steps":  # -1: as many as there were interactions
        wanted = theirs["train_freq"] if value == "-1" else value
        return str(ours.get("num_updates", ours["update_every"])) == wanted
    if name == "target_update_interval":  # in interactions there, in updates here
        return ours["copy_every"] == int(value) * ours["num_updates"] / ours["update_every"]
    if name == "net_arch":
        return ours["ac_kwargs"]["hidden_sizes"] == [int(x) for x in value[1:-1].split(",")]
    if name == "log_std_init":
        return ours["ac_kwargs"].get("log_std_init") == number(value)
    if name == "noise_type":
        return ours.get("noise", "normal") == value
    return ours[PLAIN[name]] == number(value)


@pytest.mark.parametrize(("algorithm", "env"), SOURCES)
def test_presets_have_the_values_of_their_source(algorithm, env):
    theirs = dict(each.split("=") for each in SOURCES[algorithm, env].split())
    kinds = dict(Lunar="box2d", Biped="box2d", Swimm="mujoco")
    ours = load(algorithm, kinds.get(env[:5], "classic"), env).settings
    differ = {
        name
        for name, value in theirs.items()
        if name not in NOT_HERE and not agrees(name, value, ours, algorithm, theirs)
    }
    assert differ == {*LEFT_OUT.get((algorithm, env), {})}
