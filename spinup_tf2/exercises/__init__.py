"""Exercises that check themselves: `python -m spinup_tf2.exercises` lists them.

An exercise NAME consists of three files: `tasks/NAME.py`, which the student completes, a solution
in `solutions/NAME.py`, and `checks/NAME.py`, which checks an answer and explains mistakes.
"""
