"""The checks of each exercise: `CHECKS`, functions of the student's module.

A check returns nothing, or raises `Wrong` with a sentence that names the mistake.
"""
