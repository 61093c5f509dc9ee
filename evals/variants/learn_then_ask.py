"""The items are learnt without their answers, then asked."""

from random import Random
from typing import ClassVar

from pydantic import Field

from argosy.core.config.schema import Rate
from evals.question import Draft
from evals.variants import Variant


class LearnThenAsk(Variant):
    """Asks copies of the checkpoint that were fine-tuned briefly on questions and options without the right one: what
    rises, against a copy that learnt other items, is what the model can make of a text (steps/learn.py).

    Alone it asks for letters, and in a chain in the form of what follows it (`[learn_then_ask, cloze]`)."""

    name = "learn_then_ask"
    draws = False
    knowledge = False  # of the copies, not of the checkpoint
    independent = True  # learnt in several orders
    learns: ClassVar[bool] = True
    among: int = Field(0, ge=0)
    """options of other items that are scored beside the item's own, so that learning its options can tell; 0: none"""
    epochs: int = Field(4, ge=1, le=100)
    """passes over the items, each with another option first"""
    learning_rate: Rate = 3e-4
    """highest learning rate, which falls as a cosine"""
    batch_size: int = Field(8, ge=1)
    """texts of an optimizer step"""
    lora: bool | None = None
    """whether adapters are trained in place of the weights; null: in models above 50 million parameters"""
    minutes: float = Field(10.0, gt=0)
    """time that training both copies may take; one that would take longer is refused"""

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Leave the question as it is."""
        return [draft]
