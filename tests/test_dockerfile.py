"""The Dockerfile, without Docker: its commands one by one, in a fresh virtual environment.

The image's directories lie below the test's. What needs root (apt-get, useradd) is not run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def instructions():
    """[(instruction, what follows it)]"""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def stages():
    """{name: (what it is built from, its instructions)}"""
    found, name = {}, None
    for what, rest in instructions():
        if what == "FROM":
            source, _, name = rest.split()
            found[name] = (source, [])
        else:
            found[name][1].append((what, rest))
    return found


def test_what_is_copied_is_sent_to_docker():
    """.dockerignore leaves out all but these."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copied = {name for what, rest in instructions() if what == "COPY" for name in rest.split()[:-1]}
    assert copied == sent
    assert ignored[0] == "*"
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize("stage", ["mario", "training"])
def test_nothing_is_run_as_root(stage):
    source, lines = stages()[stage]
    assert source == "package"
    assert all("spinup_tf2.run" not in rest for _, rest in stages()["package"][1])
    user = lines.index(("USER", "user"))
    assert all("spinup_tf2.run" not in rest for _, rest in lines[:user])
    assert lines[-1][0] == "CMD"


def test_the_last_stage_trains():
    """`docker build` without --target builds it."""
    assert list(stages())[-1] == "training"
    [(_, check), *_] = [each for each in stages()["training"][1] if each[0] == "RUN"]
    default = shlex.join(json.loads(stages()["training"][1][-1][1]))
    assert check.startswith(f"{default} --exp_name check ")


@pytest.mark.commands
def test_the_commands_run(tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{venv / 'bin'}:{os.environ['PATH']}"
    home, where = tmp_path / "home" / "user", tmp_path

    def run(line):
        line = ["/bin/sh", "-c", line]
        kwargs = dict(cwd=where, env=environment, capture_output=True, text=True, timeout=1200)
        done = subprocess.run(line, **kwargs)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"

    for name, rest in instructions():
        rest = re.sub(r"(?<![^ =])/(?=home/|opt/)", f"{tmp_path}/", rest)
        if name == "ENV":
            environment |= dict(each.split("=", 1) for each in shlex.split(rest))
        elif name == "FROM":
            where = tmp_path / "opt" / "spinup_tf2"  # where the stage before left off
        elif name == "WORKDIR":
            where = Path(rest)
            where.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, to = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                target = where / (source if to == "./" else to)
                target.parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / source, target)
        elif "useradd" in rest:
            for folder in ("data", "videos"):
                (home / folder).mkdir(parents=True)
        elif name == "RUN" and "apt-get" not in rest:
            run(rest)
        elif name == "CMD":
            command = json.loads(rest)
            run(shlex.join([*command, "--epochs", "1"] if "ppo" in command else command))
    assert list((home / "videos").glob("*.mp4"))
    assert {each.name for each in home.iterdir()} == {"agents", "data", "videos"}
    assert {each.name for each in (home / "data").iterdir()} == {"cmd_ppo"}
