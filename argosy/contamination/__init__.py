"""Whether a checkpoint has seen a benchmark: one measure for pages, tables, nights, MLflow and the gate.

    evidence.py   rows of evaluations -> the calibrated score (argosy.statistics.contamination)
    verdict.py    the score in words: memorised likely, not seen, or cannot tell and why
    logged.py     the score as metrics of a LoggedModel, and back
"""
