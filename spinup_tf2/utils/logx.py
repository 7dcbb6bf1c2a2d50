"""Spinning Up's loggers, from `spinup_tf2.files.logger`."""

from spinup_tf2.files.logger import EpochLogger, Logger, colorize
