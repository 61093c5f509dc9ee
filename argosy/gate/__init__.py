"""The gate: rules in YAML that a checkpoint must hold to be promoted. docs/gate.md

    config.py     the rules of a file, typed
    rule.py       what a rule is and what it finds; rules/ has one a file
    subject.py    what evaluations say of a checkpoint, and its comparison with a reference
    calibrate.py  python -m: what clean evaluations of one's own score, for the rule contamination
    check.py      rules -> verdict, with one correction over all tests
    render.py     for a terminal, for JSON and for MLflow
"""
