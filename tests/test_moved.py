"""Public names can be imported from where they were before."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

import spinup_tf2
from spinup_tf2.moved import MOVED, PACKAGE
from spinup_tf2.utils import logx, mpi_tools, plot, run_utils, test_policy


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_has_the_names_of_the_new_ones(old):
    homes = [MOVED[old]] if isinstance(MOVED[old], str) else MOVED[old]
    for home in (import_module(PACKAGE + home) for home in homes):
        own = [
            name
            for name, value in vars(home).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == home.__name__
        ]
        assert own
        for name in own:
            assert getattr(import_module(PACKAGE + old), name) is getattr(home, name)


def test_an_import_statement_finds_them():
    code = "from spinup_tf2.core.spaces import action_spec; import spinup_tf2.utils.env_spec"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stderr == ""


def test_what_is_nowhere_is_not_found():
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from spinup_tf2.core.spaces import no_such_name")
    with pytest.raises(ModuleNotFoundError):
        import_module("spinup_tf2.core.no_such_module")


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (logx, ["EpochLogger", "Logger", "colorize"]),
        (
            mpi_tools,
            [
                *("allreduce", "broadcast", "mpi_avg", "mpi_fork", "mpi_op", "mpi_sum", "msg"),
                *("mpi_statistics_scalar", "num_procs", "proc_id"),
            ],
        ),
        (plot, ["get_all_datasets", "get_datasets", "make_plots", "plot_data"]),
        (
            run_utils,
            [
                *("ExperimentGrid", "all_bools", "call_experiment", "setup_logger_kwargs"),
                *("valid_str", "EnvFn"),
            ],
        ),
        (test_policy, ["load_policy_and_env", "run_policy"]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_spinning_ups_names_are_in_its_modules(module, names):
    assert [name for name in names if not callable(getattr(module, name, None))] == []


def test_the_package_has_its_algorithms_and_loggers():
    assert {"ppo", "sac", "EpochLogger", "Logger", "__version__"} <= {*spinup_tf2.__all__}
    assert {*spinup_tf2.__all__} <= {*dir(spinup_tf2)}
