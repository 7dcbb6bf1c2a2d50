"""A run that was killed and resumed is the run that was not, bit by bit."""

import pytest

from tests.resume.killed import RUNS, assert_same, job, left_by, run_jobs

# In which step of the run, and before which file or directory is synced in which save (the first
# is that of the untrained networks). 160 steps make an epoch, and six epochs a run.
KILLS = {
    "vpg": (dict(step=500), dict(save=4, file=1)),
    "trpo": (dict(step=170), dict(save=3, file=2)),
    "ppo": (dict(step=420), dict(save=5, file=5)),
    "a2c": (dict(step=333), dict(save=4, file=4)),
    "ddpg": (dict(step=555), dict(save=5, file=2)),
    "td3": (dict(step=640), dict(save=6, file=6)),
    "sac": (dict(step=730), dict(save=5, file=3)),
    "dqn": (dict(step=610), dict(save=4, file=4)),
}


def check(path, algorithms, num_procs=1, kills=KILLS):
    """Compare runs on `num_procs` ranks that were killed in a step and in a save with whole ones.

    The rank that dies is the last in a step, and in a save the one that writes the manifest.
    """
    whole = [job(name, path / name) for name in algorithms]
    killed = []
    for name in algorithms:
        for i, kill in enumerate(kills[name]):
            rank = num_procs - 1 if "step" in kill else 0
            kill = dict(kill, rank=rank)
            if "step" in kill:
                kill["step"] = kill["step"] // num_procs
            killed.append(job(name, path / f"{name}_{i}", kill))
    if num_procs == 1:
        run_jobs(path, [*whole, *killed])
    else:
        run_jobs(path, whole, num_procs)
        for each in killed:
            run_jobs(path, [each], num_procs)
    resumed = [dict(each, kill=None) for each in killed]
    for each in resumed:
        each["arguments"]["resume"] = True
    run_jobs(path, resumed, num_procs)
    for each in resumed:
        ours, theirs = left_by(each["path"]), left_by(path / each["algorithm"])
        assert len(ours["rows"]) == 7
        assert_same(ours, theirs)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path):
    """In a save or in a step; in the matrix, in both."""
    check(tmp_path, ["ppo", "sac"], kills={"ppo": KILLS["ppo"][1:], "sac": KILLS["sac"][:1]})


@pytest.mark.slow
@pytest.mark.mpi
def test_killed_and_resumed_on_two_ranks(tmp_path):
    """In a save; in the matrix, in a step as well."""
    check(tmp_path, ["ppo"], 2, {"ppo": [dict(save=5, file=5)]})


@pytest.mark.matrix
@pytest.mark.parametrize("algorithm", RUNS)
@pytest.mark.parametrize("num_procs", [1, 2])
def test_every_algorithm_killed_and_resumed(tmp_path, algorithm, num_procs):
    check(tmp_path, [algorithm], num_procs)


@pytest.mark.matrix
@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_four_ranks_killed_and_resumed(tmp_path, algorithm):
    check(tmp_path, [algorithm], 4)


@pytest.mark.matrix
@pytest.mark.parametrize(("algorithm", "files"), [("ppo", 5), ("sac", 6)])
def test_killed_at_every_moment_of_a_save(tmp_path, algorithm, files):
    moments = [dict(save=4, file=file) for file in range(1, files + 1)]
    check(tmp_path, [algorithm], kills={algorithm: moments})
