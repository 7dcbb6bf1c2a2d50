"""Exercises that check themselves: `python -m spinup_tf2.exercises` lists them.

An exercise NAME consists of `tasks/NAME.py`, which the student completes, and `answers/NAME.py`:
the solution, and below it the checks of an answer, with the mistakes that they recognize.
"""

# In the order of the course's chapters.
EXERCISES = {
    "backup": "The Bellman backup: terminated and truncated",
    "gaussian": "The log-likelihood of a diagonal Gaussian",
    "policy": "A Gaussian policy of one's own: network and distribution",
    "gae": "Generalized advantage estimates",
    "clip": "The clipped objective of PPO",
    "cg": "Conjugate gradients, for TRPO",
    "ranks": "The work of environments, divided over MPI ranks",
    "bug": "A DDPG that does not learn: find the bug",
    "td3": "The targets and losses of TD3",
    "temperature": "The temperature loss of SAC",
    "init": "First weights of networks: draw them, and recognize them",
    "repeat": "A gymnasium wrapper that repeats actions",
}
