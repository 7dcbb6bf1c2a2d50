"""Runs that name modules: nothing is imported by their word but what registers environments.

A module that would be imported leaves a file behind.
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from spinup_tf2.envs.modules import import_flag
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling, run_entrypoint
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.run import main
from spinup_tf2.utils.test_policy import load_env, load_policy_and_env
from tests.checkpoints import write_checkpoint
from tests.sensor import watch

RUN = Path(__file__).parents[2] / "data" / "ppo_cartpole" / "ppo_cartpole_s0"

OWN = """
import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.envs.classic_control import CartPoleEnv

gym.register("Mine-v0", CartPoleEnv, max_episode_steps=500)

class Times(gym.RewardWrapper, RecordConstructorArgs):
    def __init__(self, env, factor):
        RecordConstructorArgs.__init__(self, factor=factor)
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * reward
"""

# From the run's directory, from that beside it, from the current one, and from Python's own.
MODULES = [
    *("shared.run_s1.evil", "shared.run_s1.package.evil", "shared.run_s0.evil", "shared.evil"),
    *("deploy", "evil", "run_s1.evil", "venv.__main__", "antigravity", "this", "deploy.__main__"),
]


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """What the libraries do the first time, such as looking for a graphics card."""
    main(["evaluate", str(RUN), "-n", "1", "-l", "1"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the folder `shared` is, of two runs that were handed over together."""
    shutil.copytree(RUN, tmp_path / "shared" / "run_s0")
    code = f"open({str(tmp_path / 'executed')!r}, 'w')\n"
    evil = ("run_s1/evil", "run_s1/package/__init__", "run_s1/package/evil", "run_s0/evil", "evil")
    for path in [*(f"shared/{name}.py" for name in evil), "deploy.py", "evil.py"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)
    (tmp_path / "my_envs.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    # What `python -m` does, and somebody who works beside the runs.
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "shared"), *sys.path])
    yield tmp_path
    gym.registry.pop("Mine-v0", None)
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def describe(place, **changes):
    path = place / "shared" / "run_s0" / "env_spec.json"
    spec = json.loads(path.read_text())["spec"] | changes
    path.write_text(json.dumps({"spec": spec}))


def refused(place, line, capfd):
    """The one line with which a command refuses a run, of which nothing has been executed."""
    with watch(place) as seen, pytest.raises(SystemExit) as stop:
        main(line)
    assert stop.value.code == 2
    assert seen == []
    assert not (place / "executed").exists()
    [error] = [each for each in capfd.readouterr().err.splitlines() if "error: " in each]
    return error


def test_the_modules_of_these_runs_would_be_executed(place):
    """By the plain import that others use for such names."""
    gym.make("shared.run_s1.evil:CartPole-v1")
    assert (place / "executed").exists()


def test_two_runs_that_are_handed_over_together(place):
    """In a process of its own, as `python -m` starts it."""
    describe(place, env_name="shared.run_s1.evil:CartPole-v1")
    line = ["-m", "spinup_tf2.run", "test_policy", "shared/run_s0", "-nr", "-n", "1"]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, cwd=place)
    assert not (place / "executed").exists()
    assert done.returncode == 2
    assert "AverageEpRet" not in done.stdout
    assert done.stderr == (
        "spinup_tf2: error: The environment of shared/run_s0/env_spec.json cannot be built: it "
        "asks to import shared.run_s1.evil, which is not an installed package of "
        "environments; if this module is yours, or you trust whoever wrote it, allow it with "
        '--import shared.run_s1.evil (modules=["shared.run_s1.evil"]).\n'
    )


@pytest.mark.parametrize("module", MODULES)
def test_names_of_environments(place, capfd, module):
    describe(place, env_name=f"{module}:CartPole-v1")
    with watch(place) as seen, pytest.raises(UserError, match="asks") as caught:
        load_env(place / "shared" / "run_s0" / "tf2_save")  # as load_policy_and_env does
    assert seen == []
    assert module in str(caught.value)
    for command in ("test_policy", "evaluate"):
        line = [command, "shared/run_s0"] + ["-nr"] * (command == "test_policy")
        assert module in refused(place, line, capfd)


@pytest.mark.parametrize("module", MODULES)
def test_wrappers(place, capfd, module):
    describe(place, wrappers=[{"entry_point": f"{module}:Evil", "kwargs": {}}])
    assert module in refused(place, ["test_policy", "shared/run_s0", "-nr"], capfd)


@pytest.mark.parametrize("module", MODULES)
def test_arguments_of_environments(place, module):
    describe(place, kwargs={"sutton_barto_reward": f"{module}:CartPole-v1"})
    with watch(place) as seen, pytest.raises(UserError, match="asks"):
        load_env(place / "shared" / "run_s0" / "tf2_save")
    assert seen == []
    assert not (place / "executed").exists()


@pytest.mark.parametrize(
    "entry_point",
    [
        *("os:system", "json:loads", "sys:modules", "gymnasium:make", "gymnasium:Env"),
        *("gymnasium.core:Wrapper.__class__", "gymnasium.core:__dict__", "gymnasium:__getattr__"),
        "spinup_tf2:ppo",
    ],
)
def test_what_is_no_wrapper(place, capfd, entry_point):
    describe(place, wrappers=[{"entry_point": entry_point, "kwargs": {}}])
    line = ["test_policy", "shared/run_s0", "-nr"]
    assert f"{entry_point} is not a wrapper" in refused(place, line, capfd)


@pytest.mark.parametrize("module", MODULES)
def test_runs_that_are_resumed(place, capfd, monkeypatch, module):
    monkeypatch.setattr(calling, "run_experiment", lambda *_: pytest.fail("It was started."))
    write_checkpoint(place / "shared" / "run_s0", command={"env_name": f"{module}:CartPole-v1"})
    assert module in refused(place, ["resume", "shared/run_s0"], capfd)


def test_runs_that_are_resumed_with_arguments_for_environments(place, capfd):
    env_kwargs = {"sutton_barto_reward": "antigravity:CartPole-v1"}
    command = {"env_name": "CartPole-v1", "env_kwargs": env_kwargs}
    write_checkpoint(place / "shared" / "run_s0", command=command)
    assert "antigravity" in refused(place, ["resume", "shared/run_s0"], capfd)


def test_no_library_is_taken_from_the_current_directory(place, capfd, monkeypatch):
    """What an environment needs and is not installed may have been put there."""
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setattr(sys, "path", [str(place)])
    shutil.copy(place / "evil.py", place / "mujoco.py")
    describe(place, env_name="InvertedPendulum-v5")
    refused(place, ["test_policy", "shared/run_s0", "-nr"], capfd)


# ---------------------------------------------------------------- one's own


WATCH = ["test_policy", "shared/run_s0", "-nr", "-n", "1", "-l", "5", "-d"]
EVALUATE = ["evaluate", "shared/run_s0", "-n", "1", "-l", "5"]


@pytest.mark.parametrize("line", [WATCH, EVALUATE], ids=["test_policy", "evaluate"])
@pytest.mark.parametrize("env_name", ["my_envs:Mine-v0", "Mine-v0"])
def test_own_environments_and_wrappers_need_one_flag(place, capfd, line, env_name):
    times = {"entry_point": "my_envs:Times", "kwargs": {"factor": 3.0}}
    describe(place, env_name=env_name, wrappers=[times])
    assert "--import my_envs" in refused(place, line, capfd)
    assert "my_envs" not in sys.modules
    main([*line, "--import", "my_envs"])
    assert "15" in capfd.readouterr().out  # 5 steps, of which each counts three times


def test_own_environments_from_python(place, capfd):
    describe(place, env_name="my_envs:Mine-v0")
    run_dir = place / "shared" / "run_s0"
    assert load_policy_and_env(run_dir)[0] is None
    assert 'modules=["my_envs"]' in capfd.readouterr().out
    assert load_policy_and_env(run_dir, modules=["my_envs"])[0].spec.id == "Mine-v0"
    # Now that the program has imported it, nothing is imported.
    assert load_policy_and_env(run_dir)[0].spec.id == "Mine-v0"


def test_own_runs_are_resumed_with_one_flag(place, capfd, monkeypatch):
    started, called = [], []
    monkeypatch.setattr(calling, "run_experiment", lambda *args: started.append(args[0]))
    monkeypatch.setattr(NamedAlgorithm, "__call__", lambda _, **kw: called.append(kw))
    for name in ("my_envs:Mine-v0", "Mine-v0"):
        command = {"env_name": name, "epochs": 3, "ac_kwargs": {"hidden_sizes": [8]}}
        write_checkpoint(place / "shared" / "run_s0", command=command)
        assert "--import my_envs" in refused(place, ["resume", "shared/run_s0"], capfd)
        main(["resume", "shared/run_s0", "--import", "my_envs", "--import", "deploy"])
        assert str(place) in sys.path
        run_entrypoint.write_experiment(place, started[-1])
        del gym.registry["Mine-v0"], sys.modules["my_envs"], sys.modules["deploy"]
        os.remove(place / "executed")
        # Its process finds and imports them as well, and so does that of each environment.
        run_entrypoint.read_experiment(place).call()
        env_fn = pickle.loads(pickle.dumps(called[-1]["env_fn"]))
        assert env_fn().spec.id == "Mine-v0"
        assert import_flag(name, env_fn.modules) == " --import my_envs --import deploy"
        del gym.registry["Mine-v0"], sys.modules["my_envs"], sys.modules["deploy"]
        os.remove(place / "executed")


def test_play_imports_what_is_named(place, capfd):
    line = ["play", "--env", "Mine-v0", "--mode", "random", "-nr", "-n", "1"]
    with pytest.raises(SystemExit):
        main(line)
    main([*line, "--import", "my_envs"])
    assert "EpRet" in capfd.readouterr().out


# ---------------------------------------------------------------- terminals

ESCAPE = "\x1b]0;pwned\x07\x1b[2J\r\x9b31m\u202e"


def harmless(capfd):
    """What has been printed, of which a terminal shows every character."""
    captured = capfd.readouterr()
    text = captured.out + captured.err
    assert all(letter.isprintable() or letter in "\n\t" for letter in text)
    return text


@pytest.mark.filterwarnings("error:Glyph")
def test_no_escape_reaches_the_terminal_from_plot(place, capfd):
    run, other = place / "shared" / "run_s0", place / "shared" / f"run{ESCAPE}"
    shutil.copytree(run, other)
    for folder in (run, other):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"exp_name": f"x{ESCAPE}"}))
    (other / "progress.txt").write_text(f"Epoch\tA{ESCAPE}\n0\t{ESCAPE}\n1\t2\n{ESCAPE}")
    picture = place / "curve.svg"
    main(["plot", "shared/run", "--savefig", str(picture)])
    assert r"\x1b" in harmless(capfd)
    with pytest.raises(SystemExit):
        main(["plot", f"shared/run{ESCAPE}", "--savefig", str(picture)])
    with pytest.raises(SystemExit):
        main(["plot", "shared/run", "--value", "none", "--savefig", str(picture)])
    assert r"A\x1b]0;pwned" in harmless(capfd)


@pytest.mark.parametrize(
    "contents",
    [
        {"spec": None, "reason": ESCAPE},
        {"spec": {"env_name": f"CartPole-v1{ESCAPE}"}},
        {"spec": {"env_name": f"{ESCAPE}:CartPole-v1"}},
        {"spec": {"env_name": "CartPole-v1", "kwargs": {ESCAPE: ESCAPE}}},
        {"spec": {"env_name": "CartPole-v1", "wrappers": [{"entry_point": ESCAPE, "kwargs": {}}]}},
    ],
    ids=["reason", "env_name", "module", "kwargs", "wrapper"],
)
def test_no_escape_reaches_the_terminal_from_environments(place, capfd, contents):
    path = place / "shared" / "run_s0" / "env_spec.json"
    full = dict(kwargs={}, wrappers=[], max_episode_steps=5)
    path.write_text(json.dumps(contents | {"spec": contents["spec"] and full | contents["spec"]}))
    refused(place, ["test_policy", "shared/run_s0", "-nr"], capfd)
    load_policy_and_env(place / "shared" / "run_s0")
    assert r"\x1b]0;pwned\x07" in harmless(capfd).replace("\\\\", "\\")


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": ESCAPE},
        {"exp_name": ESCAPE},
        {"command": {"env_name": ESCAPE}},
        {"command": {"env_name": "CartPole-v1", ESCAPE: 1}},
        {"command": {"env_name": "CartPole-v1", "ac_kwargs": {ESCAPE: 1}}},
    ],
    ids=["algorithm", "exp_name", "env_name", "argument", "ac_kwargs"],
)
def test_no_escape_reaches_the_terminal_from_checkpoints(place, capfd, changes):
    write_checkpoint(place / "shared" / "run_s0", **changes)
    with pytest.raises(SystemExit):
        main(["resume", "shared/run_s0"])
    assert "error: " in harmless(capfd)
