"""The time to a score: what is asked of each contestant, and the table."""

import pytest
import time_to_score
from time_to_score import TASKS

from spinup_tf2.cli.algorithm import parse_experiments


@pytest.mark.parametrize("env", TASKS)
def test_our_command_is_one_and_tests_as_often_as_theirs(env, tmp_path):
    command = time_to_score.command_of("spinup_tf2", env, 1, tmp_path, "python")
    algorithm, flags = command[3], command[4:]
    grid, _ = parse_experiments(algorithm, flags)
    [arguments] = grid.variants()
    epochs = arguments.get("test_freq", 1)  # from one test to the next
    assert epochs * arguments["steps_per_epoch"] == TASKS[env].every
    assert arguments["stop_at_return"] == TASKS[env].score


def test_medians_of_all_runs_count_those_that_did_not_get_there():
    env, times = "CartPole-v1", dict(spinup_tf2=(20, 10, 12), sb3=(30, 24, None), sbx=(None,))
    runs = [dict(env=env, contestant=name, seconds=x) for name, own in times.items() for x in own]
    row = time_to_score.table(runs).splitlines()[-1]
    expected = "24, 30, not reached (2.5 x ours) | not reached |"
    assert row == f"| CartPole-v1, 475, PPO | 10, 12, 20 | {expected}"


@pytest.mark.parametrize(("last", "expected"), [("475.0", True), ("474.9", False)])
def test_the_last_evaluation_counts(tmp_path, last, expected):
    rows = f"Epoch\tAverageTestEpRet\n0\t500\n1\t\n2\t{last}\n3\t\n"
    (tmp_path / "progress.txt").write_text(rows)
    assert time_to_score.reached("spinup_tf2", "CartPole-v1", tmp_path, "") == expected
