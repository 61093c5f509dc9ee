"""Rules that find the answer in a generated text: each module registers the rule that it has.

A rule is a class with a `name`, `extract(text, labels)`, `canonical(answer)` and `closing(answer, lang)`.
"""

from evals.extract.registry import Rule, rule, rules

__all__ = ["Rule", "rule", "rules"]
