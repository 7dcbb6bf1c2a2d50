"""Every option of every algorithm has a test that knows what it should do from elsewhere."""

import inspect
import re
from pathlib import Path

import pytest

from spinup_tf2 import a2c, ddpg, ppo, sac, td3, trpo, vpg
from tests.algos import test_on_policy_by_hand as on_policy

ON_POLICY, OFF_POLICY = (vpg, trpo, ppo, a2c), (ddpg, td3, sac)

# Beside those of the runs in test_on_policy_by_hand: where else options are tested, for algorithms
# that have them. What belongs to the run as a whole is the same code in all algorithms.
ELSEWHERE = {
    (*ON_POLICY, *OFF_POLICY): {
        "env_fn": "algos/test_ppo.py::test_environments_are_closed_whatever_happens",
        "actor_critic": "algos/test_ppo.py::test_own_actor_critic",
        "ac_kwargs": "algos/test_ppo.py::test_own_actor_critic",
        "seed": "algos/test_off_policy_family.py::test_same_seed_same_file_and_other_seed_another",
        "steps_per_epoch": "algos/test_ppo.py::test_run_directory_and_columns",
        "epochs": "algos/test_ppo.py::test_run_directory_and_columns",
        "max_ep_len": "algos/test_closed_forms.py::test_chain_on_policy",
        "logger_kwargs": "algos/test_ppo.py::test_run_directory_and_columns",
        "save_freq": "core/test_on_policy.py::test_what_is_saved_when",
        "num_envs": "core/test_on_policy.py::"
        "test_collecting_in_groups_gives_what_collecting_at_once_does",
        "vectorization": "core/test_on_policy.py::"
        "test_collecting_in_groups_gives_what_collecting_at_once_does",
        "init": "core/nets/test_initialization.py::test_every_algorithm_begins_as_it_is_asked_to",
        "init_from": "core/nets/test_init_from.py::test_networks_are_those_of_the_other_run",
        "resume": "resume/test_variants.py::test_stopped_and_resumed",
        "checkpoint_freq": "core/test_on_policy.py::test_what_is_saved_when",
        "keep_checkpoints": "persistence/test_checkpoints.py::"
        "test_the_newest_are_kept_and_the_steps_that_they_need",
        "deterministic_resume": "resume/test_variants.py::test_stopped_and_resumed",
        "env_retries": "algos/test_environment_faults.py::"
        "test_a_run_goes_on_with_a_new_environment",
        "callbacks": "test_callbacks.py::test_they_hear_of_every_epoch_and_change_nothing",
        "stop_at_return": "test_callbacks.py::"
        "test_a_training_that_one_has_stopped_says_why_and_goes_on",
        "stop_without_improvement": "test_callbacks.py::"
        "test_what_they_remember_is_in_the_checkpoint",
        "stop_after": "test_callbacks.py::test_options_stand_for_callbacks",
        "track": "tracking/test_tracker.py::test_a_client_gets_every_row_and_the_values_behind_it",
        "record_every": "core/runs/test_recording.py::"
        "test_videos_of_some_epochs_and_the_same_training",
        "render_every": "core/runs/test_recording.py::test_a_window_shows_every_other_epoch",
        "stall_timeout": "parallel/test_stopping.py::"
        "test_progress_keeps_it_quiet_and_silence_does_not",
    },
    ON_POLICY: {
        "behavior_policy": "algos/test_demonstrations.py::test_demonstrated_actions_are_taken",
        "num_test_episodes": "core/runs/test_evaluation.py::"
        "test_on_policy_algorithms_evaluate_when_it_is_due",
        "test_freq": "core/runs/test_evaluation.py::"
        "test_on_policy_algorithms_evaluate_when_it_is_due",
        "backtrack_iters": "algos/test_trpo.py::test_candidates_shrink_towards_the_old_parameters",
    },
    OFF_POLICY: {
        "replay_size": "core/test_off_policy.py::test_the_buffer_forgets",
        "batch_size": "core/test_off_policy.py::test_updates_come_when_they_are_due",
        "start_steps": "core/test_off_policy.py::"
        "test_actions_are_random_first_and_then_the_policys",
        "update_after": "core/test_off_policy.py::test_updates_come_when_they_are_due",
        "update_every": "core/test_off_policy.py::test_updates_come_when_they_are_due",
        "num_test_episodes": "algos/test_off_policy_family.py::"
        "test_evaluation_has_an_environment_of_its_own_and_the_same_seeds_every_time",
        "act_noise": "algos/test_off_policy_family.py::test_exploration_is_the_policy_with_noise",
    },
    (ddpg,): dict.fromkeys(
        ("gamma", "polyak", "pi_lr", "q_lr"), "algos/test_ddpg.py::test_updates_by_hand"
    ),
    (td3,): dict.fromkeys(
        ("gamma", "polyak", "pi_lr", "q_lr", "target_noise", "noise_clip", "policy_delay"),
        "algos/test_td3.py::test_updates_by_hand",
    ),
    (sac,): dict.fromkeys(
        ("gamma", "polyak", "lr", "alpha", "target_entropy"),
        "algos/test_sac.py::test_updates_by_hand",
    ),
}


@pytest.mark.parametrize("algorithm", [*ON_POLICY, *OFF_POLICY], ids=lambda f: f.__name__)
def test_every_option_is_tested(algorithm):
    """In runs by hand, with a value other than the default; or where ELSEWHERE says."""
    options = inspect.signature(algorithm).parameters
    by_hand = set()
    for other, _, kwargs in on_policy.TABLE.values():
        if other is algorithm:
            kwargs = on_policy.SMALL[algorithm] | kwargs
            by_hand |= {k for k, x in kwargs.items() if k in options and x != options[k].default}
    elsewhere = {}
    for algorithms, tests in ELSEWHERE.items():
        if algorithm in algorithms:
            elsewhere |= tests
    assert {*options} == by_hand | {*elsewhere} & {*options}
    for test in {*elsewhere.values()}:
        file, name = test.split("::")
        text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), test
