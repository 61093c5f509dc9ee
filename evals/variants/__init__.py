"""Variants: each module of this package registers one by being there.

A variant is a dataclass with a `name` and `apply(draft, rng) -> [Draft, ...]`; its fields are its parameters.
A chain of them makes the questions of an item. Suites write a chain as YAML:

    chinese_labels: labels                                 # one, as it is
    dropped: [{none_of_the_others: {drop: right}}, labels] # several, one after the other
"""

from evals.variants.chain import Chain, parse_chain
from evals.variants.registry import NotApplicable, Variant, registered

__all__ = ["Chain", "NotApplicable", "Variant", "parse_chain", "registered"]
