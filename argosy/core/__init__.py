"""Foundations of every wing: configs, stores, steps, tracking, statistics, sandboxes."""
