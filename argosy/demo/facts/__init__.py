"""Tables of well-known facts in English and Chinese, and how they are split and quizzed."""

from argosy.demo.facts.sampling import distractors, split_facts
from argosy.demo.facts.table import LANGS, RELATIONS, Fact, load_facts

__all__ = ["LANGS", "RELATIONS", "Fact", "distractors", "load_facts", "split_facts"]
