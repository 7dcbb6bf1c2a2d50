"""Experiments of a grid: what runs, what is shown, how it ends, what is said of the rest."""

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
from spinup_tf2.experiments import calling, run_entrypoint, schedule
from spinup_tf2.experiments import grid as grids
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.experiment import Experiment, NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.outcomes import Outcome, not_improved, summary
from spinup_tf2.parallel import launch, launched
from spinup_tf2.utils.logx import Logger
from tests.experiments.fakes import execute, overlapping, wait_for

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def grid_of(seeds, **parameters):
    grid = ExperimentGrid("g", base=parameters)
    grid.add("seed", seeds)
    return grid


# ---------------------------------------------------------------- several at a time


def test_several_at_a_time(fakes, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(launched, "available_cores", lambda: 8)
    assert execute(tmp_path, "--seed 0 1 13 77 3 --workers 2") == 1
    assert [seed for seed, *_ in fakes] == [0, 1, 13, 77, 3]
    assert overlapping(tmp_path) == 2

    out, errors = capsys.readouterr()
    assert errors == ""
    announced, table = out.split("\n5 experiments: ")
    assert (
        "2 experiments run at a time (threads of each process: 4).\n"
        "What they print goes to output.txt in their directories.\n"
    ) in announced
    directory = f"{tmp_path}/g/g_s"
    assert f"   1/5  finished  {directory}0  return 21.25" in announced  # when it happens

    assert table.startswith("3 finished, 2 failed, in ")
    states = [line.split()[:4] for line in table.splitlines() if "  return 21.25" in line]
    assert states == [
        [state, f"{directory}{seed}", "return", "21.25"]
        for seed, state in ((0, "finished"), (1, "finished"), (13, "failed"), (77, "failed"))
    ] + [["finished", f"{directory}3", "return", "21.25"]]
    output = f"{directory}13/output.txt"
    assert f"            ValueError: the environment fell over; see {output}\n" in table
    assert f"            ended by SIGKILL; see {directory}77/output.txt\n" in table
    assert (
        "This does the rest:\n\npython -m spinup_tf2.run ppo --env CartPole-v1 --epochs 2 "
        f"--exp_name g --data_dir {tmp_path} --seed 0 1 13 77 3 --workers 2 "
        "--resume --skip_finished\n"
    ) in table

    printed = Path(output).read_text()
    assert printed.startswith("Running experiment:\n\ng\n\nwith kwargs:\n")
    assert '"seed":\t13\n' in printed
    assert "epoch 0 of seed 13\nValueError: the environment fell over\n" in printed


def test_quiet_leaves_failures(fakes, tmp_path, capsys):
    assert execute(tmp_path, "--seed 13 0 --workers 2 --quiet") == 1
    out, errors = capsys.readouterr()
    assert out == ""
    [line] = errors.splitlines()
    assert line.startswith(f"spinup_tf2: failed  {tmp_path}/g/g_s13  return")


def test_a_terminal_shows_a_bar(fakes, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert execute(tmp_path, "--seed 0 1 2 --workers 3") == 0
    out, bar = capsys.readouterr()
    assert out.count("finished  ") == 6  # as it happens, and in the table
    assert "3 experiments: 3 finished, in " in out
    assert "does the rest" not in out
    for done in range(4):
        assert f"{done}/3 [" in bar


def tell(path, seed, logger_kwargs, x=None):
    """What an experiment in a process of its own sees."""
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "MKL_NUM_THREADS")
    path = Path(logger_kwargs["output_dir"], path)
    path.write_text(json.dumps({name: os.environ.get(name) for name in names}))
    Logger(**logger_kwargs)
    print("hello")
    if seed == 1:
        raise UserError("gamma is 3")


def test_real_processes_share_the_cores(tmp_path, monkeypatch):
    (tmp_path / "g" / "g_s1").mkdir(parents=True)
    for name in ("progress.txt", "output.txt"):  # of a run that is replaced
        (tmp_path / "g" / "g_s1" / name).write_text("old")
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setattr(launched, "available_cores", lambda: 6)
    data_dir = tmp_path / "g" / ".."
    with pytest.raises(ExperimentsFailed, match=r"1 of 2 experiments failed: .*s1 \(gamma is 3\)"):
        grid_of([0, 1], path="seen.json").run(tell, data_dir=data_dir, workers=2, overwrite=True)
    expected = dict(OMP_NUM_THREADS="3", TF_NUM_INTRAOP_THREADS="3", MKL_NUM_THREADS="7")
    assert json.loads((tmp_path / "g/g_s0/seen.json").read_text()) == expected
    output = (tmp_path / "g/g_s1/output.txt").read_text()
    assert output.startswith("Running experiment:\n")
    assert output.index("hello") < output.index("in tell") < output.index("UserError: gamma is 3")


def test_ranks_share_the_cores_too(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(launched, "available_cores", lambda: 16)
    monkeypatch.setattr(launch, "available_cores", lambda: 16)
    monkeypatch.setattr(launch, "find_mpirun", lambda: "/opt/mpirun")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        launch.subprocess, "Popen", lambda command, **options: started.append((command, options))
    )
    plan = grids._plan_of([Outcome(None, n) for n in (1, 2)], Processes(4), 2)
    assert "(threads of each process: 2)" in plan
    with open(tmp_path / "output.txt", "wb") as output:
        Processes(4).start(["file.py"], 2, output)
    [(command, options)] = started
    assert command == ["/opt/mpirun", "-n", "4", sys.executable, "file.py"]
    assert options["env"]["OMP_NUM_THREADS"] == "2"
    assert options["start_new_session"]
    assert options["stdout"] is output


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--seed 0 1 --workers 0", "workers is 0; it must be a whole number of at least 1"),
        ("--seed 0 1 --workers", "workers is True; it must be a whole number"),
        ("--seed 0 1 --skip_finished --dt", "which datestamp makes a new one"),
        ("--seed 0 1 --resume --dt", "resume finds a run by the name of its directory"),
        ("--seed 0 1 --resume --overwrite", "resume continues a run, and overwrite removes it"),
        ("--seed 0 0 --workers 2", "two of the experiments would write to"),
        ("--seed 0 1 --gamma 3 0.9 --workers 2", "gamma is 3"),
    ],
)
def test_refused_before_anything_starts(flags, message, fakes, tmp_path, capsys):
    assert execute(tmp_path, flags) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert fakes == []
    assert not os.listdir(tmp_path)


def test_workers_are_refused_where_nothing_can_be_started(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="workers is 2, but experiments run at the same time only"):
        grid_of([0, 1], path="x", logger_kwargs=dict(exp_name="x")).run(tell, workers=2)
    monkeypatch.setattr(launch, "find_mpirun", lambda: (_ for _ in ()).throw(UserError("no MPI")))
    with pytest.raises(UserError, match="no MPI"):
        grid_of([0, 1], path="x").run(tell, num_cpu=2, data_dir=tmp_path, workers=2)
    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    with pytest.raises(UserError, match="workers is 2, but experiments run at the same time only"):
        grid_of([0, 1], path="x").run(tell, data_dir=tmp_path, workers=2)


# ---------------------------------------------------------------- signals


def later(action, tmp_path, number):
    """Act as soon as so many experiments are running; returns the thread that waits for it."""

    def act():
        wait_for(lambda: len([*tmp_path.glob("g/g_s*/running")]) == number)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def send(signum):
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_in_order(signum, fakes, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    thread = later(lambda: send(signum), tmp_path, 2)
    status = execute(tmp_path, "--seed 0 100 101 102 103 --workers 2")
    thread.join()
    assert status == 128 + signum
    assert [path.read_text() for path in tmp_path.rglob("saved")] == [str(int(signum))] * 2
    out, errors = capfd.readouterr()
    name = signal.Signals(signum).name
    assert f"\n{name}: finishing this step and saving" in errors  # below the bar
    table = out.split("5 experiments: ")[1]
    assert table.startswith("1 finished, 2 stopped, 2 not begun")
    states = [line.split("  ")[:2] for line in map(str.strip, table.splitlines())]
    assert [state for state, *where in states if where and where[0].startswith(str(tmp_path))] == [
        *("finished", "stopped", "stopped", "not begun", "not begun")
    ]
    assert "--workers 2 --resume --skip_finished\n" in table
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # put back


def test_a_second_ctrl_c_ends_at_once(fakes, tmp_path, capsys):
    def twice():
        send(signal.SIGINT)
        time.sleep(1.2)
        send(signal.SIGINT)

    thread = later(twice, tmp_path, 2)
    began = time.monotonic()
    status = execute(tmp_path, "--seed 200 201 202 --workers 2")
    thread.join()
    assert status == 130
    assert time.monotonic() - began < 15  # they would have run for a minute
    table = capsys.readouterr().out.split("3 experiments: ")[1]
    assert table.startswith("2 stopped, 1 not begun")
    assert table.count("without saving") == 2


def test_an_unexpected_error_lets_them_save(fakes, tmp_path, monkeypatch):
    def refresh(bar):
        if len([*tmp_path.glob("g/g_s*/running")]) == 2:
            raise RuntimeError("of the bar")

    monkeypatch.setattr(schedule.tqdm, "refresh", refresh)
    with pytest.raises(RuntimeError, match="of the bar"):
        execute(tmp_path, "--seed 100 101 102 --workers 2")
    saved = [path.read_text() for path in tmp_path.rglob("saved")]
    assert saved == [str(int(signal.SIGTERM))] * 2


def test_one_stops_and_one_cannot_write_its_error(fakes, tmp_path, capsys, monkeypatch):
    """What a process has left of its error is not whole; it tells nothing, and ends nothing."""
    start = Processes.start

    def start_and_fill(processes, arguments, at_a_time, output):
        Path(arguments[1], "error.json").write_text('["gamma is')
        return start(processes, arguments, at_a_time, output)

    assert execute(tmp_path, "--seed 15 0 --workers 2") == 128 + signal.SIGTERM
    assert "2 experiments: 1 finished, 1 stopped" in capsys.readouterr().out
    monkeypatch.setattr(Processes, "start", start_and_fill)
    assert execute(tmp_path, "--seed 13 15 0 --workers 3 --overwrite") == 1
    assert "3 experiments: 1 finished, 1 failed, 1 stopped" in capsys.readouterr().out


# ---------------------------------------------------------------- one after the other


def sequential(monkeypatch, statuses, tmp_path, seeds=(0, 1, 2), **options):
    statuses = iter(statuses)
    monkeypatch.setattr(Processes, "run", lambda self, arguments: next(statuses))
    grid_of([*seeds]).run(NamedAlgorithm("ppo"), data_dir=tmp_path, **options)


def test_a_failed_one_does_not_end_the_grid(monkeypatch, tmp_path, capsys):
    errors = iter([None, None, ["gamma is 3", "trace"]])
    monkeypatch.setattr(run_entrypoint, "read_error", lambda folder: next(errors))
    failed = r"2 of 3 .*g_s1 \(exit status 3\); .*g_s2 \(gamma is 3\)"
    with pytest.raises(ExperimentsFailed, match=failed):
        sequential(monkeypatch, [0, 3, 2], tmp_path)
    out, error = capsys.readouterr()
    assert out.count("There appears to have been an error in your experiment") == 1
    assert "3 experiments: 1 finished, 2 failed" in out
    assert error == f"spinup_tf2: error: {tmp_path}/g/g_s2: gamma is 3\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_started_does_not_end_the_grid(monkeypatch, tmp_path, capsys, workers):
    """Where the directory for temporary files is gone, or the function cannot be handed over."""
    grid = grid_of([0, 1], path="x")
    grid.add("x", threading.Lock())
    with pytest.raises(ExperimentsFailed, match=r"2 of 2 .*not be started \(TypeError: .*lock"):
        grid.run(tell, data_dir=tmp_path, workers=workers)
    out, errors = capsys.readouterr()
    assert "2 experiments: 2 failed" in out
    said = errors.count("g_s0: it could not be started (TypeError: cannot pickle")
    assert said == (1 if workers == 1 else 0)  # otherwise it is told when it ends, with the others
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ExperimentsFailed, match=r"2 of 2 .*FileNotFoundError: .*gone"):
        sequential(monkeypatch, [], tmp_path / "2", seeds=(0, 1), workers=workers)


def test_the_only_experiment_fails_as_one_of_several_does(monkeypatch, tmp_path, capsys):
    with pytest.raises(ExperimentsFailed, match=r"1 of 1 .*g_s0 \(exit status 3\)") as raised:
        sequential(monkeypatch, [3], tmp_path, seeds=[0])
    assert raised.value.status == 3
    with pytest.raises(Interrupted):
        sequential(monkeypatch, [130], tmp_path, seeds=[0])
    sequential(monkeypatch, [0, 0, 0], tmp_path)  # and without a failure there is no table
    assert "experiments:" not in capsys.readouterr().out


def test_in_a_launched_world_a_failure_ends_the_job(monkeypatch):
    def fail(*_):
        raise UserError("of one rank")

    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    monkeypatch.setattr(calling, "run_experiment", fail)
    with pytest.raises(UserError, match="of one rank"):
        schedule._run_in_turn([Outcome(None, n) for n in (1, 2)], Processes(1), True)


# ---------------------------------------------------------------- what is said of the rest


RUN = "python -m spinup_tf2.run"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ppo --seed 0 1", f"{RUN} ppo --seed 0 1 --resume --skip_finished"),
        ("ppo --resume --gamma 0 1 --skip_finished", "ppo --gamma 0 1 --resume --skip_finished"),
        ("ppo --overwrite True --hid[h] [3,2]", "ppo '--hid[h]' '[3,2]' --resume --skip_finished"),
        ("ppo --dt", f"continued by: {RUN} resume RUN_DIR"),
        (None, "grid.add('resume', True) and run(..., skip_finished=True) does the rest."),
    ],
)
def test_what_does_the_rest(command, said):
    experiment = Experiment("g", NamedAlgorithm("ppo"), {}, dict(output_dir="data/g/g_s0"))
    assert said in summary([Outcome(experiment, 1)], 1, command and command.split())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (3600 + 59 * 60, "1 h 59 min")],
)
def test_durations(seconds, text):
    experiment = Experiment("g", print, {}, {})
    said = summary([Outcome(experiment, 1)], seconds, None)
    assert f"1 experiments: 1 not begun, in {text}:" in said
    assert "does the rest" not in said  # nothing is known of another function


# ---------------------------------------------------------------- what has not learned


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ([-200.0] * 20, "(-200 in the first tenth of the epochs, -200 in the last)"),
        ([5, 7, *[9] * 16, 6, 6], "(6 in the first tenth of the epochs, 6 in the last)"),
        ([5, 7, *[1] * 16, 6, 7], ""),
        ([5] * 9, ""),
        (["", 3, *[9] * 16, 1, 2, ""], "(3 in the first tenth of the epochs, 2 in the last);"),
    ],
)
def test_a_run_that_has_not_improved_says_so(tmp_path, returns, said):
    lines = ["Epoch\tAverageEpRet", *(f"{i}\t{x}" for i, x in enumerate(returns))]
    (tmp_path / "progress.txt").write_text("\n".join([*lines, ""]))
    kwargs, logger_kwargs = dict(env_name="MountainCar-v0"), dict(output_dir=str(tmp_path))
    ppo = NamedAlgorithm("ppo")
    text = not_improved(Experiment("first", ppo, kwargs, logger_kwargs))
    assert said in text
    assert bool(said) == ("hyperparameters for MountainCar-v0: --preset classic." in text)
    logger_kwargs["preset"] = "classic"
    text = not_improved(Experiment("first", ppo, kwargs, logger_kwargs))
    assert bool(said) == text.endswith("try other settings.")
