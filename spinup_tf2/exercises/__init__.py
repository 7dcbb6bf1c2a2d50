"""Exercises that check themselves: `python -m spinup_tf2.exercises` lists them.

An exercise NAME consists of three files: `tasks/NAME.py`, which the student fills in, a solution of
it in `solutions/NAME.py`, and `checks/NAME.py`, which tells right from wrong, and why.
"""
