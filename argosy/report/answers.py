"""What a checkpoint answered, item by item, and its loss of each held-out document: the rows of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from argosy.comparison.rows import is_text
from argosy.comparison.values import Value, item_means, plain
from argosy.evaluation.asked import ASKED


class Row(NamedTuple):
    """One question. `scores`: log-probabilities (nats) of its continuations; `chosen` and `gold` index them. `cluster`:
    what its item shares with related ones; "" for nothing. `asked`: digest of what was asked; "" where not known.
    `mixed`: whether its item's options have no published order."""

    id: str
    item: str
    lang: str
    correct: bool
    chosen: int
    gold: int
    scores: tuple[float, ...]
    cluster: str = ""
    asked: str = ""
    mixed: bool = False


class Place(NamedTuple):
    """Where a right option stands among how many."""

    gold: int
    options: int


class Published(NamedTuple):
    """An item in its published order and in others: the place of its right option in the published one, and the
    log-probabilities (nats) of its right letter, the published order first."""

    place: Place
    answers: tuple[float, ...]


class Text(NamedTuple):
    """The loss of one held-out document: nats of its text, and its UTF-8 bytes."""

    nats: float
    size: int


@dataclass
class Answers:
    """All answers to one task in one variant."""

    rows: list[Row] = field(default_factory=list)

    @cached_property
    def by_item(self) -> dict[str, float]:
        """Share of right answers among each item's questions (1 or 0 where it has one)."""
        found: dict[str, list[bool]] = {}
        for row in self.rows:
            found.setdefault(row.item, []).append(row.correct)
        return {item: sum(right) / len(right) for item, right in found.items()}

    @cached_property
    def clusters(self) -> dict[str, str]:
        """What each item shares with related ones; the item itself where there are none."""
        return {row.item: row.cluster or row.item for row in self.rows}

    @cached_property
    def places(self) -> dict[str, Place]:
        """Where each item's right option stands; of its last question where it has several."""
        return {row.item: Place(row.gold, len(row.scores)) for row in self.rows}

    @cached_property
    def values(self) -> dict[str, Value]:
        """By item, the share of right answers, with what tells it from another one of the same name."""
        return item_means(plain([row._asdict() for row in self.rows], "acc"))

    @cached_property
    def mixed(self) -> set[str]:
        """Items whose options have no published order."""
        return {row.item for row in self.rows if row.mixed}

    @cached_property
    def chance(self) -> float:
        """Accuracy of guessing; 0 of an answer that is generated."""
        return sum(1 / len(row.scores) for row in self.rows if row.scores) / len(self.rows)


@dataclass
class ItemsFile:
    """An evaluation's items.

    Attributes:
        orders: by task and item, how likely its right letter is in the published order and in others.
        texts: losses of held-out documents by suite, channel and id.
    """

    answers: dict[tuple[str, str], Answers] = field(default_factory=dict)
    orders: dict[str, dict[str, Published]] = field(default_factory=dict)
    texts: dict[str, dict[str, dict[str, Text]]] = field(default_factory=dict)
    broken: int = 0  # rows that are not of the format


def sorted_rows(rows: Iterable[Mapping[str, Any]], broken: int = 0) -> ItemsFile:
    """Rows of evaluations by what they are of; those that cannot be used are counted, beside `broken`, which are known
    to be of no format. Rows of probes have no right answer and are passed."""
    found = ItemsFile(broken=broken)
    for record in rows:
        try:
            task, variant = str(record["task"]), str(record["variant"])
            if record.get("calibration"):
                continue  # asked to measure a preference for places: it counts in acc_pride alone
            if "correct" in record:
                found.answers.setdefault((task, variant), Answers()).rows.append(_row(record))
            elif is_text(record):
                found.texts.setdefault(task, {}).setdefault(variant, {})[str(record["id"])] = _text(record)
            elif variant == "memorisation":
                published = Published(Place(*record["place"]), tuple(map(float, record["scores"][1])))
                found.orders.setdefault(task, {})[str(record["id"])] = published
        except (KeyError, TypeError, ValueError, IndexError):
            found.broken += 1
    return found


def _text(record: Mapping[str, Any]) -> Text:
    text = Text(float(record["nats"]), int(record["bytes"]))
    if not (math.isfinite(text.nats) and text.size > 0):
        raise ValueError("nats is not a number, or the document is empty")
    return text


def _row(record: Mapping[str, Any]) -> Row:
    scores = tuple(float(score) for score in record["scores"])
    chosen, gold = int(record["chosen"]), int(record["gold"])
    if scores and not 0 <= min(chosen, gold) <= max(chosen, gold) < len(scores):  # a generated answer has none
        raise ValueError("chosen or gold is not among the scores")
    item = str(record.get("item", record["id"]))
    return Row(str(record["id"]), item, str(record.get("lang", "")), bool(record["correct"]), chosen, gold, scores,
               str(record.get("cluster") or ""), str(record.get(ASKED) or ""), bool(record.get("mixed")))
