"""What the programs that imitate a demonstration have in common."""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.examples import cloning, mario_demo
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
PROGRAMS = [pytest.param(mario_demo, "mario-1-1", id="mario")]
if find_spec("pybullet"):
    from spinup_tf2.examples import quadruped_demo

    PROGRAMS.append(pytest.param(quadruped_demo, "walk", id="quadruped"))


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs a program without its work; `done` has what it would have done, as (name, argument)."""
    done = []
    evaluate = lambda run_dir, **_: done.append(("evaluate", run_dir))  # noqa: E731
    monkeypatch.setattr(cloning, "evaluate_run", evaluate)
    improve = lambda name, *_, **settings: done.append((name, settings))  # noqa: E731
    monkeypatch.setattr(cloning, "call_experiment", improve)
    monkeypatch.setattr(mario_demo, "commonest_grey", lambda env_fn, stages: 0.25)

    def clone(*args, resume, **options):
        done.append(("clone", args))
        return not resume

    def run(program, *flags):
        monkeypatch.setattr(program, "clone", clone)
        monkeypatch.setattr("sys.argv", ["program", "--data_dir", str(tmp_path), *flags])
        program.main()

    def refused(program, *flags):
        with pytest.raises(SystemExit):
            run(program, *flags)
        assert done == []
        return capsys.readouterr().err

    return SimpleNamespace(run=run, refused=refused, done=done)


@pytest.mark.parametrize("which", ["clone", "demo"])
@pytest.mark.parametrize(("program", "name"), PROGRAMS)
def test_runs_that_exist_are_refused_before_anything_is_done(program, name, which, run, tmp_path):
    directory = tmp_path / f"{name}-{which}" / f"{name}-{which}_s0"
    directory.mkdir(parents=True)
    (directory / "progress.txt").touch()
    assert f"{directory} already holds a run; choose another --exp_name" in run.refused(program)
    run.run(program, "--resume", "--epochs", "7")  # what is complete is not evaluated again
    (first, _), (second, settings) = run.done
    assert (first, second) == ("clone", f"{name}-demo")
    assert settings["resume"] is True
    assert settings["epochs"] == 7


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
    program, name, flags, told, run, tmp_path
):
    assert told in run.refused(program, *flags)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("program", "name"), PROGRAMS)
def test_only_the_imitation(program, name, run, tmp_path):
    run.run(program, "--epochs", "0", "--exp_name", "mine", "--seed", "3")
    assert [name for name, _ in run.done] == ["clone", "evaluate"]
    assert run.done[1][1] == str(tmp_path / "mine-clone" / "mine-clone_s3")


# ---------------------------------------------------------------------------------------- Mario


def test_imitation_and_ppo_have_the_same_levels_and_background(run, tmp_path):
    stages = ["1-4", "1-1"]
    run.run(mario_demo, "--stage", *stages, "--seed", "3")
    clone, (_, imitation), (name, settings) = run.done
    _, (env_fn, learned, seed, _, ac_kwargs) = clone
    assert name == "mario-1-4-1-1-demo"
    assert learned == env_fn.env_kwargs["stages"] == settings["env_kwargs"]["stages"] == stages
    assert env_fn.env_kwargs["actions"] == "run"
    assert seed == settings["seed"] == 3
    assert imitation == settings["init_from"]
    assert settings["epochs"] == 2 * PRESET.settings["epochs"] == 80
    assert settings["env_kwargs"]["demonstration_epochs"] == 20
    assert ac_kwargs == settings["ac_kwargs"]
    assert ac_kwargs == PRESET.settings["ac_kwargs"] | dict(background=0.25)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--init_from", "none"], "none"),
        (["--stage", "1-1", "9-9"], "There is no demonstration of 9-9; there are some of 1-1, "),
    ],
)
def test_what_mario_cannot_learn(flags, told, run, tmp_path):
    assert told in run.refused(mario_demo, *flags)
    assert not any(tmp_path.iterdir())


@needs_emulator
def test_a_level_that_takes_other_actions_is_refused():
    env_fn = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": ["2-3"]})
    with pytest.raises(UserError, match="are not enough for the demonstration of 2-3"):
        mario_demo.commonest_grey(env_fn, ["1-1", "2-3"])
