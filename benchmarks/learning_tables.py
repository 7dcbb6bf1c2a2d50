"""Tables in Markdown of the learning benchmark, and the sentences that go with them."""

import math

import pandas as pd
from learning_data import CELL, Protocol, about, file_of, nameof, protocols, published, read
from learning_statistics import (
    anchor,
    cells,
    common_environments,
    interval,
    outliers,
    performance,
    pooled,
    scores,
    verdict,
)
from throughput import markdown_table

UNFOLDED = 8  # rows of a table that is not folded up
OVERVIEW = ("on-policy", "off-policy")  # the protocols of the first table of the page
OTHERS = ["SLM-Lab", "RL Baselines3 Zoo", "CleanRL", "Tianshou"]


def markdown(protocol: Protocol, table: pd.DataFrame, data: pd.DataFrame) -> str:
    """The pooled differences, the scores, the cells, and what is to be said of them."""
    if table.empty:
        return f"No run of {protocol.name} is finished.\n"
    parts = [_pooled_table(protocol, table), _score_table(protocol, data)]
    parts += [_cell_table(protocol, table, data), _outlier_lines(protocol, table)]
    return "\n".join(part for part in parts if part)


def _pooled_table(protocol, table):
    rows = pooled(protocol, table)
    if rows.empty or (rows["cells"] < 2).all():
        return ""
    head = ["algorithm", *protocol.variants, "beside", "environments", "pooled difference"]
    lines = []
    for row in rows.to_dict("records"):
        line = [row["algorithm"], *[row["variant"]] * len(protocol.variants), row["source"]]
        lines.append([*line, row["cells"], _difference(row)])
    return folded(markdown_table(head, lines), "Pooled differences")


def _difference(row):
    """A pooled difference and its interval."""
    return "{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**row)


def _score_table(protocol, data):
    rows = scores(protocol, data)
    if rows.empty:
        return ""
    head = ["algorithm", *protocol.variants, "IQM of scores", "95 % CI", "runs"]
    lines = []
    for row in rows.to_dict("records"):
        line = [row["algorithm"], *[row["variant"]] * len(protocol.variants)]
        span = _between(row["low"], row["high"], "{:.2f}".format)
        lines.append([*line, f"{row['score']:.2f}", span, row["runs"]])
    runs = performance(data, protocol.steps)
    anchors = [
        f"{rounded(anchor(protocol, environment))} in {environment}"
        for environment in common_environments(protocol, runs)
    ]
    text = f"Returns with a score of 1: {', '.join(anchors)}."
    return f"{folded(markdown_table(head, lines), 'Scores')}\n{text}\n"


def _cell_table(protocol, table, data):
    sources = [source for source in protocol.published if source in table]
    goals = {env: about("Solved").get(nameof(env)) for env in protocol.environments}
    head = ["environment", "algorithm", *protocol.variants, "steps", "return", "95 % CI"]
    head += ["seeds", "", *["solved"] * any(map(bool, goals.values()))]
    for source in sources:
        head += [source, ""]
    lines = []
    for row in table.to_dict("records"):
        line = [row["environment"], row["algorithm"], *[row["variant"]] * len(protocol.variants)]
        line += [f"{row['steps']:,}", rounded(row["mean"]), _between(row["low"], row["high"])]
        line += [row["seeds"], ", ".join(map(rounded, row["runs"])) if row["seeds"] > 1 else ""]
        if "solved" in head:
            line.append(_solved(data, row, goals[row["environment"]]))
        for source in sources:
            line += [_theirs(row, source), _words(protocol, row, source)]
        lines.append(line)
    return folded(markdown_table(head, lines), "Returns")


def folded(table: str, title: str) -> str:
    """A table, folded up until the reader asks for it if it is long."""
    rows = table.count("\n") - 1  # without the head and the rule
    if rows <= UNFOLDED:
        return f"{table}\n"
    return f"<details><summary>{title}: {rows} rows</summary>\n\n{table}\n\n</details>\n"


def _solved(data, row, goal):
    """How many finished runs have reached the goal within these steps, and after how many."""
    if goal is None:
        return ""
    runs = data[(data[CELL] == [row[name] for name in CELL]).all(axis=1)]
    end = runs.groupby("seed")["interactions"].transform("max")
    runs = runs[(end >= 0.99 * row["steps"]) & (runs["interactions"] <= row["steps"])]
    first = runs[runs["return"] >= goal].groupby("seed")["interactions"].min()
    text = f"{len(first)} of {runs['seed'].nunique()}"
    if first.empty:
        return text
    when = dict.fromkeys(f"{steps:,}" for steps in (first.min(), first.max()))
    return f"{text}, after {' to '.join(when)}"


def _theirs(row, source):
    """The mean of a source and its standard deviation."""
    if math.isnan(row[source]):
        return "-"
    return f"{rounded(row[source])} ± {rounded(row[f'{source} sd'])}"


def _words(protocol, row, source):
    """The verdict, and our mean as this source measures it if that is another number."""
    words = [verdict(row, source)]
    if about(source)["measure"] != protocol.measure and not math.isnan(row[source]):
        words.insert(0, f"ours: {rounded(row[f'{source} ours'])}")
    return ", ".join(word for word in words if word)


def _outlier_lines(protocol, table):
    lines = []
    for row in outliers(protocol, table):
        way = " ".join(word for word in (row["algorithm"].upper(), row["variant"]) if word)
        runs = "run is" if row["seeds"] == 1 else "runs is" if row["count"] == 1 else "runs are"
        lines.append(
            f"{way} in {row['environment']}: {row['count']} of {row['seeds']} {runs} below "
            f"{row['bound']:,.0f}, as none of the {row['theirs']} published runs can have been "
            f"(p = {row['chance']:.2g}).\n"
        )
    return "\n".join(lines)


def rounded(x: float) -> str:
    """A return in a table: three digits, and all of those before the point."""
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def _between(low, high, write=rounded):
    """An interval in a table; nothing if there is none."""
    return "" if math.isnan(low) else f"{write(low)} to {write(high)}"


def evaluated(protocol: Protocol, table: pd.DataFrame) -> str:
    """A table in Markdown of what the final agents reach, a column for each of `evaluations`."""
    head = ["environment", "algorithm", *protocol.variants, "agents"]
    for name in protocol.evaluations:
        head += [name, "95 % CI"]
    lines = []
    for key, group in table.groupby(CELL, sort=False):
        algorithm, environment, variant = key
        line = [environment, algorithm, *([variant] * len(protocol.variants))]
        of_each = [
            group.loc[group["evaluation"] == name, "return"] for name in protocol.evaluations
        ]
        # Several numbers, in the order of the columns, if the evaluation was stopped in between.
        line.append(", ".join(map(str, dict.fromkeys(map(len, of_each)))))
        for returns in of_each:
            span = _between(*interval(returns.to_numpy()), "{:.2f}".format)
            line += [f"{returns.mean():.2f}" if len(returns) else "-", span]
        lines.append(line)
    return f"{markdown_table(head, lines)}\n"


# -------------------------------------------------------------------------- of all protocols


def overview(names: tuple[str, ...] = OVERVIEW) -> str:
    """Algorithms by environments: our returns at the end, and the published ones below them."""
    lines, differences = [], []
    for protocol in (protocols()[name] for name in names):
        table = cells(protocol, read(protocol)) if file_of(protocol).exists() else pd.DataFrame()
        if table.empty:
            continue
        ends = table[table["steps"] == protocol.steps]
        of_all = {(row["algorithm"], row["environment"]): row for row in ends.to_dict("records")}
        beside = pooled(protocol, ends).to_dict("records")
        names = map(nameof, protocol.environments)
        head = ["algorithm", "returns of", *names, "pooled difference"]
        for algorithm in ends["algorithm"].unique():
            row = [_ours(of_all.get((algorithm, env))) for env in protocol.environments]
            lines.append(
                [f"{algorithm.upper()}, {_short(protocol.steps)} steps", "ours (seeds)", *row, ""]
            )
            for each in (each for each in beside if each["algorithm"] == algorithm):
                keys = [(algorithm, env) for env in protocol.environments]
                row = [_beside(each["source"], *key, protocol.steps, of_all) for key in keys]
                source = each["source"].removeprefix("Spinning Up, ")
                lines.append(["", source, *row, _difference(each)])
        differences += beside
    if not lines:
        return "No run is finished.\n"
    return f"{markdown_table(head, lines)}\n\n{_sides(differences)}\n"


def _sides(differences):
    """Which pooled differences are above 0 with their whole interval, and which below, in words."""
    sides = {"above": {}, "around": {}, "below": {}}
    for row in differences:
        side = "above" if row["low"] > 0 else "below" if row["high"] < 0 else "around"
        source = row["source"].removeprefix("Spinning Up, ")
        sides[side].setdefault(row["algorithm"].upper(), []).append(source)
    above, around, below = (
        "; ".join(f"{name} ({', '.join(sources)})" for name, sources in side.items()) or "none"
        for side in sides.values()
    )
    return (
        f"Better, with an interval above 0: {above}. No difference shown, with an interval around "
        f"0: {around}. Worse, with an interval below 0: {below}."
    )


def _ours(row):
    if row is None:
        return "-"
    return f"{rounded(row['mean'])} ({row['seeds']})"


def _beside(source, algorithm, environment, steps, of_all):
    """A published cell of the overview, and the verdict."""
    cell = published(source, algorithm, environment).get(steps)
    if cell is None:
        return "-"
    text = " ± ".join(map(rounded, cell))
    ours = of_all.get((algorithm, environment))
    word = verdict(ours, source) if ours else ""
    return f"{text}, {word}" if word else text


def references(names: tuple[str, ...]) -> str:
    """Our returns at the end beside those of other libraries, after how many steps ever."""
    ours = {}
    for protocol in (protocols()[name] for name in names):
        table = cells(protocol, read(protocol)) if file_of(protocol).exists() else pd.DataFrame()
        for row in table.to_dict("records"):
            if row["steps"] == protocol.steps:
                preset = f", preset {protocol.preset}" if protocol.preset else ""
                text = f"{rounded(row['mean'])} ({_short(row['steps'])}{preset})"
                ours.setdefault((row["environment"], row["algorithm"]), []).append(text)
    lines = []
    environments = [*dict.fromkeys(environment for environment, _ in ours)]
    for environment, algorithm in sorted(ours, key=lambda key: environments.index(key[0])):
        theirs = []
        for source in OTHERS:
            at = published(source, algorithm, environment).items()
            theirs.append("; ".join(f"{rounded(cell[0])} ({_short(n)})" for n, cell in at) or "-")
        if {*theirs} != {"-"}:
            lines.append([environment, algorithm, "; ".join(ours[environment, algorithm]), *theirs])
    return folded(markdown_table(["environment", "algorithm", "ours", *OTHERS], lines), "Returns")


def _short(steps):
    """500,000 as 500k, and 3,000,000 as 3M."""
    return f"{steps / 1e6:g}M" if steps >= 1e6 else f"{steps / 1e3:g}k"
