"""Spinning Up's module of this name: loading a trained agent, and letting it act."""

from spinup_tf2.cli.agents import load_agent, load_env, load_policy_and_env, run_policy
