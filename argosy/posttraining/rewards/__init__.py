"""Rewards: a module is a reward of its name and has `make(settings) -> Reward`."""
