"""Results of evaluations: statistics, comparison, gate and report."""
