"""What the learning benchmark trains, what others have published, and the files of its results."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "learning"
PAGE = HERE.parent / "docs" / "results.md"  # which shows the overview
CELL = ["algorithm", "environment", "variant"]
KEYS = [*CELL, "seed"]
COLUMNS = [*KEYS, "interactions", "return"]
EVALUATED = [*KEYS, "evaluation", "episodes", "return"]
RANDOM = "Random actions"


@dataclass(frozen=True)
class Protocol:
    """What is trained, and beside what it is shown; see learning.toml."""

    name: str
    algorithms: list[str]
    environments: list[str]
    seeds: list[int]
    steps: int
    arguments: dict[str, Any]
    only: dict[str, dict[str, Any]] = field(default_factory=dict)
    variants: dict[str, list] = field(default_factory=dict)
    evaluations: dict[str, dict[str, Any]] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    preset: str | None = None
    continues: str | None = None
    more_seeds: dict[str, list[int]] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        """The name of the directory of its runs, and of the file of their results."""
        return self.continues or self.name

    @property
    def variant_names(self) -> list[str]:
        """The values that are compared; an empty one if none are."""
        [values] = self.variants.values() or [[""]]
        return [*map(str, values)]

    @property
    def measure(self) -> str:
        """How its returns are measured: as the first source does that they stand beside."""
        return about(self.published[0])["measure"] if self.published else "last tenth"

    @property
    def all_seeds(self) -> list[int]:
        """Those that an environment has at all."""
        return sorted({*self.seeds}.union(*self.more_seeds.values()))

    def run_directory(self, algorithm: str, environment: str, variant: str, seed: int) -> str:
        """Where one of its runs is, as ExperimentGrid names it."""
        from spinup_tf2.utils.run_utils import valid_str

        parts = [self.directory, algorithm, valid_str(environment), variant]
        name = "_".join(part for part in parts if part)
        return f"{name}/{name}_s{seed}"

    def runs(self) -> Iterator[tuple[str, str, str, int]]:
        """(algorithm, environment, variant, seed) of each of its runs, first seeds first."""
        for seed in self.all_seeds:
            for algorithm in self.algorithms:
                for environment in self.environments:
                    if seed not in [*self.seeds, *self.more_seeds.get(environment, [])]:
                        continue
                    for variant in self.variant_names:
                        yield algorithm, environment, variant, seed


def protocols() -> dict[str, Protocol]:
    """All of learning.toml."""
    tables = tomllib.loads((HERE / "learning.toml").read_text(encoding="utf-8"))
    return {name: Protocol(name, **table) for name, table in tables.items()}


def published(source: str, algorithm: str, environment: str) -> dict[int, tuple[float, ...]]:
    """{steps: (mean, standard deviation)} of a source, or {steps: (mean,)}; {} if it has none."""
    rows = about(source).get(nameof(environment), {}).get(algorithm, {})
    return {int(steps): tuple(cell) for steps, cell in rows.items()}


def about(source: str) -> dict[str, Any]:
    """The table of a source in published.toml: `measure`, `seeds`, and its environments."""
    return _published_tables()[source]


def nameof(environment: str) -> str:
    """The name of an environment without its version."""
    return environment.partition("-")[0]


@cache
def _published_tables():
    return tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))


def file_of(protocol: Protocol) -> Path:
    """The CSV file of the results of a protocol, and of those that continue it."""
    return RESULTS / f"{protocol.directory}.csv"


def evaluations_of(protocol: Protocol) -> Path:
    """The CSV file of what the final agents of a protocol reach."""
    return RESULTS / f"{protocol.name}-evaluated.csv"


def read(protocol: Protocol) -> pd.DataFrame:
    """What `collect` has written."""
    path = file_of(protocol)
    if not path.exists():
        sys.exit(f"There is no {path}; collect the results of {protocol.name} first.")
    return read_table(path)


def read_table(path: Path) -> pd.DataFrame:
    """A CSV file, in which an empty variant is a text and an empty return is missing."""
    missing = {"return": ""}
    return pd.read_csv(path, keep_default_na=False, na_values=missing, dtype={"variant": str})


def finished(protocol: Protocol) -> set[tuple]:
    """The runs of a protocol that its CSV file holds to their end."""
    if not file_of(protocol).exists():
        return set()
    last = read(protocol).groupby(KEYS)["interactions"].max()
    return {*last[last >= 0.99 * protocol.steps].index}
