"""Personal data and secrets: labelled cases with look-alikes, precision and recall."""

import re
from collections import Counter
from pathlib import Path

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters.pii import KINDS, Pii, PiiConfig
from tests.cleaning_fixtures import document

CASES = Path(__file__).resolve().parents[3] / "data" / "pii_cases.txt"
_GOLD = re.compile(r"\[\[(\w+)\|(.*?)\]\]")
_MASK = re.compile(f"<({'|'.join(KINDS).upper()})>")


def labelled() -> list[tuple[str, str]]:
    """Text and the text with its personal data masked."""
    lines = CASES.read_text(encoding="utf-8").replace("\\n", "\x00").splitlines()[2:]
    return [(_GOLD.sub(lambda m: m[2], line).replace("\x00", "\n"),
             _GOLD.sub(lambda m: f"<{m[1].upper()}>", line).replace("\x00", "\n")) for line in lines]


def test_precision_and_recall_on_labelled_cases() -> None:
    cases = labelled()
    assert len(cases) >= 300
    one = Pii(PiiConfig(), Resources())
    masked, scores = one(Batch([document(text) for text, _ in cases]))
    right, found, there = Counter[str](), Counter[str](), Counter[str]()
    for (_, wanted), result in zip(cases, masked.documents, strict=True):
        labels, masks = Counter(_MASK.findall(wanted)), Counter(_MASK.findall(result.text))
        right += labels & masks
        found += masks
        there += labels
    assert {kind: int(scores[kind].sum()) for kind in KINDS} == {kind: found[kind.upper()] for kind in KINDS}
    assert right.total() / found.total() >= 0.98, found - right
    assert right.total() / there.total() >= 0.95, there - right
    assert all(right[kind] / there[kind] >= 0.88 for kind in there), there - right
