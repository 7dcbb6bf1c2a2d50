"""Runs of people who mean ill, read with every command.

Nothing of them is executed, nothing outside of the run's directory changes, and what cannot be
used is refused in one line.
"""

import contextlib
import io
import json
import os
import pickle
import shutil
import stat
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.files.disk import atomic_save
from spinup_tf2.run import main
from spinup_tf2.training.checkpoints import Checkpoints, DamagedCheckpoint, read_npz
from spinup_tf2.training.saved_policy import load_policy
from spinup_tf2.utils.logx import EpochLogger
from tests.checkpoints import signed, write_checkpoint
from tests.sensor import watch

pytestmark = pytest.mark.saved_model

RUNS = Path(__file__).parents[2] / "data" / "ppo_cartpole"

CODE = "__import__('os').mkdir({!r})"


class Malicious:
    """Unpickling it creates a directory."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module", autouse=True)
def libraries(tmp_path_factory):
    """What the libraries of plots do the first time, such as finding fonts."""
    path = tmp_path_factory.mktemp("plots") / "curve.svg"
    main(["plot", str(RUNS), "--savefig", str(path)])
    main(["test_policy", str(RUNS / "ppo_cartpole_s0"), "--norender", "-n", "1", "-l", "1"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with a run in it, and with files outside of it that are to stay as they are."""
    shutil.copytree(RUNS / "ppo_cartpole_s0", tmp_path / "run")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("precious")
    (tmp_path / "plots").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(path):
    """Everything below a directory: {relative path: contents, or where a link leads}."""
    return {
        str(each.relative_to(path)): os.readlink(each)
        if each.is_symlink()
        else each.read_bytes()
        if each.is_file()
        else stat.S_IFMT(each.lstat().st_mode)
        for each in path.rglob("*")
    }


def plot(place):
    return ["plot", str(place / "run"), "--savefig", str(place / "plots" / "curve.svg")]


def list_runs(place):
    return ["ls", str(place), "--commands"]


def watch_agent(place):
    return ["test_policy", str(place / "run"), "--norender", "-n", "1", "-l", "5"]


def run(command, place, capfd):
    """Run a command; returns its exit status and what it has printed on stderr as an error."""
    before = tree(place)
    capfd.readouterr()
    status = 0
    with watch(place, writable=(place / "plots", place / "run")) as seen:
        try:
            main(command(place))
        except SystemExit as stop:
            status = stop.code
    assert seen == []
    err = capfd.readouterr().err
    assert "Traceback" not in err
    errors = [line for line in err.splitlines() if line.startswith("spinup_tf2: error: ")]
    assert len(errors) == (status == 2)
    (place / "plots" / "curve.svg").unlink(missing_ok=True)
    assert tree(place) == before
    return status, "".join(errors)


def change(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_sensor_notices(place):
    """Each of the things that are looked for below, done on purpose."""
    (place / "run" / "evil.py").write_text("x = 1")
    sys.path.insert(0, str(place / "run"))
    try:
        for action, event in [
            (lambda: os.mkdir(place / "new"), "os.mkdir"),
            (lambda: (place / "outside" / "file").write_text("changed"), "open"),
            (lambda: os.rename(place / "new", place / "plots" / "new"), "os.rename"),
            (lambda: os.system("true"), "os.system"),
            (lambda: pickle.loads(pickle.dumps(Malicious(place / "made"))), "pickle.find_class"),
            (lambda: __import__("evil"), "exec"),
        ]:
            with watch(place, writable=(place / "plots",)) as seen:
                action()
            assert event in [name for name, _ in seen]
        with watch(place, writable=(place / "plots",)) as seen:
            (place / "plots" / "file").write_text("allowed")
            (place / "run" / "config.json").read_text()
        assert seen == []
    finally:
        sys.path.remove(str(place / "run"))
        del sys.modules["evil"]


# ---------------------------------------------------------------- pickles


@pytest.mark.parametrize("spec", ["as it was", "null", "missing"])
def test_pickles(place, capfd, spec):
    for name in ("vars.pkl", "vars0.pkl", "experiment.pkl", "tf2_save/vars.pkl"):
        contents = pickle.dumps({"env": Malicious(place / "pwned")})
        (place / "run" / name).write_bytes(contents)
    path = place / "run" / "env_spec.json"
    if spec == "null":
        path.write_text(json.dumps({"spec": None, "reason": "because"}))
    elif spec == "missing":
        path.unlink()
    assert run(plot, place, capfd) == (0, "")
    status, error = run(watch_agent, place, capfd)
    assert status == (0 if spec == "as it was" else 2)
    assert ("--allow_pickle" in error) == (spec != "as it was")


def test_arrays_of_objects(tmp_path):
    path = tmp_path / "rank0.npz"
    np.savez(path, a=np.array([Malicious(tmp_path / "pwned")], object))
    with watch(tmp_path) as seen, pytest.raises(DamagedCheckpoint, match="allow_pickle"):
        read_npz(path)
    assert seen == []
    assert os.listdir(tmp_path) == ["rank0.npz"]


def test_archives_with_paths(tmp_path):
    """Their members are read into memory and never unpacked."""
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "rank0.npz"
    contents = io.BytesIO()
    np.save(contents, np.arange(3))
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../up.npy", "/absolute.npy", "../up.npy"):
            archive.writestr(name, contents.getvalue())
    with watch(tmp_path) as seen:
        arrays = read_npz(path)
    assert seen == []
    assert all((array == np.arange(3)).all() for array in arrays.values())
    assert [each.name for each in tmp_path.rglob("*")] == ["run", "rank0.npz"]


# ---------------------------------------------------------------- texts


def test_a_configuration_with_code(place, capfd):
    code = CODE.format(str(place / "pwned"))
    change(place / "run" / "config.json", exp_name=code, **{code: code}, env_fn=code)
    assert run(plot, place, capfd) == run(watch_agent, place, capfd) == (0, "")
    assert run(list_runs, place, capfd) == (0, "")


@pytest.mark.parametrize(
    "contents",
    [
        "[" * 100_000,
        "9" * 100_000,
        "NaN",
        '{"exp_name": {"a": [1, 2]}}',
        '{"exp_name": "\\u001b[2J\\n\\u0000"}',
        json.dumps({"exp_name": "x" * 10**6}),
        "\ufeff{}",
        "",
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("name", ["config.json", "env_spec.json", "tf2_save/model_info.json"])
def test_texts_that_are_no_description(place, capfd, name, contents):
    (place / "run" / name).write_text(contents, encoding="utf-8")
    expected = 0 if name == "config.json" else 2
    assert run(plot if name == "config.json" else watch_agent, place, capfd)[0] == expected
    assert run(list_runs, place, capfd) == (0, "")


@pytest.mark.parametrize(
    "progress",
    [
        "Epoch\tAverageEpRet\tTotalEnvInteracts\n0\t{code}\t1\n1\t2\t{code}\n",
        "{code}\tAverageEpRet\tTotalEnvInteracts\n0\t1\t1\n1\t2\t2\n",
        "AverageEpRet\tTotalEnvInteracts\n" + "1e999\t9" + "9" * 1000 + "\n",
        "AverageEpRet\tTotalEnvInteracts\tUnit\tCondition1\tPerformance\n1\t2\t3\t4\t5\n",
    ],
)
def test_progress_with_code_and_strange_numbers(place, capfd, progress):
    code = CODE.format(str(place / "pwned"))
    (place / "run" / "progress.txt").write_text(progress.replace("{code}", code))
    assert run(plot, place, capfd)[0] in (0, 2)
    assert run(list_runs, place, capfd) == (0, "")


# ---------------------------------------------------------------- descriptions


def evil_module(place):
    """A module that creates a directory, in the run, where Python would find it."""
    code = f"import os; os.mkdir({str(place / 'pwned')!r})"
    for path in ("evil.py", "pandas.py", "seaborn.py", "package/__init__.py", "package/evil.py"):
        (place / "run" / path).parent.mkdir(exist_ok=True)
        (place / "run" / path).write_text(code)


@pytest.mark.parametrize(
    "env_name",
    [
        *("os:system", "evil:CartPole-v1", "package.evil:X-v0", "run.evil:CartPole-v1"),
        *("run.package:CartPole-v1", "../run/evil:X", ".evil:X", "a:b:c", ":", "", "os", 3, None),
        *(["CartPole-v1"], {"id": "CartPole-v1"}, "\0", "CartPole-v1" * 1000, "ALE/../..-v5"),
    ],
    ids=lambda name: repr(name)[:20],
)
def test_environments_that_are_none(place, capfd, monkeypatch, env_name):
    evil_module(place)
    monkeypatch.chdir(place / "run")
    monkeypatch.setattr(sys, "path", [str(place), str(place / "run"), *sys.path])
    path = place / "run" / "env_spec.json"
    spec = json.loads(path.read_text())["spec"]
    change(path, spec=spec | {"env_name": env_name})
    assert run(watch_agent, place, capfd)[0] == 2


def test_libraries_that_lie_in_the_run(place, capfd, monkeypatch):
    """They have the names of those that plot imports while it works."""
    evil_module(place)
    monkeypatch.chdir(place / "run")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "seaborn"]:
        monkeypatch.delitem(sys.modules, name)
    assert run(plot, place, capfd) == (0, "")


@pytest.mark.parametrize(
    "wrapper",
    [
        {"entry_point": "os:system", "kwargs": {"command": "true"}},
        {"entry_point": "subprocess:Popen", "kwargs": {"args": "true", "shell": True}},
        {"entry_point": "evil:Wrapper", "kwargs": {}},
        {"entry_point": "gymnasium.wrappers:RecordVideo", "kwargs": {"video_folder": "outside"}},
        {"entry_point": "gymnasium.wrappers.rendering:RecordVideo", "kwargs": {"video_folder": ""}},
        {"entry_point": "gymnasium.wrappers.common:np.load", "kwargs": {}},
        {"entry_point": "spinup_tf2.files.unpickling:load_trusted", "kwargs": {"path": "vars.pkl"}},
        {"entry_point": "spinup_tf2...os:system", "kwargs": {}},
        {"entry_point": 3, "kwargs": 4},
    ],
    ids=lambda wrapper: str(wrapper["entry_point"]),
)
def test_wrappers_that_are_none(place, capfd, wrapper):
    path = place / "run" / "env_spec.json"
    spec = json.loads(path.read_text())["spec"]
    change(path, spec=spec | {"wrappers": [wrapper]})
    assert run(watch_agent, place, capfd)[0] == 2


BOX = {"type": "Box", "shape": [4], "dtype": "float32", "low": "-1", "high": "1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"observation_space": BOX | {"shape": [10**12]}},
        {"observation_space": BOX | {"shape": [10**6, 10**6, 3], "dtype": "uint8"}},
        {"observation_space": BOX | {"shape": [-4]}},
        {"observation_space": BOX | {"shape": [True] * 10**5}},
        {"observation_space": BOX | {"shape": 4}},
        {"observation_space": BOX | {"dtype": "object"}},
        {"observation_space": BOX | {"dtype": "O,O"}},
        {"observation_space": BOX | {"dtype": ["float32"]}},
        {"observation_space": BOX | {"low": "__import__('os').system('true')"}},
        {"observation_space": BOX | {"low": float("nan"), "high": float("nan")}},
        {"observation_space": BOX | {"type": "os:system"}},
        {"observation_space": {"type": "Discrete", "n": 10**12, "start": 0}},
        {"observation_space": {"type": "MultiBinary", "n": [10**6, 10**6]}},
        {"observation_space": {"type": "Dict", "spaces": [["a", BOX | {"shape": [10**7]}]] * 100}},
        {"action_space": {"type": "Discrete", "n": 10**12, "start": 0}},
        {"action_space": {"type": "Discrete", "n": 2, "start": "0"}},
        {"action_space": {"type": "Discrete", "n": -2, "start": 0}},
        {"action_space": {"type": "MultiDiscrete", "nvec": [2] * 4000 + [10**6], "start": 0}},
        {"action_space": {"type": "MultiDiscrete", "nvec": [], "start": []}},
        {"action_space": {"type": "Dict", "spaces": []}},
        {"action_space": None},
        {"networks": {"actor_critic": "os:system"}},
        {"networks": {"actor_critic": "Lambda", "arguments": {"function": "true"}}},
        {"networks": 10**300},
    ],
    ids=lambda changes: json.dumps(changes)[:70],
)
def test_policies_that_are_none(place, capfd, changes):
    change(place / "run" / "tf2_save" / "model_info.json", **changes)
    status, error = run(watch_agent, place, capfd)
    assert status == 2
    assert len(error) < 2000


def test_spaces_in_spaces_without_end(place, capfd):
    """Less deep than a JSON text may be, and deeper than a space may be."""
    depth = 200
    path = place / "run" / "tf2_save" / "model_info.json"
    change(path, observation_space="HERE")
    start, end = '{"type": "Dict", "spaces": [["a", ', "]]}"
    space = start * depth + json.dumps(BOX) + end * depth
    path.write_text(path.read_text().replace('"HERE"', space))
    assert run(watch_agent, place, capfd)[0] == 2


def test_a_saved_model_of_somebody_else_is_not_executed(place, capfd):
    """It would write a file, which TensorFlow does where Python does not notice."""
    import tensorflow as tf

    class Evil(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([None, 2])])
        def policy(self, x, noise):
            tf.io.write_file(str(place / "pwned"), "pwned")
            act = tf.zeros(tf.shape(x)[0], tf.int32)
            return {"pi": act, "mu": act}

    info = (place / "run" / "tf2_save" / "model_info.json").read_text()
    shutil.rmtree(place / "run" / "tf2_save")
    tf.saved_model.save(Evil(), str(place / "run" / "tf2_save"))
    path = place / "run" / "tf2_save" / "model_info.json"
    for networks in (json.loads(info)["networks"], None):
        path.write_text(info)
        change(path, networks=networks)
        status, error = run(watch_agent, place, capfd)
        assert status == 2
        assert "--allow_pickle" in error
    assert not (place / "pwned").exists()
    main(["test_policy", str(place / "run"), "-nr", "-n", "1", "-l", "1", "--allow_pickle"])
    assert (place / "pwned").exists()  # so it does what was feared


# ---------------------------------------------------------------- links, pipes and paths


@pytest.mark.parametrize(
    "name", ["progress.txt", "config.json", "env_spec.json", "tf2_save/weights.npz"]
)
@pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "directory"])
def test_what_is_no_file(place, capfd, name, kind):
    path = place / "run" / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else path)
    command = watch_agent if name in ("env_spec.json", "tf2_save/weights.npz") else plot
    assert run(command, place, capfd)[0] == (0 if name == "config.json" else 2)


def save_everything(directory, **kwargs):
    logger = EpochLogger(output_dir=directory, quiet=True, **kwargs)
    logger.save_config({"a": 1})
    logger.log_tabular("Epoch", 0)
    logger.dump_tabular()
    logger.save_state({"env": None})
    with atomic_save(os.path.join(directory, "tf2_save")) as temporary:
        os.mkdir(temporary)
        Path(temporary, "file").write_text("new")


FILES = ["progress.txt", "config.json", "vars.pkl"]


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "dangling"])
def test_nothing_is_written_through_links(place, existing):
    """A run that is replaced, in a directory whose files lead out of it."""
    outside, run = place / "outside", place / "run"
    shutil.rmtree(run)
    run.mkdir()
    names = [name + suffix for name in FILES for suffix in ("", ".tmp", ".old")]
    for name in names:
        (run / name).symlink_to(outside / ("file" if existing else "not_there"))
    for name in ("tf2_save", "tf2_save.tmp", "tf2_save.old", "checkpoint"):
        (run / name).symlink_to(outside if existing else place / "nowhere")
    before = tree(outside)
    with pytest.raises(ValueError, match="already holds a run"):
        save_everything(run)
    save_everything(run, overwrite=True)
    assert tree(outside) == before
    assert not any(path.is_symlink() for path in run.iterdir())
    assert (run / "tf2_save" / "file").read_text() == "new"
    assert [name.partition(".old-")[0] for name in sorted(os.listdir(place))] == [
        *("outside", "plots", "run", "run")  # the links lie in the run that was replaced
    ]


def test_a_new_run_in_a_directory_with_links(place):
    """Of which none has the name of a file that would make it a run."""
    outside, run = place / "outside", place / "new"
    run.mkdir()
    for name in ("config.json.tmp", "vars.pkl", "vars.pkl.tmp", "vars.pkl.old"):
        (run / name).symlink_to(outside / "file")
    for name in ("tf2_save", "tf2_save.tmp", "tf2_save.old"):
        (run / name).symlink_to(outside)
    before = tree(outside)
    save_everything(run)
    assert tree(outside) == before


# ---------------------------------------------------------------- resuming


def resume(place):
    return ["resume", str(place / "run")]


@pytest.fixture
def checkpoint(place):
    """The run's checkpoint, with which it could be resumed."""
    return write_checkpoint(place / "run")


def resign(checkpoint, **changes):
    """Change what the manifest says of the run, as whoever can compute a digest."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(signed(manifest | {"run": manifest["run"] | changes})))


def test_the_checkpoint_below_could_be_resumed(place, checkpoint, capfd, monkeypatch):
    started = []
    monkeypatch.setattr(calling, "run_experiment", lambda *args: started.append(args))
    assert run(resume, place, capfd) == (0, "")
    assert len(started) == 1


@pytest.mark.parametrize(
    "command",
    [
        *({"env_name": name} for name in ("os:system", "evil:CartPole-v1", "run.package:X-v0")),
        {"env_name": "CartPole-v1", "actor_critic": "os:system"},
        {"env_name": "CartPole-v1", "env_fn": "evil"},
        {"env_name": "CartPole-v1", "logger_kwargs": {"output_dir": "outside"}},
        {"env_name": "CartPole-v1", "data_dir": "outside"},
        {"env_name": "CartPole-v1", "ac_kwargs": {"activation": "__import__('os').system"}},
        {"env_name": "CartPole-v1", "seed": "__import__('os').getpid()"},
        {"env_name": ["CartPole-v1"]},
        {"env_name": "CartPole-v1", "callbacks": 5},
        {"env_name": "CartPole-v1", "track": "wandb"},
        {},
        "evil",
    ],
    ids=str,
)
def test_what_a_checkpoint_may_not_start(place, checkpoint, capfd, monkeypatch, command):
    evil_module(place)
    monkeypatch.chdir(place / "run")
    monkeypatch.setattr(sys, "path", [str(place), str(place / "run"), *sys.path])
    resign(checkpoint, command=command)
    assert run(resume, place, capfd)[0] == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "os.system"},
        {"algorithm": ["ppo"]},
        {"exp_name": "../../outside"},
        {"num_procs": 10**9},
        {"num_procs": True},
        {"num_procs": 4000, "num_envs": 4000},
        {"num_envs": "2"},
    ],
    ids=str,
)
def test_what_a_checkpoint_may_not_be(place, checkpoint, capfd, changes):
    resign(checkpoint, **changes)
    assert run(resume, place, capfd)[0] == 2


@pytest.mark.parametrize("which", ["checkpoint", "replay", "000001", "manifest.json"])
def test_checkpoints_that_lead_elsewhere(place, checkpoint, capfd, which):
    """Where a file called .tmp would be a leftover, and others not needed."""
    root = place / "run" / "checkpoint"
    link = {"checkpoint": root, "000001": checkpoint}.get(which, checkpoint / which)
    link = root / "replay" if which == "replay" else link
    target = place / "outside" / "moved"
    link.rename(target)
    link.symlink_to(target)
    if target.is_dir():
        (target / "precious.tmp").write_text("precious")
        (target / "precious.npz").write_text("precious")
        (target / "000009").mkdir()
    before = tree(place / "outside")
    assert run(resume, place, capfd)[0] == 2
    with contextlib.suppress(UserError):
        Checkpoints(place / "run").newest()
    if which in ("checkpoint", "replay"):
        with pytest.raises(UserError, match="is a link, or no directory"):
            write_checkpoint(place / "run")
    else:
        write_checkpoint(place / "run")
        write_checkpoint(place / "run")
    assert tree(place / "outside") == before


@pytest.mark.parametrize("kind", ["pipe", "endless", "file"])
def test_rows_that_are_none_are_not_resumed(place, kind):
    path = place / "run" / "progress.txt"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else place / "outside" / "file")
    before = tree(place)
    with pytest.raises(UserError, match="is not a file" if kind == "pipe" else "is a link"):
        EpochLogger(place / "run", quiet=True, keep_rows=1)
    assert tree(place) == before


@pytest.mark.parametrize("name", ["videos", "tensorboard", "wandb", "output.txt"])
def test_nothing_is_written_through_links_of_a_run_that_is_resumed(place, name):
    (place / "run" / name).symlink_to(place / "outside")
    with pytest.raises(UserError, match=f"{name} .* is a link"):
        EpochLogger(place / "run", quiet=True, keep_rows=1)


def test_weights_of_another_shape_are_not_read(place):
    """A sparse file takes no room on the disk, and much memory once it is read."""
    path = place / "run" / "tf2_save" / "weights.npz"
    with np.load(path) as arrays:
        large = {**arrays, "0": np.zeros((64, 3 * 10**5), np.float32)}
    np.savez(path, **large)
    tracemalloc.start()
    with pytest.raises(UserError, match="weights are of another order or type"):
        load_policy(path.parent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000 < large["0"].nbytes


def test_weights_that_are_large_or_no_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "0.npz", "w") as archive:
        archive.writestr("0", b"text")
    with pytest.raises(DamagedCheckpoint, match="0 is no array"):
        read_npz(tmp_path / "0.npz")
    np.savez(tmp_path / "1.npz", np.zeros(1000))
    with pytest.raises(DamagedCheckpoint, match="more than 8000 bytes"):
        read_npz(tmp_path / "1.npz", largest=8000)


def test_archives_that_are_small_until_they_are_read(tmp_path):
    np.savez_compressed(tmp_path / "rank0.npz", np.zeros(10**6))
    with pytest.raises(DamagedCheckpoint, match="compressed"):
        read_npz(tmp_path / "rank0.npz")


@pytest.mark.parametrize(
    "name", ["../outside/x", "..", "/tmp/x", "a/../../outside", "~", "~/x", "-x", "x\ny"]
)
def test_names_that_lead_out_of_the_data_directory(place, capfd, name):
    before = tree(place)
    with watch(place, writable=(place / "data",)) as seen, pytest.raises(SystemExit) as stop:
        main(["ppo", "--env", "CartPole-v1", "--data_dir", str(place / "data"), "--exp_name", name])
    assert stop.value.code == 2
    assert seen == []
    assert tree(place) == before
    assert "exp_name" in capfd.readouterr().err
