"""Rows of evaluations: their reader, the values that a metric is the mean of, the settings of their measurement."""
