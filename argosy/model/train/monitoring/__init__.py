"""Measurements of a phase: times, speed, memory, and traces for other tools."""
