"""How the speed of PPO grows with MPI processes: measured, and predicted for more of them.

    python benchmarks/scaling.py measure --output scaling.json
    python benchmarks/scaling.py report scaling.json --chart scaling.svg
    python benchmarks/scaling.py measure --output cluster.json --launcher "srun --mpi=pmi2"

What one process needs for its share of an epoch, and how long a message takes between two, are
measured, and how long they wait for each other. From these follows what any number of processes
needs; `Model` has the equations.
Every process has one core and one thread. Each epoch has 80 steps on the policy and 80 on the
values, without early stopping, so that all runs do the same work.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from statistics import NormalDist, median

from contestants import bind_to_cores, rank
from measure import STEPS_PER_EPOCH
from throughput import machine, markdown_table

HERE = Path(__file__).resolve()
LOCAL_STEPS = [4, 16, 64, 250, 1000, 4000]  # of one process in an epoch
FLOATS = [4, 64, 1024, 5_000, 32_768, 262_144, 1_048_576]  # of a message
PREDICTED = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
DRAWN = 16  # processes at most in the figure: further away a prediction is a guess
WARM_UP = 2  # epochs


# --------------------------------------------------------------------------------- measuring


def parse_arguments(argv=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    add = verbs.add_parser("measure", help="run everything and write a JSON file").add_argument
    envs = ["CartPole-v1", "HalfCheetah-v5"]
    add("--envs", nargs="+", default=envs, help="default: %(default)s")
    numbers = "numbers of processes that are measured, beside one (default: 2)"
    add("--ranks", nargs="+", type=int, default=[2], help=numbers)
    add("--epochs", type=int, default=20, help="of each run (default: 20)")
    add("--repeats", type=int, default=3, help="default: %(default)s")
    add("--launcher", help="what starts the processes instead of mpirun, with its arguments")
    add("--output", type=Path, required=True, help="the JSON file")
    reporting = verbs.add_parser("report", help="print tables, and draw a chart")
    reporting.add_argument("measured", type=Path, help="what measure has written")
    reporting.add_argument("--chart", type=Path, help="draw speeds in this file (.png, .svg)")
    working = verbs.add_parser("work", help="what measure starts")
    working.add_argument("job", type=json.loads)
    args = parser.parse_args(argv)
    if args.verb == "measure":
        if min(args.epochs - WARM_UP, args.repeats) < 1 or min(args.ranks) < 2:
            parser.error(
                f"--epochs must be at least {WARM_UP + 1}, --repeats at least 1 and --ranks at "
                "least 2"
            )
        uneven = [n for n in args.ranks if STEPS_PER_EPOCH % n]
        if uneven:
            parser.error(f"{STEPS_PER_EPOCH} steps cannot be shared by {uneven[0]} processes")
    return args


def measure(args):
    """Run everything; the runs of a repeat take turns, so that all meet the same machine."""
    runs, messages = [], []
    for _ in range(args.repeats):
        messages.append(start(2, {"job": "messages"}, args))
        for env in args.envs:
            shares = [(1, steps) for steps in LOCAL_STEPS]
            shares += [(n, steps) for n in args.ranks for steps in shares_of(n)]
            for ranks, local_steps in shares:
                job = {"env": env, "steps_per_epoch": ranks * local_steps, "epochs": args.epochs}
                result = start(ranks, {"job": "train", **job}, args)
                runs.append({"env": env, "ranks": ranks, "local_steps": local_steps, **result})
                took = f"{env}, {ranks} x {local_steps} steps: {result['epoch'] * 1e3:.1f} ms"
                print(took, file=sys.stderr, flush=True)
    return {"machine": machine(1, runs), "runs": runs, "messages": messages}


def shares_of(ranks):
    """The steps of each process that are measured: of all together, and of each, 4,000."""
    return [STEPS_PER_EPOCH // ranks, STEPS_PER_EPOCH]


def start(ranks, job, args):
    """Run `work` on that many processes; returns what the first of them has measured."""
    from spinup_tf2.parallel.launch import mpirun_command, mpirun_environment

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "result.json"
        work = [str(HERE), "work", json.dumps(job | {"result": str(path)})]
        command, environment = [sys.executable, *work], dict(os.environ)
        if ranks > 1:
            command = mpirun_command(ranks, work, launcher=args.launcher)
            environment = mpirun_environment(ranks)
        process = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise SystemExit(f"{process.stderr}\nThis job failed on {ranks} processes: {job}")
        return json.loads(path.read_text(encoding="utf-8"))


def work(job):
    """What each process does; the first writes the result."""
    bind_to_cores(1)
    result_path = Path(job.pop("result"))
    result = {"train": train, "messages": messages}[job.pop("job")](**job)
    if rank() == 0:
        result_path.write_text(json.dumps(result), encoding="utf-8")


def train(env, steps_per_epoch, epochs):
    """Seconds of the median epoch, and how many messages of each size an epoch has."""
    from measure import versions

    import spinup_tf2
    from spinup_tf2.parallel import mpi

    sizes, ends = Counter(), []
    allreduce = mpi.allreduce
    dump_tabular = spinup_tf2.EpochLogger.dump_tabular

    def counted(x, buff, op="SUM"):
        if len(ends) >= WARM_UP:
            sizes[x.size] += 1
        allreduce(x, buff, op)

    def timed(logger):
        dump_tabular(logger)
        ends.append(time.perf_counter())

    mpi.allreduce, spinup_tf2.EpochLogger.dump_tabular = counted, timed
    settings = dict(steps_per_epoch=steps_per_epoch, epochs=epochs, target_kl=None)
    spinup_tf2.ppo(env, **settings, logger_kwargs={"output_dir": "run"})
    seconds = [after - before for before, after in pairwise(ends[1:])]
    per_epoch = {size: count / (epochs - WARM_UP) for size, count in sizes.items()}
    return {"epoch": median(seconds), "messages": per_epoch, "versions": versions()}


def messages(repeats=300):
    """Seconds of an Allreduce of each size, and what one costs more in a compiled function."""
    import numpy as np
    import tensorflow as tf

    from spinup_tf2.parallel.mpi import comm
    from spinup_tf2.utils.mpi_tf import mpi_avg_grads

    def of_each(count, function):
        times = []
        for _ in range(count):
            world.Barrier()
            begin = time.perf_counter()
            function()
            times.append(time.perf_counter() - begin)
        return median(times)

    world = comm()
    seconds = {}
    for floats in FLOATS:
        x, buff = np.ones(floats, np.float32), np.empty(floats, np.float32)
        seconds[floats] = of_each(repeats, lambda x=x, buff=buff: world.Allreduce(x, buff))

    @tf.function(autograph=False)
    def several(x):
        return tf.while_loop(lambda i, _: i < 100, lambda i, x: (i + 1, mpi_avg_grads([x])[0]), x)

    first = (tf.constant(0), tf.ones(5_000))
    several(first)
    compiled = of_each(10, lambda: several(first)) / 100
    return {"seconds": seconds, "call": compiled - seconds[5_000]}


# ------------------------------------------------------------------------------- predicting


@dataclass(frozen=True)
class Model:
    """What an epoch takes, from what one process and one message take.

    With P processes, of which each takes n steps,

        T(P, n) = T(1, n) + sum over messages of (c + s z(P) + ceil(log2 P) (a + b m))

    where T(1, n) is what one process needs for an epoch of n steps (between measured n, on a line
    through them), c what the call of a message costs, a its latency, b the time of each of its m
    numbers. Averages are computed in ceil(log2 P) rounds, in each of which a process exchanges its
    vector with another ("recursive doubling": Thakur, Rabenseifner and Gropp 2005, section 4).

    All wait for the last one. Processes are ready for a message at times that scatter by s; z(P)
    is how far the last of P is behind their mean, if the times are normal (Blom 1958).

    Attributes:
        alone: {n: T(1, n)}, in seconds.
        messages: {m: how many there are in an epoch}.
        call: c, in seconds.
        latency: a, in seconds.
        per_number: b, in seconds.
        scatter: s, in seconds.
    """

    alone: dict[int, float]
    messages: dict[int, float]
    call: float
    latency: float
    per_number: float
    scatter: float = 0.0

    def epoch(self, ranks, local_steps):
        """Seconds."""
        return self.computing(local_steps) + self.communicating(ranks)

    def computing(self, local_steps):
        """Seconds of one process for its own steps."""
        from scipy.interpolate import make_interp_spline

        steps, seconds = zip(*sorted(self.alone.items()), strict=True)
        return float(make_interp_spline(steps, seconds, k=1)(local_steps))

    def communicating(self, ranks):
        """Seconds of all messages of an epoch."""
        if ranks == 1:
            return 0.0
        rounds = math.ceil(math.log2(ranks))
        waiting = self.call + self.scatter * last_of(ranks)
        return sum(
            count * (waiting + rounds * (self.latency + self.per_number * numbers))
            for numbers, count in self.messages.items()
        )


def last_of(ranks):
    """The expected largest of that many standard normal numbers, by Blom's approximation."""
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def line_through(seconds):
    """(a, b) of the line a + b m that is nearest to {m: seconds}, by relative distances."""
    import numpy as np

    m, t = np.array([*seconds]), np.array([*seconds.values()])
    line = np.linalg.lstsq(np.stack([1 / t, m / t], 1), np.ones(len(t)), rcond=None)[0]
    return tuple(map(float, line))


def model_of(measured, env):
    """The model of an environment, from medians over the repeats.

    The scatter is fitted: by it the first environment, on the fewest processes, takes as long as it
    did. All that is said of other environments and numbers is a prediction.
    """
    first = measured["runs"][0]["env"]
    model = _without_waiting(measured, first)
    ranks = min(run["ranks"] for run in measured["runs"] if run["ranks"] > 1)
    share = STEPS_PER_EPOCH // ranks
    own = [run for run in measured["runs"] if run["env"] == first]
    waited = median_epoch(own, ranks, share) - model.epoch(ranks, share)
    scatter = max(0.0, waited / sum(model.messages.values()) / last_of(ranks))
    return replace(_without_waiting(measured, env), scatter=scatter)


def _without_waiting(measured, env):
    runs = [run for run in measured["runs"] if run["env"] == env]
    alone = {n: median_epoch(runs, 1, n) for n in LOCAL_STEPS}
    together = next(run for run in runs if run["ranks"] > 1)
    seconds = {m: median(each["seconds"][str(m)] for each in measured["messages"]) for m in FLOATS}
    return Model(
        alone,
        {int(m): count for m, count in together["messages"].items()},
        median(each["call"] for each in measured["messages"]),
        *line_through(seconds),
    )


def median_epoch(runs, ranks, local_steps):
    """Seconds, over the repeats; None if it was not measured."""
    own = [
        run["epoch"] for run in runs if (run["ranks"], run["local_steps"]) == (ranks, local_steps)
    ]
    return median(own) if own else None


# -------------------------------------------------------------------------------- reporting


def rows_of(measured):
    """What is known of each environment, each way to share the steps and each number of ranks."""
    for env in dict.fromkeys(run["env"] for run in measured["runs"]):
        runs = [run for run in measured["runs"] if run["env"] == env]
        model = model_of(measured, env)
        one = STEPS_PER_EPOCH / median_epoch(runs, 1, STEPS_PER_EPOCH)
        for shared, ranks in product((True, False), PREDICTED):
            local_steps = max(1, round(STEPS_PER_EPOCH / ranks)) if shared else STEPS_PER_EPOCH
            seconds = model.epoch(ranks, local_steps)
            seen = median_epoch(runs, ranks, local_steps)
            yield {
                "env": env,
                "shared": shared,
                "ranks": ranks,
                "local_steps": local_steps,
                "epoch": seconds,
                "communicating": model.communicating(ranks) / seconds,
                "speed": ranks * local_steps / seconds,
                "gain": ranks * local_steps / seconds / one,
                "measured": ranks * local_steps / seen if seen else None,
                "measured_gain": ranks * local_steps / seen / one if seen else None,
            }


def report(measured):
    """Everything, as Markdown."""
    model = model_of(measured, measured["runs"][0]["env"])
    gradient_steps = sum(count for numbers, count in model.messages.items() if numbers > 1000)
    parts = [
        measured["machine"],
        f"A message has a latency of {model.latency * 1e6:.1f} us and takes "
        f"{model.per_number * 1e9:.2f} ns a number; its call takes {model.call * 1e6:.0f} us. "
        f"Processes are ready for it at times that scatter by {model.scatter * 1e6:.0f} us. "
        f"{sum(model.messages.values()):.0f} messages an epoch, {gradient_steps:.0f} of them "
        "gradients.",
    ]
    rows = [*rows_of(measured)]
    for env, shared in dict.fromkeys((row["env"], row["shared"]) for row in rows):
        share = f"{STEPS_PER_EPOCH:,} steps " + ("of all together" if shared else "of each")
        parts += [
            f"{env}, epochs of {share}:",
            table([row for row in rows if (row["env"], row["shared"]) == (env, shared)]),
        ]
    return "\n\n".join(parts)


def table(rows):
    """Predicted beside measured."""
    header = ["processes", "steps of each", "epoch", "messages' share", "steps/s, predicted"]
    header += ["measured", "faster than one, predicted", "measured"]
    cells = [
        [
            f"{row['ranks']:,}",
            f"{row['local_steps']:,}",
            f"{row['epoch'] * 1e3:.0f} ms",
            f"{row['communicating']:.0%}",
            f"{row['speed']:,.0f}",
            f"{row['measured']:,.0f}" if row["measured"] else "",
            f"{row['gain']:.2f}",
            f"{row['measured_gain']:.2f}" if row["measured_gain"] else "",
        ]
        for row in rows
    ]
    return markdown_table(header, cells)


def chart(measured, path):
    """Draw how much faster than one process several are: predicted (dashed) and measured (dots)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from spinup_tf2.results import figures

    figures.set_theme()
    rows = [row for row in rows_of(measured) if row["ranks"] <= DRAWN]
    environments = dict.fromkeys(row["env"] for row in rows)
    colors = figures.colors_for([*environments])
    fig = plt.figure(layout="constrained")
    for axis, shared in zip(figures.panels(fig, 2), (True, False), strict=True):
        for env in environments:
            own = [row for row in rows if (row["env"], row["shared"]) == (env, shared)]
            ranks, gains = zip(*((row["ranks"], row["gain"]) for row in own), strict=True)
            axis.plot(ranks, gains, "--", color=colors[env])
            seen = [row for row in own if row["measured_gain"]]
            points = [row["ranks"] for row in seen], [row["measured_gain"] for row in seen]
            axis.plot(*points, "o", color=colors[env])
        axis.plot(ranks, ranks, ":", color="gray")
        axis.set_title(f"{STEPS_PER_EPOCH:,} steps {'in all' if shared else 'for each process'}")
        axis.set(xlabel="Processes", ylabel="Speed-up")
        for scale, ticks in (axis.set_xscale, axis.set_xticks), (axis.set_yscale, axis.set_yticks):
            scale("log", base=2)
            ticks(ranks, [*map(str, ranks)])
    lines = {env: Line2D([], [], color=color) for env, color in colors.items()}
    lines["predicted"] = Line2D([], [], color="0.3", ls="--")
    lines["measured"] = Line2D([], [], color="0.3", marker="o", ls="")
    lines["as many times as processes"] = Line2D([], [], color="gray", ls=":")
    figures.legend_above(fig, lines)
    figures.save_figure(fig, path)
    plt.close(fig)


def main(argv=None):
    """Measure, or report."""
    args = parse_arguments(argv)
    if args.verb == "work":
        work(args.job)
    elif args.verb == "measure":
        args.output.write_text(json.dumps(measure(args), indent=1), encoding="utf-8")
    else:
        measured = json.loads(args.measured.read_text(encoding="utf-8"))
        print(report(measured))
        if args.chart:
            chart(measured, args.chart)


if __name__ == "__main__":
    main()
