"""The demo's documents, conversations, preferences, prompts and benchmark, made from a seed."""
