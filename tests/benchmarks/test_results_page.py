"""The page of results says what the data say: each of its numbers is computed here once more.

If a test fails after new results: run `python benchmarks/learning.py report`, and correct the
sentences that are no longer true.
"""

import math
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
TF1, PYTORCH = "Spinning Up, TensorFlow 1", "Spinning Up, PyTorch"
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

with pytest.MonkeyPatch.context() as patched:
    patched.syspath_prepend(ROOT / "benchmarks")
    import learning
    import learning_data
    import learning_figure
    import learning_statistics

PROTOCOLS = learning_data.protocols()
SBX = learning_data.read_table(learning_data.RESULTS / "off-policy-sbx.csv")
SENTENCES = {}


def says(sentence):
    """Keep what computes the numbers in a sentence of the page; a place for each is in braces."""

    def keep(numbers):
        SENTENCES[sentence] = numbers
        return numbers

    return keep


@cache
def data(name):
    return learning_data.read(PROTOCOLS[name])


def runs(name, algorithm, environment, variant=""):
    """{seed: its returns, by the number of interactions} of a cell."""
    table = data(name).dropna().set_index("interactions")
    own = table[(table[learning_data.CELL] == [algorithm, environment, variant]).all(axis=1)]
    return {seed: run["return"] for seed, run in own.groupby("seed")}


def final(name, algorithm, environment, variant=""):
    """The return of each seed at the end of the protocol, by its own measure."""
    protocol = PROTOCOLS[name]
    per_epoch = protocol.arguments["steps_per_epoch"]
    finals = learning_statistics.performance(
        data(name), protocol.steps, protocol.measure, per_epoch
    )
    return finals[algorithm, environment, variant]


def cells(name):
    """Those after the protocol's own number of steps."""
    table = learning_statistics.cells(PROTOCOLS[name], data(name))
    return table[table["steps"] == PROTOCOLS[name].steps]


def between(run, begin, end):
    return run[(run.index > begin) & (run.index <= end)]


# ------------------------------------------------------------------------------ initial weights


def later(algorithm, environment, goal):
    """How many steps later the mean of the runs with Glorot's weights reaches a return."""

    def reached(variant):
        smooth = []
        for run in runs("init-on-policy", algorithm, environment, variant).values():
            values = learning_figure._smooth(run.index.to_numpy(), run.to_numpy(), 4000, 11)
            smooth.append(pd.Series(values, run.index))
        mean = pd.concat(smooth, axis=1).mean(axis=1)
        return mean.index[mean >= goal][0]

    return reached("glorot") - reached("torch")


@says(
    "On HalfCheetah, networks initialized as in TensorFlow learn more slowly than PyTorch's "
    "with all three algorithms. The mean of PPO's seeds needs {:,} more interactions to reach a "
    "return of -200, and still {:,} more to reach 500."
)
def ppo_later():
    assert all(later("vpg", "HalfCheetah-v5", goal) > 0 for goal in (-300, -250))
    return [later("ppo", "HalfCheetah-v5", goal) for goal in (-200, 500)]


@says("TRPO's needs {:,} more to reach 0, and {} of its {} seeds stays far behind.")
def trpo_later():
    finals = final("init-on-policy", "trpo", "HalfCheetah-v5", "glorot")
    usual = final("init-on-policy", "trpo", "HalfCheetah-v5", "torch").min()
    behind = sum(finals < 0.3 * usual)
    return later("trpo", "HalfCheetah-v5", 0), WORDS[behind], WORDS[len(finals)]


@says(
    "PPO is {:,} to {:,} interactions behind with TensorFlow's weights, at returns of 300 to 800, "
    "whereas VPG learns faster with them."
)
def hopper_later():
    behind = [later("ppo", "Hopper-v5", goal) for goal in range(300, 801, 100)]
    assert all(later("vpg", "Hopper-v5", goal) < 0 for goal in (150, 200, 250))
    return min(behind), max(behind)


@says("the intervals of the {} seeds overlap")
def overlapping():
    table = cells("init-on-policy")
    for _, group in table.groupby(["algorithm", "environment"]):
        each = group.set_index("variant")
        assert each.loc["glorot", "high"] > each.loc["torch", "low"]
        assert each.loc["torch", "high"] > each.loc["glorot", "low"]
    return {WORDS[seeds] for seeds in table["seeds"]}


@says(
    "differ by {:.0f} on HalfCheetah at this point: in ours PyTorch's weights are ahead by "
    "{:.0f}, with a 95 % interval from {:,.0f} to {:,.0f}."
)
def gap_of_ppo():
    cell = "ppo", "HalfCheetah-v5"
    theirs = [learning_data.published(source, *cell)[500_000][0] for source in (PYTORCH, TF1)]
    ours = [final("init-on-policy", *cell, variant) for variant in ("torch", "glorot")]
    low, high = ttest_ind(*ours, equal_var=False).confidence_interval(0.95)
    return theirs[0] - theirs[1], ours[0].mean() - ours[1].mean(), low, high


@says(
    "{} of {} runs of DDPG on Hopper had the same return in all tests of {:,} interactions. This "
    "did not happen in any run on Hopper with PyTorch's or with orthogonal weights, or in any "
    "of {} runs on Swimmer."
)
def saturated():
    def lost(environment, *variants):
        cells = [runs("init-saturation", "ddpg", environment, each) for each in variants]
        return [run.nunique() == 1 for cell in cells for run in cell.values()]

    assert lost("Hopper-v5", "torch", "orthogonal") == [False] * 20
    swimmers = lost("Swimmer-v5", "glorot", "torch", "orthogonal")
    assert not any(swimmers)
    glorot = lost("Hopper-v5", "glorot")
    return WORDS[sum(glorot)], WORDS[len(glorot)], PROTOCOLS["init-saturation"].steps, len(swimmers)


# ---------------------------------------------------------------------- Spinning Up's benchmark


@says(
    "Most of it comes from Ant and Swimmer, where PPO is {:.2f} and {:.2f} standard deviations "
    "away. On Swimmer, one of {} seeds stays at {:.0f}, and the others reach {:.0f} to {:.0f}."
)
def below_pytorch():
    table = cells("on-policy").set_index(["algorithm", "environment"]).loc["ppo"]
    away = (table["mean"] - table[PYTORCH]) / table[f"{PYTORCH} sd"]
    assert away["Ant-v5"] + away["Swimmer-v5"] < away.sum() / 2 < 0
    low, *others = sorted(final("on-policy", "ppo", "Swimmer-v5"))
    return away["Ant-v5"], away["Swimmer-v5"], WORDS[1 + len(others)], low, others[0], others[-1]


says("the same seed reaches {:.0f}")(lambda: [final("off-policy", "ddpg", "Swimmer-v5")[1]])
says("its first {:,} interactions")(
    lambda: [runs("off-policy-glorot", "ddpg", "Hopper-v5")[0].index[-1]]
)


@says(
    "they vary from {:,.0f} to {:,.0f} with seed 0, and from {:,.0f} to {:,.0f} with seed 1, "
    "during the last 100,000 interactions."
)
def swinging():
    of_seeds = runs("off-policy", "ddpg", "Hopper-v5")
    tails = [between(of_seeds[seed], 400_000, 500_000) for seed in (0, 1)]
    return [end for tail in tails for end in (tail.min(), tail.max())]


def control(name, *cell):
    """Of a control: number of seeds, least and largest return; and those of what it changes."""
    changed, given = (final(each, *cell) for each in (name, name.rpartition("-")[0]))
    return WORDS[len(changed)], changed.min(), changed.max(), given.min(), given.max()


for who, *cell in [
    ("PPO's {} seeds without them", "on-policy-ant", "ppo", "Ant-v5"),
    ("SAC's {} seeds without them", "off-policy-ant", "sac", "Ant-v5"),
    ("SAC's {} seeds with the older file", "off-policy-walker2d", "sac", "Walker2d-v5"),
]:
    says(who + " reach {:,.0f} to {:,.0f} instead of {:,.0f} to {:,.0f}")(partial(control, *cell))


@says("With those runs, its pooled difference from TensorFlow 1 is {:+.2f} ({:+.2f} to {:+.2f}).")
def sac_as_published():
    names = "off-policy", "off-policy-ant", "off-policy-walker2d"
    table = pd.concat(map(cells, names)).drop_duplicates(["algorithm", "environment"], keep="last")
    rows = learning_statistics.pooled(PROTOCOLS["off-policy"], table)
    return rows.set_index(["algorithm", "source"]).loc[("sac", TF1), ["difference", "low", "high"]]


@says(
    "seeds 1 and 2 of SAC reach {:,.0f} and {:,.0f}, which is about the published mean. Seed 0 "
    "reaches {:,.0f}. Its return hardly rises after 250,000 interactions;"
)
def plateau():
    name, cell = "off-policy-glorot", ("sac", "HalfCheetah-v5")
    for each in (name, "off-policy"):
        low = learning_statistics.outliers(PROTOCOLS[each], cells(each))
        assert [(row["algorithm"], row["environment"], row["count"]) for row in low] == [(*cell, 1)]
    run = runs(name, *cell)[0]
    assert between(run, 400_000, 500_000).mean() < 1.1 * between(run, 200_000, 300_000).mean()
    return [final(name, *cell)[seed] for seed in (1, 2, 0)]


@says("sbx, reaches {:,.0f} ({} seed), ours with PyTorch's weights {:,.0f} to {:,.0f} ({} seeds).")
def sbx():
    finals = learning_statistics.performance(SBX, 500_000, "smoothed", 10_000)
    ours = final("off-policy", "sac", "HalfCheetah-v5")
    return finals.mean(), WORDS[len(finals)], ours.min(), ours.max(), WORDS[len(ours)]


@says(
    "After 250,000 interactions, {} seeds with PyTorch's weights are at {:,.0f} to {:,.0f}, with a "
    "mean of {:,.0f}; {} with TensorFlow's at {:,.0f} to {:,.0f}, with a mean of {:,.0f}; and {} "
    "of sbx at {:,.0f} to {:,.0f}, with a mean of {:,.0f}."
)
def plateaus():
    names = [("off-policy", "torch"), ("off-policy-glorot", "glorot")]
    known = [data(name).assign(variant=variant) for name, variant in names]
    table = pd.concat([*known, data("sac-plateau"), SBX])
    finals = learning_statistics.performance(table, 250_000)
    each = [finals["sac", "HalfCheetah-v5", init] for init in ("torch", "glorot", "sbx")]
    assert each[2].mean() < min(of.mean() for of in each[:2])
    return [x for of in each for x in (WORDS[len(of)], of.min(), of.max(), of.mean())]


# ------------------------------------------------------------------------------------- images


@says(
    "the mean over the last eleven epochs and {} seeds is {:.1f}. Means over eleven epochs reach "
    "14 for the first time after {:,} to {:,} steps. {} of the {} seeds then fall once more, and "
    "stay above 14 from {:,} steps on."
)
def pong():
    of_seeds = [*runs("a2c-pong", "a2c", "PongNoFrameskip-v4").values()]
    means = [run.rolling(11).mean().dropna() for run in of_seeds]
    first = [mean.index[mean >= 14][0] for mean in means]
    ever = [between(mean, mean.index[mean < 14][-1], math.inf).index[0] for mean in means]
    again = [stays for stays, begins in zip(ever, first, strict=True) if stays > begins]
    number, last = WORDS[len(of_seeds)], np.mean([run.tail(11).mean() for run in of_seeds])
    falls = WORDS[len(again)].capitalize(), number, max(again)
    return number, last, min(first), max(first), *falls


def duel(begin, end, algorithm):
    of_seeds = runs("ppg-pong", algorithm, "PongNoFrameskip-v4").values()
    return [between(run, begin, end).mean() for run in of_seeds]


says(
    "in the 50,000 steps before, its seeds are at {:.1f}, {:.1f} and {:.1f}, and PPO's at "
    "{:.1f}, {:.1f} and {:.1f}."
)(lambda: [mean for name in ("ppg", "ppo") for mean in duel(700_000, 750_000, name)])


@says(
    "at {:.1f}, {:.1f} and {:.1f} in the last 50,000 steps, whereas one of PPO's seeds is at "
    "{:.1f} and the others are at {:.1f} and {:.1f}."
)
def duel_late():
    ppg, ppo = (duel(950_000, 1_000_000, name) for name in ("ppg", "ppo"))
    return *ppg, max(ppo), *(mean for mean in ppo if mean < max(ppo))


@says("PPG is ahead: {:.2f} to {:.2f} in the last tenth.")
def bigfish():
    ppg, ppo = (final("procgen", name, "procgen/bigfish") for name in ("ppg", "ppo"))
    assert ppg.min() > ppo.max()
    return ppg.mean(), ppo.mean()


@says(
    "In {} episodes on all levels, nearly all of which they have never seen, both score "
    "about {:.1f}."
)
def unseen():
    played = learning_data.read_table(learning_data.evaluations_of(PROTOCOLS["procgen"]))
    means = played[played["evaluation"] == "all levels"].groupby("algorithm")["return"].mean()
    assert round(means["ppo"], 1) == round(means["ppg"], 1)
    return played["episodes"].max(), means.mean()


# ---------------------------------------------------------------------------- classic control


@says("SAC solves CartPole, but never reaches the goal of Acrobot in a test episode.")
def sac():
    games = "CartPole-v1", "Acrobot-v1"
    cartpole, acrobot = (runs("classic-discrete", "sac", name).values() for name in games)
    assert all(run.max() >= learning_data.about("Solved")["CartPole"] for run in cartpole)
    assert all(run.max() == -500 for run in acrobot)
    return ()


@says("and {:,} interactions, DDPG, TD3 and SAC all learn Pendulum in {:,} interactions.")
def continuous():
    for algorithm in PROTOCOLS["classic-continuous"].algorithms:
        for run in runs("classic-continuous", algorithm, "Pendulum-v1").values():
            assert run[run.index <= 12_000].max() > -210
        for run in runs("classic-continuous", algorithm, "MountainCarContinuous-v0").values():
            assert run.max() <= 0
    return PROTOCOLS["classic-continuous"].steps, 12_000


@says(
    "In the last tenth of {:,} interactions, the mean return of {} seeds is {:.0f} in CartPole and "
    "{:.0f} in Acrobot. In each of the two, {} of the {} seeds reach the return at which the "
    "environment counts as solved:"
)
def vpg_with_its_preset():
    protocol, solved = "vpg-classic", learning_data.about("Solved")
    returns = [final(protocol, "vpg", name) for name in ("CartPole-v1", "Acrobot-v1")]
    reached = {
        sum(run.max() >= solved[name] for run in runs(protocol, "vpg", f"{name}-v1").values())
        for name in ("CartPole", "Acrobot")
    }
    [both], seeds = reached, WORDS[len(returns[0])]
    return PROTOCOLS[protocol].steps, seeds, *map(np.mean, returns), WORDS[both], seeds


@says(
    "In the last tenth of {:,} interactions, the return is {:.1f} in Breakout and {:.1f} in Freeway"
)
def minatar(algorithm="ppo", others=(28, 58)):  # gymnax's
    protocol, games = f"{algorithm}-minatar", ("MinAtar/Breakout-v1", "MinAtar/Freeway-v1")
    means = [final(protocol, algorithm, game).mean() for game in games]
    assert np.all(np.array(means) > others)
    return PROTOCOLS[protocol].steps, *means


@says("return {:.1f} in Breakout and {:.1f} in Freeway, in the last tenth of {:,} interactions")
def minatar_by_dqn():
    steps, *means = minatar("dqn", (9.23, 58))  # a reproduction of DQN's, and PPO's of gymnax
    return *means, steps


@says("From 100,000 interactions on they are lost by {:g} to {:g} points, on average of two games.")
def pong_by_dqn():
    [run] = runs("dqn-pong", "dqn", "PongNoFrameskip-v4").values()
    late = run[run.index >= 100_000]
    return -late.max(), -late.min()


@says(
    "the mean return of 30 test episodes after {:,} interactions is {:.0f} for DDPG, {:.0f} for "
    "TD3 and {:.0f} for SAC, over three seeds. PPO's preset reaches {:.0f} in {:,} interactions"
)
def pendulum():
    steps = [PROTOCOLS[name].steps for name in ("pendulum", "pendulum-ppo")]
    finals = [final("pendulum", name, "Pendulum-v1") for name in ("ddpg", "td3", "sac")]
    finals.append(final("pendulum-ppo", "ppo", "Pendulum-v1"))
    assert {len(of_seeds) for of_seeds in finals} == {3}
    return steps[0], *[of_seeds.mean() for of_seeds in finals], steps[1]


def at_the_end(name, *cell):
    """Steps of a protocol, and of a cell at its end: number of seeds, mean and minimum."""
    of_seeds, steps = final(name, *cell), PROTOCOLS[name].steps
    return steps, WORDS[len(of_seeds)], of_seeds.mean(), math.floor(of_seeds.min())


says("The mean return of its last test is {2:.0f} over {1} seeds:")(
    partial(at_the_end, "dqn-acrobot", "dqn", "Acrobot-v1")
)
says("In the last tenth of {0:,} interactions, the return is at least {3} with each of {1} seeds:")(
    partial(at_the_end, "dqn-classic", "dqn", "CartPole-v1")
)
says(
    "learns the task with all of {1} seeds. The return is at least {3} in the last tenth of {0:,} "
    "interactions; 90 counts as solved:"
)(partial(at_the_end, "mountain-car", "ddpg", "MountainCarContinuous-v0"))
says(
    "lands with all of {1} seeds. The mean return of 20 test episodes without noise is at least "
    "{3} after {0:,} interactions; 200 counts as solved:"
)(partial(at_the_end, "ppo-lander", "ppo", "LunarLander-v3"))
says("with settings of our own, takes half of the interactions ({:.0f} %), and is less reliable")(
    lambda: [100 * PROTOCOLS["dqn-lander"].steps / PROTOCOLS["ppo-lander"].steps]
)
says(
    "In the last tenth of {0:,} interactions, the mean return of 20 test episodes is {2:.0f} over "
    "{1} seeds, and {3} with the worst of them:"
)(partial(at_the_end, "dqn-lander", "dqn", "LunarLander-v3"))
says("The mean return of {1} seeds is {2:.0f} in the last tenth of the interactions.")(
    partial(at_the_end, "ppo-swimmer", "ppo", "Swimmer-v5")
)
says(
    "In the last tenth of {0:,} interactions, the mean return of 20 test episodes is at least {3} "
    "with each of {1} seeds; 300 counts as solved:"
)(partial(at_the_end, "ppo-walker", "ppo", "BipedalWalker-v3"))


@cache
def prose():
    """The text of the page, without programs, links to tables, pictures, and targets of links."""
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(r"<!-- overview.*end of overview -->", "", text, flags=re.S)
    text = re.sub(r"^```.*?^```$|^(\[Table: |!\[)[^\n]*", "", text, flags=re.M | re.S)
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split())


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_says_what_the_data_say(sentence):
    assert sentence.format(*SENTENCES[sentence]()) in prose()


def test_tables_are_those_of_the_data():
    """`python benchmarks/learning.py report` has been run since the data changed."""
    texts = learning.texts_over_all()
    for name, protocol in PROTOCOLS.items():
        if learning_data.file_of(protocol).exists():
            table = learning_statistics.cells(protocol, data(name))
            texts[name] = learning.text_of(protocol, table, data(name))
    assert f"<!-- overview -->\n\n{texts['overview']}\n<!-- end" in PAGE.read_text(encoding="utf-8")
    for name, text in texts.items():
        path = learning_data.RESULTS / f"{name}.md"
        assert path.read_text(encoding="utf-8") == text, name
