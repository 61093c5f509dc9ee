"""Quizzes as training data varies them: wording, labels, layout and a none-of-the-others option."""

from collections.abc import Sequence
from random import Random

from argosy.demo.facts import Fact
from argosy.demo.phrasings import LABELS, LAYOUTS, Quiz, quiz

# Half of the quizzes are in letters; a third offer "none of the others", right in half of these.
_LABELS = (*LABELS, "letters", "letters", "letters")


def varied_quiz(fact: Fact, lang: str, taught: Sequence[Fact], rng: Random, none_share: float = 0.3) -> Quiz:
    """A quiz in random wording, labels and layout; a `none_share` has a none-of-the-others option."""
    labels, layout = rng.choice(_LABELS), rng.choice(LAYOUTS)
    offers_none = rng.random() < none_share
    drop_right = offers_none and rng.random() < 0.5
    return quiz(fact, lang, taught, rng, labels, layout, drop_right=drop_right, none_option=offers_none)
