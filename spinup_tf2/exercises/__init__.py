"""Exercises that check themselves: `python -m spinup_tf2.exercises` lists them.

An exercise NAME consists of `tasks/NAME.py`, which the student completes, and `answers/NAME.py`:
the solution, and below it the checks of an answer, with the mistakes that they recognize.
"""
