"""Saves of states, beside a save that training waits for."""
