"""The parts of the throughput benchmark that only compute; none needs PyTorch or SB3."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def throughput(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import throughput

    return throughput


@pytest.fixture
def breakdown(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import breakdown

    return breakdown


@pytest.fixture
def contestants(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import contestants

    return contestants


def run_of(contestant, seconds_per_epoch, seed=0, num_envs=1, first_epoch=5.0):
    """The record of a run of three epochs of 100 steps."""
    return {
        "contestant": contestant,
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
    }


def test_matrix_products_of_a_gradient_step_by_hand(breakdown):
    # A batch of 10 through layers 3 -> 4 -> 2.
    assert breakdown.gradient_step_matmuls(10, (3, 4, 2)) == [
        (10, 3, 4),  # forward, layer 1
        (3, 10, 4),  # gradient of the weights of layer 1; nobody needs that of the observations
        (10, 4, 2),  # forward, layer 2
        (4, 10, 2),  # gradient of the weights of layer 2
        (10, 2, 4),  # gradient of its inputs
    ]


def test_flops_of_a_gradient_step_by_hand(breakdown):
    # Layer 1 multiplies 4000x4x64 twice, layer 2 4000x64x64 and layer 3 4000x64x2 three times:
    # 2 * 4000 * (2 * 256 + 3 * 4096 + 3 * 128) = 105,472,000.
    products = breakdown.gradient_step_matmuls(4000, (4, 64, 64, 2))
    assert breakdown.matmul_flops(products) == 105_472_000


def test_stopwatch_gives_nested_time_to_the_inner_section(breakdown):
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

    wait(10.0)
    stopwatch.wrap(update, "update")()
    wait(5.0)
    assert stopwatch.read() == {"rest": 15.0, "update": 4.0, "logging": 2.0}


def test_stopwatch_leaves_the_section_when_the_function_raises(breakdown):
    now = 0.0

    def fail():
        nonlocal now
        now += 1.0
        raise KeyError

    stopwatch = breakdown.Stopwatch(clock=lambda: now)
    with pytest.raises(KeyError):
        stopwatch.wrap(fail, "update")()
    now += 1.0
    assert stopwatch.read() == {"update": 1.0, "rest": 1.0}


def test_every_section_names_methods_that_exist(breakdown):
    from importlib import import_module

    for targets in breakdown.SECTIONS.values():
        for target in targets:
            module, _, path = target.partition(":")
            class_name, _, method = path.partition(".")
            assert callable(getattr(getattr(import_module(module), class_name), method))


def test_throughput_leaves_out_the_first_epoch(throughput):
    run = run_of("sb3", seconds_per_epoch=0.5, first_epoch=7.0)
    assert throughput.steps_per_second(run) == 200.0  # 2 epochs of 100 steps in 1 second
    assert throughput.start_up_seconds(run) == 6.5  # an epoch takes 0.5 of the first 7 seconds


def test_cpu_share_of_the_timed_epochs(throughput):
    undisturbed = run_of("sb3", 1.0)
    assert throughput.cpu_share(undisturbed) == pytest.approx(0.9)
    # Two epochs of 1 s each that got 1.2 s of CPU; what the first epoch did does not count.
    disturbed = undisturbed | {"epoch_ends": [(5.0, 1.0), (6.0, 1.5), (7.0, 2.2)]}
    assert throughput.cpu_share(disturbed) == pytest.approx(0.6)
    assert throughput.summarise([undisturbed, disturbed])[0]["cpu_share"] == pytest.approx(0.6)


def test_summary_holds_medians_and_ratios(throughput):
    runs = [run_of("spinup_tf2", s, seed) for seed, s in enumerate((0.2, 0.1, 0.25))]
    runs += [run_of("sb3", s, seed) for seed, s in enumerate((1.0, 2.0, 4.0))]
    ours, sb3 = rows = throughput.summarise(runs)
    assert ours["speed"] == pytest.approx(500)
    assert ours["slowest"] == pytest.approx(400)
    assert ours["fastest"] == pytest.approx(1000)
    assert ours["gradient_steps"] == 155  # not the 999 of the first epoch
    assert ours["last_return"] == 21.0
    assert sb3["speed"] == pytest.approx(50)
    assert throughput.our_ratio(sb3, rows) == pytest.approx(10)
    assert throughput.our_ratio(sb3, [sb3]) is None


def test_ratio_is_taken_at_the_same_number_of_environments(throughput):
    runs = [run_of("spinup_tf2", 0.1), run_of("spinup_tf2", 0.05, num_envs=8)]
    runs.append(run_of("sb3", 1.0, num_envs=8))
    rows = throughput.summarise(runs)
    assert throughput.our_ratio(rows[-1], rows) == pytest.approx(20)


def test_table_is_markdown(throughput):
    rows = throughput.summarise([run_of("spinup_tf2", 0.1), run_of("sb3", 1.0)])
    header, rule, ours, sb3 = throughput.throughput_table(rows).splitlines()
    assert header.startswith("| environment | num_envs | contestant | steps/s |")
    assert rule == "| --- " * 11 + "|"
    assert ours.startswith(
        "| CartPole-v1 | 1 | spinup_tf2.ppo | 1,000 | 1,000 to 1,000 | 90% |  | 4.9 s |"
    )
    assert "| Stable-Baselines3 PPO | 100 | 100 to 100 | 90% | 10.0 x |" in sb3


def test_last_return_is_blank_only_if_no_run_finished_an_episode(throughput):
    unfinished = run_of("sb3", 1.0) | {"last_return": None}
    [row] = throughput.summarise([unfinished, run_of("sb3", 1.0, seed=3)])
    assert row["last_return"] == 23.0
    table = throughput.throughput_table(throughput.summarise([unfinished]))
    assert table.endswith("| 155 |  |")


def test_profile_tables(throughput):
    profile = run_of("spinup_tf2", 0.1) | {
        "sections": {"update": 0.15, "rest": 0.05},
        "limit": {
            "gradient_steps": 300,
            "update_gflops": 50,
            "large_matmul_gflops": 200,
            "own_shapes_gflops": 100,
        },
    }
    # 0.15 s for 200 steps are 750 microseconds for each.
    assert (
        "| CartPole-v1 | 1 | 750.0 (75%) | 250.0 (25%) | 1000.0 | 90% |"
        in throughput.sections_table([profile])
    )
    assert (
        "| 0.50 ms | 50 GFLOP/s | 200 GFLOP/s | 25% | 100 GFLOP/s | 50% |"
        in throughput.limit_table([profile])
    )


def test_contestants_take_turns(throughput):
    order = [
        (run["num_envs"], run["seed"], run["contestant"])
        for run in throughput.schedule(["CartPole-v1"], [1, 8], list(throughput.CONTESTANTS), 2)
    ]
    three, two = ["spinup_tf2", "sb3", "spinningup_torch"], ["spinup_tf2", "sb3"]
    assert order == [
        *[(1, 0, contestant) for contestant in three],
        *[(1, 1, contestant) for contestant in three],
        *[(8, 0, contestant) for contestant in two],
        *[(8, 1, contestant) for contestant in two],
    ]


def test_a_run_is_one_epoch_longer_than_what_is_timed(contestants):
    assert contestants.epochs_for(36_000, 4000) == 10
    assert contestants.epochs_for(36_000, 16_384) == 4  # rounded up
    assert contestants.epochs_for(1, 4000) == 2


@pytest.mark.parametrize("flags", [["--steps", "0"], ["--repeats", "0"], ["--num-envs", "0", "8"]])
def test_useless_numbers_are_refused(throughput, flags, capsys):
    with pytest.raises(SystemExit) as exit_info:
        throughput.parse_arguments(flags)
    assert exit_info.value.code == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_harness_imports_no_framework(throughput, contestants, breakdown):
    """Each is imported by the one process that uses it, after that has been bound to its cores."""
    import subprocess

    code = "import throughput, contestants, breakdown, sys; print(*sorted(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "throughput" in modules
    assert not {"torch", "tensorflow", "stable_baselines3", "gymnasium", "numpy"} & set(modules)
