"""Exported policies act as the run's networks do, in both formats; the rest is refused."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import categorical, sample
from spinup_tf2.core.nets.heads import ValueFunction
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.normalization import NormalizedActorCritic
from spinup_tf2.core.nets.numpy_policy import Policy
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic
from spinup_tf2.envs.spaces import network_observation_space, to_network
from spinup_tf2.errors import UserError
from spinup_tf2.exporting import export, largest_difference
from spinup_tf2.run import main
from spinup_tf2.training.saved_policy import SavedPolicy, load_policy

pytestmark = pytest.mark.saved_model

ROOT = Path(__file__).parents[1]
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
DQN = dict(stochastic=False, num_q=1)

# {name: (class, observation space, action space, arguments)}
NETWORKS = {
    "gaussian": (MLPActorCritic, OBS, BOX, dict(activation="selu")),
    "normalized": (NormalizedActorCritic, FAR, BOX, {}),
    "entries": (MLPActorCritic, MIXED, DISCRETE, dict(activation="leaky_relu")),
    "choices": (MLPActorCritic, MIXED, CHOICES, dict(hidden_sizes=())),
    "pair": (MLPActorCritic, spaces.Tuple([spaces.Dict(x=OBS), spaces.Discrete(4)]), BOX, {}),
    "bits": (MLPActorCritic, spaces.Discrete(4), BITS, {}),
    "td3": (MLPQActorCritic, OBS, BOX, TD3),
    "sac": (MLPQActorCritic, FAR, BOX, SAC),
    "dqn": (MLPQActorCritic, MIXED, DISCRETE, DQN),
    "images": (CNNActorCritic, IMAGES, BOX, dict(shared=False)),
    "small": (CNNActorCritic, CHANNELS_FIRST, DISCRETE, dict(conv="small", hidden_sizes=(16,))),
    "background": (CNNActorCritic, IMAGES, DISCRETE, dict(hidden_sizes=(16,), background=0.4)),
    "strides": (CNNActorCritic, IMAGES, BITS, dict(conv=((4, 5, 3), (3, 2, 4)), hidden_sizes=())),
}


@pytest.fixture(autouse=True)
def few_observations(monkeypatch, tmp_path):
    monkeypatch.setattr("spinup_tf2.exporting.OBSERVATIONS", 50)
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
        if isinstance(values[0], tuple):
            return tuple(map(batch, zip(*values, strict=True)))
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
        with pytest.raises(UserError, match="This policy is deterministic"):
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
    if isinstance(ac.action_spec.space, spaces.Box):
        np.testing.assert_array_equal([policy.low, policy.high], [BOX.low, BOX.high])
    else:
        assert policy.low is policy.high is None


# Three stand for all, unless slow tests are run; half of them sample.
QUICK, SAMPLING = ("normalized", "entries", "sac"), ("gaussian", "entries", "bits", "sac", "small")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in NETWORKS
        if name != "strides"  # nothing new to TensorFlow
    ],
)
def test_savedmodel(run_of, name):
    """By its inputs' names, and by the lines that are printed."""
    (ac, space), samples = run_of(name), name in SAMPLING
    exported = export("run", "savedmodel", sample=samples)
    assert exported.difference <= 1e-5
    model = tf.saved_model.load("run_savedmodel")
    signature = model.signatures["serving_default"]
    inputs = {"obs"}
    if space is MIXED:
        inputs = {"obs_where_x_y", "obs_where_room", "obs_doors", "obs_keys"}
    elif isinstance(space, spaces.Tuple):
        inputs = {"obs_0_x", "obs_1"}
    inputs |= {"noise"} if samples else set()
    assert {*signature.structured_input_signature[1]} == inputs
    assert {*signature.structured_outputs} == {"act"}
    each, _ = drawn(space, 3)
    noise = samples * ac.action_spec.draw_noise(np.random.default_rng(0), 3)
    assert str(exported).endswith(f"Use it:\n\n{exported.use}")
    for i, act in enumerate(expected(ac, space, each, noise)):
        given = dict(obs=each[i], **dict(noise=noise[i : i + 1]) if samples else {})
        exec(exported.use, given)
        np.testing.assert_allclose(given["act"], act, rtol=1e-4, atol=1e-4)
    if name in ("normalized", "sac"):
        what_is_not_finite_makes_the_action_nan(signature, drawn(space, 4)[1], ac, samples)


def test_the_name_of_a_directory_is_text_in_the_printed_code(run_of):
    run_of("gaussian")
    exported = export("run", "savedmodel", output='x"); raise SystemExit("')
    names = {node.id for node in ast.walk(ast.parse(exported.use)) if isinstance(node, ast.Name)}
    assert names == {"tf", "np", "model", "policy", "act", "obs"}


def what_is_not_finite_makes_the_action_nan(act, batch, ac, samples):
    """Otherwise clipping would make a command of it, such as full throttle."""
    inputs = dict(obs=batch.astype(np.float32))
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


def test_the_lines_on_the_page(run_of):
    """They are those that are printed, and the recipe makes the same policy in TensorFlow Lite."""
    ac, space = run_of("gaussian")
    page = (ROOT / "docs" / "exporting.md").read_text(encoding="utf-8")
    use = export("run", "savedmodel", "quadruped-walk_s0_savedmodel").use
    assert use in page
    programs = re.findall(r"(?ms)^```python\n(.*?)^```$", page)
    [recipe] = [program for program in programs if "TFLiteConverter" in program]
    each, batch = drawn(space, 4)
    given = dict(obs=each[0])
    exec(recipe, given)
    zeros = 0 * ac.action_spec.draw_noise(np.random.default_rng(0), 1)
    [act] = expected(ac, space, each[:1], zeros)
    np.testing.assert_allclose(given["act"], act, rtol=1e-4, atol=1e-4)
    what_is_not_finite_makes_the_action_nan(given["policy"], batch, ac, samples=False)


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
    assert not [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip" and node.keywords
    ]  # strict (3.10)


# ---------------------------------------------------------------- what is refused


def contents(path):
    files = [path, *sorted(path.rglob("*"))]
    return [each.read_bytes() for each in files if each.is_file()]


def test_nothing_is_overwritten_without_a_word(run_of):
    run_of("gaussian")
    format = "numpy"
    path = export("run", format, "here/out").path
    first = contents(path)
    with pytest.raises(UserError, match=r"here/out is there already; .*--overwrite"):
        export("run", format, "here/out", sample=True)
    assert contents(path) == first
    (path.parent / "other").mkdir()
    (path.parent / "other" / "file").write_text("precious")
    with pytest.raises(UserError, match="but nothing else"):
        export("run", format, "here/other", overwrite=True)
    (path.parent / "notes.txt").write_text("precious")
    with pytest.raises(UserError, match=r"notes\.txt is there already; .*but nothing else"):
        export("run", format, "here/notes.txt", overwrite=True)
    (path.parent / "notes.txt").unlink()
    export("run", format, "here/out", sample=True, overwrite=True)
    assert contents(path) != first
    assert sorted(each.name for each in path.parent.iterdir()) == ["other", "out"]
    assert (path.parent / "other" / "file").read_text() == "precious"


def test_a_policy_that_acts_otherwise_is_not_written(run_of, monkeypatch):
    run_of("gaussian")
    act = Policy.act
    monkeypatch.setattr(Policy, "act", lambda *args: act(*args) + 0.002 * 500)
    with pytest.raises(UserError, match=r"are not those of the run.*more than 0\.001\. Nothing"):
        export("run", "numpy")
    assert not Path("run_numpy").exists()


def test_large_weights_may_be_rounded_otherwise(tmp_path):
    """This agent's outputs are as large as 400 before tanh: the last bit of such sums is 3e-5."""
    run = RUNS / "quadruped-command" / "quadruped-command_s0"
    assert export(run, "numpy", tmp_path / "out").difference < 3e-4


def test_the_size_of_a_difference():
    bounded = MLPQActorCritic(OBS, BOX, **TD3).action_spec  # of which the widest is 495
    gaussian = MLPActorCritic(OBS, BOX).action_spec
    zeros, ones = np.zeros((2, 1, 3)), np.ones((2, 1, 3))
    assert largest_difference(gaussian, ones, zeros, None) == 1
    assert largest_difference(gaussian, 101 * ones, 100 * ones, None) == 0.01
    np.testing.assert_allclose(
        largest_difference(bounded, zeros + np.array([0, 0, 1]), zeros, None), 2 / 495
    )
    assert np.isnan(largest_difference(gaussian, np.nan * ones, zeros, None))
    assert largest_difference(gaussian, ones[:, 0], ones, None) == np.inf
    discrete = MLPActorCritic(OBS, DISCRETE).action_spec
    one, other = np.array([1, 2]), np.array([1, 3])
    assert largest_difference(discrete, one, one, np.zeros(2)) == 0
    assert largest_difference(discrete, one, other, np.array([0, 0.02])) == 1
    assert largest_difference(discrete, one, other, np.array([1, 1e-3])) == 0


def test_keys_that_are_no_names(tmp_path):
    """They may be numbers; but a SavedModel has inputs with names, of letters."""
    space = spaces.Dict({1: OBS, 2: OBS})
    write(tmp_path / "run", MLPActorCritic(network_observation_space(space), BOX), space, BOX)
    assert export("run", "numpy").difference < 1e-5
    assert export("run", "savedmodel").difference < 1e-5
    space = spaces.Dict({"a b": OBS, "a_b": OBS})
    write(tmp_path / "two", MLPActorCritic(network_observation_space(space), BOX), space, BOX)
    with pytest.raises(UserError, match="inputs the same names: obs_a_b, obs_a_b; use --format"):
        export("two", "savedmodel")


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
        export("run", "savedmodel")
    with pytest.raises(UserError, match="Export it with --format savedmodel"):
        export("run", "numpy", allow_pickle=True)
    export("run", "savedmodel", sample=True, allow_pickle=True)
    x, _ = drawn(OBS, 50)
    noise = ac.action_spec.draw_noise(np.random.default_rng(0), 50)
    signature = tf.saved_model.load("run_savedmodel").signatures["serving_default"]
    acts = signature(obs=tf.constant(np.stack(x)), noise=tf.constant(noise))["act"]
    np.testing.assert_array_equal(acts, expected(ac, OBS, x, noise))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sample", [False, True])
def test_observations_and_noise_of_another_form(run_of, sample):
    run_of("entries")
    export("run", "numpy", sample=sample)
    policy = Policy("run_numpy/policy.npz")
    obs = MIXED.sample()
    for given, message in [
        (obs | {"where": obs["where"] | {"room": 2}}, r"\['where', 'room'\] has a value"),
        (obs | {"where": obs["where"] | {"x y": np.full((2, 2), 1e39)}}, "has a NaN or an infin"),
        (obs | {"keys": np.array([0, 4])}, r"\['keys'\] has shape \(2,\).*trained on \(1, 2\)"),
        (obs | {"doors": None}, r"\['doors'\] has shape \(\)"),
        ({"doors": obs["doors"]}, "keys"),
        (np.zeros(4), "only integers"),
        (None, "not subscriptable"),
    ]:
        with pytest.raises((ValueError, KeyError, IndexError, TypeError), match=message):
            policy.act(given)
    if not sample:
        with pytest.raises(ValueError, match="takes no noise"):
            policy.act(obs, np.zeros(3))
        with pytest.raises(ValueError, match="deterministic: it has no noise"):
            policy.draw_noise(3)
        return
    noise = policy.draw_noise(1)
    np.testing.assert_array_equal(policy.act(obs, noise.tolist()), policy.act(obs, noise))
    for given, message in [
        (policy.draw_noise(3), r"must be draw_noise\(1\), not \(3, 5\)"),
        (noise[0], r"not \(5,\)"),
        (0, r"not \(\)"),
        (np.where(np.arange(5) == 1, 1e39, 0 * noise.astype(float)), "noise has a NaN or an inf"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.act(obs, given)
