"""Rules that find the answer in a generated text: their base class, and the scan that finds them."""

from typing import ClassVar

from argosy.core.plugins import Folder


class Rule:
    """Base of rules."""

    name: ClassVar[str] = ""
    own_line: ClassVar[bool] = True
    """Whether `closing` has a line of its own after the steps of a worked example."""

    sets: ClassVar[bool] = False
    """Whether an answer is a set of options, of which each may be in it."""

    def extract(self, text: str, labels: str) -> str | None:
        """Find the answer in canonical form, or None where the text holds none. `labels`: those of the options."""
        raise NotImplementedError

    def canonical(self, answer: str) -> str:
        """Write the right answer in the form in which it equals what `extract` finds."""
        return answer.strip()

    def same(self, found: str, answer: str) -> bool:
        """Tell whether what `extract` has found is the right answer, as `canonical` writes it."""
        return found == answer

    def closing(self, answer: str, lang: str) -> str:
        """Write the end of a worked example, in which this rule finds `answer`."""
        return answer


RULES: Folder[Rule] = Folder("rule", Rule, __name__, instances=True)
