"""The one engine that compares checkpoints: rows, pairs, tests, corrections, words, page and gate. docs/report.md"""
