"""Tries the environments of other packages, each in a virtual environment of its own.

    python benchmarks/packages.py                   # all that packages.toml lists
    python benchmarks/packages.py minigrid popgym   # some of them

Each package is installed beside this one, and an agent is trained for a few steps, resumed,
evaluated, tested and recorded. The results become rows of the table in
docs/environments/packages.md; what the commands print is kept in a log of each package.
"""

import argparse
import datetime
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "environments" / "packages.md"
COMMANDS = [
    "{algo} --env {env} {flags} --exp_name x --epochs 1 --max_ep_len 100 {short}",
    "resume data/x/x_s0 --epochs 2",
    "evaluate data/x/x_s0 -n 1 --len 100",
    "test_policy data/x/x_s0 --norender -n 1 --len 100",
    "test_policy data/x/x_s0 --record videos -n 1 --len 100",
]
ON_POLICY = "--steps_per_epoch 200"
OFF_POLICY = f"{ON_POLICY} --start_steps 100 --update_after 100 --num_test_episodes 1"


def environment(folder: Path, base: Path | None = None) -> Path:
    """Return the Python of a virtual environment, which also sees the packages of `base`."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=base is None, symlinks=True)
        if base is not None:
            [site] = folder.glob("lib/python*/site-packages")
            [seen] = base.glob("lib/python*/site-packages")
            (site / "base.pth").write_text(f"import site; site.addsitedir({str(seen)!r})\n")
    return python


def works(folder: Path, *command: str) -> bool:
    """Run a command in the folder of a package, with its log, and return whether it ended well."""
    variables = os.environ | {"SPINUP_TF2_DATA_DIR": "data", "PYTHONPATH": ""}
    with (folder / "log.txt").open("a") as log:
        print("$", shlex.join(command), file=log, flush=True)
        given = dict(cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        status = subprocess.run(["timeout", "600", *command], **given).returncode
        print("exit status", status, file=log)
    return status == 0


def row(name: str, entry: dict, work: Path) -> str:
    """Try a package, and return its row of the table."""
    folder, base = work / name, work / "base"
    python = str(environment(folder / "venv", base))
    pip = [str(base / "bin" / "python"), "-m", "pip", f"--python={python}"]
    (folder / "log.txt").unlink(missing_ok=True)
    for before in ("data", "videos"):  # of the last time
        shutil.rmtree(folder / before, ignore_errors=True)
    given = {"install": name, "algo": "ppo", "flags": "", "note": "", **entry}
    off_policy = given["algo"] in ("ddpg", "dqn", "sac", "td3")
    given["short"] = OFF_POLICY if off_policy else ON_POLICY
    constraints = f"-c{work / 'constraints.txt'}"
    cells = ["-"] * len(COMMANDS)
    if works(folder, *pip, "install", "-q", constraints, *shlex.split(given["install"])):
        for i, command in enumerate(COMMANDS):
            words = shlex.split(command.format(**given))
            worked = works(folder, python, "-m", "spinup_tf2.run", *words)
            cells[i] = "yes" if worked else "no"
            if cells[0] == "no":
                break
    [package, *_] = re.findall(r"(?<![-\w])[a-zA-Z][-\w]*", given["install"])
    shown = subprocess.run([*pip, "show", package], capture_output=True, text=True).stdout
    version = re.findall(r"^Version: (.*)", shown, re.MULTILINE) or ["-"]
    tried = " ".join([given["algo"], "--env", given["env"], given["flags"]]).strip()
    when = f"{version[0]}, {datetime.date.today()}"
    columns = [f"`{given['install']}`", f"`{tried}`", *cells, given["note"], when]
    return f"| {' | '.join(columns)} |"


def write(made: str) -> None:
    """Write a row into the table of the page, in the place of the one for the same package."""
    head, rows, tail = re.fullmatch(
        r"(.*\n\| `pip install` .*?\n[-| ]+\n)(.*?\n)(\n.*)", PAGE.read_text("utf-8"), re.DOTALL
    ).groups()
    kept = {line.split("|")[1]: line for line in [*rows.splitlines(), made]}
    PAGE.write_text(head + "\n".join(sorted(kept.values())) + "\n" + tail, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    parser.add_argument("--work", type=Path, default="data/packages", help="folder of what is made")
    args = parser.parse_args()
    packages = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    work = args.work.resolve()
    python = environment(work / "base")
    constraints = work / "constraints.txt"
    if not constraints.exists():
        subprocess.run([python, "-m", "pip", "install", "-e", f"{ROOT}[video]"], check=True)
        freeze = [python, "-m", "pip", "freeze", "--exclude-editable"]
        constraints.write_text(subprocess.check_output(freeze, text=True))
    for name in args.packages or packages:
        made = row(name, packages[name], work)
        print(made, flush=True)
        write(made)


if __name__ == "__main__":
    main()
