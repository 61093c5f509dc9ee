"""Statistics: intervals, paired tests, corrections, trends, contamination. docs/report.md"""
