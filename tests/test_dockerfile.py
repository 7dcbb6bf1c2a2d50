"""The Dockerfile, without Docker: its commands one by one, in the environment of the tests.

The image's directories lie below the test's. pip builds the package of the files that are copied
into the image, and downloads nothing: what the package needs is there. That the extras bring all
that the commands need, .ci/run shows in a fresh environment.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def instructions():
    """[(instruction, what follows it)]"""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def test_what_is_copied_is_sent_to_docker():
    """.dockerignore leaves out all but these."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copied = {name for what, rest in instructions() if what == "COPY" for name in rest.split()[:-1]}
    assert copied == sent
    assert ignored[0] == "*"
    assert all((ROOT / name).exists() for name in copied)


def test_nothing_is_trained_as_root():
    names = [name for name, _ in instructions()]
    user = names.index("USER")
    assert instructions()[user] == ("USER", "user")
    assert "CMD" in names[user:]
    assert all("spinup_tf2.run" not in rest for _, rest in instructions()[:user])


@pytest.mark.commands
def test_the_commands_run(tmp_path):
    home, packages = tmp_path / "home" / "user", tmp_path / "packages"
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(packages),
    }
    install = f"pip install --no-index --no-deps --no-build-isolation --target {packages}"
    done, where = [], tmp_path
    for name, rest in instructions():
        rest = re.sub(r"(?<![^ =])/(?=home/|opt/)", f"{tmp_path}/", rest)
        if name == "ENV":
            environment |= dict(each.split("=", 1) for each in shlex.split(rest))
        elif name == "WORKDIR":
            where = Path(rest)
            where.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, to = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, where / (source if to == "./" else to))
        elif rest.startswith("useradd"):  # only root may do that
            (home / "data").mkdir(parents=True)
        elif name == "RUN":
            line = rest.replace("pip install", install)
            ended = subprocess.run(
                ["/bin/sh", "-c", line],
                **dict(cwd=where, env=environment, capture_output=True, text=True, timeout=300),
            )
            assert ended.returncode == 0, f"{line}\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
            done.append(rest)
        else:
            assert name in ("FROM", "USER", "CMD"), f"This test does not know {name}"
    pip, training, mpirun, watching, _ = done
    assert "mpirun -np 2" in mpirun
    assert "test_policy" in watching
    # What a container does by default is the first training, but longer.
    [default] = [shlex.join(json.loads(rest)) for name, rest in instructions() if name == "CMD"]
    assert training.startswith(f"{default} --exp_name check ")
    # pip only warns of an extra that the package does not have.
    extras = re.search(r'"\.\[(.+)\]"', pip)[1].split(",")
    [installed] = distributions(path=[str(packages)])
    assert {*extras} <= {*installed.metadata.get_all("Provides-Extra")}
    assert [*home.rglob("*")] == [home / "data"]  # the checks leave nothing
