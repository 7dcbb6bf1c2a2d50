"""The files that students complete, one per exercise; they need no other part of the package."""
