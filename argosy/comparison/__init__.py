"""Checkpoints, runs and model lines side by side: what got better, what was forgotten, what is noise."""
