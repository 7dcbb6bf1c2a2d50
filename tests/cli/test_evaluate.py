"""Evaluation of a saved agent, greedy and sampled, from its usual initial state and from others."""

import functools
import json
import shutil

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2 import ppo, run
from spinup_tf2.cli import evaluate
from spinup_tf2.cli.agents import Episode, play_episode
from spinup_tf2.cli.evaluate import evaluate_run, main
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import write_env_spec
from spinup_tf2.files.saves import WEIGHTS
from tests.cli.closed_pipe import closed_pipe
from tests.on_policy_runs import train


class Corridor(gym.Env):
    """Steps to the right, 1 or 2 long, to x >= 6; whoever steps onto x = 5 falls into a hole.

    After `noops` nothing is different but the start, x = (at + noops) % 2.
    """

    fixed_starts, place = {"left": {}}, "x_pos"
    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def _result(self):
        obs = np.array([self.x, 1], np.float32)
        return obs, {"is_success": self.x >= 6, self.place: self.x}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = sum((options or {}).values()) % 2, 0
        return self._result()

    def step(self, action):
        self.x, self.t = self.x + 1 + int(action), self.t + 1
        obs, info = self._result()
        return obs, float(self.x), self.x >= 5, False, info


class Plain(Corridor):
    """The same with random initial states; it says as a robot does where it is."""

    fixed_starts, place = {}, "x_position"
    starts = (0, 1)  # what an environment may call something of its own

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(2))
        return self._result()


class Stages(Corridor):
    """The same with two stages, which begin at 0 and at 1."""

    fixed_starts = {"1-1": {"at": 0}, "1-2": {"at": 1}}  # noqa: RUF012


class Windy(Corridor):
    """The same, which may begin further on, and with a wind that carries a step further.

    With `ends` false nobody falls, and its time is over after two steps.
    """

    fixed_starts = {}  # noqa: RUF012
    robustness = {  # noqa: RUF012
        "calm": {"weather": {}},
        "windy": {"weather": {"wind": 1}},
        "endless": {"ends": False},
    }

    def __init__(self, render_mode=None, begin=0, weather=None, ends=True):
        super().__init__(render_mode)
        self.begin, self.ends = begin, ends
        self.wind = dict(wind=0, rain=0) | (weather or {})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.begin
        return self._result()

    def step(self, action):
        self.x += self.wind["wind"] + self.wind["rain"]
        obs, rew, over, _, info = super().step(action)
        info["velocity_error"] = self.t / 10
        return obs, rew, over and self.ends, self.t == 2 and not self.ends, info


class Harder(Corridor):
    """The same, in which every step costs 10 for each epoch that is over."""

    fixed_starts = {}  # noqa: RUF012
    epochs = 0

    def add_epoch(self):
        self.epochs += 1

    def step(self, action):
        obs, rew, over, _, info = super().step(action)
        return obs, rew - 10 * self.epochs, over, False, info


gym.register("HarderCorridor-v0", Harder)
gym.register("WindyCorridor-v0", Windy)
gym.register("Corridor-v0", Corridor)
gym.register("StagesCorridor-v0", Stages)
gym.register("PlainCorridor-v0", Plain)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run whose most likely action is the long step. After three epochs, two were over when the
    last one began."""
    path = tmp_path_factory.mktemp("trained") / "run"
    ac, _ = train(
        ppo,
        path,
        lambda: gym.make("Corridor-v0"),
        ac_kwargs=dict(hidden_sizes=()),
        steps_per_epoch=40,
        epochs=3,
        pi_lr=0.0,
        train_pi_iters=1,
    )
    (layer,) = ac.pi.net.layers
    layer.kernel.assign(np.zeros((2, 2)))
    layer.bias.assign([0.0, 1.0])
    arrays = {str(i): variable.numpy() for i, variable in enumerate(ac.variables)}
    np.savez(path / "tf2_save" / WEIGHTS, **arrays)
    return path


@pytest.fixture
def agent(trained, tmp_path):
    """agent(env_id, **config) is its directory in an environment, which all have the same spaces,
    with these entries of its config.json."""

    def run(env_id, **config):
        path = tmp_path / env_id
        shutil.copytree(trained, path)
        write_env_spec(path / "env_spec.json", gym.make(env_id), None)
        known = json.loads((path / "config.json").read_text()) | config
        known = {name: value for name, value in known.items() if value is not None}
        (path / "config.json").write_text(json.dumps(known))
        return path

    return run


def test_a_game_with_no_ops_is_evaluated_in_three_ways(agent, capsys):
    agent_dir = agent("Corridor-v0")
    rows = evaluate_run(agent_dir, episodes=200, noops=4)
    # From 0: 2, 4, 6. From 1: 3, 5.
    expected = dict(Episodes=1, SuccessRate=1, EpRet=12, StdEpRet=0, EpLen=3, X=6)
    assert rows["greedy"] == expected
    # No-ops 0, 2 and 4 are as above; 1 and 3 end in the hole.
    after = rows["greedy, after no-ops"]
    assert (after["Episodes"], after["SuccessRate"]) == (5, 3 / 5)
    assert after["EpRet"] == pytest.approx((3 * 12 + 2 * 8) / 5)
    assert after["X"] == pytest.approx((3 * 6 + 2 * 5) / 5)
    sampled = rows["sampled"]
    assert sampled["Episodes"] == 200
    assert sampled["SuccessRate"] == pytest.approx(clear_rate(), abs=0.1)
    again, other = (
        evaluate_run(agent_dir, episodes=200, noops=0, seed=seed)["sampled"] for seed in (0, 1)
    )
    assert sampled == again != other
    printed = capsys.readouterr().out
    assert "greedy, after no-ops" in printed
    assert "SuccessRate" in printed


def test_success_is_that_of_the_episodes_that_report_it():
    episodes = [Episode(success=True), Episode(success=None), Episode(success=False)]
    assert evaluate._summary(episodes)["SuccessRate"] == 0.5


def test_each_stage_has_rows_of_its_own(agent, capsys):
    rows = evaluate_run(agent("StagesCorridor-v0"), episodes=20, noops=2)
    ways = ("greedy", "greedy, after no-ops", "sampled")
    assert [*rows] == [f"{name}: {way}" for name in ("1-1", "1-2", "mean") for way in ways]
    # From 0: 2, 4, 6, the end. From 1: 3, 5, the hole.
    of_first = dict(Episodes=1, SuccessRate=1, EpRet=12, StdEpRet=0, EpLen=3, X=6)
    of_second = dict(Episodes=1, SuccessRate=0, EpRet=8, StdEpRet=0, EpLen=2, X=5)
    assert (rows["1-1: greedy"], rows["1-2: greedy"]) == (of_first, of_second)
    mean = dict(Episodes=2, SuccessRate=0.5, EpRet=10, StdEpRet=0, EpLen=2.5, X=5.5)
    assert rows["mean: greedy"] == mean
    # No-ops 0 and 2 leave a stage as it is, 1 makes it the other one.
    rates = [rows[f"{name}: greedy, after no-ops"]["SuccessRate"] for name in ("1-1", "1-2")]
    assert rates == pytest.approx([2 / 3, 1 / 3])
    assert rows["mean: greedy, after no-ops"]["SuccessRate"] == pytest.approx(1 / 2)
    sampled = [rows[f"{name}: sampled"]["EpRet"] for name in ("1-1", "1-2")]
    assert rows["mean: sampled"]["EpRet"] == pytest.approx(np.mean(sampled))
    assert rows["mean: sampled"]["Episodes"] == 40
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(rows)  # what is evaluated, columns


def clear_rate():
    """How likely it is not to step onto 5 from 0, with long steps of probability e / (1 + e)."""
    long = np.e / (1 + np.e)
    on = {0: 1.0}  # how likely it is that a step leads to x
    for x in range(1, 6):
        on[x] = on.get(x - 1, 0) * (1 - long) + on.get(x - 2, 0) * long
    return 1 - on[5]


def test_any_other_environment_is_evaluated_in_two_ways(agent):
    rows = evaluate_run(agent("PlainCorridor-v0"), episodes=40)
    assert [*rows] == ["greedy", "sampled"]
    assert {row["Episodes"] for row in rows.values()} == {40}
    starts = [Plain() for _ in range(40)]
    for i, env in enumerate(starts):
        env.reset(seed=i)
    assert rows["greedy"]["SuccessRate"] == np.mean([env.x == 0 for env in starts])
    assert rows["greedy"]["X"] == np.mean([6 - env.x for env in starts])


def test_an_environment_is_as_hard_as_in_the_last_epoch_of_training(agent):
    row = evaluate_run(agent("HarderCorridor-v0"), episodes=1)["greedy"]
    assert row["EpRet"] == 2 + 4 + 6 - 3 * 20


class Broken(Corridor):
    """The same, which breaks on x = 4 unless the episode began on x = 1."""

    def step(self, action):
        if self.x == 4:
            raise OSError("lost\nits way")
        return super().step(action)


def test_an_environment_that_fails():
    play = functools.partial(play_episode, Broken(), lambda obs: 1)
    assert play(0, options=dict(noops=1)).ret == 8  # 1, 3, 5
    with pytest.raises(UserError) as caught:
        play(1, seed=8, options=dict(noops=0))  # 0, 2, 4
    message = str(caught.value)
    assert "The environment raised OSError: lost its way (" in message
    assert f"{__file__}, line " in message
    assert "in step 3 of episode 1 (counted from 0; last seed: 8)." in message
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(
        UserError, match=r"in the reset of episode 0 \(counted from 0\)[^%]*only\.$"
    ):
        play(0, options=1)


def test_episodes_are_cut_off():
    episode = play_episode(Corridor(), lambda obs: 0, 0, max_ep_len=2)
    assert (episode.len, episode.ret) == (2, 3.0)


def test_an_agent_under_the_conditions_that_its_environment_states(agent, capsys, tmp_path):
    path, file = agent("WindyCorridor-v0"), tmp_path / "rows.json"
    rows = evaluate_run(path, episodes=3, robustness=True)
    # Calm: 2, 4, 6. Windy: 3, 6. Endless: 2, 4, and that was not a fall.
    common = dict(Episodes=3, Falls=1)
    assert rows == {
        "calm": common | dict(SuccessRate=1, EpRet=12, EpLen=3, X=6, VelError=pytest.approx(0.3)),
        "windy": common | dict(SuccessRate=1, EpRet=9, EpLen=2, X=6, VelError=pytest.approx(0.2)),
        "endless": common
        | dict(Falls=0, SuccessRate=0, EpRet=6, EpLen=2, X=4, VelError=pytest.approx(0.2)),
    }
    title, *lines = capsys.readouterr().out.splitlines()[1:]
    assert title.split() == [*rows["calm"]]
    assert [line.split()[0] for line in lines] == [*rows]
    # What is asked for in addition holds under all conditions, also where both are of one dict.
    own = ["--env_kwargs:begin", "1", "--env_kwargs:weather:rain", "1"]
    main([str(path), "--robustness", "-n", "1", "--output", str(file), *own])
    rows = json.loads(file.read_text())
    # Calm: 4, 7. Windy: 5. Endless: 4, 7.
    assert [row["X"] for row in rows.values()] == [7, 5, 7]
    assert [row["SuccessRate"] for row in rows.values()] == [1, 0, 1]
    assert [row["Falls"] for row in rows.values()] == [1, 1, 0]


def test_conditions_are_tried_before_anything_is_played(agent, capsys, monkeypatch):
    path = agent("WindyCorridor-v0")
    monkeypatch.setitem(Windy.robustness, "wrong", {"snow": {}})
    with pytest.raises(UserError, match=r"cannot be built.* argument 'snow'"):
        evaluate_run(path, episodes=1, robustness=True)
    assert "calm" not in capsys.readouterr().out


def test_the_command_writes_a_file_and_replaces_none(agent, tmp_path, capsys):
    path, file = agent("Corridor-v0"), tmp_path / "results.json"
    arguments = [str(path), "-n", "3", "--noops", "1", "--output", str(file)]
    main(arguments)
    rows = json.loads(file.read_text())
    assert rows["greedy, after no-ops"]["Episodes"] == 2
    capsys.readouterr()
    for name in ("results.json", "nowhere/results.json"):
        with pytest.raises(UserError, match=rf"--output is .*{name}; give the name of a new file"):
            main([str(path), "--output", str(tmp_path / name)])
    assert not capsys.readouterr().out  # nothing has been played in vain
    file.unlink()
    with closed_pipe():
        run.main(["evaluate", *arguments])
    assert json.loads(file.read_text()) == rows


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(episodes=0), "episodes is 0"),
        (dict(noops=-1), "noops is -1"),
        (dict(seed=-1), "seed is -1"),
        (dict(max_ep_len=-1), "len is -1"),
        ({}, "no directory"),
    ],
)
def test_what_is_refused(wrong, message, tmp_path):
    with pytest.raises(UserError, match=message):
        evaluate_run(tmp_path / "nowhere", **wrong)


def test_conditions_must_be_stated(agent):
    with pytest.raises(UserError, match="it has no attribute robustness"):
        evaluate_run(agent("PlainCorridor-v0"), robustness=True)
