"""Speed of training beside the Trainer of Hugging Face."""
