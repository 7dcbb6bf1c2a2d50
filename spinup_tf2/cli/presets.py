"""Lists presets: `python -m spinup_tf2.run presets ppo --env Hopper-v5`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.cli.help import print_once
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.presets import Preset, as_flags, presets_for


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `presets`."""
    args = _parser().parse_args(argv)
    everything = {algorithm: presets_for(algorithm, args.env) for algorithm in ALGORITHMS}
    names = {name for algorithm in ALGORITHMS for name in presets_for(algorithm)}
    for word in args.words:
        if word not in (*ALGORITHMS, *names):
            known = [*ALGORITHMS, *sorted(names)]
            raise UserError(
                f"{word!r} is neither an algorithm nor a preset;{did_you_mean(word, known)} they "
                f"are {', '.join(known)}."
            )
    algorithms = [word for word in args.words if word in ALGORITHMS] or ALGORITHMS
    wanted = names.intersection(args.words) or names
    presets = [
        preset
        for algorithm in algorithms
        for name, preset in everything[algorithm].items()
        if name in wanted
    ]
    if not presets:
        fitting = f" that fits {args.env}" if args.env else ""
        raise UserError(f"there is no such preset{fitting}; leave a filter out.")
    in_full = args.full or names.intersection(args.words)
    print_once("\n".join(map(described if in_full else preset_line, presets)))


def preset_line(preset: Preset) -> str:
    """Describe a preset in one line, with the flag that selects it."""
    return f"{preset.algorithm.ljust(5)} --preset {preset.name.ljust(17)} {preset.doc}"


def described(preset: Preset) -> str:
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
