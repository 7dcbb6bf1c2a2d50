"""The house has a budget: a feature that needs room finds it by making something simpler.

    python tests/test_budget.py        # how big everything is, by folder

The limits are what has been reached, and go down with it. Lines of code are those that are neither
blank nor comments nor docstrings.
"""

import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, TESTS = ROOT / "spinup_tf2", ROOT / "tests"
ASIDE = ("envs/mario", "envs/quadruped", "envs/envpool", "examples", "exercises")  # no library

LIMITS = {
    "library, lines of code": 14_266,
    "package, lines of code": 18_858,
    "package, files": 170,
    "tests, lines": 33_492,
    "story of PPO, lines": 1_042,
    "story of PPO, files": 11,
}


def code_lines(text):
    """The number of lines of code in a source."""
    docs = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank | {tokenize.ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docs)


def sizes():
    """{folder: Counter of files, lines and code} of the package, its library, and the tests."""
    found = defaultdict(Counter)
    for top in (PACKAGE, TESTS):
        for path in sorted(top.rglob("*.py")):
            text, inner = path.read_text(encoding="utf-8"), path.relative_to(top).parent.as_posix()
            rooms = [top.name]
            if top is PACKAGE:
                rooms += [] if inner.startswith(ASIDE) else ["library"]
                rooms.append(f"  {inner.split('/')[0]}" if inner != "." else "  (top)")
            size = Counter(files=1, lines=len(text.splitlines()), code=code_lines(text))
            for room in rooms:
                found[room] += size
    return found


def test_the_house_is_in_its_budget():
    found = sizes()
    reached = {
        "library, lines of code": found["library"]["code"],
        "package, lines of code": found["spinup_tf2"]["code"],
        "package, files": found["spinup_tf2"]["files"],
        "tests, lines": found["tests"]["lines"],
    }
    assert {name: size for name, size in reached.items() if size > LIMITS[name]} == {}


def test_lines_of_code():
    lines = ['"""Doc."""', "", 'X = """a', 'b"""  # comment', "", "def f():", '    """Doc."""']
    source = "\n".join([*lines, "    # why", "    return X", ""])
    assert code_lines(source) == 4


# ---------------------------------------------------------------- the story


def story():
    """{file: lines of its functions} that run between the first and the last line of `ppo()`.

    Only of what one reads to understand PPO: algorithms and `core`, but for its workers and checks.
    Compiled functions run eagerly, so that they are seen, too.
    """
    import gymnasium as gym
    import tensorflow as tf

    from spinup_tf2 import ppo

    seen = set()

    def profile(frame, event, arg):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            seen.add((code.co_filename, code.co_firstlineno))

    tf.config.run_functions_eagerly(True)
    short = dict(steps_per_epoch=64, epochs=2, train_pi_iters=3, train_v_iters=3)
    logger_kwargs = dict(output_dir=tempfile.mkdtemp(), quiet=True)
    sys.setprofile(profile)
    ppo(lambda: gym.make("CartPole-v1"), **short, logger_kwargs=logger_kwargs)
    sys.setprofile(None)
    told = defaultdict(set)
    for path in {path for path, _ in seen}:
        inner = Path(path).relative_to(PACKAGE).as_posix()
        if not inner.startswith(("algos/", "core/")) or inner.startswith("core/workers/"):
            continue
        if "checks" in Path(path).name:
            continue
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                decorators = [each.lineno for each in getattr(node, "decorator_list", [])]
                first = min([node.lineno, *decorators])
                if (path, first) in seen:
                    told[inner].update(range(first, node.end_lineno + 1))
    return {inner: len(lines) for inner, lines in told.items()}


@pytest.mark.slow
def test_the_story_of_ppo_is_short():
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, "story"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    *_, last = done.stdout.splitlines()
    lines, files = map(int, last.split())
    assert lines <= LIMITS["story of PPO, lines"], done.stdout
    assert files <= LIMITS["story of PPO, files"], done.stdout


def main():
    if sys.argv[1:] == ["story"]:
        parts = story()
        for inner in sorted(parts, key=parts.get, reverse=True):
            print(f"{parts[inner]:5}  {inner}")
        print(sum(parts.values()), len(parts))
        return
    print(f"{'':24} files   lines    code")
    for room, size in sorted(
        sizes().items(), key=lambda each: (each[0][0] == " ", -each[1]["code"])
    ):
        print(f"{room:24} {size['files']:5} {size['lines']:7} {size['code']:7}")


if __name__ == "__main__":
    main()
