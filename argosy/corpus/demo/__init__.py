"""The demo's data from a seed: facts, documents, conversations, preferences, prompts and a benchmark."""
