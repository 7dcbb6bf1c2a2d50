"""An algorithm of somebody's own that needs nothing of this package."""

from pathlib import Path


def climber(env_fn, seed=0, *, height=1, steps, logger_kwargs=None):
    """Climbs as high as it is told.

    Args:
        height (int): How high it climbs. In meters.
    """
    assert env_fn().spec.id == "CartPole-v1"
    folder = Path(logger_kwargs["output_dir"])
    folder.mkdir(parents=True)
    (folder / "progress.txt").write_text(f"Epoch\tEpRet\n0\t{height + steps}\n")
