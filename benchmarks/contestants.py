"""One training run of one contestant, in a process of its own.

`throughput.py` starts this file once per run, as `python contestants.py '{"contestant": ...}'`, so
that no framework shares a process or a thread pool with another. The process binds itself to its
cores before it imports anything that starts threads. What it measured goes to `result.json` in the
working directory.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

from measure import OFF_POLICY, peak_memory, versions

# What runs an algorithm for a contestant, as "module:function". Each takes algorithm, env,
# num_envs, seed and steps; those of our own also profile.
VPG_RUNS = {
    "spinup_tf2": "run_spinup_tf2:on_policy",
    "spinup_tf2_2_ranks": "run_spinup_tf2:on_policy",
    "spinup_tf2_2_runs": "run_spinup_tf2:on_policy",
}
ON_POLICY_RUNS = VPG_RUNS | {"sb3": "run_sb3:on_policy"}
PPO_RUNS = ON_POLICY_RUNS | {
    "sb3_same_work": "run_sb3:ppo_with_the_same_work",
    "spinningup_torch": "spinningup_torch:on_policy",
    "spinningup_torch_checked": "spinningup_torch:checked",
}
OFF_POLICY_RUNS = {
    "spinup_tf2": "run_spinup_tf2:off_policy",
    "spinup_tf2_2_ranks": "run_spinup_tf2:off_policy",
    "spinup_tf2_2_runs": "run_spinup_tf2:off_policy",
    "spinup_tf2_evaluating": "run_spinup_tf2:off_policy_evaluating",
    "sb3": "run_sb3:off_policy",
    "sbx": "run_sb3:off_policy_sbx",
}
DQN_RUNS = {name: OFF_POLICY_RUNS[name] for name in ("spinup_tf2", "sb3")}
DQN_RUNS["dqn_torch"] = "dqn_torch:off_policy"


def runs_of(algorithm):
    """The table of contestants that have this algorithm."""
    if algorithm in OFF_POLICY:
        return DQN_RUNS if algorithm == "dqn" else OFF_POLICY_RUNS
    return {"vpg": VPG_RUNS, "ppo": PPO_RUNS}.get(algorithm, ON_POLICY_RUNS)


def rank():
    """The number of this process, from 0, among those that an MPI launcher has started."""
    names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def bind_to_cores(cores, place=0):
    """Restrict this process, and the thread pools of the numerical libraries, to `cores` cores."""
    # The last ones: the first core often has the operating system's own work to do. The second
    # process takes those before, and so on; then they are shared.
    available = sorted(os.sched_getaffinity(0))
    last = len(available) - cores * ((place + rank()) % (len(available) // cores))
    os.sched_setaffinity(0, available[last - cores : last])
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "PJRT_NPROC",  # JAX
    ):
        os.environ[name] = str(cores)


def main():
    """Run what the argument asks for and write `result.json`."""
    spec = json.loads(sys.argv[1])
    bind_to_cores(spec.pop("cores"), spec.pop("place"))
    module, _, function = runs_of(spec["algorithm"])[spec.pop("contestant")].partition(":")
    result = getattr(import_module(module), function)(**spec)
    # Of runs that are profiled it includes the products that are measured afterwards.
    result |= {"peak_memory": peak_memory(), "versions": versions()}
    if rank() == 0:
        text = json.dumps(result, default=float)
        Path("result.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
