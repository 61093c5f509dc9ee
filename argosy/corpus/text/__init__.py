"""Properties of texts: scripts and words, language, damaged encodings, faults of generated answers."""
