import json
import math
import subprocess
import sys

import pytest

from spinup_tf2 import run
from spinup_tf2.cli.flags import parse_value
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.experiments import calling, run_entrypoint
from spinup_tf2.experiments.experiment import Experiment, NamedAlgorithm
from spinup_tf2.experiments.run_entrypoint import decode, encode


def through_json(value):
    return decode(json.loads(json.dumps(encode(value))))


@pytest.mark.parametrize(
    "text",
    [
        *("None", "True", "1", "-2.5", "1e999", "'text'", "b'bytes'", "1+2j", "..."),
        *("[1, (2, 3), [4]]", "(64, 64)", "()", "{1, 2}", "{}", "{'a': {1: (2,)}, (3,): None}"),
        "{'dict': 1, 'tuple': [2]}",
    ],
)
def test_what_the_command_line_reads_arrives_as_it_is(text):
    value = parse_value(text)
    arrived = through_json(value)
    assert arrived == value
    assert repr(arrived) == repr(value)  # also types within: True is not 1, a tuple is no list


def test_nan_arrives():
    assert math.isnan(through_json(float("nan")))


@pytest.mark.parametrize("value", [object(), len, [print], {"a": int}])
def test_what_is_more_than_data_is_refused(value):
    with pytest.raises(TypeError, match="no plain value"):
        encode(value)


def test_the_command_line_hands_over_no_code(tmp_path, monkeypatch):
    written = []

    def start(experiment, _):
        run_entrypoint.write_experiment(tmp_path, experiment)
        written.extend(path.name for path in tmp_path.iterdir() if path.is_file())

    monkeypatch.setattr(calling, "_run_in_fresh_process", start)
    arguments = ["ppo", "--env", "CartPole-v1", "--hid", "(8,8)", "--quiet", "--data_dir"]
    run.main([*arguments, str(tmp_path / "data")])
    assert sorted(written) == ["algorithm.json", "process.json"]
    fields = decode(json.loads((tmp_path / "algorithm.json").read_text()))
    assert fields["modules"] == ()
    assert fields["thunk"] == "ppo"
    assert fields["kwargs"]["ac_kwargs"] == {"hidden_sizes": (8, 8)}

    # and the other side calls the algorithm of that name
    called = []
    monkeypatch.setattr(NamedAlgorithm, "__call__", lambda *a, **k: called.append((a, k)))
    run_entrypoint._read_experiment(tmp_path)()
    [(algorithm, arguments)] = called
    assert algorithm == (NamedAlgorithm("ppo"),)
    assert arguments["env_fn"] == EnvFn("CartPole-v1")
    assert arguments["logger_kwargs"]["output_dir"] == str(tmp_path / "data/cmd_ppo/cmd_ppo_s0")


def test_a_pickle_that_others_could_have_written_is_not_read(tmp_path):
    tmp_path.chmod(0o700)
    experiment = Experiment("name", lambda logger_kwargs: print("ran"), {}, {})
    run_entrypoint.write_experiment(tmp_path, experiment)
    command = [sys.executable, run_entrypoint.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "ran\n", done.stderr
    tmp_path.chmod(0o770)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "is not loaded from" in run_entrypoint.read_error(tmp_path)[0]
