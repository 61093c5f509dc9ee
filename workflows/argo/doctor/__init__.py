"""Checks of a cluster. A module of this package with `CHECKS` is found by its place; check.py defines a check."""
