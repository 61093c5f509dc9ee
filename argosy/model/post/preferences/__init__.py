"""Learning from preferences: examples, methods, reference, loop; and the reward model."""
