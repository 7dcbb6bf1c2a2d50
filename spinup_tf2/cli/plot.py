"""Plots learning curves: `python -m spinup_tf2.run plot LOGDIR ...`."""

import argparse
from collections.abc import Sequence

from spinup_tf2.envs.modules import forget_current_directory
from spinup_tf2.errors import UserError
from spinup_tf2.utils.plot import ERRORBARS, ESTIMATORS, STYLES, make_plots

WATCH = 10  # seconds


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `plot`."""
    args = _parser().parse_args(argv)
    forget_current_directory()
    if args.savefig is None and not args.table and not _has_window():
        raise UserError(
            "There is no display (or no window toolkit) to show a plot on; use --savefig FILE."
        )
    make_plots(
        args.logdir,
        legend=args.legend,
        xaxis=args.xaxis,
        values=args.value,
        count=args.count,
        smooth=args.smooth,
        select=args.select,
        exclude=args.exclude,
        estimator=args.est,
        errorbar=args.errorbar,
        by=args.by,
        style=args.style,
        savefig=args.savefig,
        table=args.table,
        watch=args.watch,
    )


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run plot",
        description="Plot learning curves of one or several experiments.",
    )
    parser.add_argument(
        "logdir",
        nargs="+",
        help="where runs are, at any depth: `data/ppo` stands for every directory in `data` whose "
        "name begins with `ppo`, `data/ppo/` for that directory alone",
    )
    parser.add_argument(
        "--legend", "-l", nargs="*", help="a title for each directory, instead of its exp_name"
    )
    parser.add_argument(
        "--xaxis", "-x", default="TotalEnvInteracts", help="column for the x axis (%(default)s)"
    )
    parser.add_argument(
        "--value",
        "-y",
        nargs="+",
        default=["Performance"],
        help="columns for the y axis, a figure for each (%(default)s: the test return if the "
        "algorithm logs one, else the training return)",
    )
    parser.add_argument(
        "--count", action="store_true", help="a curve for each run, not for each experiment"
    )
    parser.add_argument(
        "--smooth", "-s", type=int, default=1, help="rows that a moving average is taken over"
    )
    parser.add_argument("--select", nargs="*", help="only runs whose path contains all of these")
    parser.add_argument("--exclude", nargs="*", help="no run whose path contains any of these")
    parser.add_argument(
        "--est",
        default="mean",
        help=f"how runs become one curve: {', '.join(ESTIMATORS)} (%(default)s); iqm is the mean "
        "of the middle half",
    )
    parser.add_argument(
        "--errorbar",
        help=f"the band around it: {', '.join(ERRORBARS)} (sd): standard deviation of the runs, "
        "standard error or 95 %% confidence interval of the estimate",
    )
    parser.add_argument("--by", help="env: a panel for each environment")
    parser.add_argument(
        "--style", default="paper", help=f"the look: {', '.join(STYLES)} (%(default)s)"
    )
    parser.add_argument(
        "--savefig",
        metavar="FILE",
        help="write FILE (.png, .svg, .pdf) instead of opening a window; with several -y, "
        "FILE_<value> for each",
    )
    parser.add_argument(
        "--table",
        metavar="FILE",
        nargs="?",
        const=True,
        default=False,
        help="the final performance of each experiment, that is the mean over the last tenth of "
        "each run's rows: print it, or write it to FILE (.md, .csv); no figure without --savefig",
    )
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=_seconds,
        const=WATCH,
        help=f"redraw when runs have made progress; check every SECONDS ({WATCH})",
    )
    return parser


def _seconds(text):
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds (directories with runs come before --watch)"
        ) from None


def _has_window():
    import matplotlib.pyplot as plt

    return plt.get_backend().lower() not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
