"""The command line, without starting anything."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

import spinup_tf2
from spinup_tf2 import run
from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.cli.flags import parse_flags, parse_value, split_env_kwargs
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import ExperimentsFailed, Interrupted, UserError
from spinup_tf2.experiments.checks import signature_of
from tests.cli import own
from tests.cli.closed_pipe import closed_pipe


def execute(command_line):
    run.main(command_line.split())


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("[32,32]", [32, 32]),
        ("{'a': 1}", {"a": 1}),
        ("True", True),
        ("None", None),
        ("'True'", "True"),
        ("CartPole-v1", "CartPole-v1"),
        ("(" * 1000, "(" * 1000),
        ("", ""),
        # activations
        ("tf.tanh", "tanh"),
        ("tf.nn.relu", "relu"),
        ("torch.nn.Tanh", "tanh"),
        ("tf.nn.leaky_relu", "leaky_relu"),  # the same slope, 0.2
        ("torch.nn.LeakyReLU", "torch.nn.LeakyReLU"),  # another, 0.01: refused as an activation
        # what Spinning Up would have executed
        ("1+1", "1+1"),
        ("__import__('os').system('false')", "__import__('os').system('false')"),
    ],
)
def test_values(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ("--seed 0 10", {"seed": [0, 10]}),
        ("--seed -1 -seed 3", {"seed": [-1, "-seed", 3]}),  # one dash: a value
        ("--seed 0 --seed 5", {"seed": [5]}),  # the last one counts
        ("--seed=0 --hid=[8,8]", {"seed": [0], "ac_kwargs:hidden_sizes": [[8, 8]]}),
        ("--env_kwargs:a=b=c 1", {"env_kwargs:a": ["b=c", 1]}),
        ("--seed[s] 0 --gamma 0.9 --seed 1", {"seed": [1], "gamma": [0.9]}),
        ("--callbacks None --init_from None x", {"callbacks": [None], "init_from": [None, "x"]}),
        ("--exp_name None", {"exp_name": ["None"]}),
        ("--dt", {"datestamp": [True]}),
        ("--exp_name 123 --data_dir 1e3", {"exp_name": ["123"], "data_dir": ["1e3"]}),
    ],
)
def test_flags(arguments, flags):
    assert parse_flags(arguments.split()) == (flags, {})


def test_order_of_flags_and_shorthands():
    line = "--env E --hid[h] [3] --gamma 1 --act tanh --lam[] 1 --seed 0"
    flags, shorthands = parse_flags(line.split())
    # plain as typed, with a shorthand, substituted
    assert [*flags] == [
        *("gamma", "seed", "lam"),
        *("env_name", "ac_kwargs:hidden_sizes", "ac_kwargs:activation"),
    ]
    assert shorthands == {"ac_kwargs:hidden_sizes": "h", "lam": ""}
    line = "--seed 0 --hid[h] [3] --seed[s] 1 --hid[g] [4]"  # the last one counts
    assert parse_flags(line.split()) == (
        {"seed": [1], "ac_kwargs:hidden_sizes": [[4]]},
        {"seed": "s", "ac_kwargs:hidden_sizes": "g"},
    )


# ---------------------------------------------------------------- golden command lines


def test_a_grid_of_eight(experiments):
    execute(
        "ppo --exp_name ppo_ant --env Pendulum-v1 --clip_ratio 0.1 0.2 --hid[h] [32,32] [64,32] "
        "--act torch.nn.Tanh --seed 0 10 --data_dir path/to/data"
    )
    expected = [
        f"ppo_ant_cli{clip}_h{hid}_s{seed}"
        for clip in ("0-1", "0-2")
        for seed in (0, 10)
        for hid in ("32-32", "64-32")
    ]
    assert [os.path.basename(where) for _, where, _ in experiments] == expected
    assert experiments[0][1] == "path/to/data/ppo_ant_cli0-1_h32-32/ppo_ant_cli0-1_h32-32_s0"
    assert experiments[-1][2] == {
        "clip_ratio": 0.2,
        "env_name": "Pendulum-v1",
        "ac_kwargs": {"hidden_sizes": [64, 32], "activation": "tanh"},
        "num_cpu": 1,
        "seed": 10,
    }


def test_switches_are_handed_on(experiments):
    execute("ppo --env CartPole-v1 --quiet --overwrite --cpu=2")
    [(exp_name, where, kwargs)] = experiments
    assert (exp_name, where) == ("cmd_ppo", "cmd_ppo/cmd_ppo_s0")
    assert kwargs == dict(env_name="CartPole-v1", seed=0, quiet=True, overwrite=True, num_cpu=2)


def test_an_environment_of_a_module_in_the_working_directory(experiments, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "own_environment.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Own-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    execute("ppo --env own_environment:Own-v0")
    [(_, _, kwargs)] = experiments
    assert EnvFn(kwargs["env_name"])().spec.id == "Own-v0"


def test_whole_numbers_may_be_written_as_powers_of_ten(experiments):
    execute("sac --env Pendulum-v1 --replay_size 1e6 --epochs 1e1 2e1 --alpha 1.0")
    assert [(name, kwargs["epochs"]) for name, _, kwargs in experiments] == [
        ("cmd_sac_epo10", 10),
        ("cmd_sac_epo20", 20),
    ]
    for name, number in (("replay_size", 1000000), ("epochs", 10), ("alpha", 1.0)):
        value = experiments[0][2][name]
        assert (value, type(value)) == (number, type(number))


# ---------------------------------------------------------------- errors

ODD_ENVIRONMENT = """
import gymnasium
from gymnasium.spaces import Box, Discrete, Sequence

class SequenceEnv(gymnasium.Env):
    observation_space = Sequence(Box(-1, 1))
    action_space = Discrete(2)

gymnasium.register("Sequence-v0", SequenceEnv)

def unfinished():
    return len(3)

gymnasium.register("Unfinished-v0", unfinished)
"""

BAD_INPUT = {
    "rainbow --env CartPole-v1": "of its family, dqn is here",
    "no_such_module:vpg": "No module named 'no_such_module'",
    "tests.cli.own:climb --env CartPole-v1": r"no function 'climb'; did you mean climber\?",
    "tests.cli.own_vpg:copied --env CartPole-v1 --epochs 0": "epochs is 0; it must be a whole",
    "ppo --env CartPole-v1 --total-timesteps 1e6": "--epochs and --steps_per_epoch .their product",
    "ppo --env CartPole-v1 --wandb": r"here it is --track \(--track wandb\)",
    "ddpg --env QuadrupedWalk-v0 --GUI": "--env_kwargs:render_mode GUI",
    "ppo --env CartPole-v1 --wrapper TimeLimt": "wrapper is 'TimeLimt', which wraps no",
    "ppo --env CartPole-v1 --wrapper A --wrapper B": "given twice; give it once, with all",
    "ppo --env CartPole-v1 --lr 1": "here it is --pi_lr and --vf_lr",
    "ppo --env CartPole-v1 --batch-size 64": "here it is --minibatch_size",
    "sac --env Pendulum-v1 --batch-size 64": "it is called --batch_size",
    "sac --env Pendulum-v1 --tau 0.005": "--polyak .which is 1 - tau",
    "sac_tf1 --env Pendulum-v1": r"did you mean sac\?",
    "sac --env Pendulum-v1 --replay_size 1.5": "replay_size is 1.5; it must be a whole number",
    "ppo CartPole-v1 --epochs 1": "You didn't specify a first flag. 'CartPole-v1'",
    "ppo --exp_name t": "You did not give a value for --env_name! Add one: --env ID, such as",
    "ppo --env": "--env_name was given without a value; was a variable not set",
    "ppo -env CartPole-v1": "You didn't specify a first flag. '-env'",
    "ppo --env CartPole-v1 --epochs": "epochs is True; it must be a whole number",
    "ppo --env CartPole": "CartPole is not registered with gymnasium",
    "ppo --env odd_environment:Sequence-v0": "The observation space Sequence is not supported",
    "ppo --env odd_environment:Unfinished-v0": r"cannot be made: TypeError: object of type 'int' "
    r"has no len.*odd_environment\.py, line 12; --debug shows",
    "ppo --env broken_environment:Own-v0": "cannot be imported.*No module named 'no_such_thing'",
    "ppo --env CartPole-v1 --seed 0,1,2": r"seed is \(0, 1, 2\);",
    "ppo --env CartPole-v1 --env_kwargs:grvity 1": "cannot be made with {'grvity': 1}.*grvity",
    "ppo --env CartPole-v1 --env_name CartPole-v1": "--env and --env_name are the same flag",
    "ppo --env CartPole-v1 --env Acrobot-v1": "--env is given twice; give it once, with all its",
    "ppo --env CartPole-v1 --epoch 3": r"--epoch is not a flag of ppo; did you mean --epochs\?",
    "ppo --env CartPole-v1 --ac_kwargs:hidden_szies [3]": "did you mean --ac_kwargs:hidden_sizes",
    "ppo --env CartPole-v1 --ac_kwargs 3": "ac_kwargs is 3; it must be a dict",
    "a2c --env CartPole-v1 --ac_kwargs:conv small": "CartPole-v1 cannot be used: its observations "
    "are no images.*MLPActorCritic, have no argument 'conv'; they take hidden_sizes, activation",
    "sac --env Pendulum-v1 --ac_kwargs:stochastic False": "--ac_kwargs:stochastic is not a flag",
    "ddpg --env CartPole-v1": "The action space Discrete is not supported by this algorithm",
    "ppo --env CartPole-v1 --exp_name a b": "only provide one value for exp_name; there are 2: "
    "a b.$",
    "ppo --env CartPole-v1 --exp_name a/b": "must be a plain name",
    "ppo --env CartPole-v1 --launcher no-such-program --cpu 2": "there is no such program",
    "ppo --env CartPole-v1 --quiet maybe": "--quiet is a switch",
    "ppo --env CartPole-v1 --seed 1 1": "two of the experiments would write to",
    "ppo --env CartPole-v1 --data_dir finished": "already holds a run.*--overwrite",
    # presets
    "ppo --preset klassic": r"'klassic' is not a preset of ppo; did you mean classic\?",
    "ddpg --preset atari": "'atari' is not a preset of ddpg; they are",
    "ppo --preset classic --env CartPole-v1 Pendulum-v1": "other settings for Pendulum-v1 than for",
    "ppo --preset mujoco --env CartPole-v1": "mujoco does not fit CartPole-v1: it is for Ant-",
    "ppo --preset mujoco --cpu 2": "minibatch_size is 64; it must be a multiple of .*, 128, and",
    "ppo --preset nowhere.toml": "the preset nowhere.toml cannot be read: ",
    "ppo --preset classic mario": "only provide one value for preset",
    "ppo --preset classic --preset mario": "--preset is given twice",
    "resume . --preset classic": "--preset cannot be given to resume",
    # the second of two would be refused: so is the first
    "ppo --env CartPole-v1 --data_dir finished --seed 1 0": "already holds a run.*--overwrite",
}


@pytest.mark.parametrize("command_line", BAD_INPUT)
def test_bad_input_gives_one_line_and_writes_nothing(
    command_line, experiments, tmp_path, capsys, monkeypatch
):
    finished = tmp_path / "finished" / "cmd_ppo" / "cmd_ppo_s0" / "progress.txt"
    finished.parent.mkdir(parents=True)
    finished.write_text("Epoch\n0\n")
    (tmp_path / "odd_environment.py").write_text(ODD_ENVIRONMENT)
    (tmp_path / "broken_environment.py").write_text("import no_such_thing")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(SystemExit) as left:
        execute(command_line)

    printed = capsys.readouterr()
    assert left.value.code == 2
    assert not experiments
    assert sorted(tmp_path.rglob("*")) == before
    assert printed.out == ""
    assert printed.err.startswith("spinup_tf2: error: ")
    assert printed.err.count("\n") == 1
    assert re.search(BAD_INPUT[command_line], printed.err)


def test_debug_shows_where_an_error_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with pytest.raises(SystemExit) as left:
        execute("ppo --env CartPole-v1 --gamma 2 --debug")
    assert left.value.code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last.startswith("spinup_tf2: error: gamma is 2")


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("arguments", [[], ["help"], ["-h"], ["--help"]])
def test_usage(arguments, capsys):
    run.main(arguments)
    out = capsys.readouterr().out
    utilities = ["plot", "ls", "test_policy", "evaluate", "export", "play", "presets"]
    commands = [*ALGORITHMS, "resume", *utilities]
    assert "ppo" in commands
    assert "\n\n\t" + "\n\t".join(commands) + "\n\n" in out
    assert "\t--hid       for       --ac_kwargs:hidden_sizes\n" in out
    run.main(["--version"])
    assert capsys.readouterr().out == f"spinup_tf2 {spinup_tf2.__version__}\n"


@pytest.mark.parametrize(
    ("command_line", "status"),
    [
        ("ppo --help", 0),
        ("presets", 0),
        ("plot data --table", 0),
        ("ls data", 0),
        ("ls --help", 0),  # which argparse prints
        ("presets no_such_preset", 2),
        ("ppo --env CartPole-v1 --seed 0 1", 0),
    ],
)
def test_commands_end_as_ever_where_nobody_reads_what_they_print(
    command_line, status, experiments, tmp_path
):
    run_dir = tmp_path / "data" / "a_run"
    run_dir.mkdir(parents=True)
    (run_dir / "config.json").write_text('{"exp_name": "a_run"}')
    (run_dir / "progress.txt").write_text("Epoch\tAverageEpRet\tTotalEnvInteracts\n0\t1\t10\n")
    left_with = 0
    with closed_pipe():
        try:
            execute(command_line)
        except SystemExit as left:
            left_with = left.code
    assert left_with == status
    assert len(experiments) == 2 * ("--seed" in command_line)


@pytest.mark.parametrize("line", ["ppo --no --help", "help ppo", "ppo --exp_name help", "ppo -h"])
def test_help_of_an_algorithm_comes_before_everything_else(line, capsys, experiments):
    execute(line)
    assert capsys.readouterr().out.startswith("python -m spinup_tf2.run ppo --env ID")
    assert not experiments


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_help_is_two_screens_with_a_line_for_each_flag(algorithm, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    execute(f"{algorithm} --help")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "80")
    execute(f"{algorithm} --help")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80
    defaults = signature_of(algorithm).defaults
    for name in defaults.keys() - {*PYTHON_ONLY}:
        typed = f"  --{name} {defaults[name]!r}"
        [(number, line)] = [each for each in enumerate(lines) if each[1].startswith(typed)]
        assert len(line) > 34, "it has no meaning"
        assert not lines[number + 1].startswith(" " * 20), "its meaning is longer than a line"


def test_help_in_full_is_the_docstring(capsys):
    execute("sac --full --help")
    assert capsys.readouterr().out == signature_of("sac").doc + "\n"


def test_help_of_ones_own_algorithm(capsys):
    execute("help tests.cli.own:climber")
    out = capsys.readouterr().out
    assert "Climbs as high as it is told.\n" in out
    assert "  --height 1                      How high it climbs.\n" in out
    assert "  --steps\n" in out  # which has no default, and no description


# ---------------------------------------------------------------- algorithms of one's own


def test_ones_own_algorithm_is_run_in_a_grid(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(own.__file__, "own_file.py")  # in the current directory
    execute("own_file:climber --env CartPole-v1 --height 2 3 --steps=7 --data_dir data --quiet")
    assert {path.parent.name: path.read_text() for path in tmp_path.rglob("progress.txt")} == {
        "cmd_climber_hei2_s0": "Epoch\tEpRet\n0\t9\n",
        "cmd_climber_hei3_s0": "Epoch\tEpRet\n0\t10\n",
    }
    with pytest.raises(SystemExit):
        execute("own_file:climber --env CartPole-v1 --steps 7 --data_dir data --skip_finished")
    assert "skip_finished compares the arguments" in capsys.readouterr().err


def test_arguments_of_ones_own_algorithm(experiments):
    execute("tests.cli.own_vpg:copied --env CartPole-v1 --my_arg 3 --epochs 1e1 --ac_kwargs:own 1")
    [(exp_name, _, kwargs)] = experiments
    assert exp_name == "cmd_copied"
    assert (kwargs["my_arg"], kwargs["epochs"], kwargs["ac_kwargs"]) == (3, 10, {"own": 1})


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Interrupted(signal.SIGTERM), 143),
        (Interrupted(signal.SIGUSR1), 138),
        (KeyboardInterrupt(), 130),
        (subprocess.CalledProcessError(3, []), 3),
        (ExperimentsFailed("1 of 1 experiments failed", 4), 4),
        (ExperimentsFailed("1 of 2 experiments failed"), 1),
    ],
)
def test_exit_statuses(error, status, monkeypatch, capfd):
    def run_command(_):
        raise error

    monkeypatch.setattr(run, "_run_command", run_command)
    with pytest.raises(SystemExit) as left:
        run.main([])
    assert left.value.code == status
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------- --env_kwargs of other commands


@pytest.mark.parametrize(
    "line",
    [
        "RUN -n 3 --env_kwargs:num_levels 0 --env_kwargs:distribution_mode hard",
        "--env_kwargs:num_levels=0 RUN --env_kwargs:distribution_mode hard -n 3",
        "-n 3 --env_kwargs {'num_levels':0,'distribution_mode':'hard'} RUN",
    ],
)
def test_arguments_of_environments_may_stand_anywhere(line):
    others, env_kwargs = split_env_kwargs(line.split())
    assert sorted(others) == ["-n", "3", "RUN"]
    assert env_kwargs == dict(num_levels=0, distribution_mode="hard")
    assert split_env_kwargs(others) == (others, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RUN --env_kwargs:num_levels", "--env_kwargs:num_levels was given without a value"),
        ("RUN --env_kwargs:raw --norender", "--env_kwargs:raw was given without a value"),
        ("RUN --env_kwargs 3", "env_kwargs is 3; it must be a dict"),
        ("RUN --env_kwargs:render_mode human", "render_mode follows from --norender"),
    ],
)
def test_mistakes_in_arguments_of_environments(line, message):
    with pytest.raises(UserError, match=message):
        split_env_kwargs(line.split())
