"""The scoring engine: log-probabilities and greedy texts of a causal model, each shared beginning computed once."""
