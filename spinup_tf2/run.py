"""The command line: `python -m spinup_tf2.run CMD [ARGS...]`, also installed as `spinup_tf2`.

Commands are implemented in spinup_tf2.cli and spinup_tf2.results, and loaded only when they are
used. TensorFlow is loaded only where it is needed, as in the processes of experiments.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.cli.flags import no_command
from spinup_tf2.cli.help import HELP, algorithm_help, print_once, usage
from spinup_tf2.envs.modules import look_here
from spinup_tf2.errors import ExperimentsFailed, Interrupted, UserError, one_line
from spinup_tf2.files.printing import lose_lines
from spinup_tf2.parallel import launched
from spinup_tf2.parallel.mpi import fail_together
from spinup_tf2.tensorflow_import import quiet_tensorflow
from spinup_tf2.version import __version__

# Commands other than training, each in the module of its name in spinup_tf2.cli or .results.
UTILITIES = ("plot", "ls", "test_policy", "evaluate", "export", "play", "presets")
COMMANDS = (*ALGORITHMS, "resume", *UTILITIES)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line.

    From then on, output of this process to a closed pipe is silently dropped.

    Args:
        argv: The arguments, without the program's name; by default those of the process.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # set while the package was loaded
        signal.signal(signal.SIGINT, signal.default_int_handler)
    lose_lines(BrokenPipeError)  # in `... | head`, a command goes on after head has ended
    argv = sys.argv[1:] if argv is None else list(argv)
    # --debug is handled here, except for commands that parse their own arguments.
    debug = "--debug" in argv and argv[0] not in UTILITIES
    if debug:
        argv = [argument for argument in argv if argument != "--debug"]
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
    try:
        _run_command(argv)
    except (UserError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOSPC:
            raise
        trace = traceback.format_exc() if debug else ""
        line = f"{trace}spinup_tf2: error: {one_line(error)}"
        _leave(2, lambda: print(line, file=sys.stderr))
    except subprocess.CalledProcessError as error:
        if launched.by_mpi():
            raise  # the experiment ran in this process, and the error is its own
        sys.exit(error.returncode)  # the experiment's process has already reported its error
    except ExperimentsFailed as failed:
        sys.exit(failed.status)  # experiments and summary have already reported the errors
    except KeyboardInterrupt as interruption:
        _leave(interruption.status if isinstance(interruption, Interrupted) else 130)


def _leave(status, report=lambda: None):
    """Report once, and exit with `status` on all ranks, also if nothing can be written."""
    lose_lines()
    fail_together(report, status)
    sys.exit(status)


def _run_command(argv):
    try:
        os.getcwd()
    except OSError as error:
        text = "the current directory has been removed; change to one that exists."
        raise UserError(text) from error
    command, *arguments = argv or ["help"]
    if command == "help" and arguments:
        command, arguments = arguments[0], ["--help", *arguments[1:]]
    own = ":" in command  # an algorithm in a module that may be in the current directory
    if own:
        look_here()
        quiet_tensorflow()
    if command in HELP:
        print_once(usage(COMMANDS))
    elif command == "--version":
        print_once(f"spinup_tf2 {__version__}")
    elif own or command in ALGORITHMS:
        if any(argument in HELP for argument in arguments):
            print_once(algorithm_help(command, full="--full" in arguments))
        else:
            from spinup_tf2.cli.algorithm import run_algorithm

            run_algorithm(command, arguments)
    elif command in COMMANDS:
        folder = "results" if command in ("plot", "ls") else "cli"
        import_module(f"spinup_tf2.{folder}.{command}").main(arguments)
    else:
        raise no_command(command, [*COMMANDS, "help"])


if __name__ == "__main__":
    main()
