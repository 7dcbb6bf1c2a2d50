"""Checks exercises: `python -m spinup_tf2.exercises gae`."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from spinup_tf2.errors import UserError, did_you_mean, one_line
from spinup_tf2.exercises.checking import ANSWERS, NotDoneYet, Wrong, checks_of, load, run, task

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
COPIES = Path("exercises")  # the folder that the course tells students to copy the files to
RECORD = "checked.json"  # next to the student's files: digests of those that were right


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0 right, 1 not right yet, 2 not understood."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Exercises that check themselves. Without a name they are listed.",
        epilog="The exit status is 0 if all is right, 1 if something is not, 2 if the arguments "
        "cannot be understood.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="an exercise to be checked")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--file",
        metavar="PATH",
        type=Path,
        default=COPIES,
        help=f"check this file, or those in this directory; default {COPIES}",
    )
    which.add_argument("--solution", action="store_true", help="check the solution instead")
    which.add_argument(
        "--copy",
        metavar="DIR",
        type=Path,
        help="copy the files to be edited, all of them or those named, into a directory of yours",
    )
    try:
        return _run(parser.parse_args(argv))
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
    place = ANSWERS if args.solution else args.file
    if args.copy is not None:
        _copy(args.names or [*EXERCISES], args.copy)
    elif args.names:
        return max(
            _check(name, place if place.is_file() else place / f"{name}.py") for name in args.names
        )
    else:
        for number, (name, text) in enumerate(EXERCISES.items(), 1):
            print(f"{number:2} {name:12} {state(name, place / f'{name}.py'):8} {text}")
        print(f"\nTo begin, copy the files, and edit the copies: {PROGRAM} --copy {COPIES}")
    return 0


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
            record = _recorded(path.parent) | {path.name: _digest(path)}
            (path.parent / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
            later = [*EXERCISES][[*EXERCISES].index(name) + 1 :]
            if later:
                print(f"Next: {later[0]}. {EXERCISES[later[0]]}")
        return 0
    print(f"{name}: {verdict}")
    if passed:
        print(f"Right so far: {', '.join(passed)}.")
    print(f"The file: {path}")
    return 1


def _copy(names, folder):
    """Write the files that students complete; raise UserError if one of them exists already."""
    there = [f"{name}.py" for name in names if (folder / f"{name}.py").exists()]
    if there:
        raise UserError(
            f"{folder} holds {', '.join(there)} already, and nothing is overwritten; name another "
            "directory, or move these away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(task(name), encoding="utf-8")
    option = "" if folder == COPIES else f" --file {folder}"
    print(f"Edit {folder / names[0]}.py, and check it:\n{PROGRAM} {names[0]}{option}")


def state(name: str, path: Path) -> str:
    """Return 'no file', 'to do' (as copied), 'right' (unchanged since it was right), or 'begun'."""
    if not path.is_file():
        return "no file"
    if _recorded(path.parent).get(path.name) == _digest(path):
        return "right"
    return "to do" if path.read_text(encoding="utf-8") == task(name) else "begun"


def _recorded(folder):
    path = folder / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
