"""Watching a trained agent: which save is loaded, what is run, and what is not unpickled."""

import os
import pickle
import re
import signal
import subprocess
import sys
from contextlib import nullcontext

import gymnasium as gym
import joblib
import numpy as np
import psutil
import pytest
from gymnasium import spaces

from spinup_tf2.cli import agents
from spinup_tf2.cli import test_policy as command
from spinup_tf2.cli.test_policy import main
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import write_env_spec
from spinup_tf2.utils.run_utils import EnvFn
from spinup_tf2.utils.test_policy import load_env, load_policy_and_env, run_policy
from tests.security.test_malicious_files import Malicious


class Countdown(gym.Env):
    """Ends after as many steps as the action says; reward is the number of steps still to go."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.observation_space = spaces.Box(0, np.inf, shape=(1,), dtype=np.float32)
        self.action_space = spaces.Discrete(10)
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps >= action
        return np.full(1, self.steps, np.float32), float(action - self.steps), over, False, {}

    def render(self):
        return f"<step {self.steps}>"


@pytest.fixture
def run(tmp_path):
    """The directory of a run with two numbered saves; the policies in them are empty."""
    directory = tmp_path / "run"
    for name in ("tf2_save", "tf2_save9", "tf2_save10"):
        (directory / name).mkdir(parents=True)
    write_env_spec(directory / "env_spec.json", gym.make("CartPole-v1"), None)
    return directory


@pytest.fixture
def stub(monkeypatch):
    """Instead of a saved policy one that takes action 0; returns what it was loaded with."""
    loaded = []

    def load_agent(*args):
        loaded.append(args)
        return lambda obs: 0

    for module in (command, agents):
        monkeypatch.setattr(module, "load_agent", load_agent)
    return loaded


# ---------------------------------------------------------------- running


def test_messages_and_table_byte_for_byte(capsys):
    actions = iter([2, 2, 4, 4, 4, 4])
    row = run_policy(Countdown(), lambda obs: next(actions), num_episodes=2, render=False)
    assert capsys.readouterr().out == (
        "Episode 0 \t EpRet 1.000 \t EpLen 2\n"
        "Episode 1 \t EpRet 6.000 \t EpLen 4\n"
        "-------------------------------------\n"
        "|    AverageEpRet |             3.5 |\n"
        "|        StdEpRet |             2.5 |\n"
        "|        MaxEpRet |               6 |\n"
        "|        MinEpRet |               1 |\n"
        "|           EpLen |               3 |\n"
        "-------------------------------------\n"
    )
    assert row["AverageEpRet"] == 3.5


def test_every_frame_is_shown_the_last_one_too(capsys):
    run_policy(Countdown(render_mode="ansi"), lambda obs: 2, num_episodes=1)
    assert re.findall("<step .>", capsys.readouterr().out) == ["<step 0>", "<step 1>", "<step 2>"]


@pytest.mark.parametrize(("max_ep_len", "length"), [(None, 5), (0, 5), (3, 3), (8, 5)])
def test_max_ep_len(max_ep_len, length):
    row = run_policy(Countdown(), lambda obs: 5, max_ep_len, num_episodes=1, render=False)
    assert row["EpLen"] == length


def test_a_seed_gives_the_same_different_episodes():
    def observations(seed):
        seen = []
        env = gym.make("CartPole-v1")
        run_policy(env, lambda obs: seen.append(obs) or 0, 1, 3, render=False, seed=seed)
        return np.array(seen)

    first = observations(1)
    np.testing.assert_array_equal(first, observations(1))
    assert not np.array_equal(first, observations(2))
    assert not np.array_equal(first[0], first[1])


def test_what_cannot_be_run_is_explained():
    with pytest.raises(UserError, match=r"^Environment not found!\n\n It looks like the env"):
        run_policy(None, None)
    with pytest.raises(UserError, match=r"without a render mode.*render_mode='human'.*--norender"):
        run_policy(Countdown(), lambda obs: 1)
    with pytest.raises(UserError, match="num_episodes is 0"):
        run_policy(Countdown(), lambda obs: 1, num_episodes=0, render=False)
    with pytest.raises(UserError, match="max_ep_len is -1"):
        run_policy(Countdown(), lambda obs: 1, -1, render=False)


# ---------------------------------------------------------------- the environment


@pytest.mark.parametrize("spec", ["missing", "null", "present"])
def test_nothing_is_unpickled_without_the_flag(run, tmp_path, stub, capsys, spec):
    (run / "vars10.pkl").write_bytes(pickle.dumps({"env": Malicious(tmp_path / "pwned")}))
    (run / "vars.pkl").write_bytes(pickle.dumps({"env": Malicious(tmp_path / "pwned")}))
    if spec == "missing":
        (run / "env_spec.json").unlink()
    elif spec == "null":
        write_env_spec(run / "env_spec.json", Countdown(), None)

    env, get_action = load_policy_and_env(run)
    assert get_action(None) == 0
    assert (env is None) == (spec != "present")
    if spec != "present":
        assert re.search("Warning: .*--allow_pickle", capsys.readouterr().out)
        with pytest.raises(UserError, match="--allow_pickle"):
            main([str(run), "--norender"])
    assert not (tmp_path / "pwned").exists()


def test_with_the_flag_the_environment_comes_from_the_pickle_of_that_save(run, stub):
    (run / "env_spec.json").unlink()
    joblib.dump({"env": gym.make("CartPole-v1", max_episode_steps=3)}, run / "vars10.pkl")
    joblib.dump({"env": gym.make("CartPole-v1", max_episode_steps=4)}, run / "vars.pkl")
    env, _ = load_policy_and_env(run, allow_pickle=True)
    assert env.spec.max_episode_steps == 3
    with pytest.raises(UserError, match=r"vars9\.pkl either \(FileNotFoundError"):
        main([str(run), "-i", "9", "--norender", "--allow_pickle"])


# ---------------------------------------------------------------- the command


@pytest.fixture
def headless(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


def test_arguments_reach_the_agent(run, stub, capsys):
    main([str(run), "-nr", "-n", "3", "-l", "5", "-i", "9", "-d", "--seed", "7"])
    assert stub == [(str(run / "tf2_save9"), True, 7, False, False)]
    printed = capsys.readouterr().out
    assert printed.count("EpLen 5\n") == 3
    assert "|           EpLen |               5 |" in printed
    main([str(run), "-nr", "-n", "1", "-l", "5", "--allow_pickle"])
    assert stub[1] == (str(run / "tf2_save10"), False, None, True, False)


def test_without_a_display_it_says_what_to_do(run, stub, headless):
    with pytest.raises(UserError, match=r"no display.*--norender.*--record DIR"):
        main([str(run)])
    with pytest.raises(UserError, match="no directory nowhere"):  # found first
        main(["nowhere"])
    with pytest.raises(UserError, match="seed is -1; it must be"):
        main([str(run), "--norender", "--seed", "-1"])
    assert stub == []


def test_arguments_of_the_environment_replace_those_of_the_run(run):
    write_env_spec(run / "env_spec.json", gym.make("Pendulum-v1", g=9.0), None)
    assert load_env(run / "tf2_save").unwrapped.g == 9.0
    assert load_env(run / "tf2_save", env_kwargs={"g": 3.0}).unwrapped.g == 3.0
    for allow_pickle in (False, True):  # a pickled environment would not have them
        with pytest.raises(UserError, match=r"env_spec.json cannot be built.*colour"):
            load_env(run / "tf2_save", None, allow_pickle, {"colour": "red"})


@pytest.fixture
def here(stub, monkeypatch):
    """The stub acts in this process also where pictures are drawn."""
    monkeypatch.setattr(
        command, "_agent_apart", lambda *args: nullcontext(command._load_quietly(*args))
    )


@pytest.mark.parametrize("env_kwargs", [{}, {"frameskip": 3}])
def test_videos_of_atari_have_every_frame(here, tmp_path, env_kwargs):
    """Also of the step that presses FIRE at the start; lost lives are not the end of a video."""
    pytest.importorskip("ale_py")
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    env_fn = EnvFn("BreakoutNoFrameskip-v4", env_kwargs)
    (tmp_path / "atari" / "tf2_save").mkdir(parents=True)
    write_env_spec(tmp_path / "atari" / "env_spec.json", env_fn(), env_fn)
    main([str(tmp_path / "atari"), "-n", "1", "-l", "5", "--record", str(tmp_path / "videos")])
    [video] = (tmp_path / "videos").iterdir()
    frames, seconds = ffmpeg.count_frames_and_secs(str(video))
    assert frames == 1 + (1 + 5) * env_kwargs.get("frameskip", 4)
    assert frames / seconds == pytest.approx(60, rel=0.05)


# ---------------------------------------------------------------- with a real policy


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run as an algorithm writes it, of an untrained agent."""
    from spinup_tf2.core.nets.actor_critic import MLPActorCritic
    from spinup_tf2.training.saved_policy import SavedPolicy
    from spinup_tf2.utils.logx import EpochLogger

    directory = tmp_path_factory.mktemp("data") / "trained"
    env = gym.make("CartPole-v1")
    ac = MLPActorCritic(env.observation_space, env.action_space, hidden_sizes=(8,))
    logger = EpochLogger(output_dir=directory, quiet=True)
    write_env_spec(directory / "env_spec.json", env, None)
    logger.setup_tf_saver(SavedPolicy(ac, env.observation_space, env.action_space))
    logger.save_state({"env": env})
    return directory, ac


def test_a_saved_agent_acts_as_the_one_in_memory(trained, capsys):
    directory, ac = trained
    env, get_action = load_policy_and_env(directory, deterministic=True)
    printed = capsys.readouterr().out
    assert f"\n\nLoading from {directory}/tf2_save.\n\n" in printed
    assert "Using deterministic action op." in printed
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        action = get_action(obs)
        assert action == ac.pi(obs[None]).logits.numpy().argmax()
        obs, *_ = env.step(action)


@pytest.mark.parametrize(
    ("env_id", "reason"),
    [
        ("Pendulum-v1", r"trained on observations in Box.*shape \(3,\) instead of \(4,\)"),
        ("FrozenLake-v1", r"trained on observations in Box.*none of them"),
    ],
)
def test_the_agent_of_another_environment(trained, env_id, reason):
    _, get_action = load_policy_and_env(trained[0])
    with pytest.raises(UserError, match=reason):
        run_policy(gym.make(env_id), get_action, 3, 1, render=False)


def test_seeded_samples_are_the_same_every_time(trained, capsys):
    printed = []
    for seed in ("5", "5", "6"):
        main([str(trained[0]), "-nr", "-n", "3", "--seed", seed])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert "Using default action op." in printed[0]


def test_a_signal_ends_a_recording_and_the_agents_own_process(trained, tmp_path):
    arguments = [str(trained[0]), "--record", str(tmp_path / "videos"), "--episodes", "100000"]
    command = [sys.executable, "-m", "spinup_tf2.run", "test_policy", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recording:
        assert any(line.startswith("Episode 0") for line in recording.stdout)
        started = psutil.Process(recording.pid).children(recursive=True)
        assert started
        recording.send_signal(signal.SIGTERM)
        assert recording.wait(timeout=20) == -signal.SIGTERM
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []


def test_record_writes_a_video_of_every_episode(trained, tmp_path, capfd, monkeypatch):
    """While the agent acts in a process of its own, which imports what is named, too."""
    pytest.importorskip("pygame")
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    sensor = tmp_path / "imported"
    code = f"import os\nwith open({str(sensor)!r}, 'a') as file: print(os.getpid(), file=file)\n"
    (tmp_path / "named_module.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    named = ["--import", "named_module", "-n", "2", "-l", "12", "-d"]
    main([str(trained[0]), "--record", str(tmp_path / "videos"), *named])
    here, elsewhere = map(int, sensor.read_text().split())
    assert here == os.getpid() != elsewhere
    videos = sorted((tmp_path / "videos").iterdir())
    assert [video.name for video in videos] == ["trained-episode-0.mp4", "trained-episode-1.mp4"]
    with pytest.raises(UserError, match=r"episode-0\.mp4 is there already; give --record ano"):
        main([str(trained[0]), "--record", str(tmp_path / "videos")])

    out = capfd.readouterr().out
    assert "Using deterministic action op." in out
    lengths = [int(length) for length in re.findall(r"EpLen (\d+)", out)]
    frames = [ffmpeg.count_frames_and_secs(str(video))[0] for video in videos]
    assert frames == [length + 1 for length in lengths]  # the first, and one after each step
    first = ffmpeg.read_frames(str(videos[0]))
    next(first)  # what the video is like
    assert np.ptp(np.frombuffer(next(first), np.uint8)) > 0  # not all black
