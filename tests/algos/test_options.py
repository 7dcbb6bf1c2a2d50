"""Every option of every algorithm has a test that knows what it should do from elsewhere."""

import inspect
from pathlib import Path

import pytest

from spinup_tf2 import a2c, ddpg, dqn, ppo, sac, td3, trpo, vpg
from tests.algos import test_on_policy_by_hand as on_policy
from tests.off_policy_runs import OFF_POLICY

ON_POLICY = (vpg, trpo, ppo, a2c)

# Beside those of the runs in test_on_policy_by_hand: where else options are tested. What belongs to
# the run as a whole is the same code in all algorithms.
BY_HAND = "algos/test_off_policy_by_hand.py"
ELSEWHERE = {
    (*ON_POLICY, *OFF_POLICY): {
        "algos/test_contract.py": "env_fn seed steps_per_epoch epochs logger_kwargs",
        "algos/test_networks.py": "actor_critic ac_kwargs",
        "algos/test_closed_forms.py": "max_ep_len",
        "algos/test_environment_faults.py": "env_retries",
        "core/test_on_policy.py": "save_freq checkpoint_freq num_envs vectorization",
        "core/nets/test_initialization.py": "init",
        "training/test_init_from.py": "init_from",
        "resume/test_variants.py": "resume deterministic_resume",
        "training/test_callbacks.py": "callbacks stop_at_return stop_without_improvement "
        "stop_after",
        "training/test_recording.py": "record_every render_every verbose_episodes",
    },
    ON_POLICY: {
        "algos/test_demonstrations.py": "behavior_policy",
        "training/test_evaluation.py": "num_test_episodes test_freq",
        "algos/test_trpo.py": "backtrack_iters",
    },
    OFF_POLICY: {
        "core/test_off_policy.py": "replay_size batch_size start_steps update_after update_every",
        "algos/test_off_policy_family.py": "num_test_episodes act_noise noise",
        "off_policy_runs.py": "gamma polyak",  # of the runs by hand
    },
    (ddpg,): {BY_HAND: "pi_lr q_lr"},
    (td3,): {BY_HAND: "pi_lr q_lr target_noise noise_clip policy_delay"},
    (sac,): {BY_HAND: "lr alpha target_entropy"},
    (dqn,): {
        BY_HAND: "q_lr double_q huber copy_every num_updates",
        "algos/test_off_policy_family.py": "eps_start eps_end eps_steps",
    },
}
BESIDES = {"keep_checkpoints", "track", "stall_timeout"}  # in units of their own


@pytest.mark.parametrize("algorithm", [*ON_POLICY, *OFF_POLICY], ids=lambda f: f.__name__)
def test_every_option_is_tested(algorithm):
    """In runs by hand, with a value other than the default; or where ELSEWHERE says."""
    options = inspect.signature(algorithm).parameters
    tested = set(BESIDES)
    for other, _, kwargs in on_policy.TABLE.values():
        if other is algorithm:
            kwargs = on_policy.SMALL[algorithm] | kwargs
            tested |= {k for k, x in kwargs.items() if k in options and x != options[k].default}
    for algorithms, files in ELSEWHERE.items():
        for file, names in files.items() if algorithm in algorithms else ():
            text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
            assert all(name in text for name in names.split()), file
            tested |= {*names.split()}
    assert {*options} <= tested
