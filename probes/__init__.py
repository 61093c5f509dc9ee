"""Probability probes: what a model finds likely, without asking it to follow an instruction; see docs/evaluation.md."""
