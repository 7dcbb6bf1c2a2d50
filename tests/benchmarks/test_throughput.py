"""The parts of the throughput benchmark that only compute; none needs PyTorch or SB3."""

from importlib import import_module
from pathlib import Path

import breakdown
import pytest
import throughput

BENCHMARKS = Path(throughput.__file__).parent
OURS = "spinup_tf2"


def run_of(contestant, seconds_per_epoch, seed=0, num_envs=1, first_epoch=5.0):
    """The record of a run of three epochs of 100 steps."""
    return {
        "contestant": contestant,
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "num_envs": num_envs,
        "seed": seed,
        "steps_per_epoch": 100,
        # Wall and CPU time: in the timed epochs the run has its core for 90% of the time.
        "epoch_ends": [
            (first_epoch + i * seconds_per_epoch, 3.0 + 0.9 * i * seconds_per_epoch)
            for i in range(3)
        ],
        "gradient_steps": [999, 150, 160],
        "last_return": 20.0 + seed,
        "peak_memory": (300 + seed) * 1_000_000,
        "versions": {"numpy": "2.4.6"},
    }


def test_matrix_products_of_a_gradient_step_by_hand():
    # A batch of 10 through layers 3 -> 4 -> 2.
    assert sorted(breakdown.gradient_step_matmuls(10, (3, 4, 2))) == sorted(
        [
            (10, 3, 4),  # forward, layer 1
            (3, 10, 4),  # gradient of the weights of layer 1; nobody needs that of the observations
            (10, 4, 2),  # forward, layer 2
            (4, 10, 2),  # gradient of the weights of layer 2
            (10, 2, 4),  # gradient of its inputs
        ]
    )

    # Layer 1 multiplies 4000x4x64 twice, layer 2 4000x64x64 and layer 3 4000x64x2 three times:
    # 2 * 4000 * (2 * 256 + 3 * 4096 + 3 * 128) = 105,472,000.
    products = breakdown.gradient_step_matmuls(4000, (4, 64, 64, 2))
    assert breakdown.matmul_flops(products) == 105_472_000


@pytest.mark.parametrize(
    ("algorithm", "q_multiplications", "pi_multiplications"),
    [
        # HalfCheetah: 17 numbers in an observation, 6 in an action, two hidden layers of 256.
        # Multiplications for one row of a batch. The policy has 17 x 256 + 256 x 256 = 69,888
        # weights and 256 for each output: 72,960 with SAC's 12 outputs, else 71,424. The Q-function
        # has 23 x 256 + 256 x 256 + 256 = 71,680. Gradients of the weights cost as much as going
        # forward; those of the hidden layers as much as all layers but the first: Q 65,792,
        # policy 68,608 (SAC) or 67,072. Q's gradient of the action: 65,792 + 6 x 256 = 67,328.
        ("sac", 72_960 + 4 * 71_680 + 2 * (71_680 + 65_792), 2 * (71_680 + 67_328) + 214_528),
        ("td3", 71_424 + 4 * 71_680 + 2 * (71_680 + 65_792), 71_680 + 67_328 + 209_920),
        ("ddpg", 71_424 + 2 * 71_680 + 71_680 + 65_792, 71_680 + 67_328 + 209_920),
    ],
)
def test_flops_of_an_off_policy_update_by_hand(algorithm, q_multiplications, pi_multiplications):
    q_step, pi_step = breakdown.off_policy_update_matmuls(algorithm, 100, 17, 6, (256, 256))
    assert breakdown.matmul_flops(q_step) == 2 * 100 * q_multiplications
    assert breakdown.matmul_flops(pi_step) == 2 * 100 * pi_multiplications


def test_stopwatch_gives_nested_time_to_the_inner_section():
    now = 0.0

    def wait(seconds):
        nonlocal now
        now += seconds

    stopwatch = breakdown.Stopwatch(clock=lambda: now)
    log = stopwatch.wrap(lambda: wait(2.0), "logging")

    def update():
        wait(3.0)
        log()
        wait(1.0)
        raise KeyError  # leaves the section, too

    wait(10.0)
    with pytest.raises(KeyError):
        stopwatch.wrap(update, "update")()
    wait(5.0)
    assert stopwatch.read() == {"rest": 15.0, "update": 4.0, "logging": 2.0}


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_every_method_of_every_section_is_called_in_a_run(monkeypatch, tmp_path, algorithm):
    import spinup_tf2

    names = "ON_POLICY_SECTIONS" if algorithm == "ppo" else "OFF_POLICY_SECTIONS"
    targets = {each for section in getattr(breakdown, names).values() for each in section}
    never = {*targets}

    def watched(target, function):
        def called(*args, **kwargs):
            never.discard(target)
            return function(*args, **kwargs)

        return called

    for target in targets:
        module, _, path = target.partition(":")
        class_name, _, method = path.partition(".")
        owner = getattr(import_module(module), class_name)
        monkeypatch.setattr(owner, method, watched(target, getattr(owner, method)))
    kwargs = dict(steps_per_epoch=20, epochs=1, ac_kwargs=dict(hidden_sizes=[4]))
    kwargs |= dict(logger_kwargs=dict(output_dir=str(tmp_path), quiet=True))
    if algorithm == "sac":
        kwargs |= dict(update_after=5, update_every=5, start_steps=5, num_test_episodes=0)
    getattr(spinup_tf2, algorithm)("Pendulum-v1", **kwargs)
    assert not never


def test_throughput_leaves_out_the_first_epoch():
    run = run_of("sb3", seconds_per_epoch=0.5, first_epoch=7.0)
    assert throughput.steps_per_second(run) == 200.0  # 2 epochs of 100 steps in 1 second
    assert throughput.start_up_seconds(run) == 6.5  # an epoch takes 0.5 of the first 7 seconds
    # Off-policy, the steps before the first update count for the start: 0.4 s are at full speed.
    assert throughput.start_up_seconds(run | {"steps_without_updates": 20}) == 6.6


def test_cpu_share_of_the_timed_epochs():
    undisturbed = run_of("sb3", 1.0)
    assert throughput.cpu_share(undisturbed) == pytest.approx(0.9)
    # Two epochs of 1 s each that got 1.2 s of CPU; what the first epoch did does not count.
    disturbed = undisturbed | {"epoch_ends": [(5.0, 1.0), (6.0, 1.5), (7.0, 2.2)]}
    assert throughput.cpu_share(disturbed) == pytest.approx(0.6)
    assert throughput.summarise([undisturbed, disturbed])[0]["cpu_share"] == pytest.approx(0.6)


def test_summary_holds_medians_and_ratios():
    runs = [run_of("spinup_tf2", s, seed) for seed, s in enumerate((0.2, 0.1, 0.25))]
    runs += [run_of("sb3", s, seed) for seed, s in enumerate((1.0, 2.0, 4.0))]
    ours, sb3 = rows = throughput.summarise(runs)
    assert ours["speed"] == pytest.approx(500)
    assert ours["slowest"] == pytest.approx(400)
    assert ours["fastest"] == pytest.approx(1000)
    assert ours["gradient_steps"] == 155  # not the 999 of the first epoch
    assert ours["last_return"] == 21.0
    assert ours["peak_memory"] == 302_000_000
    assert sb3["speed"] == pytest.approx(50)
    assert throughput.our_ratio(sb3, rows) == pytest.approx(10)
    assert throughput.our_ratio(sb3, [sb3]) is None
