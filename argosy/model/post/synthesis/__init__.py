"""Synthesis: training data of a model's own answers, or of a teacher's. Start with config.py and methods/."""
