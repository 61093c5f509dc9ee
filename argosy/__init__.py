"""Argosy: the whole life of a language model as a graph of steps."""

__version__ = "0.1.0"
