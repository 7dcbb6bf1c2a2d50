"""Exercises that check themselves: `python -m spinup_tf2.exercises` lists them.

The file of an exercise, `answers/NAME.py`, holds the solution, from which the file that students
complete is made, and below it the checks of an answer, with the mistakes that they recognize.
"""
