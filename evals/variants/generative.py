"""The answer is generated, not chosen among continuations."""

from dataclasses import dataclass, replace
from random import Random

from argosy.errors import InputError
from evals.extract import rule
from evals.forms import GeneratedForm
from evals.question import Draft
from evals.variants import Variant


@dataclass(frozen=True)
class Generative(Variant):
    """Question and options as in the published form; the model writes, and a rule reads the answer.

    Works on open items, and on several right options at once ("AC"). `extract`: a rule of evals/extract, `stops`: a
    text or texts that end the answer, `max_tokens`: its length; by default by the item (evals/forms.py).
    `solution`: shots show the worked solution where there is one, `annotations`: with its <<calculations>>.
    """

    name = "generative"
    draws = False
    open = True
    several = True
    extract: str = ""
    stops: str | tuple[str, ...] | None = None
    max_tokens: int = 0
    solution: bool = True
    annotations: bool = False

    def __post_init__(self) -> None:
        if self.extract:
            try:
                rule(self.extract)
            except InputError as error:
                raise ValueError(str(error)) from None
        if not isinstance(self.max_tokens, int) or self.max_tokens < 0:
            raise ValueError(f"max_tokens is {self.max_tokens!r}; allowed: 0 (by the item) or a number of tokens")
        stops = [self.stops] if isinstance(self.stops, str) else self.stops or ()
        if not all(isinstance(stop, str) and stop for stop in stops):
            raise ValueError(f"stops is {self.stops!r}; allowed: a text or a list of texts")

    def apply(self, draft: Draft, rng: Random) -> list[Draft]:
        """Ask the same question in another form."""
        stops = (self.stops,) if isinstance(self.stops, str) else None if self.stops is None else tuple(self.stops)
        form = GeneratedForm(self.extract, stops, self.max_tokens, self.solution, self.annotations)
        return [replace(draft, form=form)]
