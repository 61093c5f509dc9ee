"""What a cluster may lack. A module of this package with `CHECKS` is found by its place; check.py says what one is."""
