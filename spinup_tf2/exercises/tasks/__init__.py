"""What the student fills in, a file for each exercise; each needs no other part of the package."""
