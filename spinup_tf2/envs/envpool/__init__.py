"""Environments of EnvPool, one at a time, and the games of procgen among them."""

from spinup_tf2.envs.envpool.env import EnvPoolEnv
from spinup_tf2.envs.envpool.procgen import GAMES, ProcgenEnv, is_procgen

__all__ = ["GAMES", "EnvPoolEnv", "ProcgenEnv", "is_procgen"]
