"""Scripts to learn from: each holds a whole algorithm, and needs no other part of the package."""
