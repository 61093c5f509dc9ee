"""Reports of cleaning a corpus: counts, copies, near misses, benchmark items, and a document's way through it."""
