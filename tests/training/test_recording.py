"""Episodes that are shown (record_every, render_every) and printed (verbose_episodes)."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from imageio_ffmpeg import count_frames_and_secs, read_frames

from spinup_tf2 import sac, vpg
from spinup_tf2.callbacks import Callback
from spinup_tf2.errors import UserError
from tests.on_policy_runs import Identity, train
from tests.progress import rows_without_time


@pytest.mark.parametrize("algorithm", [vpg, sac], ids=["vpg", "sac"])
def test_videos_of_some_epochs_a_line_for_each_episode_and_the_same_training(
    tmp_path, capsys, algorithm
):
    def run(name, **options):
        options |= dict(
            steps_per_epoch=50, epochs=4, max_ep_len=10, ac_kwargs=dict(hidden_sizes=(4,))
        )
        if algorithm is sac:
            options |= dict(start_steps=50, update_after=50, update_every=10, batch_size=20)
        logger_kwargs = dict(output_dir=str(tmp_path / name))
        ac = algorithm("Pendulum-v1", **options, logger_kwargs=logger_kwargs)
        line = r"Epoch (\d): episode of 10 steps, return (.+)"
        printed = re.findall(line, capsys.readouterr().out)
        return ac, printed, rows_without_time(tmp_path / name / "progress.txt")

    plain, none, expected = run("without")
    ac, printed, rows = run("with", record_every=3, verbose_episodes=True)
    assert not none
    assert rows == expected
    for ours, theirs in zip(ac.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    first = 1 if algorithm is sac else 0
    names = {f"epoch-{first + i}-episode-0.mp4" for i in (0, 3)}
    assert {each.name for each in (tmp_path / "with" / "videos").iterdir()} == names
    assert [int(epoch) for epoch, _ in printed] == [first + i // 5 for i in range(20)]
    of_rows = np.loadtxt(tmp_path / "with" / "progress.txt", skiprows=1, usecols=1)
    of_lines = np.array([float(ret) for _, ret in printed]).reshape(4, 5).mean(1)
    np.testing.assert_allclose(of_lines, of_rows, rtol=1e-3)


def test_a_video_has_a_frame_for_each_step_and_one_for_the_beginning(tmp_path, capsys):
    logger_kwargs = dict(output_dir=str(tmp_path / "run"))
    vpg("CartPole-v1", steps_per_epoch=100, epochs=1, record_every=1, logger_kwargs=logger_kwargs)
    [(length, name)] = re.findall(
        r"episode with return [\d.]+ and length (\d+), in (\S+mp4)\.", capsys.readouterr().out
    )
    frames, seconds = count_frames_and_secs(Path(tmp_path, "run", name))
    assert frames == int(length) + 1
    assert seconds == pytest.approx(frames / 50, abs=0.1)


def test_an_environment_that_cannot_be_drawn_is_refused_first(tmp_path):
    def make():
        return Identity(gym.spaces.Discrete(3))

    with pytest.raises((TypeError, ValueError), match="spec"):
        train(vpg, tmp_path / "run", make, record_every=1)
    with pytest.raises(UserError, match=r"no render mode 'rgb_array'.*Train without record_every"):
        train(vpg, tmp_path / "run", "spinup_tf2:ProbeReward-v0", record_every=1)
    assert not (tmp_path / "run").exists()


def test_a_window_needs_a_display(tmp_path, monkeypatch):
    monkeypatch.setattr("spinup_tf2.envs.rendering.has_display", lambda: False)
    with pytest.raises(UserError, match=r"no display .* Train without render_every"):
        train(vpg, tmp_path / "run", render_every=1)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def unseen_windows(monkeypatch):
    """Those of pygame, on what is taken for a display."""
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def test_a_window_shows_every_other_epoch(tmp_path, unseen_windows, capsys):
    logger_kwargs = dict(output_dir=str(tmp_path / "run"))
    options = dict(epochs=3, steps_per_epoch=50, max_ep_len=5)
    vpg("CartPole-v1", **options, render_every=2, logger_kwargs=logger_kwargs)
    printed = capsys.readouterr().out
    assert printed.count("Shown: an episode with return 5.000 and length 5.\n") == 2
    assert not (tmp_path / "run" / "videos").exists()


def test_a_recording_that_fails_warns_once(tmp_path, capsys):
    class InTheWay(Callback):
        def on_start(self, run):
            Path(run.logger.output_dir, "videos").write_text("no folder")

    options = dict(epochs=3, steps_per_epoch=50, callbacks=[InTheWay()])
    _, rows = train(vpg, tmp_path / "run", **options, record_every=1)
    assert len(rows) == 3
    printed = "".join(capsys.readouterr())
    assert printed.count("record_every: no episode of epoch 0 is shown (") == 1
    assert printed.count("The training continues.") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "env_id", ["HalfCheetah-v5", "PongNoFrameskip-v4", "SuperMarioBros-1-1-v0", "QuadrupedWalk-v0"]
)
def test_environments_of_every_kind(tmp_path, env_id):
    options = dict(epochs=1, steps_per_epoch=20, max_ep_len=10, record_every=1)
    if env_id.startswith("Quadruped"):
        pytest.importorskip("pybullet")
    train(vpg, tmp_path / "run", env_id, train_v_iters=1, **options)
    [video] = (tmp_path / "run" / "videos").iterdir()
    frames, _ = count_frames_and_secs(video)
    assert frames >= 11  # more where a step skips frames
    assert middle_frame(video).std() > 5  # something can be seen


def middle_frame(path):
    reader = read_frames(str(path))
    width, height = next(reader)["size"]
    pictures = [np.frombuffer(each, np.uint8).reshape(height, width, 3) for each in reader]
    return pictures[len(pictures) // 2]
