"""Checks exercises: `python -m spinup_tf2.exercises gae`."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from spinup_tf2.errors import UserError, did_you_mean, one_line
from spinup_tf2.exercises.checking import ANSWERS, NotDoneYet, Wrong, checks_of, load, run

# In the order of the course's chapters.
EXERCISES = {
    "backup": "The Bellman backup: terminated and truncated",
    "gaussian": "The log-likelihood of a diagonal Gaussian",
    "policy": "A Gaussian policy of your own: network and distribution",
    "gae": "Generalized advantage estimates",
    "clip": "The clipped objective of PPO",
    "cg": "Conjugate gradients, for TRPO",
    "ranks": "The work of environments, divided over MPI ranks",
    "dqn": "The backup and the loss of DQN",
    "bug": "A DDPG that does not learn: find the bug",
    "td3": "The targets and losses of TD3",
    "temperature": "The temperature loss of SAC",
    "init": "Initial weights of networks: draw them, and recognize them",
    "repeat": "A gymnasium wrapper that repeats actions",
}

PROGRAM = "python -m spinup_tf2.exercises"
TASKS = Path(__file__).parent / "tasks"
COPIES = Path("exercises")  # the folder that the course tells students to copy them to
RECORD = "checked.json"  # next to the student's files: digests of those that were right


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 right, 1 not right yet, 2 not understood."""
    try:
        return _run(_parser().parse_args(argv))
    except UserError as error:
        print(f"spinup_tf2: error: {one_line(error)}", file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
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


def _run(args):
    for name in args.names:
        if name not in EXERCISES:
            raise UserError(
                f"{name!r} is not an exercise;{did_you_mean(name, EXERCISES)} they are "
                f"{', '.join(EXERCISES)}."
            )
    if args.copy is not None:
        _copy(args.names or [*EXERCISES], args.copy)
        return 0
    if args.file is not None and not args.file.exists():
        raise UserError(
            f"there is no file or directory {args.file}; `--copy {args.file}` makes it."
        )
    if args.file is not None and args.file.is_file() and len(args.names) != 1:
        raise UserError(
            f"--file {args.file} is one file: say which exercise it is, as in `{PROGRAM} gae "
            f"--file {args.file}`."
        )
    if not args.names:
        copied = any((COPIES / f"{name}.py").is_file() for name in EXERCISES)
        _list(args.file or (COPIES if copied else TASKS))
        return 0
    return max(_check(name, _file_of(name, args)) for name in args.names)


def _file_of(name, args):
    """Return the file to check: the given one, the student's copy, or that of the package."""
    if args.file is not None and args.file.is_file():
        return args.file
    folder = ANSWERS if args.solution else args.file or COPIES
    path = folder / f"{name}.py"
    return path if path.is_file() or args.file else TASKS / f"{name}.py"


def _check(name, path):
    """Check a file and print the verdict; return the exit status."""
    passed, title = [], "file"
    try:
        student = load(name, path)
        for title, check in checks_of(name).items():
            run(check, student)
            passed.append(title)
    except NotDoneYet as place:
        verdict = f"not done yet. {place} is still to be written."
    except Wrong as wrong:
        verdict = f"not right yet. the {title}:\n{wrong}"
    else:
        print(f"{name}: right ({', '.join(passed)}).")
        if path.parent != ANSWERS:
            _record_right(path)
            later = [*EXERCISES][[*EXERCISES].index(name) + 1 :]
            if later:
                print(f"Next: {later[0]}. {EXERCISES[later[0]]}")
        return 0
    print(f"{name}: {verdict}")
    if passed:
        print(f"Right so far: {', '.join(passed)}.")
    print(f"The file: {path}")
    if path.parent == TASKS:
        print(f"To work on files of your own, copy them: {PROGRAM} --copy {COPIES}")
    return 1


def _check_in(folder, name):
    """Return the command that checks the file of an exercise in a folder."""
    return f"{PROGRAM} {name}" + ("" if folder == COPIES else f" --file {folder}")


def _copy(names, folder):
    """Copy the files that students complete; raise UserError if one of them exists already."""
    there = [f"{name}.py" for name in names if (folder / f"{name}.py").exists()]
    if there:
        raise UserError(
            f"{folder} holds {', '.join(there)} already, and nothing is overwritten; name another "
            "directory, or move these away."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(TASKS / f"{name}.py", folder / f"{name}.py")
    except OSError as error:
        raise UserError(
            f"the exercises cannot be copied to {folder} ({error.strerror}); name another "
            "directory."
        ) from error
    print(f"Edit {folder / names[0]}.py, and check it:")
    print(_check_in(folder, names[0]))


# ---------------------------------------------------------------- progress


def _list(folder):
    """Print all exercises, with the state of the files in a folder."""
    for number, (name, text) in enumerate(EXERCISES.items(), 1):
        print(f"{number:2} {name:12} {state(folder / f'{name}.py'):8} {text}")
    if folder == TASKS:
        print(f"\nTo begin, copy the files: {PROGRAM} --copy {COPIES}")
        print(f"(or fill in those in {TASKS})")
    else:
        first = next(iter(EXERCISES))
        print(f"\nFill in a file in {folder}, and check it: {_check_in(folder, first)}")


def state(path: Path) -> str:
    """Return 'no file', 'to do' (unchanged), 'begun', or 'right' (unchanged since it was right).

    The package's own files may be edited as well: such a file is begun once no gap is left in it.
    """
    if not path.is_file():
        return "no file"
    if _recorded(path.parent).get(path.name) == _digest(path):
        return "right"
    text = path.read_text(encoding="utf-8")
    as_copied = text == (TASKS / path.name).read_text(encoding="utf-8")
    return "to do" if as_copied and "raise NotImplementedError" in text else "begun"


def _record_right(path):
    """Record that a file is right, which holds until it is changed."""
    with suppress(OSError):  # an installed package may not be writable; the list is a convenience
        record = _recorded(path.parent) | {path.name: _digest(path)}
        (path.parent / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _recorded(folder):
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
