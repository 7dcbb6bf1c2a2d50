"""Changes the source in small ways, one at a time, and looks whether the tests notice.

    nice python tests/mutation/run.py                          # every file of FILES: some hours
    nice python tests/mutation/run.py algos/ppo.py core/gradient_steps.py
    nice python tests/mutation/run.py --sample 20 --jobs 2     # of each file, 20 at random

Each mutant is the whole package with one change: an operator, a comparison or a number replaced by
another, a condition that always or never holds, a statement, an argument or the call around an
argument left out. It survives if the file's tests (FILES) pass. A survivor shows a test that is
missing, or a change that changes nothing that matters. Mutants are made from the syntax tree, so
that nothing here must follow the source, but the names of files.

TensorFlow is imported once; each mutant is a fork of that process, in a copy of the sources.
"""

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BY_HAND = "tests/algos/test_on_policy_by_hand.py"
OFF_BY_HAND = "tests/algos/test_off_policy_by_hand.py"
OFF_POLICY = "tests/algos/test_off_policy_family.py -k (sum or exploration)"
LOSSES = "tests/algos/test_losses.py"
CONTRACT = "tests/algos/test_contract.py -k columns"

# Each file below spinup_tf2/ and the tests that must notice what is changed in it, in the order in
# which they are run: fast ones first. They stop at the first failure.
FILES = {
    "algos/vpg.py": [LOSSES, f"{BY_HAND} -k vpg"],
    "algos/trpo.py": [LOSSES, f"{BY_HAND} -k (trpo or npg)", "tests/algos/test_trpo.py"],
    "algos/ppo.py": [LOSSES, f"{BY_HAND} -k ppo", "tests/algos/test_networks.py -k refused"],
    "algos/a2c.py": [LOSSES, f"{BY_HAND} -k a2c"],
    "algos/ppg.py": [LOSSES, "tests/algos/test_ppg.py"],
    "algos/ddpg.py": [LOSSES, f"{OFF_BY_HAND} -k ddpg", f"{CONTRACT} and ddpg", OFF_POLICY],
    "algos/td3.py": [LOSSES, f"{OFF_BY_HAND} -k td3", f"{CONTRACT} and td3", OFF_POLICY],
    "algos/sac.py": [LOSSES, f"{OFF_BY_HAND} -k sac", f"{CONTRACT} and sac", OFF_POLICY],
    "algos/dqn.py": [LOSSES, f"{OFF_BY_HAND} -k dqn", f"{CONTRACT} and dqn", OFF_POLICY],
    "core/trajectories.py": [
        "tests/core/test_trajectories.py",
        "tests/core/test_buffers.py",
        f"{BY_HAND} -k vpg",
    ],
    "core/natural_gradient.py": [
        "tests/core/test_natural_gradient.py",
        f"{BY_HAND} -k (trpo or npg)",
    ],
    "core/nets/normalization.py": [
        "tests/core/nets/test_normalization.py",
        f"{BY_HAND} -k normalized",
    ],
    "core/gradient_steps.py": [
        LOSSES,
        "tests/core/test_gradient_steps.py",
        f"{BY_HAND} -k (a2c or penalty or minibatches or recomputed)",
    ],
    "core/update_block.py": ["tests/core/test_update_block.py", f"{OFF_BY_HAND} -k td3"],
    "core/replay_buffer.py": ["tests/core/test_replay_buffer.py"],
    "core/nets/actor_critic.py": [
        "tests/core/nets/test_actor_critic.py",
        f"{BY_HAND} -k (vpg or shared)",
        "tests/algos/test_networks.py -k images",
    ],
    "core/nets/q_actor_critic.py": ["tests/core/nets/test_q_actor_critic.py"],
    "core/nets/distributions.py": ["tests/core/nets/test_distributions.py"],
    "core/nets/heads.py": [
        "tests/core/nets/test_actor_critic.py",
        "tests/core/nets/test_acting.py",
        "tests/core/nets/test_q_actor_critic.py",
    ],
    "core/on_policy.py": [
        f"{BY_HAND} -k (vpg or normalized)",
        "tests/core/test_on_policy.py",
        f"{BY_HAND} -k a2c",
        "tests/algos/test_demonstrations.py",
        "tests/training/test_evaluation.py",
    ],
    "core/off_policy.py": ["tests/core/test_off_policy.py", OFF_BY_HAND, OFF_POLICY],
    "training/settings.py": [
        "tests/training/test_settings.py",
        "tests/algos/test_environment_by_name.py",
    ],
    "training/rows.py": ["tests/training/test_best.py"],
}

OPERATORS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd},
    **{ast.BitAnd: ast.BitOr, ast.MatMult: ast.Add, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}


# -------------------------------------------------------------------------------- the mutants


class Mutator(ast.NodeTransformer):
    """Visits a module; of all changes that it could make it makes the one of number `chosen`.

    found: (line, function, what is changed) of all.
    """

    def __init__(self, chosen: int = -1):
        self.chosen, self.found, self.where = chosen, [], []

    def offer(self, node, change, text):
        """Change a node, if it is its turn; `change(copy)` returns the new one."""
        self.found.append((node.lineno, ".".join(self.where), text))
        if len(self.found) - 1 != self.chosen:
            return node
        return ast.copy_location(change(copy.deepcopy(node)), node)

    def visit(self, node):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return node  # words; an import that is missing is noticed in any case
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("run.logger.log("):
            return node
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and not node.orelse:
            return node  # a check, not what is computed
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.where.append(node.name)
            node.body = [self.visit(each) for each in node.body]  # not arguments and decorators
            self.where.pop()
            return node
        if isinstance(node, ast.AnnAssign):
            node.value = self.visit(node.value) if node.value else None
            return node
        line = ast.unparse(node).splitlines()[0][:70] if isinstance(node, ast.stmt) else ""
        before = len(self.found)
        node = super().visit(node)
        made = before <= self.chosen < len(self.found)
        return node if made else self._statement(node, line)

    def _statement(self, node, line):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return node  # a docstring
        is_store = isinstance(node, ast.Assign) and not all(
            isinstance(target, ast.Name | ast.Tuple) for target in node.targets
        )
        if is_store or isinstance(node, ast.Expr | ast.AugAssign | ast.Continue | ast.Break):
            return self.offer(node, lambda _: ast.Pass(), f"without `{line}`")
        return node

    def _operator(self, node, name="op"):
        self.generic_visit(node)
        old = getattr(node, name)
        new = OPERATORS.get(type(old))
        if new is None:
            return node

        def change(node):
            setattr(node, name, new())
            return node

        return self.offer(
            node, change, f"{type(old).__name__} -> {new.__name__} in `{_short(node)}`"
        )

    visit_BinOp = visit_BoolOp = visit_AugAssign = _operator

    def visit_Compare(self, node):
        self.generic_visit(node)

        def change(node):
            node.ops[0] = OPERATORS[type(node.ops[0])]()
            return node

        return self.offer(node, change, f"the other comparison in `{_short(node)}`")

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant):
            return node  # the number itself is changed
        return self.offer(node, lambda node: node.operand, f"without the sign of `{_short(node)}`")

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            return self.offer(node, lambda _: ast.Constant(not value), f"not {value}")
        if isinstance(value, int | float):
            new = value + 1 if isinstance(value, int) else 2 * value or 1.0
            return self.offer(node, lambda _: ast.Constant(new), f"{value} -> {new}")
        return node

    def _condition(self, node):
        self.generic_visit(node)
        for value in (True, False):

            def change(node, value=value):
                node.test = ast.Constant(value)
                return node

            changed = self.offer(node, change, f"`{_short(node.test)}` is always {value}")
            if changed is not node:
                return changed
        return node

    visit_If = visit_IfExp = _condition

    def visit_Call(self, node):
        self.generic_visit(node)
        short = _short(node)
        for i, keyword in enumerate(node.keywords):

            def drop(node, i=i):
                del node.keywords[i]
                return node

            changed = self.offer(node, drop, f"without {keyword.arg} in `{short}`")
            if changed is not node:
                return changed
        if len(node.args) > 1:

            def drop_last(node):
                del node.args[-1]
                return node

            changed = self.offer(node, drop_last, f"without the last argument of `{short}`")
            if changed is not node:
                return changed
        if node.args and not isinstance(node.args[0], ast.Starred):
            return self.offer(node, lambda node: node.args[0], f"the argument instead of `{short}`")
        return node


def _short(node):
    return ast.unparse(node).replace("\n", " ")[:70]


def mutants(source: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, function, what is changed, the changed source) of every mutant."""
    finder = Mutator()
    finder.visit(ast.parse(source))
    for number, found in enumerate(finder.found):
        tree = ast.fix_missing_locations(Mutator(number).visit(ast.parse(source)))
        yield *found, ast.unparse(tree)


# ------------------------------------------------------------------------- one after the other


def passes(directory: Path, tests: list[str], cpu_seconds: float) -> bool:
    """Whether all of these tests pass on the copy of the sources in a directory."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _limit(cpu_seconds)
        os._exit(_run_tests(directory, tests))
    until = time.monotonic() + 30 * cpu_seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _limit(cpu_seconds):
    """A mutant that never ends, or takes all memory, is noticed, too."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (6 * 2**30, 6 * 2**30))


def _run_tests(directory, tests):
    os.chdir(directory)
    with open("output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.path.insert(0, str(directory))
    import pytest

    import spinup_tf2

    assert Path(spinup_tf2.__file__).is_relative_to(directory)
    common = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short"]
    for each in tests:
        path, _, chosen = each.partition(" -k ")
        marks = "not slow and not mpi and not matrix and not commands and not learning"
        arguments = [*common, "-m", marks, path, *(["-k", chosen] if chosen else [])]
        status = pytest.main(arguments)
        if status != 0:
            return int(status)
    return 0


def copied(directory: Path) -> Path:
    """A copy of the package and its tests, in which one file at a time is changed."""
    for name in ("spinup_tf2", "tests", "pyproject.toml", "setup.py"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, directory / name)
        else:
            shutil.copy2(source, directory / name)
    return directory


def survivors_of(
    name: str, sample: int | None, cpu_seconds: float, workers: list[Path]
) -> list[str]:
    """Run the tests of a file on its mutants; returns the survivors, a line for each."""
    source = (REPOSITORY / "spinup_tf2" / name).read_text()
    every = list(mutants(source))
    chosen = every
    if sample is not None and sample < len(every):
        chosen = sorted(random.Random(0).sample(every, sample))
    free, survivors, _errors = [*workers], [], 0

    def test(mutant):
        line, function, text, changed = mutant
        directory = free.pop()
        path = directory / "spinup_tf2" / name
        path.write_text(changed)
        survives = passes(directory, FILES[name], cpu_seconds)
        path.write_text(source)
        free.append(directory)
        verdict = "SURVIVED" if survives else "killed  "
        print(f"{verdict} {name}:{line} {function}: {text}", flush=True)
        return survives

    with ThreadPoolExecutor(len(workers)) as pool:
        alive = list(pool.map(test, chosen))
    survivors = [
        f"{name}:{line} {function}: {text}"
        for (line, function, text, _), survives in zip(chosen, alive, strict=True)
        if survives
    ]
    print(f"{name}: {len(chosen) - len(survivors)} of {len(chosen)} killed ({len(every)} in all)")
    return survivors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=[*FILES], help="below spinup_tf2/")
    parser.add_argument("--sample", type=int, help="how many mutants of each file; default all")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants at the same time")
    parser.add_argument("--cpu_seconds", type=float, default=300, help="the longest for a mutant")
    args = parser.parse_args()
    unknown = {*args.files} - {*FILES}
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(FILES)}")
    sys.dont_write_bytecode = True  # of a mutant, it could be taken for that of the next
    os.environ.update(
        TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="1", KERAS_BACKEND="tensorflow"
    )
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3")
    import gymnasium  # noqa: F401
    import keras  # noqa: F401
    import scipy.stats  # noqa: F401
    import tensorflow_probability  # noqa: F401

    with tempfile.TemporaryDirectory() as temporary:
        workers = [copied(Path(temporary) / str(i)) for i in range(args.jobs)]
        survivors = []
        for name in args.files:
            if not passes(workers[0], FILES[name], args.cpu_seconds):
                print((workers[0] / "output.txt").read_text())
                sys.exit(f"The tests of {name} fail without any change; see above.")
            survivors += survivors_of(name, args.sample, args.cpu_seconds, workers)
    print(f"\n{len(survivors)} survivors:", *survivors, sep="\n")


if __name__ == "__main__":
    main()
