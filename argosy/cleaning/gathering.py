"""What is decided when all shards are scored: rules by their scores, copies by their keys, in the order of filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from argosy.cleaning.dedup import Deduplicator
from argosy.cleaning.filter import Filter
from argosy.cleaning.scoring import KEPT, broken
from argosy.cleaning.shard import ScoredShard

if TYPE_CHECKING:
    from argosy.cleaning.scoring import Codes


class Reason(NamedTuple):
    """Why documents go; its number among all reasons is their code."""

    label: str
    text: str


@dataclass
class Decisions:
    """What happens to the documents of a corpus.

    Attributes:
        codes: by shard, for each document the number of its reason, or KEPT, (documents,), int32.
        reasons: by number.
        copies: by filter, (number of the document, number of the one that it is a copy of) over the whole corpus."""

    codes: "list[Codes]"
    reasons: list[Reason] = field(default_factory=list)
    copies: dict[str, Any] = field(default_factory=dict)
