"""A classifier of documents by hashed n-grams: trained on two sets, or on documents with scores, and calibrated."""
