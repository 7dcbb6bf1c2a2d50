"""What the tests of the command line have in common."""

import os

import pytest

from spinup_tf2 import user_config
from spinup_tf2.experiments import calling


@pytest.fixture
def experiments(monkeypatch, tmp_path):
    """The experiments that a command line would run: (exp_name, directory, arguments) of each."""
    recorded = []

    def record(experiment, processes, quiet):
        logger_kwargs = dict(experiment.logger_kwargs)
        exp_name, where = logger_kwargs.pop("exp_name"), logger_kwargs.pop("output_dir")
        arguments = experiment.kwargs | logger_kwargs | {"num_cpu": processes.number}
        recorded.append((exp_name, os.path.relpath(where, tmp_path), arguments))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(calling, "run_experiment", record)
    return recorded
