"""Figures of the learning benchmark."""

from pathlib import Path

import numpy as np
import pandas as pd
from learning_data import CELL, Protocol, file_of, finished, protocols, published, read
from learning_statistics import SMOOTHED, cells, pooled

POINTS = 250  # of a curve: more cannot be told apart
_FONT_SCALE = 1.35  # figures of several panels are shown smaller than they are


def figure(protocol: Protocol, data: pd.DataFrame, path: Path) -> None:
    """A panel for each environment, with a line for each algorithm; or, if variants are compared,
    for each environment and algorithm, with a line for each variant. Sources are markers.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from spinup_tf2.results import figures

    contents = _panels(protocol, data)
    figures.set_theme(_FONT_SCALE if len(contents) > 1 else 1.1)
    variants = protocol.variants and figures.colors_for(protocol.variant_names)
    colors = variants or _colors_of_algorithms()
    markers = dict(zip(protocol.published, "os^D", strict=False))
    fig = plt.figure(layout="constrained")
    handles, shown = {}, set()
    for axis, (title, lines) in zip(
        figures.panels(fig, len(contents)), contents.items(), strict=True
    ):
        axis.set_title(title)
        for name, key in lines.items():
            if not _draw_curve(axis, protocol, data, key, colors[name]):
                continue
            text = name if protocol.variants else name.upper()
            handles[text] = Line2D([], [], color=colors[name])
            color = "0.3" if protocol.variants else colors[name]
            for number, (source, marker) in enumerate(markers.items()):
                shift = 0.012 * protocol.steps * (number - (len(markers) - 1) / 2)
                if _draw_published(axis, protocol, source, key, color, marker, shift):
                    shown.add(source)
        figures.dress(axis, "TotalEnvInteracts", "Performance")
    for source in (source for source in markers if source in shown):
        handles[source] = Line2D([], [], color="0.3", marker=markers[source], ls="", mfc="w")
    figures.legend_above(fig, handles)
    figures.save_figure(fig, path)
    plt.close(fig)


def overview(names: tuple[str, ...], path: Path) -> None:
    """What the table of the same name says: a panel for each environment, and the differences.

    Nothing is drawn as long as there are no results.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from spinup_tf2.results import figures

    figures.set_theme(_FONT_SCALE)
    found = [each for each in map(protocols().get, names) if file_of(each).exists()]
    if not found:
        return
    tables = [(each, cells(each, read(each)).query(f"steps == {each.steps}")) for each in found]
    algorithms = [name for each, _ in tables for name in each.algorithms]
    sources = tables[0][0].published
    colors = figures.colors_for(["ours", *sources])
    styles = {
        source: dict(fmt=marker, ms=6, mfc="w", capsize=3, lw=1.2, color=colors[source])
        for source, marker in zip(sources, "os", strict=False)
    }
    environments = tables[0][0].environments
    fig = plt.figure(layout="constrained")
    *panels, last = figures.panels(fig, len(environments) + 1)
    for axis, environment in zip(panels, environments, strict=True):
        axis.set(title=environment, ylabel="Average return")
        for protocol, table in tables:
            for row in table[table["environment"] == environment].to_dict("records"):
                x = algorithms.index(row["algorithm"])
                axis.plot([x] * row["seeds"], row["runs"], "_", ms=9, color=colors["ours"])
                axis.plot(x, row["mean"], "D", ms=6, color=colors["ours"])
                for shift, source in zip((-0.25, 0.25), sources, strict=False):
                    cell = published(source, row["algorithm"], environment).get(protocol.steps)
                    if cell:
                        axis.errorbar(x + shift, *cell, **styles[source])
    last.set(title="All environments", ylabel="Pooled difference")
    last.axhline(0, color="0.4", lw=1)
    for row in (row for each in tables for row in pooled(*each).to_dict("records")):
        x = algorithms.index(row["algorithm"]) + (-0.15, 0.15)[sources.index(row["source"])]
        half = row["high"] - row["difference"]
        last.errorbar(x, row["difference"], half, **styles[row["source"]])
    for axis in (*panels, last):
        axis.set_xticks(range(len(algorithms)), [name.upper() for name in algorithms])
        axis.tick_params(axis="x", labelsize="small")
        axis.grid(visible=False, axis="x")
    ours = Line2D([], [], marker="D", ls="", color=colors["ours"])
    seed = Line2D([], [], marker="_", ms=9, ls="", color=colors["ours"])
    theirs = {
        source: Line2D([], [], marker=style["fmt"], ls="", mfc="w", color=style["color"])
        for source, style in styles.items()
    }
    figures.legend_above(fig, {"ours, mean": ours, "ours, each seed": seed, **theirs})
    figures.save_figure(fig, path)
    plt.close(fig)


def _colors_of_algorithms():
    """Those of all protocols, so that each has its color in all figures."""
    import seaborn as sns

    names = dict.fromkeys(name for each in protocols().values() for name in each.algorithms)
    palette = sns.color_palette()  # without pink and yellow, which are hard to see on white
    others = ["0.2", palette[9], "0.45", palette[5]]
    return dict(zip(names, [*palette[:5], *others], strict=True))


def _panels(protocol, data):
    """{title: {name of a line: (algorithm, environment, variant)}} of what there is."""
    contents = {}
    for environment in protocol.environments:
        for algorithm in protocol.algorithms:
            for variant in protocol.variant_names:
                key = (algorithm, environment, variant)
                if (data[CELL] == [*key]).all(axis=1).any():
                    title = environment
                    if protocol.variants:
                        title += f", {algorithm.upper()}"
                    contents.setdefault(title, {})[variant or algorithm] = key
    return contents


def _draw_curve(axis, protocol, data, key, color):
    """The mean of the finished runs and their range, or of those that there are; False if none.

    Only where all of them have come: the mean would jump at the end of one.
    """
    from spinup_tf2.results.statistics import align

    runs = data[(data[CELL] == [*key]).all(axis=1)].dropna()
    runs = runs[runs["interactions"] <= protocol.steps]
    steps_per_epoch = protocol.arguments["steps_per_epoch"]
    window = max(1, min(SMOOTHED, protocol.steps // steps_per_epoch // 20))
    done = runs["seed"].isin(seed for *which, seed in finished(protocol) if which == [*key])
    curves = []
    for _, run in runs[done if done.any() else slice(None)].groupby("seed"):
        x, y = run["interactions"].to_numpy(), run["return"].to_numpy()
        curves.append((x, _smooth(x, y, steps_per_epoch, window)))
    if not curves:
        return False
    x, values = align(curves)
    everywhere = np.isfinite(values).all(axis=0)
    x, values = x[everywhere], values[:, everywhere]
    shown = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
    x, values = x[shown], values[:, shown]
    axis.plot(x, values.mean(axis=0), color=color)
    if len(values) > 1:
        axis.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.15, lw=0)
    return True


def _draw_published(axis, protocol, source, key, color, marker, shift):
    """The means and deviations of a source, moved sideways; whether it has any."""
    points = published(source, *key[:2])
    points = {n + shift: cell for n, cell in points.items() if n <= 1.01 * protocol.steps}
    if points:
        means, sds = zip(*points.values(), strict=True)
        axis.errorbar(
            [*points], means, sds, color=color, fmt=marker, ms=5, capsize=3, mfc="white", lw=1
        )
    return bool(points)


def _smooth(x, y, steps_per_epoch, epochs):
    """The mean of each row and its neighbours, as Spinning Up's figures show it."""
    if len(y) < epochs:
        return y
    near = np.abs(x[:, None] - x) < epochs / 2 * steps_per_epoch
    return near @ y / near.sum(axis=1)
