"""Runs in processes of their own, which may be killed, and what they leave behind.

`python -m tests.resume.killed JOBS` trains one job after the other; JOBS is a file of JSON. Under
`mpirun`, all ranks do. Without it, a job that is to be killed has a process of its own, forked
before TensorFlow has done anything.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from spinup_tf2.parallel import launched
from spinup_tf2.parallel.launch import find_mpirun, mpirun_environment
from tests.progress import rows_without_time

ON_POLICY = dict(steps_per_epoch=160, train_v_iters=3, max_ep_len=50)
OFF_POLICY = dict(
    **dict(steps_per_epoch=160, start_steps=40, update_after=100, update_every=20),
    **dict(batch_size=16, num_test_episodes=2, max_ep_len=40),
)

# What the runs of the algorithms are: environment and arguments. A buffer of 300 steps wraps round.
RUNS = {
    "vpg": ("CartPole-v1", ON_POLICY),
    "trpo": ("CartPole-v1", ON_POLICY),
    "ppo": ("CartPole-v1", ON_POLICY | dict(train_pi_iters=3)),
    "a2c": ("CartPole-v1", dict(num_envs=1, steps_per_epoch=160, n_steps=20, max_ep_len=50)),
    "ddpg": ("Pendulum-v1", OFF_POLICY | dict(replay_size=300, noise="ou")),
    "td3": ("Pendulum-v1", OFF_POLICY),
    "sac": ("Pendulum-v1", OFF_POLICY | dict(alpha="auto", replay_size=300)),
    "dqn": ("CartPole-v1", OFF_POLICY | dict(copy_every=7, num_updates=15, eps_steps=500)),
}


def job(algorithm: str, path: Path, kill: dict | None = None, **kwargs) -> dict:
    """A training of six epochs in `path`.

    kill: where it ends by SIGKILL: `dict(rank=0, step=N)` before this rank's N-th step, or
        `dict(rank=0, save=N, file=K)` in its N-th save, before the K-th file or directory is
        synced. None: at its proper end.
    """
    env_id, arguments = RUNS[algorithm]
    arguments = dict(arguments, epochs=6, save_freq=100, seed=3, deterministic_resume=True)
    arguments |= dict(ac_kwargs=dict(hidden_sizes=[8]), **kwargs)
    return dict(algorithm=algorithm, env_id=env_id, path=str(path), kill=kill, arguments=arguments)


def run_jobs(folder: Path, jobs: list[dict], num_procs: int = 1) -> subprocess.CompletedProcess:
    """Do the jobs, one after the other; with several ranks, only the last may be killed."""
    assert num_procs == 1 or not any(each["kill"] for each in jobs[:-1])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"jobs{len(list(folder.glob('jobs*')))}.json"
    file.write_text(json.dumps(jobs))
    mpirun = [find_mpirun(), "-np", str(num_procs)] if num_procs > 1 else []
    done = subprocess.run(
        [*mpirun, sys.executable, "-m", "tests.resume.killed", str(file)],
        cwd=Path(__file__).parents[2],
        env=mpirun_environment(num_procs) | dict(SPINUP_TF2_CHECKPOINT_INTERVAL="0"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if num_procs > 1 and jobs[-1]["kill"]:
        assert done.returncode != 0, "nobody was killed"
    else:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def left_by(run_dir: str | os.PathLike) -> dict:
    """All that a finished run has learned and logged, by name, in a form that can be compared.

    Where it says what time it is, or how many checkpoints there have been, it is left out.
    """
    run_dir = Path(run_dir)
    newest = max(run_dir.glob("checkpoint/0*[0-9]"))
    manifest = json.loads((newest / "manifest.json").read_text())
    counters = {key: x for key, x in manifest["counters"].items() if key != "seconds"}
    state = dict(rows=rows_without_time(run_dir / "progress.txt"), counters=counters)
    for path in [run_dir / "tf2_save" / "weights.npz", *newest.glob("*.npz")]:
        with np.load(path) as arrays:
            state |= {f"{path.name}: {name}": _exactly(arrays[name]) for name in arrays.files}
    return state


def _exactly(array):
    array = np.asarray(array)
    return array.dtype, array.shape, array.tobytes()


def assert_same(ours: dict, theirs: dict) -> None:
    """Compare what `left_by` gives, bit by bit; says what is not equal."""
    assert sorted(ours) == sorted(theirs)
    assert ours["rows"] == theirs["rows"]
    assert [name for name in ours if ours[name] != theirs[name]] == []


# ------------------------------------------------------------------------------ the processes


def train(each):
    import gymnasium as gym

    import spinup_tf2

    env_id = each["env_id"]
    getattr(spinup_tf2, each["algorithm"])(
        lambda: gym.make(env_id),
        **each["arguments"],
        logger_kwargs=dict(output_dir=each["path"], exp_name="test", quiet=True),
    )


def be_killed(rank, step=None, save=None, file=None):
    """Arrange for this process to be killed."""
    from spinup_tf2.core.vector_env import VectorEnv
    from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV
    from spinup_tf2.parallel.mpi import proc_id
    from spinup_tf2.training import checkpoints

    if proc_id() != rank:
        return
    count = dict(step=0, save=0, file=0)

    def counted(function, name, fatal, counts=lambda *args: True):
        def call(*args, **kwargs):
            if counts(*args):
                count[name] += 1
                if name == "save":
                    count["file"] = 0
                if fatal():
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    trains = lambda envs, _: envs.indices.start < FIRST_TEST_ENV  # noqa: E731
    VectorEnv.step = counted(VectorEnv.step, "step", lambda: count["step"] == step, trains)
    never = lambda: False  # noqa: E731
    writer = checkpoints.Checkpoints
    writer.save = counted(writer.save, "save", never)
    in_file = lambda: (count["save"], count["file"]) == (save, file)  # noqa: E731
    checkpoints._sync = counted(checkpoints._sync, "file", in_file)


def main(jobs):
    if launched.by_mpi():
        for each in jobs:
            if each["kill"]:
                be_killed(**each["kill"])
            train(each)
        return
    import tensorflow  # noqa: F401  (the children will be faster)
    import tensorflow_probability.python.distributions  # noqa: F401

    import spinup_tf2.algos.ppo  # noqa: F401

    while jobs:
        # Those that end by themselves share a process.
        count = next((i for i, each in enumerate(jobs) if each["kill"]), len(jobs)) or 1
        batch, jobs = jobs[:count], jobs[count:]
        child = os.fork()
        if child == 0:
            try:
                if batch[0]["kill"]:
                    be_killed(**batch[0]["kill"])
                for each in batch:
                    train(each)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        expected = -signal.SIGKILL if batch[0]["kill"] else 0
        if os.waitstatus_to_exitcode(status) != expected:
            sys.exit(f"{batch} ended with status {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
