"""Models: weights, inference, training, post-training."""
