"""The checks of each exercise: `CHECKS`, a list of functions of the student's module.

A check returns nothing, or raises `Wrong` with a sentence that names the mistake.
"""
