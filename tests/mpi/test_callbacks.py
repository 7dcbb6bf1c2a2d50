"""Callbacks in several processes: rank 0 calls them, and all ranks do what they ask for."""

from pathlib import Path

from tests.mpi.launchers import mpi  # noqa: F401 (a fixture)
from tests.progress import rows_without_time

PROGRAM = """
import sys
from spinup_tf2 import vpg
from spinup_tf2.parallel.mpi import proc_id

class StopsAfterTwo:
    def columns(self, run):
        return dict(Rank=proc_id(), Half=run.epoch / 2)

    def on_epoch_end(self, run, row):
        open("calls", "a").write(f"rank {proc_id()} epoch {run.epoch}\\n")
        if run.epoch == 1:
            run.stop("two are enough")

vpg(
    "CartPole-v1", steps_per_epoch=200, epochs=50, train_v_iters=2,
    ac_kwargs=dict(hidden_sizes=(8,)),
    callbacks=[StopsAfterTwo()] if proc_id() == 0 else None,
    logger_kwargs=dict(output_dir="run", quiet=True),
)
open(f"ended{proc_id()}", "w").close()
"""


def test_all_ranks_stop_after_the_same_epoch(mpi, tmp_path):  # noqa: F811
    path = Path(tmp_path, "script.py")
    path.write_text(PROGRAM)
    process = mpi.start(2, path, cwd=tmp_path)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert (tmp_path / "calls").read_text() == "rank 0 epoch 0\nrank 0 epoch 1\n"
    rows = rows_without_time(tmp_path / "run" / "progress.txt")
    assert [row[-2:] for row in rows] == [["Rank", "Half"], ["0.0", "0.0"], ["0.0", "0.5"]]
    assert all((tmp_path / f"ended{rank}").exists() for rank in (0, 1))
