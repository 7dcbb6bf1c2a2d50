"""The parts of the throughput benchmark that only compute; none needs PyTorch or SB3."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import breakdown
import contestants
import measure
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


def test_ratio_is_taken_at_the_same_setting():
    runs = [run_of(OURS, 0.1), run_of(OURS, 0.05, num_envs=8), run_of("sb3", 1.0, num_envs=8)]
    rows = throughput.summarise([*runs, run_of("sb3", 1.0) | {"algorithm": "sac"}])
    assert throughput.our_ratio(rows[2], rows) == pytest.approx(20)
    assert throughput.our_ratio(rows[3], rows) is None


def test_table_is_markdown():
    rows = throughput.summarise([run_of("spinup_tf2", 0.1), run_of("sb3", 1.0)])
    header, rule, ours, sb3 = throughput.throughput_table(rows).splitlines()
    assert header.startswith("| algorithm | environment | num_envs | contestant | steps/s |")
    assert rule == "| --- " * 13 + "|"
    assert ours.startswith(
        "| ppo | CartPole-v1 | 1 | spinup_tf2 | 1,000 | 1,000 to 1,000 | 90% |  | 4.9 s | 300 MB |"
    )
    assert "| Stable-Baselines3 | 100 | 100 to 100 | 90% | 10.0 x |" in sb3


def test_last_return_is_blank_only_if_no_run_finished_an_episode():
    unfinished = run_of("sb3", 1.0) | {"last_return": None}
    [row] = throughput.summarise([unfinished, run_of("sb3", 1.0, seed=3)])
    assert row["last_return"] == 23.0
    table = throughput.throughput_table(throughput.summarise([unfinished]))
    assert table.endswith("| 155 |  |")


def test_profile_tables():
    ppo = run_of(OURS, 0.1) | {
        "sections": {"update": 0.15, "rest": 0.05, "environment": 0.0},
        "limit": {
            "gradient_steps": 300,
            "update_gflops": 50,
            "large_matmul_gflops": 200,
            "own_shapes_gflops": 100,
        },
    }
    sections = {"update": 0.1, "environment": 0.05, "sampling": 0.05}
    sac = run_of(OURS, 0.1) | {"algorithm": "sac", "sections": sections}
    header, _, first, second = throughput.sections_table([ppo, sac]).splitlines()
    assert "num_envs | update | rest | environment | sampling | all | all but the env" in header
    # 0.15 s for 200 steps are 750 microseconds for each; what a run does not have is blank.
    assert "| 750.0 (75%) | 250.0 (25%) | 0.0 (0%) |  | 1000.0 | 1000.0 | 90% |" in first
    assert "| 500.0 (50%) |  | 250.0 (25%) | 250.0 (25%) | 1000.0 | 750.0 | 90% |" in second
    limits = throughput.limit_table([ppo])
    assert "| 0.50 ms | 50 GFLOP/s | 200 GFLOP/s | 25% | 100 GFLOP/s | 50% |" in limits


def test_machine_names_every_version_that_took_part():
    runs = [run_of("spinup_tf2", 0.1), run_of("sbx", 0.1)]
    runs[1]["versions"] = {"numpy": "2.3.5", "sbx-rl": "0.28.0"}
    line = throughput.machine(1, runs)
    assert line.endswith("sbx-rl 0.28.0, numpy 2.3.5 and 2.4.6.")


def order_of(*flags):
    return [
        (run["algorithm"], run["num_envs"], run["seed"], run["contestant"])
        for run in throughput.schedule(throughput.parse_arguments(flags))
    ]


def test_contestants_take_turns():
    two = [OURS, "sb3", "sb3_same_work"]
    three = [*two, "spinningup_torch", "spinningup_torch_checked"]
    assert order_of("--envs", "CartPole-v1", "--repeats", "2") == [
        *[("ppo", 1, seed, contestant) for seed in (0, 1) for contestant in three],
        *[("ppo", 8, seed, contestant) for seed in (0, 1) for contestant in two],
    ]
    four = [OURS, "spinup_tf2_evaluating", "sb3", "sbx"]
    assert order_of("--algorithms", "sac", "ddpg", "--repeats", "1") == [
        (algorithm, 1, 0, contestant) for algorithm in ("sac", "ddpg") for contestant in four
    ]
    flags = ("--algorithms", "td3", "ppo", "--contestants", "sbx", "sb3", "--num-envs", "1")
    assert order_of(*flags, "--envs", "Walker2d-v5", "--repeats", "1") == [
        ("td3", 1, 0, "sbx"),
        ("td3", 1, 0, "sb3"),
        ("ppo", 1, 0, "sb3"),
    ]
    flags = ("--algorithms", "trpo", "a2c", "vpg", "--envs", "CartPole-v1", "--num-envs", "1")
    assert order_of(*flags, "--repeats", "1") == [
        *[(name, 1, 0, contestant) for name in ("trpo", "a2c") for contestant in (OURS, "sb3")],
        ("vpg", 1, 0, OURS),
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--contestants", "spinup_tf2_2_ranks"], "2 cores are needed"),
        (["--contestants", "spinup_tf2_2_runs"], "2 cores are needed"),
        (["--algorithms", "ppo", "sac", "--num-envs", "1", "8"], "must be 1 for sac, td3, ddpg"),
        (["--steps", "0"], "must be at least 1"),
        (["--repeats", "0"], "must be at least 1"),
        (["--num-envs", "0", "8"], "must be at least 1"),
    ],
)
def test_what_cannot_be_measured(monkeypatch, capsys, flags, words):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    with pytest.raises(SystemExit) as stop:
        throughput.parse_arguments(flags)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_processes_bind_themselves_to_cores_of_their_own(monkeypatch):
    bound = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5, 7})
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cores: bound.append([*cores]))
    monkeypatch.setattr("os.environ", {})
    for rank, cores in ((None, 1), (0, 1), (1, 1), (1, 2)):
        if rank is not None:
            monkeypatch.setitem(contestants.os.environ, "PMI_RANK", str(rank))
        contestants.bind_to_cores(cores)
    monkeypatch.setattr("os.environ", {})
    contestants.bind_to_cores(1, place=1)
    assert bound == [[7], [7], [5], [2, 3], [5]]


def test_runs_at_the_same_time_count_together():
    first, second = run_of("spinup_tf2_2_runs", 0.1), run_of("spinup_tf2_2_runs", 0.3)
    both = throughput.together([first, second])
    # 200 steps of both in 0.2 s, the mean; each has its core for nine tenths of it.
    assert throughput.steps_per_second(both) == pytest.approx(1000)
    assert throughput.cpu_share(both) == pytest.approx(0.9)
    assert throughput.steps_per_second(throughput.together([first])) == pytest.approx(1000)
    off_policy = {"steps_without_updates": 20}
    both = throughput.together([first | off_policy, second | off_policy])
    assert throughput.start_up_seconds(both) == pytest.approx(5.0 - 160 / 1000)


def test_both_of_two_runs_are_waited_for(tmp_path, monkeypatch):
    """The second fails at once; the first is not left behind."""
    monkeypatch.setattr(throughput, "HERE", tmp_path)
    (tmp_path / "contestants.py").write_text(
        "import json, pathlib, sys, time\n"
        "if json.loads(sys.argv[1])['place']: sys.exit('out of order')\n"
        "time.sleep(1)\n"
        f"pathlib.Path({str(tmp_path / 'first')!r}).touch()\n"
    )
    args = throughput.parse_arguments([])
    with pytest.raises(SystemExit, match=r"^out of order\n\nThis run failed: .*2_runs"):
        throughput.run_once({"contestant": "spinup_tf2_2_runs"}, args)
    assert (tmp_path / "first").exists()


def test_the_chart_has_a_panel_for_each_setting(tmp_path, monkeypatch):
    import matplotlib.figure

    drawn = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure,
        "savefig",
        lambda fig, *args, **kwargs: (drawn.append(fig), save(fig, *args, **kwargs)),
    )
    runs = [run_of(name, 0.1, num_envs=n) for name in (OURS, "sb3") for n in (1, 8)]
    throughput.chart(throughput.summarise(runs), tmp_path / "chart.png")
    [figure] = drawn
    assert [len(axis.containers[-1]) for axis in figure.axes] == [2, 2]
    assert (tmp_path / "chart.png").stat().st_size > 5000


def test_peak_memory_is_that_of_the_process():
    """A block of 200 MB that is given back again stays in the peak."""
    code = "import measure; a = bytearray(b'x') * 200_000_000; del a; print(measure.peak_memory())"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    )
    assert 200e6 < int(run.stdout) < 260e6


def test_a_run_is_one_epoch_longer_than_what_is_timed():
    assert measure.epochs_for(36_000, 4000) == 10
    assert measure.epochs_for(36_000, 16_384) == 4  # rounded up
    assert measure.epochs_for(1, 4000) == 2


def test_harness_imports_no_framework():
    """Each is imported by the one process that uses it, after that has been bound to its cores."""
    code = "import throughput, contestants, breakdown, sys; print(*sorted(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "throughput" in modules
    assert not {"torch", "tensorflow", "stable_baselines3", "gymnasium", "numpy"} & set(modules)
