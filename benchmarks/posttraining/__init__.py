"""Speed and memory of post-training beside TRL."""
