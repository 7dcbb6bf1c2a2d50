"""Exports a trained policy: `python -m spinup_tf2.run export RUN_DIR --format numpy`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spinup_tf2.cli.test_policy import add_agent_arguments
from spinup_tf2.envs.modules import import_for_command
from spinup_tf2.tensorflow_import import quiet_tensorflow

FORMATS = ("numpy", "savedmodel")


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `export`."""
    args = _parser().parse_args(argv)
    import_for_command(args.modules)
    quiet_tensorflow()
    from spinup_tf2.exporting import export

    exported = export(
        args.fpath,
        args.format,
        args.output,
        sample=args.sample,
        itr=args.itr,
        best=args.best,
        overwrite=args.overwrite,
        allow_pickle=args.allow_pickle,
    )
    print(exported)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run export",
        description="Write a trained policy for robots and other programs, check that it acts as "
        "the run's does, and measure how long it takes.",
    )
    add_agent_arguments(parser)
    add = parser.add_argument
    add(
        "--format",
        required=True,
        choices=FORMATS,
        help="numpy: a directory with policy.npz and policy.py, which needs NumPy only; "
        "savedmodel: a SavedModel with one signature",
    )
    add("--output", "-o", metavar="PATH", help="where to write it (here, under the run's name)")
    add("--sample", action="store_true", help="sample actions instead of taking the most likely")
    add("--overwrite", action="store_true", help="replace an exported policy that is there")
    return parser
