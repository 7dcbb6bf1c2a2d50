"""For each exercise its solution and, below it, the checks of an answer."""
