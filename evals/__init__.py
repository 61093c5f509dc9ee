"""Multiple-choice benchmarks and the variants that are made of them; see docs/evaluation.md."""
