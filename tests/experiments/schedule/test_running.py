"""Experiments of a grid, several at a time: what runs, what is shown, how it ends."""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import cloudpickle
import pytest

from spinup_tf2.errors import ExperimentsFailed, Interrupted, UserError
from spinup_tf2.experiments import run_entrypoint
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.processes import Processes
from spinup_tf2.experiments.schedule import running
from spinup_tf2.parallel import launch, launched, threads
from spinup_tf2.utils.logx import Logger
from tests.experiments.schedule.fakes import execute, fakes, overlapping, wait_for  # noqa: F401

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def grid_of(seeds, **parameters):
    grid = ExperimentGrid("g")
    for name, values in parameters.items():
        grid.add(name, values)
    grid.add("seed", seeds)
    return grid


# ---------------------------------------------------------------- several at a time


def test_several_at_a_time(fakes, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr(running, "available_cores", lambda: 8)
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    assert execute(tmp_path, "--seed 0 1 13 2 3 --workers 2") == 1
    assert [seed for seed, *_ in fakes] == [0, 1, 13, 2, 3]
    assert overlapping(tmp_path) == 2

    out, errors = capsys.readouterr()
    assert errors == ""
    announced, summary = out.split("\n5 experiments: ")
    assert (
        "5 experiments; 2 at a time, each with 4 computation threads (8 cores here).\n"
        "What they print goes to output.txt in their directories.\n"
    ) in announced
    lines = announced.splitlines()
    for number, seed in enumerate([0, 1, 13, 2, 3], 1):
        assert f"   {number}/5  started   {tmp_path}/g/g_s{seed}" in lines
    ended = [line for line in lines if f"finished  {tmp_path}/g/g_s0  return 21.25" in line]
    assert len(ended) == 1
    assert "started" in lines[lines.index(ended[0]) - 1]  # it says so when it happens

    assert summary.startswith("4 finished, 1 failed, in ")
    states = [line.split()[:4] for line in summary.splitlines() if "  return 21.25" in line]
    directory = f"{tmp_path}/g/g_s"
    assert [state[:2] for state in states] == [
        ["finished", f"{directory}0"],
        ["finished", f"{directory}1"],
        ["failed", f"{directory}13"],
        ["finished", f"{directory}2"],
        ["finished", f"{directory}3"],
    ]
    assert all(state[2:] == ["return", "21.25"] for state in states)
    output = f"{directory}13/output.txt"
    assert f"            ValueError: the environment fell over; see {output}\n" in summary
    assert (
        "This does the rest:\n\npython -m spinup_tf2.run ppo --env CartPole-v1 --epochs 2 "
        f"--exp_name g --data_dir {tmp_path} --seed 0 1 13 2 3 --workers 2 "
        "--resume --skip_finished\n"
    ) in summary

    printed = Path(output).read_text()
    assert printed.startswith("Running experiment:\n\ng\n\nwith kwargs:\n")
    assert '"seed":\t13\n' in printed
    assert "epoch 0 of seed 13\nValueError: the environment fell over\n" in printed


def test_a_crash_is_no_end_for_the_others(fakes, tmp_path, capsys):  # noqa: F811
    assert execute(tmp_path, "--seed 77 0 --workers 2") == 1
    assert "g_s77  return 21.25" in (out := capsys.readouterr().out)
    assert f"ended by SIGKILL; see {tmp_path}/g/g_s77/output.txt" in out
    assert "2 experiments: 1 finished, 1 failed" in out


def test_quiet_leaves_failures(fakes, tmp_path, capsys):  # noqa: F811
    assert execute(tmp_path, "--seed 13 0 --workers 2 --quiet") == 1
    out, errors = capsys.readouterr()
    assert out == ""
    [line] = errors.splitlines()
    assert line.startswith(f"spinup_tf2: failed  {tmp_path}/g/g_s13  return")


def test_all_finished_is_a_success(fakes, tmp_path, capsys):  # noqa: F811
    assert execute(tmp_path, "--seed 0 1 --workers 2") == 0
    out = capsys.readouterr().out
    assert "2 experiments: 2 finished, in " in out
    assert "does the rest" not in out


def test_a_terminal_shows_bars(fakes, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("spinup_tf2.experiments.schedule.display._REFRESH", 0.0)
    assert execute(tmp_path, "--seed 0 1 2 --workers 2") == 0
    out, bars = capsys.readouterr()
    assert "started" not in out
    assert out.count("finished  ") == 6  # as it happens, and in the table
    for seed in (0, 1, 2):
        lines = [line for line in bars.splitlines() if f"g_s{seed} " in line]
        assert any("2/2 epochs" in line and "return 21.25" in line for line in lines), bars
    assert "3 experiments: 2 running, 1 not begun" in bars
    assert "3 experiments: 3 finished" in bars


def test_a_log_does_not_make_a_directory_look_used(fakes, tmp_path, capsys):  # noqa: F811
    """The parent process writes it before the run begins."""
    (tmp_path / "output.txt").touch()
    Logger(tmp_path)
    assert "already exists" not in capsys.readouterr().out


def tell(path, seed, logger_kwargs, x=None):
    """What an experiment in a process of its own sees."""
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "MKL_NUM_THREADS")
    path = Path(logger_kwargs["output_dir"], path)
    path.write_text(json.dumps({name: os.environ.get(name) for name in names}))
    Logger(**logger_kwargs)
    print("hello")
    if seed == 1:
        raise UserError("gamma is 3")


def test_real_processes_share_the_cores(tmp_path, capsys, monkeypatch):
    (tmp_path / "g" / "g_s1").mkdir(parents=True)
    for name in ("progress.txt", "output.txt"):  # of a run that is replaced
        (tmp_path / "g" / "g_s1" / name).write_text("old")
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setattr(threads, "available_cores", lambda: 6)
    data_dir = tmp_path / "g" / ".."
    with pytest.raises(ExperimentsFailed, match=r"1 of 2 experiments failed: .*s1 \(gamma is 3\)"):
        grid_of([0, 1], path="seen.json").run(tell, data_dir=data_dir, workers=2, overwrite=True)
    expected = dict(OMP_NUM_THREADS="3", TF_NUM_INTRAOP_THREADS="3", MKL_NUM_THREADS="7")
    assert json.loads((tmp_path / "g/g_s0/seen.json").read_text()) == expected
    output = (tmp_path / "g/g_s1/output.txt").read_text()
    assert output.startswith("Running experiment:\n")
    assert output.index("hello") < output.index("in tell") < output.index("UserError: gamma is 3")
    out = capsys.readouterr().out
    assert "with grid.add('resume', True), and without overwrite, does the rest." in out


def test_what_cannot_be_started_has_failed(tmp_path, capsys):
    lock = threading.Lock()  # cannot be pickled
    with pytest.raises(ExperimentsFailed, match=r"x cannot be handed to .*pickle"):
        grid_of([0, 1], path=["seen.json"], x=lock).run(tell, data_dir=tmp_path, workers=2)


def test_threads_that_the_user_has_chosen(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads.threads_of_each(n) for n in (1, 2, 3, 100)] == [8, 4, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.limited_environment(8)["TF_NUM_INTRAOP_THREADS"] == "5"
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert threads.limited_environment(8)["TF_NUM_INTRAOP_THREADS"] == "2"
    assert "5 computation threads (as OMP_NUM_THREADS says)" in running.plan_of(
        [running.Outcome(None, n) for n in (1, 2)], Processes(1), 2
    )


def test_ranks_share_the_cores_too(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(threads, "available_cores", lambda: 16)
    monkeypatch.setattr(launch, "available_cores", lambda: 16)
    monkeypatch.setattr(launch, "find_mpirun", lambda: "/opt/mpirun")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        launch.subprocess, "Popen", lambda command, **options: started.append((command, options))
    )
    two = [running.Outcome(None, n) for n in (1, 2)]
    plan = running.plan_of(two, Processes(4), 2)
    assert "2 at a time, each in 4 processes of 2 computation threads" in plan
    with open(tmp_path / "output.txt", "wb") as output:
        Processes(4).start(["file.py"], 2, output)
    [(command, options)] = started
    assert command == ["/opt/mpirun", "-n", "4", sys.executable, "file.py"]
    assert options["env"]["OMP_NUM_THREADS"] == "2"
    assert options["start_new_session"]
    assert options["stdout"] is output


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None])
def test_workers_is_a_number(wrong, tmp_path):
    with pytest.raises(UserError, match=r"workers is .*it must be a whole number of at least 1"):
        grid_of([0, 1], path="x").run(tell, data_dir=tmp_path, workers=wrong)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--seed 0 1 --workers 3", "workers is 3, and the grid has 2 experiments"),
        ("--workers 2", "workers is 2, and the grid has 1 experiment; give at most"),
        ("--seed 0 1 --workers two", "workers is 'two'; it must be a whole number"),
        ("--seed 0 1 --workers 1 2", "You can only provide one value for workers"),
        ("--seed 0 1 --workers", "workers is True; it must be a whole number"),
        ("--seed 0 1 --skip_finished 3", "--skip_finished is a switch"),
        ("--seed 0 1 --skip_finished --dt", "which datestamp makes a new one"),
        ("--seed 0 0 --workers 2", "two of the experiments would write to"),
        ("--seed 0 1 --gamma 3 0.9 --workers 2", "gamma is 3"),
    ],
)
def test_refused_before_anything_starts(flags, message, fakes, tmp_path, capsys):  # noqa: F811
    assert execute(tmp_path, flags) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert fakes == []
    assert not os.listdir(tmp_path)


def test_workers_are_refused_where_nothing_can_be_started(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="logger_kwargs has no output_dir"):
        grid_of([0, 1], path="x", logger_kwargs=dict(exp_name="x")).run(tell, workers=2)
    monkeypatch.setattr(launch, "find_mpirun", lambda: (_ for _ in ()).throw(UserError("no MPI")))
    with pytest.raises(UserError, match="no MPI"):
        grid_of([0, 1], path="x").run(tell, num_cpu=2, data_dir=tmp_path, workers=2)
    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    with pytest.raises(UserError, match="an MPI launcher has started the processes already"):
        running.check_workers(2, [None, None], Processes(1))


# ---------------------------------------------------------------- signals


def later(action, condition):
    def act():
        wait_for(condition)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def send(signum):
    return lambda: os.kill(os.getpid(), signum)


def test_bars_make_room_for_what_a_signal_says(fakes, tmp_path, capfd, monkeypatch):  # noqa: F811
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    thread = later(send(signal.SIGINT), lambda: [*tmp_path.glob("g/g_s*/running")])
    assert execute(tmp_path, "--seed 100 0 --workers 2") == 130
    thread.join()
    assert "\r\x1b[JSIGINT: finishing this step and saving" in capfd.readouterr().err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_in_order(signum, fakes, tmp_path, capsys):  # noqa: F811
    both_run = lambda: len([*tmp_path.glob("g/g_s*/running")]) == 2  # noqa: E731
    thread = later(send(signum), both_run)
    status = execute(tmp_path, "--seed 0 100 101 102 103 --workers 2")
    thread.join()
    assert status == 128 + signum
    assert [path.read_text() for path in tmp_path.rglob("saved")] == [str(int(signum))] * 2
    out = capsys.readouterr().out
    summary = out.split("5 experiments: ")[1]
    assert summary.startswith("1 finished, 2 stopped, 2 not begun")
    states = [line.split("  ")[:2] for line in map(str.strip, summary.splitlines())]
    assert [state for state, *where in states if where and where[0].startswith(str(tmp_path))] == [
        *("finished", "stopped", "stopped", "not begun", "not begun")
    ]
    assert "--workers 2 --resume --skip_finished\n" in summary
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # put back


def test_a_second_ctrl_c_ends_at_once(fakes, tmp_path, capsys):  # noqa: F811
    def twice():
        send(signal.SIGINT)()
        time.sleep(1.2)
        send(signal.SIGINT)()

    thread = later(twice, lambda: len([*tmp_path.glob("g/g_s*/running")]) == 2)
    began = time.monotonic()
    status = execute(tmp_path, "--seed 200 201 202 --workers 2")
    thread.join()
    assert status == 130
    assert time.monotonic() - began < 15  # they would have run for a minute
    summary = capsys.readouterr().out.split("3 experiments: ")[1]
    assert summary.startswith("2 stopped, 1 not begun")
    assert summary.count("without saving") == 2


def test_an_unexpected_error_lets_them_save(fakes, tmp_path, monkeypatch):  # noqa: F811
    def refresh(display):
        if len([*tmp_path.glob("g/g_s*/running")]) == 2:
            raise RuntimeError("of the display")

    monkeypatch.setattr(running.Display, "refresh", refresh)
    with pytest.raises(RuntimeError, match="of the display"):
        execute(tmp_path, "--seed 100 101 102 --workers 2")
    saved = [path.read_text() for path in tmp_path.rglob("saved")]
    assert saved == [str(int(signal.SIGTERM))] * 2


def test_there_may_be_no_room_for_an_error(fakes, tmp_path, capsys, monkeypatch):  # noqa: F811
    """What its process has left of it is not whole; it tells nothing, and ends nothing else."""
    start = Processes.start

    def start_and_fill(processes, arguments, at_a_time, output):
        Path(arguments[1], "error.json").write_text('["gamma is')
        return start(processes, arguments, at_a_time, output)

    monkeypatch.setattr(Processes, "start", start_and_fill)
    assert execute(tmp_path, "--seed 13 0 --workers 2") == 1
    assert "2 experiments: 1 finished, 1 failed" in capsys.readouterr().out


def test_an_experiment_that_is_stopped_alone(fakes, tmp_path, capsys):  # noqa: F811
    assert execute(tmp_path, "--seed 15 0 1 --workers 2") == 128 + signal.SIGTERM
    assert "3 experiments: 2 finished, 1 stopped" in capsys.readouterr().out


# ---------------------------------------------------------------- one after the other


def sequential(monkeypatch, statuses, tmp_path, seeds=(0, 1, 2), **options):
    statuses = iter(statuses)
    monkeypatch.setattr(Processes, "run", lambda self, arguments: next(statuses))
    grid_of([*seeds]).run(NamedAlgorithm("ppo"), data_dir=tmp_path, **options)


def test_a_failed_one_does_not_end_the_grid(monkeypatch, tmp_path, capsys):
    with pytest.raises(ExperimentsFailed, match=r"1 of 3 .*g_s1 \(exit status 3\)"):
        sequential(monkeypatch, [0, 3, 0], tmp_path)
    out = capsys.readouterr().out
    assert out.count("There appears to have been an error in your experiment") == 1
    assert "3 experiments: 2 finished, 1 failed" in out


def test_a_mistake_in_one_does_not_end_the_grid(monkeypatch, tmp_path, capsys):
    errors = iter([None, ["gamma is 3", "trace"], None])
    monkeypatch.setattr(run_entrypoint, "read_error", lambda folder: next(errors))
    with pytest.raises(ExperimentsFailed, match=r"1 of 3 .*g_s1 \(gamma is 3\)"):
        sequential(monkeypatch, [0, 2, 0], tmp_path)
    assert capsys.readouterr().err == "spinup_tf2: error: gamma is 3\n"


def test_one_that_cannot_be_started_does_not_end_the_grid(monkeypatch, tmp_path, capsys):
    """Where the directory for temporary files is gone, or the function cannot be handed over."""
    started = []

    def write(folder, experiment, environ):
        started.append(experiment.kwargs["seed"])
        raise (None, OSError(28, "no room"), TypeError("cannot pickle"))[len(started)]

    monkeypatch.setattr(run_entrypoint, "write_experiment", write)
    with pytest.raises(ExperimentsFailed, match=r"2 of 2 .*no room.*not be started \(TypeError: c"):
        sequential(monkeypatch, [], tmp_path, seeds=(0, 1))
    assert started == [0, 1]
    out, errors = capsys.readouterr()
    assert "2 experiments: 2 failed" in out
    assert errors.splitlines()[0].startswith("spinup_tf2: error: cannot write to ")
    assert errors.splitlines()[1].endswith("it could not be started (TypeError: cannot pickle)")

    gone = str(tmp_path / "gone")
    monkeypatch.setattr(tempfile, "tempdir", gone)
    for workers in (1, 2):
        with pytest.raises(
            ExperimentsFailed, match=rf"2 of 2 .*_s1 \(cannot write to {gone}, where a "
        ):
            sequential(monkeypatch, [], tmp_path / "2", seeds=(0, 1), workers=workers)
    with pytest.raises(UserError, match=rf"cannot write to {gone}, .*with TMPDIR"):
        sequential(monkeypatch, [], tmp_path / "1", seeds=[0])


def test_the_only_experiment_fails_as_one_of_several_does(monkeypatch, tmp_path, capsys):
    with pytest.raises(ExperimentsFailed, match=r"1 of 1 .*g_s0 \(exit status 3\)") as raised:
        sequential(monkeypatch, [3], tmp_path, seeds=[0])
    assert raised.value.status == 3
    assert "experiments:" not in capsys.readouterr().out


def test_without_a_failure_there_is_no_table(monkeypatch, tmp_path, capsys):
    sequential(monkeypatch, [0, 0, 0], tmp_path)
    assert "experiments:" not in capsys.readouterr().out


def test_in_a_launched_world_a_failure_ends_the_job(monkeypatch, tmp_path):
    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    monkeypatch.setattr(running.calling, "run_experiment", fail)
    outcomes = [running.Outcome(None, n) for n in (1, 2)]
    with pytest.raises(UserError, match="of one rank"):
        running._run_in_turn(outcomes, Processes(1), True)


def fail(*_):
    raise UserError("of one rank")


def test_a_stopped_grid(monkeypatch, tmp_path, capsys):
    with pytest.raises(Interrupted):
        sequential(monkeypatch, [0, 143], tmp_path)
    assert "3 experiments: 1 finished, 1 stopped, 1 not begun" in capsys.readouterr().out


def test_python_and_the_command_line_are_one(fakes, tmp_path, capsys):  # noqa: F811
    grid = grid_of([0, 13], env_name="CartPole-v1", epochs=2)
    with pytest.raises(ExperimentsFailed):
        grid.run(NamedAlgorithm("ppo"), data_dir=tmp_path, workers=2)
    assert "run(..., skip_finished=True) does the rest" in capsys.readouterr().out
