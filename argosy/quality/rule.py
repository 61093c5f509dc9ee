"""What a rule is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from argosy.cleaning.text import is_han


@dataclass(frozen=True)
class Generated:
    """An answer of a model.

    Attributes:
        prompt: what was asked, as the user wrote it (without a chat template).
        text: the answer, without the token that ended it.
        ended: whether the model ended it itself; False: it was cut at the limit of tokens.
    """

    prompt: str
    text: str
    ended: bool = True

    @cached_property
    def chinese(self) -> bool:
        """Whether the answer is Chinese by its characters."""
        return is_han(self.text)
