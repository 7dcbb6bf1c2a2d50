"""What the tests of grids have in common."""

from tests.experiments.fakes import start_fakes

__all__ = ["start_fakes"]
