import functools
import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import gettempdir

import cloudpickle
import gymnasium as gym
import pytest

import spinup_tf2
from spinup_tf2 import user_config
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.parallel import launch, mpi
from spinup_tf2.parallel.interruption import SIGNALS
from spinup_tf2.utils import run_utils
from spinup_tf2.utils.run_utils import (
    EnvFn,
    ExperimentGrid,
    Processes,
    call_experiment,
    setup_logger_kwargs,
    valid_str,
)
from tests.fake_mpi import run_ranks

# Functions of this file are sent to other processes, where it cannot be imported.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def tanh():
    pass


def relu():
    pass


# ---------------------------------------------------------------- names and directories


@pytest.mark.parametrize(
    ("seed", "datestamp", "expected"),
    [
        (None, False, "D/name"),
        (3, False, "D/name/name_s3"),
        (0, False, "D/name/name_s0"),
        (None, True, "D/2026-01-02_name"),
        (3, True, "D/2026-01-02_name/2026-01-02_03-04-05-name_s3"),
    ],
)
def test_setup_logger_kwargs(monkeypatch, seed, datestamp, expected):
    now = time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0))
    strftime = time.strftime
    monkeypatch.setattr(run_utils.time, "strftime", lambda form: strftime(form, now))
    kwargs = setup_logger_kwargs("name", seed, "D", datestamp)
    assert kwargs == {"output_dir": expected, "exp_name": "name"}


def test_user_config_has_the_defaults(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", "/D")
    assert setup_logger_kwargs("name")["output_dir"] == "/D/name"
    monkeypatch.setattr(user_config, "FORCE_DATESTAMP", True)
    assert re.fullmatch(r"/D/\d{4}-\d\d-\d\d_name", setup_logger_kwargs("name")["output_dir"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.001, "0-001"),
        (1e-05, "1e-05"),
        ((64, 32), "64-32"),
        ([64, (1, 2)], "64-1-2"),
        ("HalfCheetah-v2", "halfcheetah-v2"),
        (None, "none"),
        (-1, "-1"),
        (tanh, "tanh"),
        ("a b/c:d", "a-b-c-d"),
    ],
)
def test_valid_str(value, expected):
    assert valid_str(value) == expected


# ---------------------------------------------------------------- grids


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("steps_per_epoch", "ste"),
        ("ac_kwargs:hidden_sizes", "ac-hid"),
        ("pi_lr", "pi"),
        ("a_b_c", "ab"),
        ("clip_ratio", "cli"),
    ],
)
def test_default_shorthand(key, expected):
    grid = ExperimentGrid("g")
    grid.add(key, [1, 2])
    assert [grid.variant_name(variant) for variant in grid.variants()] == [
        f"g_{expected}1",
        f"g_{expected}2",
    ]


def test_without_default_shorthands(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_SHORTHAND", False)
    grid = ExperimentGrid("g")
    grid.add("a:b_c", [1], in_name=True)
    assert grid.variant_name(grid.variants()[0]) == "g_a-b_c1"


def test_names_of_a_benchmark():
    grid = ExperimentGrid(name="ppo-bench")
    grid.add("env_name", "CartPole-v0", "", True)
    grid.add("seed", [0, 10])
    grid.add("epochs", 10)
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    grid.add("ac_kwargs:activation", [tanh, relu], "")
    assert [grid.variant_name(variant) for variant in grid.variants()] == 2 * [
        "ppo-bench_cartpole-v0_hid32_tanh",
        "ppo-bench_cartpole-v0_hid32_relu",
        "ppo-bench_cartpole-v0_hid64-64_tanh",
        "ppo-bench_cartpole-v0_hid64-64_relu",
    ]
    assert grid.variants()[0] == {
        "env_name": "CartPole-v0",
        "seed": 0,
        "epochs": 10,
        "ac_kwargs": {"hidden_sizes": (32,), "activation": tanh},
    }


def test_a_true_parameter_shows_its_name_only():
    grid = ExperimentGrid("cmd_ppo")
    grid.add("foo", [True, False])
    grid.add("lr", [1e-3, 3e-4])
    assert [grid.variant_name(variant) for variant in grid.variants()] == [
        *("cmd_ppo_foo_lr0-001", "cmd_ppo_foo_lr0-0003"),
        *("cmd_ppo_lr0-001", "cmd_ppo_lr0-0003"),
    ]


def test_variants_are_all_combinations_and_the_first_key_is_slowest():
    grid = ExperimentGrid()
    grid.add("test:a", [1, 2, 3], "ta", True)
    grid.add("test:b", [1, 2, 3])
    grid.add("some", [4, 5])
    grid.add("why", [True, False])
    grid.add("huh", 5)
    grid.add("no", 6, in_name=True)
    variants = grid.variants()
    assert len(variants) == 36
    assert variants[0] == {"test": {"a": 1, "b": 1}, "some": 4, "why": True, "huh": 5, "no": 6}
    assert variants[1]["why"] is False
    assert variants[-1]["test"] == {"a": 3, "b": 3}
    assert grid.variant_name(variants[0]) == "ta1_tes-b1_som4_why_no6"


def test_an_empty_grid_has_one_variant():
    assert ExperimentGrid("g").variants() == [{}]


@pytest.mark.parametrize("keys", [("a", "a"), ("a", "a:b"), ("a:b", "a"), ("a:b:c", "a:b")])
def test_a_key_has_one_value(keys):
    grid = ExperimentGrid()
    grid.add(keys[0], 1)
    with pytest.raises(UserError, match="You can't assign multiple values to the same key"):
        grid.add(keys[1], 2)


def test_keys_that_begin_alike_are_different_keys():
    grid = ExperimentGrid()
    grid.add("a", 1)
    grid.add("ab:c", 2)
    assert grid.variants() == [{"a": 1, "ab": {"c": 2}}]


def test_names_and_keys_are_strings():
    with pytest.raises(UserError, match=r"Name has to be a string\."):
        ExperimentGrid(3)
    with pytest.raises(UserError, match=r"Key must be a string\."):
        ExperimentGrid().add(3, 4)
    with pytest.raises(UserError, match=r"Shorthand must be a string\."):
        ExperimentGrid().add("a", 4, shorthand=5)


PRINTED_GRID = """\
================================================================================
<32;1>ExperimentGrid [ppo_ant] runs over parameters:
<0>
 <36;1>clip_ratio                              <0> [cli]\x20

	0.1
	0.2

 <36;1>seed                                    <0> [see]\x20

	0
	10

 <36;1>ac_kwargs:hidden_sizes                  <0> [h]\x20

	[32, 32]
	[64, 32]

 Variants, counting seeds:               8
 Variants, not counting seeds:           4

================================================================================

<32;1>Preparing to run the following experiments...<0>

ppo_ant_cli0-1_h32-32
ppo_ant_cli0-1_h64-32
ppo_ant_cli0-2_h32-32
ppo_ant_cli0-2_h64-32

================================================================================
"""


def run_printed_grid(monkeypatch, tmp_path, terminal=False, **options):
    started = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setattr(run_utils, "_run_experiment", lambda *args: started.append(args))
    grid = ExperimentGrid("ppo_ant")
    grid.add("clip_ratio", [0.1, 0.2])
    grid.add("seed", [0, 10])
    grid.add("ac_kwargs:hidden_sizes", [[32, 32], [64, 32]], "h")
    grid.run(tanh, data_dir=str(tmp_path), **options)
    assert len(started) == 8


def test_a_printed_grid(monkeypatch, tmp_path, capsys):
    run_printed_grid(monkeypatch, tmp_path)
    assert capsys.readouterr().out == re.sub(r"<\d+(;1)?>", "", PRINTED_GRID)


def test_a_terminal_gets_colours(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", 0)
    run_printed_grid(monkeypatch, tmp_path, terminal=True)
    assert capsys.readouterr().out == re.sub(r"<(\d+(;1)?)>", "\x1b[\\1m", PRINTED_GRID)


def test_a_quiet_grid(monkeypatch, tmp_path, capsys):
    run_printed_grid(monkeypatch, tmp_path, quiet=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("seconds", [0, 5])
def test_launch_is_delayed_on_a_terminal(monkeypatch, tmp_path, capsys, seconds):
    slept = []
    monkeypatch.setattr(run_utils.time, "sleep", slept.append)
    monkeypatch.setattr(user_config, "WAIT_BEFORE_LAUNCH", seconds)
    run_printed_grid(monkeypatch, tmp_path, terminal=True)
    assert sum(slept) == pytest.approx(seconds)
    assert ("Launch delayed to give you a few seconds" in capsys.readouterr().out) == (seconds > 0)


def test_a_long_name_has_its_own_line(capsys):
    ExperimentGrid("n" * 60).print()
    assert f"ExperimentGrid [{'n' * 60}]\n runs over parameters:\n\n" in capsys.readouterr().out


def test_functions_as_values_of_the_grid(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(run_utils, "_run_experiment", lambda run, *_: started.append(run))
    grid = ExperimentGrid("g")
    grid.add("algorithm", [tanh, relu])
    grid.add("x", 1)
    grid.run("algorithm", data_dir=str(tmp_path))
    assert [(run.exp_name, run.thunk) for run in started] == [
        ("g_algtanh", tanh),
        ("g_algrelu", relu),
    ]
    assert all(run.kwargs == {"x": 1, "seed": 0} for run in started)


# ---------------------------------------------------------------- environments


def test_env_fn():
    env_fn = cloudpickle.loads(cloudpickle.dumps(EnvFn("Pendulum-v1", {"g": 5.0})))
    assert env_fn == EnvFn("Pendulum-v1", {"g": 5.0})
    assert env_fn().unwrapped.g == 5.0
    assert EnvFn("ProbeGoal-v0")().spec.id == "ProbeGoal-v0"


class BrokenEnv(gym.Env):
    def __init__(self):
        raise RuntimeError("no display")


@pytest.fixture
def mine():
    """An environment that only this process knows."""
    gym.register("Mine-v0", "gymnasium.envs.classic_control:PendulumEnv")
    yield "Mine-v0"
    del gym.registry["Mine-v0"]


def test_an_environment_that_only_the_script_knows(mine, tmp_path, capfd):
    EnvFn(mine)().close()
    with pytest.raises(UserError, match=r"must be registered in a module.*module:EnvId"):
        call_experiment("name", tell, env_name=mine, path="seen.json", data_dir=str(tmp_path))
    assert capfd.readouterr().err == ""
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("run", ["call_experiment", "grid"])
def test_each_environment_is_checked_once(monkeypatch, tmp_path, run):
    checked = []
    monkeypatch.setattr(run_utils, "check_environment", lambda env_fn, _: checked.append(env_fn))
    monkeypatch.setattr(run_utils, "_run_in_fresh_process", lambda *_: None)
    if run == "grid":
        grid = ExperimentGrid("g")
        grid.add("env_name", ["CartPole-v1", "Pendulum-v1"])
        grid.add("seed", [0, 1])
        grid.run(tanh, data_dir=str(tmp_path), quiet=True)
        assert checked == [EnvFn("CartPole-v1"), EnvFn("Pendulum-v1")]
    else:
        call_experiment("name", tanh, env_name="CartPole-v1", data_dir=str(tmp_path), quiet=True)
        assert checked == [EnvFn("CartPole-v1")]


def test_the_directory_that_was_checked_is_used(monkeypatch, tmp_path):
    times = iter(range(100))
    monkeypatch.setattr(run_utils.time, "strftime", lambda form: f"{next(times)}-")
    checked, used = [], []
    monkeypatch.setattr(run_utils, "_check_writable", checked.append)
    monkeypatch.setattr(
        run_utils,
        "_run_in_fresh_process",
        lambda experiment, _: used.append(experiment.logger_kwargs["output_dir"]),
    )
    grid = ExperimentGrid("g")
    grid.add("seed", [0, 1])
    grid.run(tanh, data_dir=str(tmp_path), datestamp=True, quiet=True)
    assert [str(path) for path in checked] == used


def test_an_environment_that_cannot_be_made():
    gym.register("Broken-v0", BrokenEnv)
    with pytest.raises(UserError, match="Broken-v0 cannot be made: RuntimeError: no display"):
        run_utils.check_environment(EnvFn("Broken-v0"))
    del gym.registry["Broken-v0"]


# ---------------------------------------------------------------- experiments


def tell(path, seed, logger_kwargs, env_fn=None, **kwargs):
    """An experiment that writes down what it sees."""
    print("hello from the experiment")
    seen = dict(
        process=os.getpid(),
        seed=seed,
        logger_kwargs=logger_kwargs,
        env=env_fn and env_fn().spec.id,
        gravity=env_fn and env_fn().unwrapped.g,
        kwargs=kwargs,
        sys_path=sys.path,
        fast_convolutions=os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
        tensorflow="tensorflow" in sys.modules,
        argv=sys.argv,
        mode=stat.S_IMODE(os.stat(sys.argv[-1]).st_mode),
    )
    with open(path, "w") as file:
        json.dump(seen, file)


@pytest.mark.parametrize("chosen", [None, "0"])
def test_tensorflow_is_told_that_there_are_convolutions(tmp_path, monkeypatch, chosen):
    """Before it is loaded, and unless the user has said something else."""
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", chosen)
    path, games = tmp_path / "seen.json", {"CartPole-v1": False, "SuperMarioBros-1-1-v0": True}
    assert {name: EnvFn(name).shows_pictures for name in games} == games
    monkeypatch.setattr(EnvFn, "shows_pictures", property(lambda env_fn: True))
    kwargs = dict(path=str(path), env_name="Pendulum-v1")
    call_experiment("name", tell, data_dir=str(tmp_path), quiet=True, **kwargs)
    assert json.loads(path.read_text())["fast_convolutions"] == (chosen or "1")


def test_an_experiment_has_its_own_process(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "modules")])
    path = tmp_path / "seen.json"
    call_experiment(
        "name",
        tell,
        seed=4,
        data_dir=str(tmp_path / "my data"),
        path=str(path),
        env_name="Pendulum-v1",
        env_kwargs={"g": 5.0},
        x=(1, 2),
    )
    seen = json.loads(path.read_text())
    assert seen["process"] != os.getpid()
    assert seen["seed"] == 4
    assert seen["logger_kwargs"] == {
        "output_dir": str(tmp_path / "my data" / "name" / "name_s4"),
        "exp_name": "name",
    }
    assert (seen["env"], seen["gravity"], seen["kwargs"]) == ("Pendulum-v1", 5.0, {"x": [1, 2]})
    assert seen["sys_path"] == sys.path
    assert not seen["tensorflow"]
    assert seen["fast_convolutions"] == os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    # handed over in a private folder, of which nothing is left
    folder = seen["argv"][-1]
    assert seen["mode"] == 0o700
    assert not os.path.exists(folder)

    out = capfd.readouterr().out
    before, after = out.split("hello from the experiment\n")
    assert before == (
        "Running experiment:\n\nname\n\nwith kwargs:\n\n"
        '{\n    "env_kwargs":\t{\n        "g":\t5.0\n    },\n    "env_name":\t"Pendulum-v1",\n'
        f'    "path":\t"{path}",\n    "seed":\t4,\n'
        '    "x":\t[\n        1,\n        2\n    ]\n}\n\n'
    )
    line = "=" * 80
    run_dir = f"'{tmp_path}/my data/name/name_s4'"
    assert after == (
        f"\n\n\n\n\n{line}\nEnd of experiment.\n\n\nPlot results from this run with:\n\n"
        f"python -m spinup_tf2.run plot {run_dir}\n\n\nWatch the trained agent with:\n\n"
        f"python -m spinup_tf2.run test_policy {run_dir}\n\n\n{line}\n\n\n\n\n\n"
    )


def test_the_command_to_watch_names_the_module_of_an_own_environment(tmp_path, capfd, monkeypatch):
    (tmp_path / "own_pendulums.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('OwnPendulum-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(run_utils, "_run_in_fresh_process", lambda *_: None)
    options = dict(data_dir=str(tmp_path), env_name="own_pendulums:OwnPendulum-v0")
    call_experiment("name", tell, **options)
    watch = f"test_policy {tmp_path}/name/name_s0 --import own_pendulums\n"
    assert watch in capfd.readouterr().out


def test_logger_kwargs_may_be_given(tmp_path, capfd):
    logger_kwargs = {"output_dir": str(tmp_path / "mine")}
    path = tmp_path / "seen.json"
    call_experiment("name", tell, path=str(path), logger_kwargs=logger_kwargs)
    seen = json.loads(path.read_text())
    assert (seen["seed"], seen["logger_kwargs"]) == (0, logger_kwargs)
    assert "Note: Call experiment is not handling logger_kwargs." in capfd.readouterr().out


def test_a_quiet_experiment(tmp_path, capfd):
    path = tmp_path / "seen.json"
    call_experiment("name", tell, path=str(path), data_dir=str(tmp_path), quiet=True)
    assert capfd.readouterr().out == "hello from the experiment\n"
    assert json.loads(path.read_text())["logger_kwargs"]["quiet"] is True


def fail(error, **_):
    raise error


def test_a_failed_experiment(tmp_path, capfd):
    with pytest.raises(subprocess.CalledProcessError) as raised:
        call_experiment("name", fail, error=RuntimeError("my mistake"), data_dir=str(tmp_path))
    assert raised.value.returncode == 1
    printed = capfd.readouterr()
    assert "RuntimeError: my mistake" in printed.err
    assert "There appears to have been an error in your experiment." in printed.out
    assert "End of experiment" not in printed.out


def test_the_experiments_user_error_is_raised_here(tmp_path, capfd):
    with pytest.raises(UserError, match="gamma is 3") as raised:
        call_experiment("name", fail, error=UserError("gamma is 3"), data_dir=str(tmp_path))
    assert "in fail" in str(raised.value.__cause__)  # where it was raised
    printed = capfd.readouterr()
    assert "There appears to have been an error" not in printed.out
    assert printed.err == ""


def test_nothing_starts_in_a_directory_with_a_run(tmp_path):
    run_dir = tmp_path / "name" / "name_s0"
    run_dir.mkdir(parents=True)
    (run_dir / "config.json").touch()
    with pytest.raises(UserError, match=r"already holds a run.*overwrite=True"):
        call_experiment("name", fail, error=RuntimeError(), data_dir=str(tmp_path))
    path = tmp_path / "seen.json"
    call_experiment("name", tell, path=str(path), data_dir=str(tmp_path), overwrite=True)
    assert json.loads(path.read_text())["logger_kwargs"]["overwrite"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(epoch=3), r"epoch is not an argument of ppo; did you mean epochs\?"),
        (dict(env_name=None), "You did not give a value for env_name!"),
        (dict(gamma=2), "gamma is 2; it must be a number between 0 and 1"),
        (dict(epochs=1.5), "epochs is 1.5; it must be a whole number"),
        (dict(steps_per_epoch=3), "steps_per_epoch is 3, which 2 environments"),
        (dict(ac_kwargs=3), "ac_kwargs is 3; it must be a dict"),
        (dict(ac_kwargs=dict(hidden=[3])), "'hidden' in ac_kwargs is not an argument of"),
        (dict(env_fn=gym.Env()), r"env_fn is <.*>; it must be a function that makes the env"),
    ],
)
@pytest.mark.parametrize("how", ["call", "grid"])
def test_an_algorithms_arguments_are_checked_before_anything_starts(
    tmp_path, capfd, arguments, message, how
):
    kwargs = dict(env_name="CartPole-v1", num_envs=2) | arguments
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    run = functools.partial(call_experiment, "name", **kwargs)
    if how == "grid":
        run = ExperimentGrid("name", base=kwargs).run
    with pytest.raises(UserError, match=message):
        run(spinup_tf2.ppo, data_dir=str(tmp_path))
    assert not os.listdir(tmp_path)
    assert capfd.readouterr().out == ""


def test_a_grid_runs_a_function_and_not_a_name(tmp_path):
    with pytest.raises(UserError, match=r"'ppo' is not a parameter of this grid.*run\(spinup"):
        ExperimentGrid("name", base=dict(env_name="CartPole-v1")).run("ppo", data_dir=tmp_path)
    assert not os.listdir(tmp_path)


def test_own_networks_have_arguments_of_their_own(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(run_utils, "_run_in_fresh_process", lambda run, _: started.append(run))
    kwargs = dict(actor_critic=tanh, ac_kwargs=dict(anything=1), epochs=1e1, quiet=True)
    call_experiment("a", spinup_tf2.ppo, env_name="CartPole-v1", data_dir=str(tmp_path), **kwargs)
    [experiment] = started
    assert type(experiment.kwargs["epochs"]) is int


def test_mujoco_that_is_not_installed(monkeypatch):
    def make(*_, **__):
        raise gym.error.DependencyNotInstalled("MuJoCo is not installed")

    monkeypatch.setattr(gym, "make", make)
    with pytest.raises(UserError, match=r'HalfCheetah-v5 needs MuJoCo .*"spinup_tf2\[mujoco\]"'):
        EnvFn("HalfCheetah-v5")()
    with pytest.raises(UserError, match="use HalfCheetah-v5"):
        EnvFn("HalfCheetah-v4")()
    with pytest.raises(gym.error.DependencyNotInstalled):
        EnvFn("LunarLander-v3")()


def test_a_grid_with_a_bad_last_variant_does_not_start(tmp_path):
    grid = ExperimentGrid("name")
    grid.add("env_name", ["Pendulum-v1", "Pendulum-v77"])
    with pytest.raises(UserError, match=r"Pendulum-v77 is not registered"):
        grid.run(fail, data_dir=str(tmp_path))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "exp_name",
    [
        *("", ".", "..", "a/b", "/a", "../a", "~", "~root", "-rf", "a\0b", "a\nb", "\x1b[2J"),
        *("\udcff", "a" * 224, "ä" * 112, 3, None, b"a"),
    ],
)
def test_an_experiment_needs_a_plain_name(exp_name, tmp_path):
    with pytest.raises(UserError, match="exp_name"):
        run_utils.check_exp_name(exp_name)
    with pytest.raises(UserError, match="exp_name"):
        setup_logger_kwargs(exp_name, 0, tmp_path)


def test_a_name_that_fits_fits_with_date_and_seed(tmp_path):
    name = "ä" * 111 + "!"
    path = setup_logger_kwargs(name, 4294967295, tmp_path, datestamp=True)["output_dir"]
    os.makedirs(path)


def test_a_seed_is_no_path(tmp_path):
    with pytest.raises(UserError, match=r"seed '/\.\./\.\./x'; it must be a plain name"):
        setup_logger_kwargs("name", "/../../x", tmp_path)


# ---------------------------------------------------------------- processes


def test_num_cpu(monkeypatch):
    monkeypatch.setattr(run_utils, "available_cores", lambda: 6)
    assert run_utils.resolve_num_cpu(3) == 3
    assert run_utils.resolve_num_cpu("auto") == 6
    for wrong in (0, -1, 1.5, "4", None, True):
        with pytest.raises(UserError, match="num_cpu is"):
            run_utils.resolve_num_cpu(wrong)


def test_num_cpu_in_a_launched_world(monkeypatch):
    monkeypatch.setattr(mpi, "launched_by_mpi", lambda: True)
    monkeypatch.setattr(mpi, "num_procs", lambda: 4)
    assert [run_utils.resolve_num_cpu(n) for n in (1, 4, "auto")] == [4, 4, 4]
    with pytest.raises(UserError, match="num_cpu is 3, but the MPI launcher started 4 processes"):
        run_utils.resolve_num_cpu(3)


def test_hosts_and_launcher(monkeypatch):
    monkeypatch.setattr(launch, "check_takes_hosts", lambda launcher: None)
    monkeypatch.setattr(launch, "check_hosts", lambda hosts: None)
    resolve = run_utils.resolve_processes
    assert resolve(3) == Processes(3)
    assert resolve(3).are_here
    for num_cpu in (1, 4, "auto"):  # 1 is what a program gets that does not say
        expected = Processes(4, {"node1": 1, "node2": 3})
        assert resolve(num_cpu, "node1,node2:3") == expected
        assert not expected.are_here
    assert resolve(4, "node1,node2").hosts == {"node1": 2, "node2": 2}
    with pytest.raises(UserError, match="num_cpu is 3, but hosts gives 4 processes; leave it out"):
        resolve(3, "node1:2,node2:2")
    assert resolve(2, None, "env -i") == Processes(2, None, "env -i")
    with pytest.raises(UserError, match="launcher is given, but for one process"):
        resolve(1, None, "env -i")

    monkeypatch.setattr(mpi, "launched_by_mpi", lambda: True)
    with pytest.raises(UserError, match="an MPI launcher has started them already"):
        resolve(1, "node1:2")


def test_other_machines_find_the_experiment_beside_the_run(monkeypatch, tmp_path):
    """Whatever starts the processes gets a path that all machines see, and only this user."""
    started = []

    def run(processes, arguments):
        folder = Path(arguments[1])
        started.append((folder.parent, oct(folder.stat().st_mode & 0o777)))
        return 0

    monkeypatch.setattr(Processes, "run", run)
    kwargs = dict(num_cpu=2, data_dir=str(tmp_path / "data"), quiet=True)
    call_experiment("name", tell, launcher="env", **kwargs)
    call_experiment("name", tell, **kwargs)
    assert started == [(tmp_path / "data" / "name", "0o700"), (Path(gettempdir()), "0o700")]
    assert not os.listdir(tmp_path / "data" / "name")


@pytest.mark.parametrize("signum", SIGNALS)
def test_an_interrupted_experiment_ends_the_grid(signum, monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setattr(
        Processes, "run", lambda self, arguments: started.append(1) or 128 + int(signum)
    )
    grid = ExperimentGrid("grid")
    grid.add("x", [1, 2])
    with pytest.raises(Interrupted) as left:
        grid.run(tell, data_dir=str(tmp_path), quiet=True)
    assert left.value.status == 128 + signum
    assert len(started) == 1
    assert capsys.readouterr().out == ""
    assert "error in your experiment" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({}, "the same command with --resume; what"),
        (dict(overwrite=True), "--resume and without overwrite; what"),
        (dict(thunk=tanh), "the same grid with grid.add('resume', True); what"),
    ],
)
def test_a_stopped_grid_says_how_it_goes_on(monkeypatch, tmp_path, capsys, options, how):
    statuses = iter([0, 130])
    monkeypatch.setattr(Processes, "run", lambda self, arguments: next(statuses))
    options = dict(thunk=run_utils.NamedAlgorithm("ppo"), data_dir=str(tmp_path)) | options
    grid = ExperimentGrid("g")
    grid.add("x", [1, 2, 3])
    with pytest.raises(Interrupted):
        grid.run(**options)
    said = capsys.readouterr().out.split("The grid was stopped in experiment 2 of 3:")[1]
    states = [line.split() for line in said.splitlines() if str(tmp_path) in line]
    assert [line[:-1] for line in states] == [["done"], ["stopped"], ["to", "do"]]
    assert [os.path.basename(line[-1]) for line in states] == ["g_x1_s0", "g_x2_s0", "g_x3_s0"]
    assert how in said


def test_a_stopped_experiment_is_no_grid(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Processes, "run", lambda self, arguments: 130)
    with pytest.raises(Interrupted):
        ExperimentGrid("g").run(tanh, data_dir=str(tmp_path))
    assert "The grid was stopped" not in capsys.readouterr().out


def test_algorithms_are_waited_for_with_a_word(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Processes, "run", lambda self, arguments: 0)
    options = dict(env_name="CartPole-v1", data_dir=str(tmp_path))
    call_experiment("a", spinup_tf2.ppo, **options)
    assert '"seed":\t0\n}\n\nLoading TensorFlow ...\n' in capsys.readouterr().out
    call_experiment("b", tanh, **options)
    assert "TensorFlow" not in capsys.readouterr().out


def test_in_a_launched_world_the_ranks_are_the_experiment(monkeypatch, tmp_path):
    monkeypatch.setattr(mpi, "launched_by_mpi", lambda: True)
    monkeypatch.setattr(run_utils, "_run_in_fresh_process", lambda *_: pytest.fail("started"))
    ran = []

    def experiment(seed, logger_kwargs):
        ran.append((mpi.proc_id(), os.getpid(), seed))

    run_ranks(3, lambda: call_experiment("name", experiment, data_dir=str(tmp_path), quiet=True))
    assert sorted(ran) == [(rank, os.getpid(), 0) for rank in range(3)]


def test_what_rank_0_finds_is_raised_on_all_ranks(tmp_path):
    (tmp_path / "progress.txt").touch()

    def check():
        logger_kwargs = {"output_dir": str(tmp_path)}
        experiment = run_utils._Experiment("name", tell, {}, logger_kwargs)
        with pytest.raises(UserError, match="already holds a run"):
            run_utils._check_launch([experiment])
        return mpi.proc_id()

    assert run_ranks(3, check) == [0, 1, 2]
