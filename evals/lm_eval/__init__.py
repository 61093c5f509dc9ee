"""Tasks of lm-eval in suites of ours: as items for variants, or run as they are."""
