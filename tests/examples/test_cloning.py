"""What the programs that imitate a demonstration have in common."""

from importlib.util import find_spec

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.examples import mario_demo

PROGRAMS = [pytest.param(mario_demo, "mario-1-1", id="mario")]
if find_spec("pybullet"):
    from spinup_tf2.examples import quadruped_demo

    PROGRAMS.append(pytest.param(quadruped_demo, "walk", id="quadruped"))


@pytest.mark.parametrize("which", ["clone", "demo"])
@pytest.mark.parametrize(("program", "name"), PROGRAMS)
def test_runs_that_exist_are_refused_before_anything_is_done(
    program, name, which, tmp_path, monkeypatch, capsys
):
    done = []
    for step in ("clone", "evaluate_run", "call_experiment"):
        monkeypatch.setattr(program, step, lambda *_, **__: done.append(1))
    run = tmp_path / f"{name}-{which}" / f"{name}-{which}_s0"
    run.mkdir(parents=True)
    (run / "progress.txt").touch()
    monkeypatch.setattr("sys.argv", ["program", "--data_dir", str(tmp_path)])
    with pytest.raises(SystemExit):
        program.main()
    assert f"{run} already holds a run; choose another --exp_name" in capsys.readouterr().err
    assert done == []


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--seed", "-1"], "seed is -1; it must be"),
        (["--epochs", "-1"], "epochs is -1; it must be"),
        (["--cpu", "0"], "num_cpu is 0; it must be"),
        (["--cpu", "100000"], "steps_per_epoch"),
    ],
)
@pytest.mark.parametrize(("program", "name"), PROGRAMS)
def test_arguments_of_ppo_are_checked_before_anything_is_done(
    program, name, flags, told, tmp_path, monkeypatch, capsys
):
    for step in ("clone", "evaluate_run", "call_experiment"):
        monkeypatch.setattr(program, step, None)
    monkeypatch.setattr("sys.argv", ["program", "--data_dir", str(tmp_path), *flags])
    with pytest.raises(SystemExit):
        program.main()
    assert told in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("program", [pytest.param(each.values[0], id=each.id) for each in PROGRAMS])
def test_an_imitation_of_something_else_is_told_in_a_line(program, tmp_path, monkeypatch, capsys):
    done = []

    def refuse(*args, **options):
        raise UserError("the imitation cannot go on")

    monkeypatch.setattr(program, "clone", refuse)
    for step in ("evaluate_run", "call_experiment"):
        monkeypatch.setattr(program, step, lambda *_, **__: done.append(1))
    monkeypatch.setattr("sys.argv", ["program", "--resume", "--data_dir", str(tmp_path)])
    with pytest.raises(SystemExit):
        program.main()
    assert capsys.readouterr().err.endswith("error: the imitation cannot go on\n")
    assert done == []
