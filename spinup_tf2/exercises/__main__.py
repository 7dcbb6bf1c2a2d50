"""Checks exercises: `python -m spinup_tf2.exercises gae`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

from spinup_tf2.errors import UserError, did_you_mean, one_line
from spinup_tf2.exercises.catalogue import (
    EXERCISES,
    SOLUTIONS,
    TASKS,
    checks_of,
    copy,
    load,
    record_right,
    state,
)
from spinup_tf2.exercises.checking import NotDoneYet, Wrong, run

_PROGRAM = "python -m spinup_tf2.exercises"
_COPIES = Path("exercises")  # the folder that the course tells students to copy them to


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 right, 1 not right yet, 2 not understood."""
    try:
        args = _parser().parse_args(argv)
        return _run(args)
    except UserError as error:
        print(f"spinup_tf2: error: {one_line(error)}", file=sys.stderr)
        return 2


def _run(args):
    for name in args.names:
        if name not in EXERCISES:
            raise UserError(
                f"{name!r} is not an exercise;{did_you_mean(name, EXERCISES)} they are "
                f"{', '.join(EXERCISES)}."
            )
    if args.copy is not None:
        copied = copy(args.names or EXERCISES, args.copy)
        print(f"Edit {copied[0]}, and check it:")
        print(_check_in(args.copy, copied[0].stem))
        return 0
    if args.file is not None and not args.file.exists():
        raise UserError(
            f"there is no file or directory {args.file}; `--copy {args.file}` makes it."
        )
    if args.file is not None and args.file.is_file() and len(args.names) != 1:
        raise UserError(
            f"--file {args.file} is one file: say which exercise it is, as in `{_PROGRAM} gae "
            f"--file {args.file}`."
        )
    if not args.names:
        _list(args.file or (_COPIES if any(map(_copy_of, EXERCISES)) else TASKS))
        return 0
    return max(_checked(name, _file_of(name, args)) for name in args.names)


def _file_of(name, args):
    if args.solution:
        return SOLUTIONS / f"{name}.py"
    if args.file is None:
        return _copy_of(name) or TASKS / f"{name}.py"
    return args.file if args.file.is_file() else args.file / f"{name}.py"


def _copy_of(name):
    """Return the file that a student has copied into the folder `exercises`, or None."""
    path = _COPIES / f"{name}.py"
    return path if path.is_file() else None


def _checked(name, path):
    """Check a file and print the verdict; return the exit status."""
    passed, title = [], "the file"
    try:
        student = load(path)
        for check in checks_of(name):
            title = "the " + check.__name__.replace("_", " ")
            run(check, student)
            passed.append(title.removeprefix("the "))
    except NotDoneYet as place:
        verdict = f"not done yet. {place} is still to be written."
    except Wrong as wrong:
        verdict = f"not right yet. {title}:\n{wrong}"
    else:
        print(f"{name}: right ({', '.join(passed)}).")
        if path.parent != SOLUTIONS:
            record_right(path)
            _, *later = dropwhile(lambda each: each != name, EXERCISES)
            if later:
                print(f"Next: {later[0]}. {EXERCISES[later[0]]}")
        return 0
    print(f"{name}: {verdict}")
    if passed:
        print(f"Right so far: {', '.join(passed)}.")
    print(f"The file: {path}")
    if path.parent == TASKS:
        print(f"To work on files of your own, copy them: {_PROGRAM} --copy {_COPIES}")
    return 1


def _check_in(folder, name):
    """Return the command that checks the file of an exercise in a folder."""
    return f"{_PROGRAM} {name}" + ("" if folder == _COPIES else f" --file {folder}")


def _list(folder):
    """Print all exercises, with the state of the files in a folder."""
    for number, (name, text) in enumerate(EXERCISES.items(), 1):
        print(f"{number:2} {name:12} {state(folder / f'{name}.py'):8} {text}")
    if folder == TASKS:
        print(f"\nTo begin, copy the files: {_PROGRAM} --copy {_COPIES}")
        print(f"(or fill in those in {TASKS})")
    else:
        first = next(iter(EXERCISES))
        print(f"\nFill in a file in {folder}, and check it: {_check_in(folder, first)}")


def _parser():
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Exercises that check themselves. Without a name they are listed.",
        epilog="The exit status is 0 if all is right, 1 if something is not, 2 if the arguments "
        "cannot be understood.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="an exercise to be checked")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--file", metavar="PATH", type=Path, help="check this file, or those in this directory"
    )
    which.add_argument("--solution", action="store_true", help="check the solution instead")
    which.add_argument(
        "--copy",
        metavar="DIR",
        type=Path,
        help="copy the files to be edited, all of them or those named, into a directory of yours",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
