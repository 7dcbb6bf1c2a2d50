"""A solution for each exercise."""
