"""Exported policies act as the run's networks do, in every format; the rest is refused."""

import ast
import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.training.saved_policy import SavedPolicy, load_policy

import spinup_tf2
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import categorical, sample
from spinup_tf2.core.nets.heads import ValueFunction
from spinup_tf2.core.nets.normalization import NormalizedActorCritic
from spinup_tf2.core.nets.numpy_policy import Policy
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic
from spinup_tf2.envs.spaces import network_observation_space, to_network
from spinup_tf2.errors import UserError
from spinup_tf2.exporting import checking
from spinup_tf2.exporting.described import action_arrays
from spinup_tf2.exporting.export import export
from spinup_tf2.run import main

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "data"

OBS = spaces.Box(-1, 1, (4,))
FAR = spaces.Box(-np.inf, np.inf, (2, 2), np.float64)
MIXED = spaces.Dict(
    {
        "where": spaces.Dict(
            {"x y": spaces.Box(-3, 9, (2, 2)), "room": spaces.Discrete(3, start=-1)}
        ),
        "doors": spaces.MultiBinary(2),
        "keys": spaces.MultiDiscrete([[2, 3]], start=[[0, 4]]),
    }
)
IMAGES = spaces.Box(0, 255, (40, 44, 3), np.uint8)
CHANNELS_FIRST = spaces.Box(0, 255, (3, 40, 44), np.uint8)

BOX = spaces.Box(np.array([[-2.0, 0.0, 5.0]]), np.array([[1.0, 10.0, 500.0]]), dtype=np.float64)
DISCRETE = spaces.Discrete(5, start=-2)
CHOICES = spaces.MultiDiscrete([[2, 4, 3]], start=[[0, 1, 2]])
BITS = spaces.MultiBinary((2, 2))

TD3 = dict(stochastic=False, num_q=2)
SAC = dict(stochastic=True, num_q=2)

# {name: (class, observation space, action space, arguments)}
NETWORKS = {
    "gaussian": (MLPActorCritic, OBS, BOX, dict(activation="selu")),
    "normalized": (NormalizedActorCritic, FAR, BOX, {}),
    "entries": (MLPActorCritic, MIXED, DISCRETE, dict(activation="leaky_relu")),
    "choices": (MLPActorCritic, MIXED, CHOICES, dict(hidden_sizes=())),
    "bits": (MLPActorCritic, spaces.Discrete(4), BITS, {}),
    "td3": (MLPQActorCritic, OBS, BOX, TD3),
    "sac": (MLPQActorCritic, FAR, BOX, SAC),
    "discrete sac": (MLPQActorCritic, spaces.MultiDiscrete([2, 3]), DISCRETE, SAC),
    "images": (CNNActorCritic, IMAGES, BOX, dict(shared=False)),
    "small": (CNNActorCritic, CHANNELS_FIRST, DISCRETE, dict(conv="small", hidden_sizes=(16,))),
    "background": (CNNActorCritic, IMAGES, DISCRETE, dict(hidden_sizes=(16,), background=0.4)),
    "strides": (CNNActorCritic, IMAGES, BITS, dict(conv=((4, 5, 3), (3, 2, 4)), hidden_sizes=())),
    "images sac": (CNNQActorCritic, IMAGES, BOX, SAC | dict(conv="small", background=0.4)),
    "images ddpg": (CNNQActorCritic, CHANNELS_FIRST, BOX, TD3 | dict(conv="small", num_q=1)),
}
TENSORFLOW = ("tflite", "savedmodel")


@pytest.fixture(autouse=True)
def few_observations(monkeypatch, tmp_path):
    monkeypatch.setattr(checking, "OBSERVATIONS", 50)
    monkeypatch.chdir(tmp_path)


def write(run_dir, ac, observation_space, action_space):
    """A run's save with these networks, as far as it is needed to load them."""
    saved = SavedPolicy(ac, observation_space, action_space)
    (run_dir / "tf2_save").mkdir(parents=True)
    (run_dir / "tf2_save" / "model_info.json").write_text(json.dumps(saved.info))
    np.savez(run_dir / "tf2_save" / "weights.npz", **saved.arrays())
    return saved


@pytest.fixture
def run_of(tmp_path):
    def run_of(name):
        """A run with random weights: its networks, and how to try them."""
        make, observation_space, action_space, arguments = NETWORKS[name]
        seen = network_observation_space(observation_space)
        if make is NormalizedActorCritic:
            inner = MLPActorCritic(seen, action_space, **arguments)
            ac = NormalizedActorCritic(inner, seen, action_space)
            far = np.random.default_rng(1).normal((1e3, 0, -5, 0), (1, 9, 1, 1e-3), (50, 4))
            ac.normalizer.seen.update(far.astype(np.float32))
            ac.normalizer.share.assign(1)
            ac.normalizer.adopt()
        else:
            ac = make(seen, action_space, **arguments)
        rng = np.random.default_rng(0)
        for variable in ac.trainable_variables:
            variable.assign(variable + rng.normal(scale=0.1, size=variable.shape))
        write(tmp_path / "run", ac, observation_space, action_space)
        return ac, observation_space

    return run_of


def drawn(space, n):
    """Observations, and the same in one batch."""
    space.seed(3)
    each = [space.sample() for _ in range(n)]

    def batch(values):
        if isinstance(values[0], dict):
            return {key: batch([value[key] for value in values]) for key in values[0]}
        return np.stack(values)

    return each, batch(each)


def expected(ac, space, observations, noise):
    """What the Keras networks do."""
    x = np.stack([to_network(space, obs) for obs in observations])
    return ac.action_spec.to_env(sample(ac.pi(x), noise).numpy())


@pytest.mark.parametrize("samples", [False, True], ids=["deterministic", "sampling"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.startswith("images") else ())
        for name in NETWORKS
    ],
)
def test_numpy(run_of, name, samples):
    ac, space = run_of(name)
    if samples and tf.is_tensor(ac.pi(np.zeros((1, *network_observation_space(space).shape)))):
        with pytest.raises(UserError, match=r"deterministic, as those of DDPG.*Leave --sample"):
            export("run", "numpy", sample=True)
        return
    exported = export("run", "numpy", sample=samples)
    assert exported.difference <= 1e-5
    assert exported.sizes == {
        each.name: each.stat().st_size for each in Path("run_numpy").iterdir()
    }
    assert {*exported.sizes} == {"policy.npz", "policy.py"}
    policy = Policy("run_numpy/policy.npz", seed=5)
    each, batch = drawn(space, 6)
    noise = policy.draw_noise(6) if samples else None
    zeros = 0 * ac.action_spec.draw_noise(np.random.default_rng(0), 6)
    acts = expected(ac, space, each, noise if samples else zeros)
    together = policy.act(batch, noise)
    assert together.dtype == ac.action_spec.space.dtype
    np.testing.assert_allclose(together, acts, rtol=1e-4, atol=1e-4)
    for i, obs in enumerate(each):
        act = policy.act(obs, noise[i : i + 1] if samples else None)
        assert np.shape(act) == ac.action_spec.space.shape
        np.testing.assert_allclose(act, acts[i], rtol=1e-4, atol=1e-4)
    # A seed gives the samples that the package itself draws.
    same = Policy("run_numpy/policy.npz", seed=5)
    get_action = load_policy("run/tf2_save", deterministic=not samples, seed=5)
    for obs in each:
        np.testing.assert_allclose(same.act(obs), get_action(obs), rtol=1e-4, atol=1e-4)


# Two stand for all, unless slow tests are run; half of them sample.
QUICK, SAMPLING = ("normalized", "entries"), ("gaussian", "entries", "bits", "sac", "small")
LEFT_OUT = ("strides", "images ddpg")  # nothing new to TensorFlow


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in NETWORKS
        if name not in LEFT_OUT
    ],
)
def test_tensorflow(run_of, name):
    (ac, space), samples = run_of(name), name in SAMPLING
    for each in TENSORFLOW:
        assert export("run", each, sample=samples).difference <= 1e-5
    signature = tf.saved_model.load("run_savedmodel").signatures["serving_default"]
    runner = tf.lite.Interpreter("run.tflite").get_signature_runner()
    inputs = {"obs"}
    if space is MIXED:
        inputs = {"obs_where_x_y", "obs_where_room", "obs_doors", "obs_keys"}
    inputs |= {"noise"} if samples else set()
    assert {*signature.structured_input_signature[1]} == {*runner.get_input_details()} == inputs
    assert {*signature.structured_outputs} == {*runner.get_output_details()} == {"act"}
    if space is OBS or space is FAR:
        each, batch = drawn(space, 6)
        noise = ac.action_spec.draw_noise(np.random.default_rng(0), 6)
        noises = dict(noise=noise) if samples else {}
        acts = expected(ac, space, each, noise if samples else 0 * noise)
        for function in (runner, lambda **x: signature(**{k: tf.constant(x[k]) for k in x})):
            together = function(obs=batch.astype(np.float32), **noises)["act"]
            np.testing.assert_allclose(together, acts, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", TENSORFLOW)
@pytest.mark.parametrize("name", ["normalized", "sac"])
def test_what_is_not_finite_makes_the_action_nan(run_of, name, format):
    """Otherwise clipping would make a command of it, such as full throttle."""
    (ac, space), samples = run_of(name), name in SAMPLING
    path = str(export("run", format, sample=samples).path)
    if format == "tflite":
        act = tf.lite.Interpreter(path).get_signature_runner()
    else:
        model = tf.saved_model.load(path)
        act = model.signatures["serving_default"]
    inputs = dict(obs=drawn(space, 4)[1].astype(np.float32))
    if samples:
        inputs["noise"] = ac.action_spec.draw_noise(np.random.default_rng(0), 4)
    acts = np.array(act(**inputs)["act"])
    assert np.isfinite(acts).all()
    for name, values in inputs.items():
        for value in (np.nan, np.inf, -np.inf):
            broken = values.copy()
            broken[1].flat[2] = value
            broken[3] = value
            others = np.array(act(**inputs | {name: broken})["act"])
            assert np.isnan(others[[1, 3]]).all()
            np.testing.assert_array_equal(others[[0, 2]], acts[[0, 2]])


def use(exported, **given):
    """The action that the printed lines give."""
    assert str(exported).endswith(f"Use it:\n\n{exported.use}")
    exec(exported.use, given)
    return given["act"]


@pytest.fixture
def litert(monkeypatch):
    """The package of that name, as far as the printed lines need it."""
    interpreter = SimpleNamespace(Interpreter=tf.lite.Interpreter)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", interpreter)


@pytest.mark.parametrize("format", TENSORFLOW)
@pytest.mark.parametrize(
    "name", ["normalized", "entries", "bits", pytest.param("small", marks=pytest.mark.slow)]
)
def test_the_printed_lines_take_what_the_environment_returns(run_of, request, name, format):
    (ac, space), samples = run_of(name), name in SAMPLING
    exported = export("run", format, sample=samples)
    [obs], _ = drawn(space, 1)
    assert space is not FAR or obs.dtype == np.float64
    noise = samples * np.random.default_rng(0).standard_normal((1, *ac.action_spec.noise_shape))
    request.getfixturevalue("litert")  # not before export has looked for the package
    act = use(exported, obs=obs, **dict(noise=noise) if samples else {})
    assert isinstance(act, np.ndarray | np.int64)
    [one] = expected(ac, space, [obs], noise.astype(np.float32))
    np.testing.assert_allclose(act, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", TENSORFLOW)
def test_the_lines_on_the_page_are_those_that_are_printed(run_of, format):
    run_of("gaussian")
    name = {"tflite": "quadruped-walk_s0.tflite", "savedmodel": "quadruped-walk_s0_savedmodel"}
    page = (ROOT / "docs" / "exporting.rst").read_text(encoding="utf-8")
    assert textwrap.indent(export("run", format, name[format]).use, "   ") in page


# ---------------------------------------------------------------- without this package

ALONE = """
import sys
for name in ("tensorflow", "keras", "gymnasium", "spinup_tf2"):
    sys.modules[name] = None
import numpy as np
from policy import Policy
act = Policy("policy.npz").act
print(act(np.array([0.0, 0, 0.1, 0])), act(np.array([[0.0, 0, -0.1, -1], [0, 0, 0.1, 1]])))
"""


def test_the_file_needs_numpy_alone(tmp_path):
    """A trained CartPole, which pushes to where the pole falls."""
    main(["export", str(RUNS / "ppo_cartpole/ppo_cartpole_s0"), "--format", "numpy", "-o", "out"])
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd="out", capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("1 [0 1]\n", "")


def test_the_file_needs_no_newer_python(run_of):
    """Python 3.8, which is what many robots have."""
    run_of("gaussian")
    export("run", "numpy")
    tree = ast.parse(Path("run_numpy/policy.py").read_text(), feature_version=(3, 8))
    # Annotations such as `dict[str, int]` and `int | None` are not evaluated.
    assert "from __future__ import annotations" in [ast.unparse(node) for node in tree.body]
    annotations = {
        part
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
        for part in ast.walk(annotation)
    }
    for node in ast.walk(tree):
        if node in annotations:
            continue
        if isinstance(node, ast.BinOp | ast.AugAssign):
            assert not isinstance(node.op, ast.BitOr)  # of dicts (3.9), of types (3.10)
        if isinstance(node, ast.Subscript):  # list[int] (3.9)
            assert ast.unparse(node.value) not in ("dict", "list", "set", "tuple", "Callable")
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("removeprefix", "removesuffix", "bit_count")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            assert not node.keywords  # strict (3.10)
        if isinstance(node, ast.Import | ast.ImportFrom):  # tomllib, zoneinfo, itertools.pairwise
            names = {alias.name for alias in node.names}
            assert names <= {"annotations", "json", "os", "Callable", "partial", "Any", "numpy"}


def test_pendulum(tmp_path):
    """A short run of SAC: the exported policy's actions are those of the package, to the bit."""
    logger_kwargs = dict(output_dir="run", exp_name="run", quiet=True)
    spinup_tf2.sac(
        lambda: gym.make("Pendulum-v1"),
        ac_kwargs=dict(hidden_sizes=(8,)),
        **dict(steps_per_epoch=30, epochs=1, start_steps=10, update_after=10, update_every=10),
        **dict(num_test_episodes=0, logger_kwargs=logger_kwargs),
    )
    assert "microseconds" in str(spinup_tf2.export("run", "numpy", "pendulum"))
    policy, get_action = Policy("pendulum/policy.npz"), load_policy("run/tf2_save", True)
    env = gym.make("Pendulum-v1")
    obs, _ = env.reset(seed=0)
    for _ in range(20):
        act = policy.act(obs)
        np.testing.assert_array_equal(act, get_action(obs))
        obs, *_ = env.step(act)


# ---------------------------------------------------------------- what is refused


def contents(path):
    files = [path, *sorted(path.rglob("*"))]
    return [each.read_bytes() for each in files if each.is_file()]


@pytest.mark.parametrize("format", ["numpy", pytest.param("tflite", marks=pytest.mark.slow)])
def test_nothing_is_overwritten_without_a_word(run_of, format):
    run_of("gaussian")
    path = export("run", format, "here/out").path
    first = contents(path)
    with pytest.raises(UserError, match=r"here/out is there already; .*--overwrite"):
        export("run", format, "here/out", sample=True)
    assert contents(path) == first
    (path.parent / "other").mkdir()
    (path.parent / "other" / "file").write_text("precious")
    with pytest.raises(UserError, match="give another --output"):
        export("run", format, "here/other", overwrite=True)
    (path.parent / "notes.txt").write_text("precious")
    with pytest.raises(UserError, match=r"notes\.txt is n.* give another --output"):
        export("run", format, "here/notes.txt", overwrite=True)
    (path.parent / "notes.txt").unlink()
    export("run", format, "here/out", sample=True, overwrite=True)
    assert contents(path) != first
    assert sorted(each.name for each in path.parent.iterdir()) == ["other", "out"]
    assert (path.parent / "other" / "file").read_text() == "precious"


@pytest.mark.parametrize("format", TENSORFLOW)
def test_directories_with_brackets(run_of, tmp_path, monkeypatch, format):
    run_of("gaussian")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp[0]"))
    (tmp_path / "tmp[0]").mkdir()
    assert export("run", format, "exp[1]/out").difference <= 1e-5
    if format == "savedmodel":
        with pytest.raises(UserError, match=r"^exp\[1\] has a bracket in its name.*--output"):
            export("run", format, "here/exp[1]")
        assert not Path("here").exists()


def test_a_policy_that_acts_otherwise_is_not_written(run_of, monkeypatch):
    run_of("gaussian")
    act = Policy.act
    monkeypatch.setattr(Policy, "act", lambda *args: act(*args) + 2e-5 * 500)
    with pytest.raises(UserError, match=r"are not those of the run.*more than 1e-05. Nothing"):
        export("run", "numpy")
    assert not Path("run_numpy").exists()


def test_large_weights_may_be_rounded_otherwise(tmp_path, monkeypatch):
    """This agent's outputs are as large as 400 before tanh: the last bit of such sums is 3e-5."""
    run = RUNS / "quadruped-command" / "quadruped-command_s0"
    assert export(run, "numpy", tmp_path / "out").difference < 3e-4
    act = Policy.act
    monkeypatch.setattr(Policy, "act", lambda *args: act(*args) + 2e-3)
    with pytest.raises(UserError, match=r"not those of the run.*more than 0\.000"):
        export(run, "numpy", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_size_of_a_difference():
    bounded = MLPQActorCritic(OBS, BOX, **TD3).action_spec  # of which the widest is 495
    gaussian = MLPActorCritic(OBS, BOX).action_spec
    zeros, ones = np.zeros((2, 1, 3)), np.ones((2, 1, 3))
    assert checking.largest_difference(gaussian, ones, zeros, None) == 1
    assert checking.largest_difference(gaussian, 101 * ones, 100 * ones, None) == 0.01
    np.testing.assert_allclose(
        checking.largest_difference(bounded, zeros + np.array([0, 0, 1]), zeros, None), 2 / 495
    )
    assert np.isnan(checking.largest_difference(gaussian, np.nan * ones, zeros, None))
    assert checking.largest_difference(gaussian, ones[:, 0], ones, None) == np.inf
    discrete = MLPActorCritic(OBS, DISCRETE).action_spec
    one, other = np.array([1, 2]), np.array([1, 3])
    assert checking.largest_difference(discrete, one, one, np.zeros(2)) == 0
    assert checking.largest_difference(discrete, one, other, np.array([0, 1e-4])) == 1
    assert checking.largest_difference(discrete, one, other, np.array([1, 1e-6])) == 0


def test_what_numpy_has_no_copy_of(run_of, tmp_path):
    ac = MLPActorCritic(OBS, DISCRETE, activation="gelu")
    write(tmp_path / "run", ac, OBS, DISCRETE)
    with pytest.raises(UserError, match=r"no copy in NumPy of a layer Dense with activation gelu"):
        export("run", "numpy")
    assert export("run", "savedmodel").difference == 0


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm, self.out = keras.layers.LayerNormalization(), keras.layers.Dense(5)

    def call(self, obs):
        return categorical(self.out(self.norm(obs)))


@pytest.mark.slow
def test_networks_that_are_loaded_as_a_savedmodel(tmp_path):
    ac = ActorCritic(Own(), ValueFunction(mlp(4, (), 1)), DISCRETE)
    ac.pi_and_v(np.zeros((1, 4), np.float32))
    saved = write(tmp_path / "run", ac, OBS, DISCRETE)
    tf.saved_model.save(saved, "run/tf2_save")
    with pytest.raises(UserError, match="--allow_pickle"):
        export("run", "tflite")
    with pytest.raises(UserError, match=r"no copy in NumPy. Export it with --format tflite"):
        export("run", "numpy", allow_pickle=True)
    for format in TENSORFLOW:
        export("run", format, sample=True, allow_pickle=True)
    x, _ = drawn(OBS, 50)
    noise = ac.action_spec.draw_noise(np.random.default_rng(0), 50)
    signature = tf.saved_model.load("run_savedmodel").signatures["serving_default"]
    acts = signature(obs=tf.constant(np.stack(x)), noise=tf.constant(noise))["act"]
    np.testing.assert_array_equal(acts, expected(ac, OBS, x, noise))


def test_names_of_inputs_that_are_the_same(tmp_path):
    space = spaces.Dict({"a b": OBS, "a_b": OBS})
    write(tmp_path / "run", MLPActorCritic(network_observation_space(space), BITS), space, BITS)
    with pytest.raises(UserError, match=r"obs_a_b, obs_a_b.*--format numpy"):
        export("run", "savedmodel")
    export("run", "numpy")


@pytest.mark.filterwarnings("error")
def test_observations_of_another_form(run_of):
    run_of("entries")
    export("run", "numpy")
    policy = Policy("run_numpy/policy.npz")
    obs = MIXED.sample()
    with pytest.raises(ValueError, match=r"\['where'\]\['room'\] has a value"):
        policy.act(obs | {"where": obs["where"] | {"room": 2}})
    with pytest.raises(ValueError, match=r"\['keys'\] has shape \(2,\).*trained on \(1, 2\)"):
        policy.act(obs | {"keys": np.array([0, 4])})
    with pytest.raises(ValueError, match="different numbers"):
        policy.act(obs | {"keys": np.array([[[0, 4]]])})
    with pytest.raises(ValueError, match="takes no noise"):
        policy.act(obs, np.zeros(3))

    form = r"doors \(2,\), keys \(1, 2\), where\.room \(-1 to 1\), where\.x y \(2, 2\); got "
    doors = {"doors": obs["doors"]}
    for given, shown in [
        (doors, "a dict with doors"),
        (obs | {"where": None}, "a dict with "),
        ({}, "a dict with nothing in it"),
        (np.zeros(4), r"an array of shape \(4,\) of float64"),
        ([1, 2], "list"),
        (None, "None"),
    ]:
        with pytest.raises(ValueError, match=f"must be a dict with {form}{shown}"):
            policy.act(given)
    with pytest.raises(ValueError, match=r"\['doors'\] must be numbers, of shape \(2,\); got None"):
        policy.act(obs | {"doors": None})
    for value in (0.5, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"\['room'\] has a value that was not there"):
            policy.act(obs | {"where": obs["where"] | {"room": value}})
    with pytest.raises(ValueError, match=r"run_numpy is a directory; give the \.npz file"):
        Policy("run_numpy")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])  # the last is too large
def test_observations_that_are_not_finite(run_of, value):
    run_of("gaussian")
    export("run", "numpy")
    with pytest.raises(ValueError, match="The observation has a NaN or an infinity in it"):
        Policy("run_numpy/policy.npz").act(np.array([0, value, 0, 0]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["gaussian", "entries"])
def test_noise_of_another_form(run_of, name):
    _, space = run_of(name)
    export("run", "numpy", sample=True)
    policy = Policy("run_numpy/policy.npz")
    [obs], batch = drawn(space, 1)
    one = policy.draw_noise(1)
    size = one.shape[1]
    for given, n, shown in [
        (policy.draw_noise(3), 1, rf"an array of shape \(3, {size}\) of float32"),
        (one[0], 1, rf"an array of shape \({size},\) of float32"),
        (one[:, 1:], 1, rf"an array of shape \(1, {size - 1}\) of float32"),
        (0, 1, r"an array of shape \(\) of int64"),
        (one.astype(str), 1, rf"an array of shape \(1, {size}\) of <U32"),
    ]:
        form = rf"shape \({n}, {size}\), such as draw_noise\({n}\), for {n} observation; got "
        for observed in (obs, batch):
            with pytest.raises(ValueError, match=f"The noise must be numbers of {form}{shown}"):
                policy.act(observed, given)
    for value in (np.nan, np.inf, -np.inf, 1e39):
        noise = one.astype(np.float64)
        noise[0, 1] = value
        with pytest.raises(ValueError, match="The noise has a NaN or an infinity in it"):
            policy.act(obs, noise)


def test_noise_of_a_batch(run_of):
    run_of("gaussian")
    export("run", "numpy", sample=True)
    policy = Policy("run_numpy/policy.npz")
    with pytest.raises(ValueError, match=r"\(2, 3\).*draw_noise\(2\), for 2 observations; got"):
        policy.act(np.zeros((2, 4)), policy.draw_noise(1))
    # Lists, and numbers of another type, are the same noise.
    noise = policy.draw_noise(2)
    np.testing.assert_array_equal(
        policy.act(np.zeros((2, 4)), noise.tolist()), policy.act(np.zeros((2, 4)), noise)
    )


def test_a_deterministic_policy_has_no_noise(run_of):
    run_of("gaussian")
    export("run", "numpy")
    with pytest.raises(ValueError, match="deterministic: it has no noise"):
        Policy("run_numpy/policy.npz").draw_noise(3)


@pytest.mark.parametrize("name", ["gaussian", "td3", "entries"])
def test_the_bounds_of_actions_are_there(run_of, name):
    run_of(name)
    export("run", "numpy")
    policy, space = Policy("run_numpy/policy.npz"), NETWORKS[name][2]
    if space is BOX:
        np.testing.assert_array_equal([policy.low, policy.high], [space.low, space.high])
    else:
        assert policy.low is policy.high is None


def test_unbounded_actions_have_no_bounds():
    half = spaces.Box(0, np.inf, (2,))
    assert [*action_arrays(half)] == ["low"]
    assert not action_arrays(spaces.Box(-np.inf, np.inf, (2,)))


def test_images_are_bytes(run_of):
    run_of("small")
    export("run", "numpy")
    with pytest.raises(ValueError, match=r"Images are bytes.*float64"):
        Policy("run_numpy/policy.npz").act(np.zeros((3, 40, 44)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--format", "numpy"], "There is no directory nowhere"),
        (["run", "--format", "numpy", "--itr", "7"], "has no save with itr 7"),
        (["run", "--format", "onnx"], "invalid choice: 'onnx'"),
        (["run"], "--format"),
    ],
)
def test_commands_that_are_refused(run_of, capsys, arguments, message):
    run_of("gaussian")
    with pytest.raises(SystemExit) as stop:
        main(["export", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert [each.name for each in Path().iterdir()] == ["run"]


# ---------------------------------------------------------------- the robot

WALK = """
import sys
for name in ("tensorflow", "keras", "tensorflow_probability"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import gymnasium as gym
import spinup_tf2.envs
from policy import Policy
spinup_tf2.envs.register_envs()
policy = Policy(sys.argv[1] + "/policy.npz")
env = gym.make("QuadrupedWalk-v0", **eval(sys.argv[2]))
obs, _ = env.reset(seed=0)
steps, over, info = 0, False, {}
while not over:
    obs, _, terminated, truncated, info = env.step(policy.act(obs))
    steps, over = steps + 1, terminated or truncated
print(steps, terminated, info["x_position"])
"""


@pytest.mark.slow
def test_the_quadruped_walks_without_tensorflow(tmp_path):
    pytest.importorskip("pybullet", reason='needs: pip install ".[quadruped]"')
    run = RUNS / "quadruped-walk" / "quadruped-walk_s0"
    export(run, "numpy", "robot")
    kwargs = json.loads((run / "env_spec.json").read_text())["spec"]["kwargs"]
    done = subprocess.run(
        [sys.executable, "-c", WALK, "robot", repr(kwargs)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps, terminated, x = done.stdout.split()[-3:]
    assert terminated == "False"  # it has not fallen
    assert float(x) > 5
