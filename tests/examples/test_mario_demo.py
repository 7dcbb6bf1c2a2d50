"""Mario that is shown how to clear levels: that it imitates it, goes on from there, and resumes."""

import json
import os
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from spinup_tf2.experiments.presets import load

from spinup_tf2.errors import UserError
from spinup_tf2.examples import mario_demo, mario_ways
from spinup_tf2.examples.mario_demo import commonest_grey
from spinup_tf2.examples.mario_ways import Start, Way
from spinup_tf2.training.saved_policy import load_policy
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
STAGES = ["1-4", "1-1"]
ENV_FN = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": STAGES})


# ---------------------------------------------------------------------------- the imitation


def seen_and_done(n, rng):
    """Frames in which the action can be seen: the upper or the lower half is bright."""
    act = rng.integers(2, size=n)
    obs = rng.integers(0, 100, (n, 84, 84, 4), dtype=np.uint8)
    for frames, lower in zip(obs, act, strict=True):
        frames[42 * lower : 42 * (lower + 1)] += 100
    return obs, act


class Teacher:
    """Shows so many frames in each round, and counts how often it was asked."""

    def __init__(self, monkeypatch, steps):
        rng = np.random.default_rng(0)
        self.batches, self.asked = [seen_and_done(n, rng) for n in steps], []
        monkeypatch.setattr(mario_demo, "SAMPLED", 2)
        shows = lambda letters, known, start: self.way(0, start)  # noqa: E731
        monkeypatch.setattr(mario_ways, "first_way", shows)
        of_network = lambda *_: lambda start: self.way(len(self.played), start)  # noqa: E731
        monkeypatch.setattr(mario_demo, "correct_with", of_network)
        monkeypatch.setattr(mario_demo, "frames_of", self.frames_of)
        self.played = []

    def way(self, number, start):
        self.asked.append(start)
        return Way(start, success=start.seed is not None)

    def frames_of(self, env_fn, ways, cpu):
        self.played.append([way.start for way in ways])
        number = max(way.start.seed or 0 for way in ways) // mario_demo.SAMPLED
        return [self.batches[number]]


def clone(output_dir, stages=("1-4",), seed=0, **options):
    logger_kwargs = dict(output_dir=str(output_dir), exp_name="clone", quiet=True)
    ac_kwargs = PRESET.arguments["ac_kwargs"]
    return mario_demo.clone(ENV_FN, [*stages], seed, logger_kwargs, ac_kwargs, **options)


@pytest.mark.parametrize("chosen", [None, "0"])
def test_tensorflow_is_told_that_there_are_convolutions(chosen):
    """Before it is loaded, and unless the user has said something else."""
    program = (
        "import os, runpy, sys\n"
        "class Finder:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'tensorflow':\n"
        "            print(os.environ.get('TF_ENABLE_ONEDNN_OPTS'), flush=True)\n"
        "            os._exit(0)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "runpy.run_module('spinup_tf2.examples.mario_demo', run_name='__main__')\n"
    )
    environ = {name: x for name, x in os.environ.items() if name != "TF_ENABLE_ONEDNN_OPTS"}
    environ |= {"TF_ENABLE_ONEDNN_OPTS": chosen} if chosen else {}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [chosen or "1"], done.stderr


def test_each_round_begins_with_another_third_of_the_starts(monkeypatch):
    """And with the standard start; sampled actions have seeds and starts of their own."""
    monkeypatch.setattr(mario_demo, "SAMPLED", 2)
    noops = range(8)
    rounds = [mario_demo.starts_of_round(n, ["1-4", "1-1"], noops) for n in range(5)]
    greedy = [[start for start in starts if start.seed is None] for starts in rounds]
    for starts, frames in zip(greedy, [[0, 3, 6], [0, 1, 4, 7], [0, 2, 5]] * 2, strict=False):
        assert starts == [Start(stage, each) for stage in ("1-4", "1-1") for each in frames]
    sampled = [[start for start in starts if start.seed is not None] for starts in rounds]
    seeds = [[start.seed for start in starts] for starts in sampled]
    assert seeds == [[], *([2 * n, 2 * n + 1] * 2 for n in range(1, 5))]
    frames = {start.noops for starts in sampled for start in starts}
    assert len(frames) > 3
    assert frames <= {*noops}
    assert rounds[3] == mario_demo.starts_of_round(3, ["1-4", "1-1"], noops)


@needs_emulator
def test_it_learns_from_the_last_three_rounds_of_corrections(tmp_path, monkeypatch, capsys):
    teacher = Teacher(monkeypatch, [40, 8, 16, 24, 32])
    options = dict(passes=4, correction_passes=2, loss=0.0)
    assert clone(tmp_path, noops=[0, 3], rounds=4, **options)
    assert teacher.played == [mario_demo.starts_of_round(n, ["1-4"], [0, 3]) for n in range(5)]
    progress = pd.read_table(tmp_path / "progress.txt")
    assert progress["Round"].tolist() == [0] * 4 + [1, 1, 2, 2, 3, 3, 4, 4]
    steps = [40] * 4 + [8] * 2 + [8 + 16] * 2 + [8 + 16 + 24] * 2 + [16 + 24 + 32] * 2
    assert progress["TotalEnvInteracts"].tolist() == steps
    said = "Round 1: 2 of 4 episodes reached the flag.\nRound 2: 2 of 3 episodes reached the flag."
    assert said in capsys.readouterr().out


@needs_emulator
def test_three_rounds_without_a_correction_are_the_last(tmp_path, monkeypatch, capsys):
    """Round 1 needs one; after rounds 2 to 4 it is over, and it stays over when it is resumed."""
    teacher = Teacher(monkeypatch, [40] + [8] * 5)
    needs_none = lambda start: Way(start, success=len(teacher.played) != 1)  # noqa: E731
    monkeypatch.setattr(mario_demo, "correct_with", lambda *_: needs_none)
    options = dict(noops=[0], rounds=9, passes=1, correction_passes=2, loss=0.0)
    assert clone(tmp_path, **options)
    assert pd.read_table(tmp_path / "progress.txt")["Round"].tolist() == [0, 1, 1, 2, 2, 3, 3]
    said = "Round 4: 3 of 3 episodes reached the flag.\nNo episode of the last 3 rounds needed help"
    assert said in capsys.readouterr().out
    assert not clone(tmp_path, **options, resume=True)
    assert len(pd.read_table(tmp_path / "progress.txt")) == 7


@needs_emulator
def test_a_network_that_never_gets_anywhere_is_told(tmp_path, monkeypatch):
    teacher = Teacher(monkeypatch, [4])
    monkeypatch.setattr(
        mario_demo, "frames_of", lambda _, ways, cpu: [] if len(ways) > 1 else teacher.batches
    )
    with pytest.raises(UserError, match="In round 1 no way to the flag was found in any episode"):
        clone(tmp_path, noops=[0], rounds=1, passes=1)


@needs_emulator
def test_where_two_rounds_differ_the_later_one_is_learned(tmp_path, monkeypatch):
    teacher = Teacher(monkeypatch, [4, 20, 20])
    obs, act = teacher.batches[1]
    teacher.batches[2] = obs, 1 - act
    clone(tmp_path, noops=[0], rounds=2, passes=1, correction_passes=60, loss=0.01)
    get_action = load_policy(tmp_path / "tf2_save", deterministic=True)
    assert [int(get_action(each)) for each in obs] == (1 - act).tolist()


@needs_emulator
def test_a_network_of_another_run_is_corrected(tmp_path, monkeypatch):
    """It plays as it did there, and no demonstrations are shown."""
    teacher = Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "first", rounds=0, passes=40, loss=0.01)
    played = []

    def correct_with(env_fn, net):
        [obs, act] = teacher.batches[0]
        played.append((net(obs).numpy().argmax(1) == act).all())
        return lambda start: Way(start, success=True)

    monkeypatch.setattr(mario_demo, "correct_with", correct_with)
    teacher.played.clear()
    options = dict(init_from=str(tmp_path / "first"), noops=[0], correction_passes=2, loss=0.0)
    assert clone(tmp_path / "then", rounds=1, **options)
    assert played == [True]
    assert teacher.played == [mario_demo.starts_of_round(1, ["1-4"], [0])]
    assert pd.read_table(tmp_path / "then" / "progress.txt")["Round"].tolist() == [1, 1]


@needs_emulator
def test_the_clone_does_what_it_was_shown(tmp_path, monkeypatch):
    teacher = Teacher(monkeypatch, [40])
    clone(tmp_path, rounds=0, passes=40, loss=0.01)
    progress = pd.read_table(tmp_path / "progress.txt")
    assert progress["Accuracy"].iloc[-1] == 1.0
    assert progress["LossPi"].iloc[-1] <= 0.01
    assert (progress["LossPi"].iloc[:-1] > 0.01).all()  # then it is over
    assert len(progress) < 40
    get_action = load_policy(tmp_path / "tf2_save", deterministic=True)
    obs, act = teacher.batches[0]
    assert [int(get_action(each)) for each in obs] == act.tolist()


@needs_emulator
@pytest.mark.parametrize("stopped_after", [0, 2, 3, 4])
def test_an_imitation_goes_on_where_it_was_stopped(stopped_after, tmp_path, monkeypatch):
    """Between the passes of a round, between rounds, and before the first pass is over."""
    options = dict(noops=[0, 3], rounds=1, passes=3, correction_passes=3, loss=0.0)
    Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "whole", **options)

    teacher = Teacher(monkeypatch, [40, 8])
    fit, passes = mario_demo.keras.Model.fit, []

    def stop(*args, **kwargs):
        if len(passes) == stopped_after:
            raise KeyboardInterrupt
        passes.append(1)
        return fit(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(mario_demo.keras.Model, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            clone(tmp_path / "parts", **options)
    teacher.played.clear()
    assert clone(tmp_path / "parts", **options, resume=True)
    assert len(teacher.asked) == 1 + 4  # nothing was looked for again
    progress = [pd.read_table(tmp_path / run / "progress.txt") for run in ("whole", "parts")]
    pd.testing.assert_frame_equal(*progress)
    weights = [np.load(tmp_path / run / "tf2_save" / "weights.npz") for run in ("whole", "parts")]
    for name in weights[0]:
        np.testing.assert_array_equal(weights[0][name], weights[1][name])


@needs_emulator
def test_more_rounds_can_follow(tmp_path, monkeypatch):
    options = dict(noops=[0], passes=2, correction_passes=2, loss=0.0)
    Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "whole", **options, rounds=1)
    teacher = Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "parts", **options, rounds=0)
    teacher.played.clear()
    assert not clone(tmp_path / "parts", **options, rounds=0, resume=True)
    assert teacher.played == []
    assert clone(tmp_path / "parts", **options, rounds=1, resume=True, cpu=2)
    progress = [pd.read_table(tmp_path / run / "progress.txt") for run in ("whole", "parts")]
    pd.testing.assert_frame_equal(*progress)


@needs_emulator
def test_an_imitation_of_something_else_is_not_resumed(tmp_path, monkeypatch):
    Teacher(monkeypatch, [40])
    clone(tmp_path, rounds=0, passes=1)
    before = (tmp_path / "progress.txt").read_text()
    refused = r"cannot go on: its stages was \['1-4'\] and is now \['1-1'\]"
    with pytest.raises(UserError, match=refused):
        clone(tmp_path, ["1-1"], rounds=0, passes=1, resume=True)
    assert (tmp_path / "progress.txt").read_text() == before


# ---------------------------------------------------------------------------- the program


@pytest.fixture
def done(monkeypatch):
    """What the program would do, in order, as (name, arguments)."""
    done = []

    def clone(*args, resume, **options):
        done.append(("clone", args))
        return not resume

    monkeypatch.setattr(mario_demo, "clone", clone)
    monkeypatch.setattr(mario_demo, "commonest_grey", lambda env_fn, stages: 0.25)
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


@needs_emulator
@pytest.mark.parametrize(
    ("stages", "grey"), [(["1-4"], 0), (["1-1"], 140), (["1-1", "1-4", "2-1"], 140)]
)
def test_the_commonest_grey_is_that_of_the_sky_or_of_a_cave(stages, grey, monkeypatch):
    """As the levels begin without a frame of doing nothing, of which training has some."""
    asked, reset = [], gym.Wrapper.reset
    look = lambda env, **of: asked.append(of.get("options")) or reset(env, **of)  # noqa: E731
    env_fn = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": stages})
    monkeypatch.setattr(gym.Wrapper, "reset", look)
    assert commonest_grey(env_fn, stages) == grey / 255
    assert dict(stages=stages[:1], noops=0) in asked


def test_imitation_and_ppo_have_the_same_background(done, tmp_path, monkeypatch):
    run_program(monkeypatch, "--stage", "2-1", "--data_dir", str(tmp_path))
    (_, (*_, ac_kwargs)), _, (_, settings) = done
    assert ac_kwargs == settings["ac_kwargs"]
    assert ac_kwargs == PRESET.settings["ac_kwargs"] | dict(background=0.25)


@pytest.mark.parametrize("background", [None, 0.34])
def test_a_network_that_is_corrected_keeps_its_background(background, done, tmp_path, monkeypatch):
    """An earlier one has none, which is 0."""
    save = tmp_path / "first" / "tf2_save"
    save.mkdir(parents=True)
    arguments = {} if background is None else dict(background=background)
    info = dict(observation_space={}, action_space={}, networks=dict(arguments=arguments))
    (save / "model_info.json").write_text(json.dumps(info))
    flags = ["--data_dir", str(tmp_path), "--init_from", str(tmp_path / "first")]
    run_program(monkeypatch, *flags)
    assert done[0][1][-1]["background"] == (background or 0)


def test_a_network_without_a_description_is_refused(done, tmp_path, monkeypatch, capsys):
    (tmp_path / "first" / "tf2_save").mkdir(parents=True)
    flags = ["--data_dir", str(tmp_path), "--init_from", str(tmp_path / "first")]
    with pytest.raises(SystemExit):
        run_program(monkeypatch, *flags)
    assert "There is no complete saved policy in" in capsys.readouterr().err
    assert done == []


@needs_emulator
def test_a_level_that_takes_other_actions_is_refused(done, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mario_demo, "commonest_grey", commonest_grey)
    with pytest.raises(SystemExit):
        run_program(monkeypatch, "--stage", "1-1", "2-3", "--data_dir", str(tmp_path))
    assert "are not enough for the demonstration of 2-3" in capsys.readouterr().err
    assert done == []
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("epochs", "names"), [("0", []), ("7", ["four-demo"])])
def test_so_many_epochs_of_ppo(epochs, names, done, tmp_path, monkeypatch):
    flags = ["--exp_name", "four", "--epochs", epochs, "--data_dir", str(tmp_path)]
    run_program(monkeypatch, *flags)
    assert [name for name, _ in done] == ["clone", "evaluate", *names]
    assert all(settings["epochs"] == 7 for _, settings in done[2:])


def test_what_was_stopped_goes_on(done, tmp_path, monkeypatch):
    """An imitation that is complete is not evaluated again."""
    (tmp_path / "mario-1-1-clone" / "mario-1-1-clone_s0").mkdir(parents=True)
    (tmp_path / "mario-1-1-clone" / "mario-1-1-clone_s0" / "progress.txt").touch()
    run_program(monkeypatch, "--data_dir", str(tmp_path), "--resume")
    (first, _), (second, settings) = done
    assert (first, second) == ("clone", "mario-1-1-demo")
    assert settings["resume"] is True


def test_a_level_without_a_demonstration_is_refused(done, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_program(monkeypatch, "--stage", "1-1", "9-9", "--data_dir", str(tmp_path))
    assert "There is no demonstration of 9-9; there are some of 1-1, " in capsys.readouterr().err
    assert done == []


def test_a_negative_number_of_rounds_is_refused(done, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_program(monkeypatch, "--rounds", "-1", "--data_dir", str(tmp_path))
    assert "--rounds is -1; it must be at least 0" in capsys.readouterr().err
    assert done == []


def test_a_network_that_is_not_corrected_is_refused(done, tmp_path, monkeypatch, capsys):
    flags = ["--init_from", "data/other", "--rounds", "0", "--data_dir", str(tmp_path)]
    with pytest.raises(SystemExit):
        run_program(monkeypatch, *flags)
    assert "--rounds is 0: there would be nothing to do" in capsys.readouterr().err
    assert done == []


def test_a_run_that_is_not_there_is_refused(done, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_program(monkeypatch, "--init_from", str(tmp_path / "none"), "--data_dir", str(tmp_path))
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert done == []
    assert not any(tmp_path.iterdir())
