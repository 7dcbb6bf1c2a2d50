"""Policies that are built again from their weights: equal to what was saved, or refused."""

import io
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from spinup_tf2 import ppo, vpg
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.heads import (
    DeterministicPolicy,
    GaussianPolicy,
    QFunction,
    ValueFunction,
    policy_for,
)
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.normalization import NormalizedActorCritic
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.envs.spaces import network_observation_space
from spinup_tf2.errors import UserError
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.training.saved_policy import SavedPolicy, load_policy
from tests.on_policy_runs import Identity

pytestmark = pytest.mark.saved_model

OBS = spaces.Box(-1, 1, (4,))
MIXED = spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(-1, 1, (2, 2))})
IMAGES = spaces.Box(0, 255, (40, 44, 3), np.uint8)
CHANNELS_FIRST = spaces.Box(0, 255, (3, 40, 44), np.uint8)

BOX = spaces.Box(np.array([-2, 0, 1], np.float32), np.array([3, 4, 1.5], np.float32))
DISCRETE = spaces.Discrete(5, start=1)
CHOICES = spaces.MultiDiscrete([2, 4])
BITS = spaces.MultiBinary(3)


def save(path, ac, observation_space, action_space, extra=()):
    rng = np.random.default_rng(0)
    for variable in ac.variables:
        variable.assign(np.abs(rng.normal(scale=0.3, size=variable.shape)))
    saved = SavedPolicy(ac, observation_space, action_space, extra)
    tf.saved_model.save(saved, path)
    (path / "model_info.json").write_text(json.dumps(saved.info))
    np.savez(path / "weights.npz", **saved.arrays())


def change(path, **changes):
    info = json.loads((path / "model_info.json").read_text())
    (path / "model_info.json").write_text(json.dumps(info | changes))
    return info


def assert_equal_to_the_saved_model(path, observation_space):
    """Equal actions for the same observations and seed, and equal log-probabilities of them."""
    for deterministic in (False, True):
        rebuilt = load_policy(path, deterministic, seed=3)
        info = change(path, networks=None)
        executed = load_policy(path, deterministic, seed=3, allow_pickle=True)
        change(path, **info)
        observation_space.seed(0)
        for obs in [observation_space.sample() for _ in range(5)]:
            act = rebuilt(obs)
            np.testing.assert_allclose(act, executed(obs), rtol=1e-5, atol=1e-5)
            if "logp_inputs" in info:
                logp = rebuilt.logp(obs, act)
                assert logp == pytest.approx(executed.logp(obs, act), rel=1e-4, abs=1e-5)


def plain(**changes):
    """The arguments of a plain network, with changes."""
    return dict(hidden_sizes=[8], activation="tanh", shared=False) | changes


def entry(**changes):
    """What model_info.json says of a plain network, with changes."""
    networks = dict(actor_critic="MLPActorCritic", normalize_obs=False, extra=0)
    return networks | dict(arguments=plain()) | changes


@pytest.mark.parametrize(
    ("observation_space", "action_space", "make", "kwargs"),
    [
        (MIXED, BOX, MLPActorCritic, dict(hidden_sizes=(8, 6), activation=tf.nn.relu)),
        (OBS, DISCRETE, MLPActorCritic, dict(hidden_sizes=(), activation=None)),
        (OBS, CHOICES, MLPActorCritic, dict(hidden_sizes=(8, 6), shared=True)),
        (IMAGES, BITS, CNNActorCritic, dict(conv="nature", hidden_sizes=[7])),
        (IMAGES, BOX, CNNActorCritic, dict(conv="small", hidden_sizes=[7], background=0.4)),
        (CHANNELS_FIRST, DISCRETE, CNNActorCritic, dict(conv=((4, 3, 2), (5, 3, 3)), shared=False)),
    ],
    ids=["mlp", "linear", "shared mlp", "shared", "background", "cnn"],
)
def test_on_policy_networks(tmp_path, observation_space, action_space, make, kwargs):
    ac = make(network_observation_space(observation_space), action_space, **kwargs)
    save(tmp_path, ac, observation_space, action_space)
    assert_equal_to_the_saved_model(tmp_path, observation_space)


@pytest.mark.parametrize("memory", [None, "gru"])
@pytest.mark.parametrize("action_space", [BOX, CHOICES], ids=str)
def test_log_probabilities(tmp_path, action_space, memory):
    """Arguments have the names that model_info.json gives them."""
    ac = MLPActorCritic(OBS, action_space, hidden_sizes=(8,), memory=memory, memory_size=3)
    save(tmp_path, ac, OBS, action_space)
    info = json.loads((tmp_path / "model_info.json").read_text())
    rng = np.random.default_rng(0)
    action_space.seed(0)
    model, spec = tf.saved_model.load(tmp_path), ac.action_spec
    x = rng.normal(size=(3, 4)).astype(np.float32)
    given = dict(x=x, noise=spec.draw_noise(rng, 3))
    states = rng.normal(size=(3, ac.memory.size)).astype(np.float32) if memory else None
    given |= dict(state=states) if memory else {}
    assert info["inputs"] == [*given]
    outputs = model.policy(**given)
    assert {*outputs} == {*info["outputs"]}
    pi = ac.memory.step(x, states)[0] if memory else ac.pi(x)
    np.testing.assert_allclose(outputs["pi_logp"], pi.log_prob(outputs["pi"]), rtol=1e-5)

    acts = [action_space.sample() for _ in x]
    given = dict(x=x, a=np.stack([spec.from_env(act) for act in acts]))
    given |= dict(state=states) if memory else {}
    assert info["logp_inputs"] == [*given]
    expected = pi.log_prob(given["a"]).numpy()
    np.testing.assert_allclose(model.logp(**given), expected, rtol=1e-5)
    get_action = load_policy(tmp_path)
    for i, (obs, act) in enumerate(zip(x, acts, strict=True)):
        own = get_action.logp(obs, act, *([states[i]] if memory else []))
        assert own == pytest.approx(expected[i], rel=1e-5)
    with pytest.raises(UserError, match=r"The action is .*, which is none in"):
        get_action.logp(obs, np.full(7, 9))


def test_policies_without_log_probabilities(tmp_path):
    ac = MLPQActorCritic(OBS, BOX, hidden_sizes=(4,), stochastic=True, num_q=2)
    save(tmp_path, ac, OBS, BOX)
    with pytest.raises(UserError, match="without log-probabilities; those of VPG"):
        load_policy(tmp_path).logp(np.zeros(4), BOX.low)


def test_normalised_observations_and_what_is_saved_beside_the_policy(tmp_path):
    ac = NormalizedActorCritic(MLPActorCritic(OBS, BOX, hidden_sizes=(8,)), OBS, BOX)
    save(tmp_path, ac, OBS, BOX, extra=[keras.Variable(2.0), keras.Variable(np.zeros(3))])
    assert_equal_to_the_saved_model(tmp_path, OBS)


# ---------------------------------------------------------------- networks of the user's own


class Derived(MLPActorCritic):
    pass


def with_another_value_function():
    ac = MLPActorCritic(OBS, BOX, hidden_sizes=(8,))
    ac.v = ValueFunction(mlp(4, (8,), 1, "relu"))
    return ac


@pytest.mark.parametrize(
    "make",
    [
        lambda: ActorCritic(GaussianPolicy(mlp(4, (8,), 3), 3), ValueFunction(mlp(4, (), 1)), BOX),
        lambda: Derived(OBS, BOX, hidden_sizes=(8,)),
        lambda: MLPActorCritic(OBS, BOX, hidden_sizes=(8,), activation=lambda x: x * 2),
        lambda: NormalizedActorCritic(Derived(OBS, BOX, hidden_sizes=(8,)), OBS, BOX),
        with_another_value_function,
    ],
    ids=["own", "derived", "activation", "normalised", "replaced"],
)
def test_networks_of_ones_own_are_loaded_only_if_trusted(tmp_path, make):
    ac = make()
    save(tmp_path, ac, OBS, BOX)
    assert json.loads((tmp_path / "model_info.json").read_text())["networks"] is None
    with pytest.raises(UserError, match=r"not this package's own.*--allow_pickle \(allow_pickle="):
        load_policy(tmp_path)
    get_action = load_policy(tmp_path, deterministic=True, allow_pickle=True)
    obs = OBS.sample()
    np.testing.assert_allclose(get_action(obs), ac.pi(obs[None]).mean()[0], rtol=1e-5)


class Wide(ActorCritic):
    """Answers for itself, with arguments of its own."""

    def __init__(self, observation_space, action_space, width=3, activation="tanh"):
        (obs_dim,) = observation_space.shape
        pi = policy_for(action_space, lambda outputs: mlp(obs_dim, (width,), outputs, activation))
        v = ValueFunction(mlp(obs_dim, (2 * width,), 1, activation))
        arguments = dict(width=width, activation=activation)
        super().__init__(pi, v, action_space, arguments)


class OwnQ(QActorCritic):
    def __init__(self, observation_space, action_space, width):
        pi = DeterministicPolicy(mlp(4, (), 3, output_activation="tanh"))
        super().__init__(pi, [QFunction(mlp(7, (width,), 1))], action_space, dict(width=width))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: Wide(OBS, BOX, 5, tf.nn.relu),
            entry(actor_critic=f"{__name__}:Wide", arguments=dict(width=5, activation="relu")),
        ),
        (
            lambda: NormalizedActorCritic(Wide(OBS, BOX), OBS, BOX),
            entry(
                actor_critic=f"{__name__}:Wide",
                arguments=dict(width=3, activation="tanh"),
                normalize_obs=True,
            ),
        ),
        (
            lambda: OwnQ(OBS, BOX, 5),
            entry(actor_critic=f"{__name__}:OwnQ", arguments=dict(width=5)),
        ),
    ],
    ids=["on-policy", "normalised", "off-policy"],
)
def test_classes_that_answer_for_themselves_are_built_again(tmp_path, make, expected):
    save(tmp_path, make(), OBS, BOX)
    assert json.loads((tmp_path / "model_info.json").read_text())["networks"] == expected
    assert_equal_to_the_saved_model(tmp_path, OBS)


def local_class():
    class Local(Wide):
        pass

    return Local


@pytest.mark.parametrize(
    "make",
    [
        lambda: Forgetful(OBS, BOX, 5.0),
        lambda: local_class()(OBS, BOX),
        lambda: Wide(OBS, BOX, 3, lambda x: x * 2),
    ],
    ids=["forgetful", "without a name", "activation"],
)
def test_what_cannot_be_built_again_is_not_said_to_be(make):
    assert SavedPolicy(make(), OBS, BOX).info["networks"] is None


class Forgetful(ActorCritic):
    """Does not pass on one of its arguments, on which no shape depends."""

    def __init__(self, observation_space, action_space, scale=1.0, width=3):
        pi = policy_for(action_space, lambda outputs: mlp(4, (width,), outputs))
        super().__init__(pi, ValueFunction(mlp(4, (), 1)), action_space, dict(width=width))


def test_an_activation_that_was_changed_is_not_forgotten():
    ac = MLPActorCritic(OBS, BOX, (3,))
    ac.pi.net.layers[0].activation = keras.activations.relu
    assert SavedPolicy(ac, OBS, BOX).info["networks"] is None


class Meaning(ActorCritic):
    def __init__(self, observation_space, action_space, shared):
        pi = policy_for(action_space, lambda outputs: mlp(4, (), outputs))
        super().__init__(pi, ValueFunction(mlp(4, (), 1)), action_space, dict(shared=shared))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (dict(arguments=dict(width=10**12, activation="tanh")), "would have more than"),
        (dict(arguments=dict(width=2, activation="tanh")), "weights are of another"),
        (dict(arguments=dict(height=3)), "Wide is not for this run"),
        (dict(actor_critic=f"{__name__}:save"), "'save' is no class of networks"),
        (dict(actor_critic=f"{__name__}:nothing"), "'nothing' is no class of networks"),
        (dict(actor_critic="ActorCritic"), "ActorCritic is not for this run"),
        (dict(actor_critic="__main__:Wide"), "no name of a module"),
        (dict(actor_critic="my_networks:Wide"), "--import my_networks"),
    ],
)
def test_what_a_file_says_of_classes_is_not_trusted(tmp_path, monkeypatch, changes, reason):
    """Nothing is imported at its word, and nothing larger is built than the weights are."""
    (tmp_path / "my_networks.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    save(tmp_path / "save", Wide(OBS, BOX), OBS, BOX)
    plain = json.loads((tmp_path / "save" / "model_info.json").read_text())["networks"]
    change(tmp_path / "save", networks=plain | changes)
    with pytest.raises(UserError, match=rf"cannot be built again.*{reason}"):
        load_policy(tmp_path / "save")


# ---------------------------------------------------------------- what does not fit


PARTS = spaces.Dict(
    d=spaces.Discrete(3, start=-1),
    pos=spaces.Box(-1, 1, (2, 2)),
    choices=spaces.MultiDiscrete([2, 3]),
    bits=spaces.MultiBinary(3),
)
PART = dict(d=-1, pos=np.full((2, 2), 9), choices=[1, 2], bits=np.array([0, 1, 1], bool))


@pytest.mark.parametrize(
    ("space", "possible", "impossible"),
    [
        (
            spaces.Discrete(5, start=3),
            [3, 7, np.int64(3), np.array(7)],
            [2, 8, 3.0, np.array([3, 4, 9]), None],
        ),
        (
            PARTS,
            [PART, PART | dict(more=1), PART | dict(pos=[[0.5, 0], [1, 2]])],
            [
                PART | changed
                for changed in (
                    dict(d=-2),
                    dict(choices=[-1, 0]),
                    dict(choices=[0, 3]),
                    dict(bits=[5, 7, 9]),
                    dict(pos=np.zeros(4)),
                    dict(pos="x"),
                )
            ]
            + [{"d": 0}, 3],
        ),
        (
            spaces.Box(-np.inf, np.inf, (2,)),
            [np.array([0.0, -1e30]), [1, 2]],
            [np.array([0.0, np.nan]), np.array([np.inf, 0.0], np.float32), [0.0, -np.inf]],
        ),
        (
            spaces.Box(0, 3, (2,), np.int32),
            [np.array([0, 9]), [1, 2], np.array([0.5, -7.0]), np.array([1, 2], object)],
            [np.zeros(3), "ab"],
        ),
    ],
    ids=["Discrete", "Dict", "unbounded", "Box"],
)
def test_impossible_observations_are_refused(tmp_path, space, possible, impossible):
    save(tmp_path, MLPActorCritic(network_observation_space(space), BOX), space, BOX)
    get_action = load_policy(tmp_path)
    for obs in possible:
        assert get_action(obs).shape == (3,)
    for obs in impossible:
        with pytest.raises(UserError, match=r"was trained on observations in .* none of them \(."):
            get_action(obs)


@pytest.mark.parametrize(
    ("space", "kwargs"),
    [
        (OBS, {}),
        (MIXED, {}),
        (spaces.Discrete(4, start=1), {}),
        (IMAGES, dict(conv="nature", hidden_sizes=[7])),
    ],
    ids=["Box", "Dict", "Discrete", "images"],
)
@pytest.mark.parametrize("n", [1, 3])
def test_observations_of_a_vector_environment_are_a_batch(tmp_path, space, kwargs, n):
    """Samples differ from row to row, as those of single observations do from call to call."""
    make = CNNActorCritic if kwargs else MLPActorCritic
    save(tmp_path, make(network_observation_space(space), BOX, **kwargs), space, BOX)
    batch = batch_space(space, n)
    batch.seed(0)
    obs = batch.sample()
    for deterministic in (True, False):
        get_action, one_by_one = (load_policy(tmp_path, deterministic, seed=1) for _ in range(2))
        actions = get_action(obs)
        assert actions.shape == (n, 3)
        alone = [one_by_one(each) for each in iterate(batch, obs)]
        np.testing.assert_allclose(actions, alone, rtol=1e-5, atol=1e-5)


def test_what_takes_no_batch_says_so(tmp_path):
    ac = MLPActorCritic(OBS, BOX, hidden_sizes=(8,), memory="gru", memory_size=3)
    save(tmp_path, ac, OBS, BOX)
    get_action = load_policy(tmp_path)
    for asked in (get_action, lambda obs: get_action.logp(obs, BOX.low)):
        with pytest.raises(UserError, match=r"it has shape \(8,\) instead of \(4,\)"):
            asked(np.zeros((2, 4)))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original")
    save(path, MLPActorCritic(OBS, BOX, hidden_sizes=(8,)), OBS, BOX)
    return path


@pytest.fixture
def saved(original, tmp_path):
    return shutil.copytree(original, tmp_path / "tf2_save")


def test_the_entry_is_what_the_cases_below_change(saved):
    assert json.loads((saved / "model_info.json").read_text())["networks"] == entry()


@pytest.mark.parametrize(
    ("networks", "reason"),
    [
        (entry(arguments=plain(hidden_sizes=[9])), "would have more than"),
        (entry(arguments=plain(hidden_sizes=[8, 8])), "would have more than"),
        (entry(arguments=plain(hidden_sizes=[10**12])), "would have more than"),
        (entry(arguments=plain(hidden_sizes=[1] * 10**6)), "more than 1000 layers"),
        (entry(arguments=plain(hidden_sizes=[-1])), "a list of layer widths"),
        (entry(arguments=plain(activation="os.system")), "activation is 'os.system'"),
        (entry(arguments=plain(kernel_initializer="ones")), "MLPActorCritic is not for this run"),
        (entry(actor_critic="CNNActorCritic"), "The convolutions are for images"),
        (entry(actor_critic="os:system"), "does not describe them"),
        (entry(arguments={}) | {"arguments": 3}, "does not describe them"),
        (entry(normalize_obs=True), "would have more than"),
        (entry(normalize_obs="yes"), "of another type"),
        (entry(extra=1), "weights are not those"),
        (entry(extra=-1), "weights are not those"),
        ([], "does not describe them"),
    ],
)
def test_another_architecture_is_refused(saved, networks, reason):
    change(saved, networks=networks)
    with pytest.raises(UserError, match=rf"cannot be built again.*{reason}.*--allow_pickle") as e:
        load_policy(saved)
    assert "\n" not in str(e.value)


def rewrite(saved, **changes):
    with np.load(saved / "weights.npz") as arrays:
        np.savez(saved / "weights.npz", **{**arrays, **changes})


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_numbers_are_refused(saved, number):
    rewrite(saved, **{"2": np.array([0, 0, 0, 0, number, 0, 0, 0], np.float32)})
    with pytest.raises(UserError, match="NaN or infinity in its weights"):
        load_policy(saved)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"2": np.zeros(9, np.float32)}, "of another order or type"),
        ({"2": np.zeros(8, np.float64)}, "of another order or type"),
        ({"2": np.zeros(8, np.complex64)}, "damaged.*complex64, and not of real numbers"),
        ({"2": np.array(["a"] * 8)}, "damaged.*<U1, and not of real numbers"),
        ({"2": np.array([print] * 8)}, "damaged.*object, and not of real numbers"),
        ({"99": np.zeros(8, np.float32)}, "damaged"),
        ({"evil": np.zeros(8, np.float32)}, "damaged"),
        ({"1": np.zeros(8, np.float32), "2": np.zeros((4, 8), np.float32)}, "another order"),
    ],
    ids=["shape", "double", "complex", "text", "objects", "number", "name", "order"],
)
def test_weights_of_something_else_are_refused(saved, changes, reason):
    rewrite(saved, **changes)
    with pytest.raises(UserError, match=rf"cannot be built again.*{reason}"):
        load_policy(saved)


def another_number(contents):
    with np.load(io.BytesIO(contents)) as arrays:
        first = arrays["0"].tobytes()
    return contents.replace(first, bytes([first[0] ^ 1]) + first[1:])


@pytest.mark.parametrize(
    "damage",
    [
        another_number,
        lambda contents: contents[: len(contents) // 2],
        lambda contents: contents.replace(b"'descr': '<f4'", b"'descr': '<i4'", 1),
        lambda contents: b"",
        lambda contents: b"nothing that NumPy wrote" * 50,
    ],
    ids=["number", "cut off", "flipped", "empty", "other"],
)
def test_damaged_weights_are_refused(saved, damage):
    path = saved / "weights.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        UserError, match=r"cannot be built again.*(damaged|order or type|cannot be read)"
    ):
        load_policy(saved)


RUNS = sorted((Path(__file__).parents[2] / "data" / "ppo_cartpole").iterdir())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_runs_that_come_with_the_project_are_built_again(run, tmp_path):
    copy = shutil.copytree(run / "tf2_save", tmp_path / "tf2_save")
    assert_equal_to_the_saved_model(copy, spaces.Box(-0.2, 0.2, (4,)))


def test_the_best_weights_can_be_loaded(tmp_path, capsys):
    """Those that collected the epoch with the highest mean return, whatever came after."""

    class Praised(Identity):  # in the second of four epochs, whatever is done; ten steps an episode
        steps = 0

        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            Praised.steps += 1
            return obs, float(200 < Praised.steps <= 400), terminated, truncated, info

    ac = ppo(
        lambda: Praised(spaces.Discrete(2)),
        **dict(steps_per_epoch=200, epochs=4, train_pi_iters=5, train_v_iters=1, pi_lr=0.03),
        logger_kwargs=dict(output_dir=str(tmp_path), quiet=True),
    )
    best, about = Checkpoints(tmp_path).best()
    assert about["epoch"] == 1
    last = [variable.numpy() for variable in ac.variables]
    assert any((x != y).any() for x, y in zip(best, last, strict=True))

    # The agent with these weights in the place of the last ones acts alike.
    get_action = load_policy(tmp_path / "tf2_save", deterministic=True, best=True)
    assert "epoch 1, mean return" in capsys.readouterr().out
    for variable, value in zip(ac.variables, best, strict=True):
        variable.assign(value)
    actor = Actor(ac)
    for obs in np.eye(2, dtype=np.float32):
        assert get_action(obs) == actor(obs[None], np.zeros((1, 2), np.float32))[0]


def test_without_checkpoints_there_are_no_best_weights(tmp_path):
    vpg(
        "CartPole-v1",
        **dict(steps_per_epoch=20, epochs=1, train_v_iters=1, checkpoint_freq=0),
        logger_kwargs=dict(output_dir=str(tmp_path), quiet=True),
    )
    with pytest.raises(UserError, match="no checkpoint with weights that have done best") as caught:
        load_policy(tmp_path / "tf2_save", best=True)
    assert "allow_pickle" not in str(caught.value)  # which would not help
