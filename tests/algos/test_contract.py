"""What is promised of every algorithm: signature, files, columns, equal runs, compiled once."""

import copy
import gc
import inspect
import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import tensorflow as tf

from spinup_tf2 import a2c, ddpg, dqn, ppg, ppo, sac, td3, trpo, vpg
from spinup_tf2.callbacks import Callback
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from tests import off_policy_runs, on_policy_runs
from tests.off_policy_runs import OFF_POLICY, four
from tests.on_policy_runs import make
from tests.progress import rows_without_time

# Parameters that may be given by position: Spinning Up's, in its order. (A2C and PPG are not in it:
# arguments that other algorithms have stand in their order.)
FIRST = "env_fn actor_critic={} ac_kwargs=None seed=0 steps_per_epoch=4000 epochs={} "
ON, OFF = FIRST.format("MLPActorCritic", 50), FIRST.format("MLPQActorCritic", 100)
REPLAY = OFF + "replay_size=1000000 gamma=0.99 polyak=0.995 "
LEARNS = "batch_size=100 start_steps=10000 update_after=1000 update_every=50 "
LAST = "max_ep_len=1000 logger_kwargs=None save_freq="
TESTS = f"num_test_episodes=10 {LAST}1"
SIGNATURES = {
    vpg: f"{ON}gamma=0.99 pi_lr=0.0003 vf_lr=0.001 train_v_iters=80 lam=0.97 {LAST}10",
    trpo: f"{ON}gamma=0.99 delta=0.01 vf_lr=0.001 train_v_iters=80 damping_coeff=0.1 cg_iters=10 "
    f"backtrack_iters=10 backtrack_coeff=0.8 lam=0.97 {LAST}10 algo='trpo'",
    ppo: f"{ON}gamma=0.99 clip_ratio=0.2 pi_lr=0.0003 vf_lr=0.001 train_pi_iters=80 "
    "train_v_iters=80 lam=0.97 max_ep_len=1000 target_kl=0.01 logger_kwargs=None save_freq=10",
    a2c: f"{ON}gamma=0.99 lr=0.0007 vf_coef=0.5 ent_coef=0.01 max_grad_norm=0.5 lam=1.0 {LAST}10",
    ppg: f"{ON}gamma=0.999 clip_ratio=0.2 pi_lr=0.0005 vf_lr=0.0005 train_pi_iters=1 "
    f"train_v_iters=1 lam=0.95 {LAST}10",
    ddpg: f"{REPLAY}pi_lr=0.001 q_lr=0.001 {LEARNS}act_noise=0.1 {TESTS}",
    td3: f"{REPLAY}pi_lr=0.001 q_lr=0.001 {LEARNS}act_noise=0.1 target_noise=0.2 noise_clip=0.5 "
    f"policy_delay=2 {TESTS}",
    sac: f"{REPLAY}lr=0.001 alpha=0.2 {LEARNS}{TESTS}",
    dqn: f"{REPLAY}q_lr=0.001 {LEARNS}eps_start=1.0 eps_end=0.05 eps_steps=10000 {TESTS}".replace(
        "start_steps=10000", "start_steps=1000"
    ),
}


@pytest.mark.parametrize("algorithm", SIGNATURES, ids=lambda f: f.__name__)
def test_signature_is_spinning_ups_with_additions_by_keyword_only(algorithm):
    def shown(parameter):
        default = parameter.default
        if default is parameter.empty:
            return parameter.name
        return f"{parameter.name}={getattr(default, '__name__', repr(default))}"

    parameters = inspect.signature(algorithm).parameters.values()
    found = [shown(each) for each in parameters if each.kind != each.KEYWORD_ONLY]
    assert " ".join(found) == SIGNATURES[algorithm]


# ---------------------------------------------------------------------------- small runs

LOSSES = "LossPi LossV DeltaLossPi DeltaLossV"
Q_LOSSES = [*four("Q1Vals"), *four("Q2Vals")]
CASES = {
    "vpg": (vpg, {}, f"{LOSSES} Entropy KL"),
    "trpo": (trpo, {}, f"{LOSSES} KL BacktrackIters"),
    "npg": (trpo, dict(algo="npg"), f"{LOSSES} KL"),
    "ppo": (ppo, dict(train_pi_iters=5), f"{LOSSES} Entropy KL ClipFrac StopIter"),
    "ppo, penalty in minibatches": (
        ppo,
        dict(objective="penalty", train_pi_iters=5, minibatch_size=50, lr_schedule="linear"),
        f"{LOSSES} Entropy KL Beta",
    ),
    "a2c": (a2c, dict(num_envs=4), "LossPi LossV Entropy"),
    "ppg": (
        ppg,
        dict(minibatch_size=50, aux_minibatch_size=100, n_pi=1),
        f"{LOSSES} Entropy KL ClipFrac AuxLossV AuxLossVPi AuxKL",
    ),
    "ddpg": (ddpg, {}, " ".join([*four("QVals"), "LossPi LossQ"])),
    "td3": (td3, {}, " ".join([*Q_LOSSES, "LossPi LossQ"])),
    "sac": (sac, {}, " ".join([*Q_LOSSES, *four("LogPi"), "LossPi LossQ1 LossQ2 Alpha"])),
    "sac, choices": (
        sac,
        dict(env_fn=make("CartPole-v1")),
        " ".join([*Q_LOSSES, *four("LogPi"), "LossPi LossQ1 LossQ2 Alpha"]),
    ),
    "dqn": (dqn, {}, " ".join([*four("QVals"), "LossQ Epsilon"])),
}


class Counts(Callback):
    """How often Python has run a loss until the end of each epoch."""

    def __init__(self):
        self.calls, self.at_end = 0, []

    def on_epoch_end(self, run, row):
        self.at_end.append(self.calls)


def train(case, path, **kwargs):
    algorithm, given, _ = CASES[case]
    module = off_policy_runs if algorithm in OFF_POLICY else on_policy_runs
    return module.train(algorithm, path, **{**given, **kwargs})


@pytest.fixture(scope="module", params=CASES)
def trained(request, tmp_path_factory):
    """A run of three epochs."""
    case, counts = request.param, Counts()
    algorithm, given, columns = CASES[case]
    path = tmp_path_factory.mktemp("run") / "run"
    module = sys.modules[f"spinup_tf2.algos.{algorithm.__name__}"]
    name = "penalty_loss" if "objective" in given else "policy_loss"
    name = "q_loss" if algorithm is dqn else name
    loss = getattr(module, name)

    def counted(*args):
        counts.calls += 1
        return loss(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, counted)
        ac, rows = train(case, path, seed=3, epochs=3, callbacks=[counts])
    result = SimpleNamespace(case=case, algorithm=algorithm, columns=columns, ac=ac)
    result.path, result.rows, result.counts = path, rows, counts
    return result


def test_columns(trained):
    off_policy = trained.algorithm in OFF_POLICY
    module = off_policy_runs if off_policy else on_policy_runs
    expected = [*module.COLUMNS, *trained.columns.split(), "Time"]
    expected += [] if off_policy else ["ExplainedVariance"]
    assert [[*row] for row in trained.rows] == [expected] * 3
    assert all("" not in row.values() for row in trained.rows)
    assert [row["Epoch"] for row in trained.rows] == [*("123" if off_policy else "012")]
    assert [row["TotalEnvInteracts"] for row in trained.rows] == ["200", "400", "600"]


def test_run_directory_and_configuration(trained):
    names = {"config.json", "progress.txt", "vars.pkl", "tf2_save", "env_spec.json", "checkpoint"}
    assert {path.name for path in trained.path.iterdir()} == names
    config = json.loads((trained.path / "config.json").read_text())
    assert {*config} == {*inspect.signature(trained.algorithm).parameters, "exp_name"}
    assert config["actor_critic"].startswith("MLP")
    assert (config["steps_per_epoch"], config["exp_name"], config["seed"]) == (200, "test", 3)


def test_everything_is_compiled_once(trained):
    first, *others = trained.counts.at_end
    assert first > 0
    assert others == [first] * 2


@pytest.mark.parametrize("trained", ["vpg", "trpo", "ppo", "td3", "sac"], indirect=True)
def test_same_seed_same_numbers(trained, tmp_path):
    """Of all others, tests/resume compares whole runs with those that were stopped, bit by bit."""
    train(trained.case, tmp_path / "run", seed=3, epochs=1)
    whole, same = (rows_without_time(p / "progress.txt") for p in (trained.path, tmp_path / "run"))
    assert same == whole[:2]


def test_trained_networks_can_be_pickled_and_copied(trained):
    again = [pickle.loads(pickle.dumps(trained.ac)), copy.deepcopy(trained.ac)]
    obs = trained.ac.env_observation_space.sample()
    acts = [ac.act(obs).tolist() for ac in (trained.ac, *again)]
    assert acts[0] == acts[1] == acts[2]


def test_networks_of_ones_own_say_why_they_cannot_be_pickled(tmp_path):
    def own(*spaces):
        ac = MLPActorCritic(*spaces)
        return ActorCritic(ac.pi, ac.v, spaces[1])

    ac, _ = on_policy_runs.train(vpg, tmp_path / "own", actor_critic=own, epochs=1)
    with pytest.raises(TypeError, match="ActorCritic cannot be pickled"):
        pickle.dumps(ac)


# Not DDPG and TD3: TensorFlow registers a custom gradient, that of `layers.tanh`, for good.
@pytest.mark.parametrize("case", ["trpo", "ppo", "ppg", "sac"])
@pytest.mark.saved_model
def test_a_finished_run_leaves_no_graph_behind(case, tmp_path):
    def graphs():
        gc.collect()
        return sum(isinstance(each, tf.Graph) for each in gc.get_objects())

    train(case, tmp_path / "0", epochs=1)  # what is shared by all runs is made once
    before = graphs()
    train(case, tmp_path / "1", epochs=1)
    assert graphs() == before


def test_runs_in_two_threads_have_the_weights_of_runs_alone(tmp_path):
    def weights(seed, name):
        ac, _ = on_policy_runs.train(vpg, tmp_path / name, seed=seed, epochs=1, train_v_iters=0)
        return [variable.numpy().tolist() for variable in ac.v.variables]

    with ThreadPoolExecutor(2) as threads:
        together = [*threads.map(weights, (1, 2), ("a", "b"))]
    assert together == [weights(1, "c"), weights(2, "d")]


@pytest.mark.parametrize("case", ["a2c", "ddpg"])
def test_other_seed_other_numbers(tmp_path, case):
    for seed in (3, 4):
        train(case, tmp_path / str(seed), seed=seed, epochs=1)
    one, other = (rows_without_time(tmp_path / seed / "progress.txt") for seed in "34")
    assert (other[0], other[1] != one[1]) == (one[0], True)
