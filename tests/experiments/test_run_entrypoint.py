import subprocess
import sys

from spinup_tf2 import run
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.experiments import calling, run_entrypoint
from spinup_tf2.experiments.experiment import Experiment, NamedAlgorithm


def test_an_experiment_arrives_as_it_was(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    write = lambda experiment, _: run_entrypoint.write_experiment(tmp_path, experiment)  # noqa: E731
    monkeypatch.setattr(calling, "_run_in_fresh_process", write)
    arguments = ["ppo", "--env", "CartPole-v1", "--hid", "(8,8)", "--quiet", "--data_dir"]
    run.main([*arguments, str(tmp_path / "data")])
    experiment = run_entrypoint.read_experiment(tmp_path)
    assert experiment.thunk == NamedAlgorithm("ppo")
    assert experiment.arguments["env_fn"] == EnvFn("CartPole-v1")
    assert experiment.arguments["ac_kwargs"] == {"hidden_sizes": (8, 8)}
    assert experiment.output_dir == str(tmp_path / "data/cmd_ppo/cmd_ppo_s0")


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
    assert "is not loaded: it must be a file of user" in run_entrypoint.read_error(tmp_path)[0]
