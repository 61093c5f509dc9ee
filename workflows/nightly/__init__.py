"""Nightly evaluation: what is new is evaluated, held against a reference, and told when it got worse.

    found.py      checkpoints of a store, and those that MLflow knows
    cells.py      checkpoint x suite, in the very directories that the lifecycle uses
    reference.py  what a new checkpoint is held against
    night.py      what a night has to do
    judged.py     what earlier nights judged and told
    local.py      a night on this machine; workflows/argo/pod/nightly.py has it in pods
"""
