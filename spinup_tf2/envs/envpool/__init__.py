"""Environments of EnvPool as single gymnasium environments, among them the games of procgen."""

from spinup_tf2.envs.envpool.env import EnvPoolEnv
from spinup_tf2.envs.envpool.procgen import ProcgenEnv, is_procgen

__all__ = ["EnvPoolEnv", "ProcgenEnv", "is_procgen"]
