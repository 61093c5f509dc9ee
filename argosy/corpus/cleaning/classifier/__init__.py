"""Models that filters ask: where they lie; and a classifier of documents by hashed n-grams, which is trained on two
sets or on documents with scores, and calibrated."""
