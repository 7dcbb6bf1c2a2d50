"""Everything that is read from a run, and every command line, garbled in thousands of ways.

Each input is either taken or refused with a UserError (at the command line in one line, with
status 2). No other exception leaves the package, nothing is executed, nothing outside of the run's
directory is written, and nothing takes long or much memory. The inputs are the same in every run.
"""

import contextlib
import io
import json
import resource
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spinup_tf2 import run, user_config
from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.cli.algorithm import parse_experiments
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.results.plot import main as plot_command
from spinup_tf2.utils import plot
from tests.checkpoints import signed, write_checkpoint
from tests.fuzz.mutations import NASTY, changed, damaged, json_files
from tests.sensor import watch

RUN = Path(__file__).parents[2] / "data" / "ppo_cartpole" / "ppo_cartpole_s0"

# How many inputs each test tries: five thousand in all.
INPUTS = dict(arguments=1600, commands=600, resume=200, config=250, progress=250, figure=10)
INPUTS |= dict(env_spec=600, model_info=450, weights=200, manifest=500, ranks=400)
pytestmark = pytest.mark.slow


class TooSlow(BaseException):
    """Not an Exception: nobody is to catch it."""

    @classmethod
    def alarm(cls, *_):
        raise cls


@pytest.fixture(scope="module", autouse=True)
def libraries(tmp_path_factory):
    """What the libraries of plots do the first time, such as finding fonts."""
    path = tmp_path_factory.mktemp("figure") / "figure.svg"
    plot_command([str(RUN), "--savefig", str(path)])


@pytest.fixture
def fuzz(request, tmp_path, record_property):
    """`fuzz(check, strategy)`: call `check` with many inputs, as many as the test's name says."""
    name = request.node.name.removeprefix("test_")

    def fuzz(check, strategy):
        count = 0

        @settings(
            max_examples=INPUTS[name],
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            phases=[Phase.generate, Phase.shrink],
        )
        @given(strategy)
        def every(example):
            nonlocal count
            count += 1
            signal.setitimer(signal.ITIMER_REAL, 20)
            try:
                with watch(tmp_path, writable=(tmp_path,)) as seen:
                    check(example)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert seen == []

        before = signal.signal(signal.SIGALRM, TooSlow.alarm)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            every()
        finally:
            signal.signal(signal.SIGALRM, before)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        assert grown < 1.5 * 2**20  # KiB
        assert count >= INPUTS[name]
        record_property("fuzzed inputs", count)

    return fuzz


refused = contextlib.suppress(UserError)


@contextlib.contextmanager
def silent():
    """Print nothing, in an encoding that has no room for half a character."""
    buffers = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "replace")]
    with contextlib.redirect_stdout(buffers[0]), contextlib.redirect_stderr(buffers[1]):
        yield


def run_main(line):
    """Run a command line; it ends well, or with one line that says what is wrong."""
    status = 0
    with silent():
        try:
            run.main(line)
        except SystemExit as stop:
            status = stop.code
        sys.stderr.seek(0)
        err = sys.stderr.read()
    assert status in (0, 2)
    if status == 2 and "--debug" not in line:
        assert "error: " in err
        assert "Traceback" not in err


# ---------------------------------------------------------------- command lines

ENVIRONMENTS = ["CartPole-v1", "Pendulum-v1", "CartPole-v0", "os:system", "a:b:c", "../x:Y-v0"]
FLAGS = [
    *("env", "env_name", "hid", "act", "cpu", "dt", "exp_name", "num_cpu", "datestamp", "quiet"),
    *("overwrite", "seed", "epochs", "steps_per_epoch", "gamma", "lam", "save_freq", "num_envs"),
    *("ac_kwargs", "ac_kwargs:hidden_sizes", "ac_kwargs:activation", "ac_kwargs:conv", "pi_lr"),
    *("env_kwargs", "env_kwargs:g", "resume", "stall_timeout", "target_kl", "n_steps", "alpha"),
    *("batch_size", "replay_size", "minibatch_size", "env_fn", "logger_kwargs", "gama", "help"),
    *("ac_kwargs:", ":", "::", "", "[", "]", "seed[s]", "gamma[g", "epochs=3", "lr[../x]"),
]
VALUES = [
    *("1", "0", "-1", "2", "0.5", "1e-3", "1e400", "True", "None", "tanh", "tf.nn.relu", "auto"),
    *("[64,64]", "(8,)", "[[32,8,4]]", "{'a': 1}", "{}", "[]", "nature", "()", "b'a'", "1j", "..."),
    *("__import__('os').system('true')", "lambda x: x", "[x for x in (1,)]", "f'{1}'", "1_0", "1,"),
    *("{1: {2: 3}}", "{[]: 1}", "{'a': [}", "-" * 50, "(" * 200, "[" * 3000, "0" * 5000, "é", "-"),
]
WORDS = st.one_of(
    st.sampled_from(FLAGS).map("--{}".format),
    st.sampled_from(FLAGS).map("--{}".format),
    st.sampled_from(VALUES),
    st.sampled_from([text for text in NASTY if "\0" not in text]),  # no argument can hold that
    st.integers().map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_characters="\0"), max_size=6),
)
# Mostly with what each of them needs, so that the rest is looked at.
LINES = st.tuples(
    st.lists(WORDS, max_size=7), st.sampled_from([None, *ENVIRONMENTS[:2], *ENVIRONMENTS])
).map(lambda pair: [*([] if pair[1] is None else ["--env", pair[1]]), *pair[0]])


@pytest.fixture
def nothing_starts(monkeypatch, tmp_path):
    """Everything is done up to the point where the first experiment would start."""
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(calling, "run_experiment", lambda *args: None)


def test_arguments(fuzz, nothing_starts):
    def check(example):
        algorithm, line = example
        with refused:
            parse_experiments(algorithm, line)

    fuzz(check, st.tuples(st.sampled_from([*ALGORITHMS]), LINES))


def test_commands(fuzz, nothing_starts):
    commands = [*ALGORITHMS, *ALGORITHMS, "resume", "plot", "ls", "test_policy", "help", "pppo"]
    lines = st.tuples(st.sampled_from(commands), LINES).map(lambda pair: [pair[0], *pair[1]])
    fuzz(run_main, lines | st.lists(WORDS, max_size=3))


# ---------------------------------------------------------------- what plot reads


def test_config(fuzz, tmp_path):
    shutil.copy(RUN / "progress.txt", tmp_path)

    def check(contents):
        (tmp_path / "config.json").write_bytes(contents)
        with silent():
            [data] = plot.get_datasets(tmp_path)
        assert isinstance(data["Condition1"][0], str)

    config = json.loads((RUN / "config.json").read_text())
    fuzz(check, json_files({"exp_name": "name"}, config))


CELLS = st.one_of(
    st.sampled_from(["", "nan", "inf", "-1e308", "1e308", "1e999", "9" * 400, "0x10", "1_0", "1j"]),
    st.sampled_from([*NASTY, "True", '"', '""', '"a', "2020-01-01", "\r", "#", "1,5", "<NA>"]),
    st.floats().map(str),
    st.integers().map(str),
    st.text(max_size=4),
)


@st.composite
def tables(draw):
    """A table with some odd columns and entries, and lines of unequal length."""
    names = ["Epoch", "AverageEpRet", "TotalEnvInteracts", "Performance", "Unit", "Condition1"]
    header = draw(st.lists(st.sampled_from(names) | CELLS, min_size=1, max_size=5))
    header = [*header, *draw(st.sampled_from([[], names[1:3]]))]
    rows = [
        [draw(CELLS | st.just("1.5")) for _ in range(len(header) + draw(st.integers(-1, 1)))]
        for _ in range(draw(st.integers(0, 4)))
    ]
    text = "\n".join("\t".join(row) for row in [header, *rows]) + "\n"
    return text.encode(errors="surrogateescape")


def progress_files():
    text = b"".join((RUN / "progress.txt").read_bytes().splitlines(True)[:5])
    return tables() | damaged(text)


def test_progress(fuzz, tmp_path):
    def check(contents):
        (tmp_path / "progress.txt").write_bytes(contents)
        with silent():
            for data in plot.get_datasets(tmp_path):
                names = [name for name in ("TotalEnvInteracts", "Performance") if name in data]
                for xaxis in {*names, data.columns[0]}:
                    with contextlib.suppress(UserError):  # there are no numbers
                        curves = plot.get_curves(data, xaxis, data.columns[0], smooth=2)
                        assert np.isfinite([[c.x, c.estimate] for c in curves.values()]).all()

    fuzz(check, progress_files())


def test_figure(fuzz, tmp_path):
    """The whole command; fewer of them, as each draws a picture."""
    (tmp_path / "config.json").write_text(json.dumps({"exp_name": "a $ name $\\"}))

    def check(contents):
        (tmp_path / "progress.txt").write_bytes(contents)
        with refused, silent():
            plot_command([str(tmp_path), "--savefig", str(tmp_path / "figure.svg"), "-s", "2"])

    fuzz(check, progress_files())


# ---------------------------------------------------------------- what test_policy reads


def spec_of(env_name, max_episode_steps, wrappers, **kwargs):
    entries = [
        {"entry_point": f"gymnasium.wrappers.{name}", "kwargs": of_wrapper}
        for name, of_wrapper in wrappers.items()
    ]
    return dict(
        env_name=env_name, kwargs=kwargs, max_episode_steps=max_episode_steps, wrappers=entries
    )


WRAPPERS = {
    "common:TimeLimit": {"max_episode_steps": 9},
    "stateful_observation:FrameStackObservation": {"stack_size": 2, "padding_type": "zero"},
}
CLIPPED = {"transform_reward:ClipReward": {"min_reward": -1, "max_reward": 1}}
SPECS = [
    spec_of("CartPole-v1", 500, WRAPPERS),
    spec_of("Pendulum-v1", None, CLIPPED, g=9.0),
    spec_of("ale_py:ALE/Pong-v5", 9, {}),
]


def test_env_spec(fuzz, tmp_path):
    from spinup_tf2.files.env_spec import make_env

    path = tmp_path / "env_spec.json"

    def check(contents):
        path.write_bytes(contents)
        with refused:
            make_env(path).close()

    specs = [{"spec": spec} for spec in SPECS]
    for spec in specs:
        path.write_text(json.dumps(spec))
        make_env(path).close()
    fuzz(check, json_files(*specs, {"spec": None, "reason": "why"}))


ENTRIES = [
    ("MLPActorCritic", {}),
    ("CNNActorCritic", {"conv": "nature", "shared": True}),
    ("CNNActorCritic", {"conv": [[8, 3, 2]], "shared": False}),
    ("MLPQActorCritic", {"stochastic": True, "num_q": 2}),
    ("CNNQActorCritic", {"conv": "small", "stochastic": False, "num_q": 1}),
]


def test_model_info(fuzz, tmp_path):
    from spinup_tf2.training.saved_policy import load_policy

    shutil.copytree(RUN / "tf2_save", tmp_path / "tf2_save")
    path = tmp_path / "tf2_save" / "model_info.json"
    info = json.loads(path.read_text())
    networks, box = info["networks"], info["observation_space"]
    image = {"type": "Box", "shape": [36, 36, 3], "dtype": "uint8", "low": "0", "high": "255"}
    action = {"type": "Box", "shape": [1], "dtype": "float32", "low": "-1", "high": "1"}
    bits = {"type": "MultiBinary", "n": 3}
    choices = {"type": "MultiDiscrete", "nvec": [2, 3], "start": [0, 1]}
    infos = [info, info]
    for (name, more), act in zip(ENTRIES, (bits, choices, action, action, action), strict=True):
        obs = image if "conv" in more else {"type": "Dict", "spaces": [["a", box], ["b", bits]]}
        entry = networks | {"actor_critic": name, "arguments": networks["arguments"] | more}
        infos.append(info | dict(networks=entry, observation_space=obs, action_space=act))

    def check(contents):
        path.write_bytes(contents)
        with refused:
            get_action = load_policy(tmp_path / "tf2_save", seed=0)
            get_action(np.zeros(4, np.float32))

    fuzz(check, json_files(*infos))


def test_weights(fuzz, tmp_path):
    from spinup_tf2.training.saved_policy import load_policy

    shutil.copytree(RUN / "tf2_save", tmp_path / "tf2_save")
    path = tmp_path / "tf2_save" / "weights.npz"

    def check(contents):
        path.write_bytes(contents)
        with refused:
            load_policy(tmp_path / "tf2_save")(np.zeros(4, np.float32))

    fuzz(check, damaged(path.read_bytes()))


# ---------------------------------------------------------------- what resuming reads


@pytest.fixture
def checkpoint(tmp_path):
    """The directory of a run with a checkpoint, and the contents of its files by name."""
    folder = write_checkpoint(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "sound")
    return tmp_path / "run", {path.name: path.read_bytes() for path in folder.iterdir()}


def manifests(contents):
    """Damaged, or with a digest that is right all the same."""
    sound = json.loads(contents)
    resigned = changed(sound).map(lambda value: signed(value) if isinstance(value, dict) else value)
    return resigned.map(lambda value: json.dumps(value).encode()) | json_files(sound)


def restored(run_dir, name, contents):
    """The run with one file of its checkpoint changed."""
    sound = run_dir.with_name("sound")
    ours, theirs = ({path.relative_to(x) for path in x.rglob("*")} for x in (run_dir, sound))
    if ours != theirs:
        shutil.rmtree(run_dir)
        shutil.copytree(sound, run_dir)
    (run_dir / "checkpoint" / "000001" / name).write_bytes(contents)


def test_manifest(fuzz, checkpoint):
    from spinup_tf2.training.checkpoints import Checkpoints

    run_dir, files = checkpoint

    def check(contents):
        restored(run_dir, "manifest.json", contents)
        with refused, silent():
            Checkpoints(run_dir).newest()
            Checkpoints(run_dir).clean()

    fuzz(check, manifests(files["manifest.json"]))


def test_ranks(fuzz, checkpoint, tmp_path):
    from spinup_tf2.training.checkpoints import DamagedCheckpoint, read_npz

    def check(contents):
        (tmp_path / "rank0.npz").write_bytes(contents)
        with contextlib.suppress(DamagedCheckpoint):
            read_npz(tmp_path / "rank0.npz")

    fuzz(check, damaged(checkpoint[1]["rank0.npz"]))


def test_resume(fuzz, checkpoint, nothing_starts):
    """The command, with what it reads and with what it is given."""
    run_dir, files = checkpoint

    def check(example):
        contents, words = example
        restored(run_dir, "manifest.json", contents)
        run_main(["resume", str(run_dir), *words])

    line = st.just([]) | st.just(["--epochs", "5"]) | st.lists(WORDS, max_size=3)
    fuzz(check, st.tuples(manifests(files["manifest.json"]), line))
