"""Every command and every program on the pages is run, or a table says why a test cannot run it.

What is on a page runs in the order in which it stands there, in a directory that begins as a copy
of the checkout's. Trainings are shortened, and nothing opens a window. That each command ends well
is all that is tested: what it prints is not compared with the page.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]

# What is not run: a pattern of the command, or of the program, and the reason. What "takes" minutes
# or hours has been run by hand; docs/internals.md says when.
NOT_RUN = {
    # of the machine
    r"^pip install": "installs packages",
    r"^python3? -m venv|^source .*/activate": "makes an environment, in which nothing is installed",
    r"^sudo apt": "changes the machine",
    r"^wsl ": "Windows",
    r"^git clone|^cd (~/)?spinup_tf2": "the address is the reader's",
    r"^docker ": "needs Docker; tests/test_dockerfile.py runs the commands of the Dockerfile",
    r"-hosts? node1": "needs other machines; tests/mpi/test_multihost.py has two",
    r"\bsrun ": "needs Slurm",
    r"/somewhere/openmpi": "installs Open MPI",
    r"procgen[/_]|EnvPool-v0|bigfish(_skip)?_s0": "needs the extra procgen, which dev leaves out",
    r"MiniGrid|/minigrid_s0|PushT": "needs packages that dev leaves out; the page has a date",
    r"benchmarks/packages\.py|^export PYGLET": "installs packages, into environments of its own",
    # without an end
    r"^tensorboard ": "a server",
    r"^jupyter lab": "a server; tests/test_notebooks.py runs the notebook's cells",
    r"run play --env SuperMarioBros": "waits for keys; tests/cli/test_play.py presses them",
    r"quadruped\.py --train": "takes minutes: five whole epochs, and no flag for fewer",
    # what other tests do
    r"^python -m pytest|-m multihost": "these are the tests",
    r"^(ruff|codespell|mypy)": ".ci/run runs them",
    r"^sphinx-build": "tests/test_docs.py builds the docs",
    r"benchmarks/throughput\.py": "takes minutes; tests/benchmarks runs its parts",
    r"benchmarks/scaling\.py": "takes minutes; tests/benchmarks has a short measurement",
    r"benchmarks/learning\.py run": "takes hours; tests/benchmarks has a small protocol",
    r"benchmarks/learning\.py evaluate": "takes minutes; tests/benchmarks has a small one",
    r"benchmarks/learning\.py collect": "needs these runs; tests/benchmarks has a small protocol",
    r"benchmarks/learning_others\.py": "takes half an hour, with sbx in an environment of its own",
    r"benchmarks/dead_units\.py": "needs these runs; tests/benchmarks has a small one",
    r"course/broken_runs\.py": "takes minutes; tests/test_course.py makes shorter runs",
    r"examples\.mario_demo .* --exp_name four": "does what it does for one level, four times",
    r"examples\.mario_demo .* --exp_name mario-eight": "takes minutes: eight levels",
    r"examples\.mario_demo .* --exp_name single": "takes minutes",
    r"evaluate data/single-": "needs this agent",
    r"^from spinup_tf2\.envs\.mario|for version in range\(4\)": "tests/test_docs.py runs it",
    r"^from policy import|_savedmodel\"": "tests/test_exporting.py does so",
}

# What is added to a command: a flag that is given again replaces the one before. Steps are a
# multiple of what every algorithm and preset collects between updates; those off-policy begin to
# learn just before their end.
ADDED = {
    r"spinup_tf2\.run (a2c|ddpg|dqn|ppo|sac|td3|trpo|vpg|\$algo) --(?!help)": "--epochs 1 "
    "--steps_per_epoch 1280",
    r"spinup_tf2\.run ppg --(?!help)": "--epochs 1 --steps_per_epoch 800",
    r"run my_\w+:\w+ --(?!help)": "--epochs 1 --steps_per_epoch 400",
    r"run ppo .*(memory|hidden_)": "--steps_per_epoch 4000",  # of which segments are made
    r"run (ddpg|dqn|sac|td3|\$algo --env Pendulum)": "--start_steps 1000 --update_after 1200 "
    "--num_test_episodes 1",
    r"run ppo .*--preset (mario|quadruped)": "--steps_per_epoch 1280 --max_ep_len 400 "
    "--num_test_episodes 1",  # the steps again: of minibatches of 256, also with a memory
    r"run ppo .*--preset quadruped-command": "--steps_per_epoch 2000",  # of minibatches of 1000
    r"run resume .*--epochs 50": "--epochs 2",
    r"run test_policy": "-n 1",
    r"run test_policy (?!.*--record)": "--norender",
    r"--seed \d+ \d.* --workers": "--workers 1",
    r"run plot (?!.*--(savefig|table))": "--savefig shown.png",
    r"run evaluate": "-n 1 --noops 1",
    r"examples\.quadruped_demo": "--steps 2000 --epochs 0",
    r"examples\.quadruped_switch": "--seconds 10",
    r"examples\.mario_demo": "--rounds 0",
    r"examples\.mario_demo(?!.*--epochs)": "--epochs 0 --exp_name shown",
    r"examples\.(vpg|ppo|sac)_": "--steps 2000",
    r"benchmarks/normalization": "--epochs 1 --steps_per_epoch 400 --seeds 0",
    r"benchmarks/mario": "--steps 256",
    r"benchmarks/quadruped": "--steps 400",
    r"spinup_tf2\.exercises \w": "--solution",
}

# What a page takes from others.
BEFORE = {
    "docs/algorithms/off_policy.md": """
        for algo in ddpg sac td3; do
            python -m spinup_tf2.run $algo --env Pendulum-v1 --exp_name ${algo}_pendulum
        done""",
    "docs/outputs.md": "python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name first",
    "docs/plotting.md": "python grid.py",
}

# What a reader has before a program that is a part of one.
GIVEN = {
    # The number of the newest checkpoint depends on how long the training took.
    "docs/resuming.md": """
import numpy as np
from pathlib import Path
from spinup_tf2.training.saved_policy import load_networks
shown = Path("data/long/long_s0/checkpoint/000003")
if not shown.exists():
    max(shown.parent.glob("0*")).rename(shown)
ac = load_networks("data/long/long_s0/tf2_save").ac
""",
    "docs/coming_from.md": "import gymnasium as gym\nobs, _ = gym.make('CartPole-v1').reset()\n",
    "docs/course/policy_gradients.md": "import numpy as np\nT, gamma, lam = 2, 1, 1\n"
    "rew, val = [0.5, 3.5], [4, 4, 0]\n",
    "docs/course/problem.md": "import gymnasium as gym\nenv = gym.make('CartPole-v1')\n",
}


def blocks(page):
    """[(language, text)] of a page's blocks, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(body)) for _, language, body in found]


def commands(language, text):
    """The commands of a block, each with what stands in its further lines; a program is one."""
    if language == "toml":  # no command, but a command's file
        return []
    if language == "python" or text.startswith("#!"):
        return [text]
    text = re.sub(r" *\\\n *", " ", text)
    if language == "console":  # a prompt, $ or that of root, and what follows is printed
        return re.findall(r"^[$#] (.*)$", text, re.MULTILINE)
    lines = [re.sub(r"(^| +)#.*", "", line) for line in text.splitlines()]
    return [each for line in lines for each in line.split(" && ") if each.strip()]


def reason(command):
    """Why a command is not run; None if it is."""
    found = (why for pattern, why in NOT_RUN.items() if re.search(pattern, command.strip()))
    return next(found, None)


LANGUAGES = ("bash", "console", "powershell", "python", "toml")
SHOWN = {
    page: [
        (language, text, commands(language, text))
        for language, text in blocks(page)
        if language in LANGUAGES
    ]
    for page in PAGES
}
WITH_COMMANDS = [
    page
    for page, shown in SHOWN.items()
    if any(reason(command) is None for *_, each in shown for command in each)
]


def shortened(command, page):
    """A command as it is run."""
    added = [flags for pattern, flags in ADDED.items() if re.search(pattern, command)]
    if re.search(r"--seed \d+ \d", command):
        every = "".join(text for _, text, _ in SHOWN[page])
        if not re.search(r"_s[1-9]", every):  # no command needs the others
            added.append("--seed 0")
    return " ".join([command, *added])


def program(text):
    """A program as it is run: for one epoch, and without a window."""
    text = re.sub(r"\bepochs=\d+", "epochs=1", text)
    return text.replace('render_mode="human"', 'render_mode="rgb_array"')


@pytest.fixture
def checkout(tmp_path):
    """A directory with what a checkout has for the commands, and the examples of the docs."""
    for name in ("benchmarks", "data", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (DOCS / "examples").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(program(text), encoding="utf-8")
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_every_reason_and_every_flag_is_for_a_command():
    every = [command.strip() for shown in SHOWN.values() for *_, each in shown for command in each]
    for pattern in (*NOT_RUN, *ADDED):
        assert any(re.search(pattern, command) for command in every), pattern
    assert {*GIVEN, *BEFORE} <= {*WITH_COMMANDS}


def test_a_script_of_the_course_is_given_the_paths_that_it_takes():
    every = [command for shown in SHOWN.values() for *_, each in shown for command in each]
    found = [re.match(r"python (docs/course/\w+\.py)(.*)", command) for command in every]
    for script, given in (match.groups() for match in found if match):
        taken = re.findall(r"sys\.argv\[(\d)\]", (ROOT / script).read_text(encoding="utf-8"))
        assert len(given.split()) == max(map(int, taken), default=0), script + given


def test_the_readme_is_short_and_the_first_run_is_the_same_on_all_pages():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    first = re.search("python -m spinup_tf2.run ppo .* --exp_name first .*", readme)[0]
    for name in ("index", "installation", "running", "windows"):
        page = DOCS / f"{name}.md"
        assert first in page.read_text(encoding="utf-8"), page


def test_what_takes_long_has_the_date_of_its_last_run():
    internals = (DOCS / "internals.md").read_text(encoding="utf-8")
    table = internals.partition("\n### Commands that take long\n")[2].partition("\n## Reference\n")[
        0
    ]
    rows = [row[2:-2].split(" | ") for row in re.findall(r"^\|.*", table, re.MULTILINE)[2:]]
    dated = [name for names, when, _ in rows for name in re.findall("`(.+?)`", names) if when]
    assert all(re.match(r"20\d\d-\d\d-\d\d", when) for _, when, _ in rows)
    long = [
        (page, command)
        for page, shown in SHOWN.items()
        for *_, each in shown
        for command in each
        if (reason(command) or "").startswith("takes")
    ]
    for page, command in long:
        assert any(name in command for name in dated), command
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "#commands-that-take-long" in text or page == "docs/internals.md", page
    assert all(any(name in command for _, command in long) for name in dated)


@pytest.mark.commands
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_of_a_page_run(page, checkout):
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "SPINUP_TF2_DATA_DIR": str(checkout / "data"),
        "SPINUP_TF2_WAIT_BEFORE_LAUNCH": "0",
        "DISPLAY": ":0",
        "SDL_VIDEODRIVER": "dummy",
    }
    before = BEFORE.get(page, "")
    for language, text, each in [("bash", before, commands("bash", before)), *SHOWN[page]]:
        if language == "toml":
            (checkout / "small.toml").write_text(text)
        run = [command for command in each if reason(command) is None]
        expected = 2 if "spinup_tf2: error: " in text else 0
        if not run:
            continue
        if language == "python":
            (checkout / "program.py").write_text(GIVEN.get(page, "") + program(text))
            script = "python program.py"
        elif expected:  # a mistake is found before the training
            [script] = run
        else:
            script = "\n".join(shortened(command, page) for command in run)
        done = subprocess.run(
            ["bash", "-exc", script],
            **dict(cwd=checkout, env=environment, stdin=subprocess.DEVNULL, timeout=3600),
            capture_output=True,
            text=True,
        )
        said = f"{script}\n{text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == expected, said
        assert "Traceback (most recent call last)" not in done.stdout + done.stderr, said
