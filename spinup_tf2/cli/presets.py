"""Lists presets: `python -m spinup_tf2.run presets ppo --env Hopper-v5`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.cli.help import print_once
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.presets import as_flags, presets_for


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `presets`."""
    args = _parser().parse_args(argv)
    names = sorted({name for algorithm in ALGORITHMS for name in presets_for(algorithm)})
    for word in args.words:
        if word not in (*ALGORITHMS, *names):
            raise UserError(
                f"{word!r} is neither an algorithm nor a preset;"
                f"{did_you_mean(word, [*ALGORITHMS, *names])} the presets are {', '.join(names)}."
            )
    algorithms = [word for word in args.words if word in ALGORITHMS] or ALGORITHMS
    wanted = [word for word in args.words if word in names]
    presets = [
        preset
        for algorithm in algorithms
        for name, preset in presets_for(algorithm, args.env).items()
        if name in (wanted or names)
    ]
    if not presets:
        fitting = f" that fits {args.env}" if args.env else ""
        raise UserError(f"there is no such preset{fitting}; leave a filter out.")
    lines = [f"{each.algorithm:5} --preset {each.name:17} {each.doc}" for each in presets]
    print_once("\n".join(map(_described, presets) if args.full or wanted else lines))


def _described(preset):
    """Describe a preset with all its settings for its environment, and the origin of each."""
    arguments = preset.settings | ({"env_kwargs": preset.env_kwargs} if preset.env_kwargs else {})
    flags = {f"--{flag}": repr(value) for flag, value in as_flags(arguments).items()}
    name_width, value_width = max(map(len, flags)), max(map(len, flags.values()))
    lines = [
        f"    {flag.ljust(name_width)}  {value.ljust(value_width)}  {preset.origins[flag[2:]]}"
        for flag, value in flags.items()
    ]
    head = f"{preset.algorithm} --preset {preset.name} --env {preset.env}"
    fits = f"  fits {', '.join(preset.fits)}"
    return "\n".join([head, f"  {preset.doc}", fits, "", *lines, ""])


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run presets",
        description="List the presets: tuned hyperparameters, for --preset of the algorithms.",
    )
    parser.add_argument(
        "words",
        metavar="NAME",
        nargs="*",
        help="an algorithm, or a preset, which is then shown with all its settings",
    )
    parser.add_argument("--env", metavar="ID", help="only presets that fit this environment")
    parser.add_argument("--full", action="store_true", help="show all settings, and their origin")
    return parser
