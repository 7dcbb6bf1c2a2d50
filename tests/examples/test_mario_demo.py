"""Mario that is shown how to clear levels: that it imitates it, goes on from there, and resumes."""

import numpy as np
import pandas as pd
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.examples import mario_demo, mario_ways
from spinup_tf2.examples.mario_ways import Way
from spinup_tf2.experiments.presets import load
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
    ac_kwargs = dict(conv=[[8, 8, 8]], hidden_sizes=[16])  # is faster than that of the preset
    return mario_demo.clone(ENV_FN, [*stages], seed, logger_kwargs, ac_kwargs, **options)


@needs_emulator
def test_it_learns_from_the_last_three_rounds_of_corrections(tmp_path, monkeypatch, capsys):
    teacher = Teacher(monkeypatch, [40, 8, 16, 24, 32])
    together, joined = mario_demo.together, []

    def noted(pairs):
        joined.append([*pairs])
        return together(joined[-1])

    monkeypatch.setattr(mario_demo, "together", noted)
    options = dict(passes=4, correction_passes=2, loss=0.0)
    assert clone(tmp_path, noops=[0, 3], rounds=4, **options)
    assert teacher.played == [mario_demo.starts_of_round(n, ["1-4"], [0, 3]) for n in range(5)]
    progress = pd.read_table(tmp_path / "progress.txt")
    assert progress["Round"].tolist() == [0] * 4 + [1, 1, 2, 2, 3, 3, 4, 4]
    steps = [40] * 4 + [8] * 2 + [8 + 16] * 2 + [8 + 16 + 24] * 2 + [16 + 24 + 32] * 2
    assert progress["TotalEnvInteracts"].tolist() == steps
    # Later rounds come first, and so are learned where two of them differ.
    assert [[len(act) for _, act in each] for each in joined] == [
        *([40], [8], [16, 8], [24, 16, 8], [32, 24, 16])
    ]
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
def test_a_network_of_another_run_is_corrected(tmp_path, monkeypatch):
    """It plays as it did there, and no demonstrations are shown."""
    teacher = Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "first", rounds=0, passes=40, loss=0.01)
    progress = pd.read_table(tmp_path / "first" / "progress.txt")
    assert progress["Accuracy"].iloc[-1] == 1.0
    assert progress["LossPi"].iloc[-1] <= 0.01
    assert (progress["LossPi"].iloc[:-1] > 0.01).all()  # then it is over
    assert len(progress) < 40
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
def test_an_imitation_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """In the second round, before its first pass is over."""
    options = dict(noops=[0, 3], rounds=1, passes=3, correction_passes=3, loss=0.0)
    Teacher(monkeypatch, [40, 8])
    clone(tmp_path / "whole", **options)

    teacher = Teacher(monkeypatch, [40, 8])
    fit, passes = mario_demo.keras.Model.fit, []

    def stop(*args, **kwargs):
        if len(passes) == 3:
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
def test_an_imitation_of_something_else_is_not_resumed(tmp_path, monkeypatch):
    Teacher(monkeypatch, [40])
    clone(tmp_path, rounds=0, passes=1)
    before = (tmp_path / "progress.txt").read_text()
    refused = r"cannot be continued: its stages was \['1-4'\] and is now \['1-1'\]"
    with pytest.raises(UserError, match=refused):
        clone(tmp_path, ["1-1"], rounds=0, passes=1, resume=True)
    assert (tmp_path / "progress.txt").read_text() == before
