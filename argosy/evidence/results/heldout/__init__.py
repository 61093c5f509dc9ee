"""Held-out text: losses by channel, by position, and memorisation."""
