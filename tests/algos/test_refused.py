"""What algorithms refuse before anything is written, and what they say: (call, words)."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2 import a2c, ddpg, dqn, ppg, ppo, sac, td3, trpo, vpg
from spinup_tf2.arguments.checks import check_arguments
from spinup_tf2.errors import UserError
from tests.images import Lamp
from tests.off_policy_runs import Restless
from tests.on_policy_runs import make

BETWEEN = "it must be a number between 0 and 1"
WHOLE = "it must be a whole number"
LSTM = dict(hidden_sizes=(8,), memory="lstm", memory_size=6)
ARGUMENTS = [
    # Kinds of values.
    (ppo, dict(gamma=1.5), f"gamma is 1.5; {BETWEEN}"),
    (ppo, dict(gamma=float("nan")), "gamma is nan"),
    (ppo, dict(pi_lr=-1e-3), "pi_lr is -0.001"),
    (ppo, dict(vf_lr="fast"), "vf_lr is 'fast'"),
    (ppo, dict(epochs=0), "epochs is 0"),
    (ppo, dict(epochs=True), "epochs is True"),
    (ppo, dict(seed=2**32), f"seed is 4294967296; {WHOLE} from 0 to 4294967295"),
    (ppo, dict(seed=1.0), "seed is 1.0"),
    (ppo, dict(steps_per_epoch=4000.0), "steps_per_epoch is 4000.0"),
    (ppo, dict(vectorization="forks"), "'sync', 'async' or 'threads'"),
    (ppo, dict(actor_critic=3), "actor_critic is 3; it must be a function or class"),
    (ppo, dict(ac_kwargs=[64]), r"ac_kwargs is \[64\]; it must be a dict"),
    (ppo, dict(ac_kwargs=dict(hidden_sizes=64)), "hidden_sizes is 64; it must be a list"),
    (ppo, dict(ac_kwargs=dict(activation="tahn")), "activation is 'tahn'"),  # codespell:ignore
    (ppo, dict(behavior_policy=3), "behavior_policy is 3; it must be a function"),
    (ppo, dict(num_test_episodes=1.5), "num_test_episodes is 1.5"),
    (ppo, dict(test_freq=0), "test_freq is 0"),
    (ppo, dict(env_fn=None), "env_fn is None; it must be a function"),
    (ppo, dict(env_fn=gym.make("CartPole-v1")), "env_fn is <.*CartPole-v1>.*; it must be a func"),
    (ppo, dict(env_fn="CartPol-v1"), "CartPol-v1 is not registered with gymnasium"),
    (ppo, dict(env_fn="no_such_module:A-v0"), "No module named 'no_such_module'"),
    # Own arguments.
    (ppo, dict(objective="trust"), "objective is 'trust'; it must be 'clip' or 'penalty'"),
    (ppo, dict(beta=0), "beta is 0; it must be a number above 0"),
    (ppo, dict(coeff=1.2), f"coeff is 1.2; {BETWEEN}, or None"),
    (ppo, dict(max_grad_norm=0), "max_grad_norm is 0; it must be a number above 0, or None"),
    (ppo, dict(lr_schedule="cosine"), "lr_schedule is 'cosine'; it must be 'constant' or 'linear'"),
    (ppo, dict(init=True), "init is True; it must be 'glorot', 'torch' or 'orthogonal', or None"),
    (ppo, dict(minibatch_size=0), f"minibatch_size is 0; {WHOLE} of at least 1"),
    (ppo, dict(adv_normalization="batch"), "adv_normalization is 'batch'; it must be 'epoch', "),
    (ppo, dict(recompute_adv=1), "recompute_adv is 1; it must be True or False"),
    (ppo, dict(value_target="td"), "value_target is 'td'; it must be 'rewards_to_go' or 'lambda_"),
    (trpo, dict(algo="ppo"), "algo is 'ppo'; it must be 'trpo' or 'npg'"),
    (trpo, dict(delta=0), "delta is 0; it must be a number above 0"),
    (trpo, dict(damping_coeff=-0.1), "damping_coeff is -0.1"),
    (trpo, dict(backtrack_coeff=1), "backtrack_coeff is 1; it must be a number above 0 and below"),
    (a2c, dict(ent_coef="much"), "ent_coef is 'much'"),
    (a2c, dict(n_steps=0), f"n_steps is 0; {WHOLE} of at least 1"),
    (a2c, dict(rms_decay=1.1), f"rms_decay is 1.1; {BETWEEN}"),
    (a2c, dict(rms_eps=0), "rms_eps is 0"),
    (a2c, dict(rms_init=-1), "rms_init is -1"),
    (ppg, dict(arch="double"), "arch is 'double'; it must be 'dual', 'shared' or 'detach'"),
    (ppg, dict(n_pi=0), "n_pi is 0"),
    (td3, dict(policy_delay=0), "policy_delay is 0; it must be"),
    (td3, dict(noise_clip=-0.1), "noise_clip is -0.1; it must be"),
    (ddpg, dict(polyak=1.5), f"polyak is 1.5; {BETWEEN}"),
    (ddpg, dict(act_noise=-0.1), "act_noise is -0.1; it must be"),
    (ddpg, dict(start_steps=-1), "start_steps is -1"),
    (ddpg, dict(update_after=0.5), "update_after is 0.5"),
    (sac, dict(update_every=0), "update_every is 0"),
    (dqn, dict(eps_end=1.5), "eps_end is 1.5; it must be a number between 0 and 1"),
    (dqn, dict(copy_every=0), "copy_every is 0; it must be a whole number of at least 1, or None"),
    (dqn, dict(env_fn="Pendulum-v1"), "action space Box is not supported .* which takes Discrete"),
    (sac, dict(num_test_episodes=-1), "num_test_episodes is -1"),
    (sac, dict(target_entropy="low"), "target_entropy is 'low'; it must be"),
    *(
        (sac, dict(alpha=alpha), r"alpha is .*; it must be a number.*or 'auto'")
        for alpha in ("foo", -1, None, True, "auto_", "auto_0", "auto_-1", "auto_inf", "_1")
    ),
    # Several together.
    (ppo, dict(num_envs=3), "cannot share equally; use a multiple of 3, such as 201"),
    (ppo, dict(steps_per_epoch=2, num_envs=4), "use a multiple of 4, such as 4"),
    (ppo, dict(minibatch_size=64), "divide steps_per_epoch, 200"),
    (ppo, dict(minibatch_size=25, num_envs=2), "multiple of the number of .* 2, and divide"),
    (
        ppo,
        dict(coeff=0.5, adv_normalization="minibatch"),
        "adv_normalization is 'minibatch', but coeff is 0.5: a mixture .* needs 'epoch'",
    ),
    (
        ppo,
        dict(coeff=0.5, value_target="lambda_return"),
        "value_target is 'lambda_return', but coeff is 0.5: .* needs 'rewards_to_go'",
    ),
    (ppo, dict(objective="penalty", target_kl=None), "target_kl is None, but objective 'penalty'"),
    (a2c, dict(n_steps=7, num_envs=4), "cannot share equally; use a multiple of 28, such as 196"),
    (ppg, dict(n_pi=2, aux_minibatch_size=300), r"n_pi \* steps_per_epoch, 400"),
    (sac, dict(replay_size=3, num_envs=4), "replay_size is 3; it must be at least .*, 4"),
    (td3, dict(batch_size=3, num_envs=4), "batch_size is 3;.*at least the number.*4"),
    (td3, dict(ac_kwargs=dict(num_q=3)), "num_q.*the algorithm itself chooses"),
    # A policy with a memory.
    (ppo, dict(ac_kwargs=LSTM, normalize_obs=True), "normalize_obs is neither .* have a memory"),
    (ppo, dict(ac_kwargs=LSTM, minibatch_size=40), "minibatches consist of whole segments"),
    (ppo, dict(ac_kwargs=LSTM, steps_per_epoch=204), "seq_len is 25; it must divide the 204"),
    (ppg, dict(ac_kwargs=LSTM), "the auxiliary phase of ppg learns from single steps"),
    # Networks of images.
    (a2c, dict(env_fn=Lamp, ac_kwargs=dict(conv="big")), "conv is 'big'; it must be one of nature"),
    (a2c, dict(env_fn=Lamp, ac_kwargs=dict(conv=[[32, 8]])), r"conv is \[\[32, 8\]\]"),
    (a2c, dict(env_fn=Lamp, ac_kwargs=dict(background=87)), "background is 87; .* between 0 and 1"),
    (a2c, dict(env_fn=Lamp, ac_kwargs=dict(shared="no")), "shared is 'no'; it must be True or Fal"),
    (vpg, dict(env_fn=Lamp, ac_kwargs=dict(shared=True)), r"share variables.*shared=False"),
    (ppg, dict(arch="shared", ac_kwargs=dict(shared=False)), "share no variables"),
    (ppg, dict(arch="dual", ac_kwargs=dict(shared=True)), "shared=False"),
    # Spaces.
    (
        ppo,
        dict(
            env_fn=lambda: gym.wrappers.TransformObservation(
                gym.make("CartPole-v1"), lambda o: (0, 1), spaces.Sequence(spaces.Discrete(2))
            )
        ),
        "observation space Sequence is not supported",
    ),
    (
        ppo,
        dict(env_fn=lambda: Restless({}, spaces.Dict(a=spaces.Discrete(2)))),
        "action space Dict is not supported",
    ),
    *(
        (algorithm, dict(env_fn=lambda space=space: Restless({}, space)), message)
        for algorithm, space, message in (
            (ddpg, spaces.MultiDiscrete([2, 3]), "action space MultiDiscrete is not supported"),
            (sac, spaces.MultiBinary(2), "action space MultiBinary is not supported"),
            (td3, spaces.Box(-np.inf, np.inf, (2,)), r"space Box\(-inf, inf.*is unbounded"),
            (ddpg, spaces.Box(0, 9, (2,), np.int64), "action space Box is not supported"),
            (td3, spaces.Discrete(2), "action space Discrete is not supported.*sac also takes"),
        )
    ),
]


@pytest.mark.parametrize(("algorithm", "kwargs", "words"), ARGUMENTS)
def test_refused_before_anything_is_written(tmp_path, algorithm, kwargs, words):
    path = tmp_path / "run"
    env_fn = make("Pendulum-v1" if algorithm in (ddpg, td3, sac) else "CartPole-v1")
    small = dict(env_fn=env_fn, steps_per_epoch=200)
    if algorithm is ppg:
        small |= dict(minibatch_size=50, aux_minibatch_size=50)
    if algorithm is a2c:
        small |= dict(num_envs=4)
    with pytest.raises((UserError, ImportError), match=words):
        algorithm(**small | kwargs, logger_kwargs=dict(output_dir=str(path), quiet=True))
    assert not path.exists()


@pytest.mark.parametrize(
    ("batch_size", "num_envs", "num_procs", "message"),
    [
        (99, 1, 2, r"is 99; .* number of processes, 2, .* at least .* 2\."),
        (6, 4, 2, r"is 6; .* processes, 2, and at least .* 8\."),
        (1, 1, 3, r"is 1; .* processes, 3, and at least .* 3\."),
    ],
)
def test_batch_sizes_that_do_not_fit_are_refused(batch_size, num_envs, num_procs, message):
    arguments = dict(batch_size=batch_size, num_envs=num_envs)
    with pytest.raises(UserError, match=message):
        check_arguments(arguments, num_procs)


@pytest.mark.parametrize(
    ("batch_size", "num_envs", "num_procs"), [(1, 1, 1), (100, 3, 1), (8, 4, 2), (10, 4, 2)]
)
def test_batch_sizes_that_fit_are_taken(batch_size, num_envs, num_procs):
    check_arguments(dict(batch_size=batch_size, num_envs=num_envs), num_procs)
