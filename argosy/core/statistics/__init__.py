"""Statistics: intervals, paired tests, corrections, trends, contamination. docs/statistics.md"""
