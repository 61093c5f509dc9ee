"""Source material of the demo corpus: facts, phrasings and generated documents."""
