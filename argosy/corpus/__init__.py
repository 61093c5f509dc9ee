"""Texts before training: reading, cleaning, tokenizing."""
