"""The version, in one place: `setup.py`, the docs and `spinup_tf2.__version__` read it here."""

__version__ = "0.1.0"
