"""Placeholders for personal data: e-mail, phone, resident ID (China), social security number (US), bank card, IP, keys.

docs/cleaning.md has what is found and how much of it: precision and recall on labelled cases."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import ClassVar, Literal

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores
from argosy.corpus.text.personal import KINDS, Span, email_at, ipv6_in, key_at, numbers_in, triggers

Kind = Literal["key", "email", "resident_id", "ssn", "card", "phone", "ip"]


class PiiConfig(FilterConfig):
    """Says what is done with personal data, in every channel."""

    name: str = "pii"
    action: Literal["mask", "drop"] = "mask"
    """mask: <EMAIL>, <PHONE>, ... stand in its place; drop: documents that have any go."""
    off: tuple[Kind, ...] = ()
    """Kinds that stay as they are."""


class Pii(Filter[PiiConfig]):
    """A filter that replaces personal data; its scores are how many of each kind.

    A compiled scan of the batch finds where there may be any: documents without such a place are not touched."""

    scoring: ClassVar[tuple[str, ...]] = ("off",)
    counted: ClassVar[tuple[str, ...]] = KINDS
    repairs: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        counts = {kind: np.zeros(len(batch)) for kind in KINDS}
        texts = batch.texts
        for document, spans in self._spans(batch).items():
            texts[document], found = mask(texts[document], spans)
            for kind, count in found.items():
                counts[kind][document] = count
        return batch.with_texts(texts), counts

    def rules(self) -> Sequence[Rule]:
        """List a rule a kind, where documents with personal data go."""
        kinds = [kind for kind in KINDS if kind not in self.config.off]
        return [Rule(kind, f"personal data: {kind}", most=0) for kind in kinds if self.config.action == "drop"]

    def _spans(self, batch: Batch) -> dict[int, list[Span]]:
        """Find the personal data of each document that has any place to look at."""
        from argosy.corpus.cleaning.kernels.filters.pii import AT, COLONS, NUMBER, find

        places = find(batch.points, batch.starts)
        owners = batch.documents_at(places[:, 0])
        found: dict[int, list[Span]] = defaultdict(list)
        looks = {AT: email_at, NUMBER: numbers_in, COLONS: ipv6_in}
        shifted = places[:, :2] - batch.starts[owners][:, None]
        for owner, (begin, end), kind in zip(owners.tolist(), shifted.tolist(), places[:, 2].tolist(), strict=True):
            found[owner] += looks[kind](batch.documents[owner].text, begin, end)
        patterns = triggers()
        begins = tuple(sorted(patterns))
        owners, where, which = batch.find(begins)
        where = where - batch.starts[owners]
        for owner, at, number in zip(owners.tolist(), where.tolist(), which.tolist(), strict=True):
            found[owner] += key_at(batch.documents[owner].text, at, patterns[begins[number]])
        return {owner: kept for owner, spans in found.items()
                if (kept := [span for span in spans if span[2] not in self.config.off])}


def mask(text: str, spans: Sequence[Span]) -> tuple[str, Counter[str]]:
    """Return `text` with `<KIND>` in the place of each span, and how many of each kind; of spans that overlap the kind
    counts that is first in KINDS, then the longer."""
    taken: list[Span] = []
    covered = bytearray(len(text))
    for begin, end, kind in sorted(set(spans), key=lambda span: (KINDS.index(span[2]), span[0] - span[1], span[0])):
        if not any(covered[begin:end]):
            covered[begin:end] = b"\1" * (end - begin)
            taken.append((begin, end, kind))
    pieces, at = [], 0
    for begin, end, kind in sorted(taken):
        pieces += [text[at:begin], f"<{kind.upper()}>"]
        at = end
    return "".join([*pieces, text[at:]]), Counter(kind for _, _, kind in taken)
