"""Mario that is shown how to clear levels: what it is shown, that it imitates it, and goes on."""

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.core.runs.saved_policy import load_policy
from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.examples import mario_demo
from spinup_tf2.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
STAGES = ["1-4", "1-1"]
ENV_FN = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": STAGES})


@needs_emulator
def test_it_is_shown_what_clears_each_level():
    env = ENV_FN()
    obs, act = mario_demo.demonstrate(env, STAGES, [0])
    plan = "".join(demonstration(stage) for stage in STAGES)
    assert act.tolist() == ["rj".index(letter) for letter in plan]
    assert obs.shape == (len(plan), 84, 84, 4)
    for start in (0, len(demonstration("1-4"))):  # the first frame four times, and others then
        assert (obs[start] == obs[start, ..., :1]).all()
        assert (obs[start + 9] != obs[start + 9, ..., :1]).any()
    env.close()


@needs_emulator
def test_it_is_shown_what_clears_it_after_doing_nothing_too(monkeypatch, capsys):
    found = {("1-4", 0): "rj", ("1-4", 9): "jjr", ("1-1", 0): None, ("1-1", 9): "r"}
    asked = []

    def plan_after(stage, noops, letters):
        asked.append(letters)
        return found[stage, noops]

    monkeypatch.setattr(mario_demo, "plan_after", plan_after)
    env = ENV_FN()
    resets = []
    reset, step = env.reset, env.step
    monkeypatch.setattr(
        env, "reset", lambda *, options: resets.append(options) or reset(options=options)
    )
    over = dict(is_success=True)
    monkeypatch.setattr(env, "step", lambda act: (*step(act)[:2], True, False, over))
    obs, act = mario_demo.demonstrate(env, STAGES, [0, 9], cpu=2)
    env.close()
    assert [(*options["stages"], options["noops"]) for options in resets] == [
        *[("1-4", 0), ("1-4", 9), ("1-1", 9)]
    ]
    assert act.tolist() == [0, 1, 1, 1, 0, 0]
    assert len(obs) == 6
    assert asked == ["rj"] * 4
    said = "No way through 1-1 was found after 0 frames of doing nothing.\n"
    assert capsys.readouterr().out == said


@needs_emulator
def test_a_demonstration_that_does_not_reach_the_flag_is_told(monkeypatch):
    env = ENV_FN()
    monkeypatch.setattr(mario_demo, "plan_after", lambda *_, **__: "rrj")
    with pytest.raises(UserError, match="demonstration of 1-1 does not reach the flag"):
        mario_demo.demonstrate(env, ["1-1"], [0])
    env.close()


@needs_emulator
def test_the_clone_does_what_it_was_shown(tmp_path, monkeypatch):
    """Frames in which the action can be seen: of 40, the upper or the lower half is bright."""
    rng = np.random.default_rng(0)
    act = rng.integers(2, size=40)
    obs = rng.integers(0, 100, (40, 84, 84, 4), dtype=np.uint8)
    for frames, lower in zip(obs, act, strict=True):
        frames[42 * lower : 42 * (lower + 1)] += 100
    monkeypatch.setattr(mario_demo, "demonstrate", lambda *_: (obs, act))
    logger_kwargs = dict(output_dir=str(tmp_path), exp_name="clone", quiet=True)
    ac_kwargs = PRESET.arguments["ac_kwargs"]
    mario_demo.clone(ENV_FN, STAGES, 0, logger_kwargs, ac_kwargs, passes=40, loss=0.01)
    progress = pd.read_table(tmp_path / "progress.txt")
    assert progress["Accuracy"].iloc[-1] == 1.0
    assert progress["LossPi"].iloc[-1] <= 0.01
    assert (progress["LossPi"].iloc[:-1] > 0.01).all()  # then it is over
    assert len(progress) < 40
    get_action = load_policy(tmp_path / "tf2_save", deterministic=True)
    assert [int(get_action(each)) for each in obs] == act.tolist()


@pytest.fixture
def done(monkeypatch):
    """What the program would do, in order, as (name, arguments)."""
    done = []
    monkeypatch.setattr(mario_demo, "clone", lambda *args, **_: done.append(("clone", args)))
    monkeypatch.setattr(
        mario_demo, "evaluate_run", lambda run_dir, **_: done.append(("evaluate", run_dir))
    )
    monkeypatch.setattr(
        mario_demo, "call_experiment", lambda name, *_, **kwargs: done.append((name, kwargs))
    )
    return done


def run_program(monkeypatch, *flags):
    monkeypatch.setattr("sys.argv", ["mario_demo", *flags])
    mario_demo.main()


def test_imitation_and_ppo_have_the_same_levels(done, tmp_path, monkeypatch):
    run_program(monkeypatch, "--stage", *STAGES, "--data_dir", str(tmp_path), "--seed", "3")
    (first, (env_fn, stages, seed, *_)), (second, imitation), (name, settings) = done
    assert (first, second, name) == ("clone", "evaluate", "mario-1-4-1-1-demo")
    assert stages == env_fn.env_kwargs["stages"] == settings["env_kwargs"]["stages"] == STAGES
    assert env_fn.env_kwargs["actions"] == "run"
    assert seed == settings["seed"] == 3
    assert imitation == settings["init_from"]
    assert imitation == str(tmp_path / "mario-1-4-1-1-clone" / "mario-1-4-1-1-clone_s3")
    assert settings["epochs"] == 2 * PRESET.settings["epochs"] == 80
    assert settings["env_kwargs"]["demonstration_epochs"] == 20


@pytest.mark.parametrize(("epochs", "names"), [("0", []), ("7", ["four-demo"])])
def test_so_many_epochs_of_ppo(epochs, names, done, tmp_path, monkeypatch):
    flags = ["--exp_name", "four", "--epochs", epochs, "--data_dir", str(tmp_path)]
    run_program(monkeypatch, *flags)
    assert [name for name, _ in done] == ["clone", "evaluate", *names]
    assert all(settings["epochs"] == 7 for _, settings in done[2:])


def test_a_level_without_a_demonstration_is_refused(done, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_program(monkeypatch, "--stage", "1-1", "9-9", "--data_dir", str(tmp_path))
    assert "There is no demonstration of 9-9; there are some of 1-1, " in capsys.readouterr().err
    assert done == []
