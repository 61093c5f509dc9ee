"""Token ids: the tokenized format, the reader of it, and the mixture that training samples from."""
