"""A solution of each exercise."""
