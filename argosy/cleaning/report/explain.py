"""What happened to a document, filter by filter, with the values that decided; what two cleanings decide otherwise."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from argosy.cleaning.filter import Filter, Rule
from argosy.cleaning.kept import KeptCorpus
from argosy.cleaning.scoring import KEPT, broken
from argosy.cleaning.shard import ScoredShard
from argosy.data.shards import read_columns, shard_files
from argosy.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from argosy.cleaning.batch import Floats


@dataclass(frozen=True)
class Place:
    """Where a document is: its shard, and its number in it."""

    shard: int
    row: int


def find(corpus: KeptCorpus, name: str) -> Place:
    """Find the document with this id. Raises InputError: there is none; names one that begins alike."""
    near = ""
    for number, directory in enumerate(corpus.scored):
        at = 0
        for path in shard_files(directory):
            for group in read_columns(path, ("id",)):
                ids = group.values["id"]
                if name in ids:
                    return Place(number, at + ids.index(name))
                near = near or next((each for each in ids if name in each), "")
                at += len(ids)
    hint = f"; did you mean {near!r}?" if near else ""
    raise InputError(f"no document has the id {name!r}{hint} (ids are file:line, as in the samples of the report)")


@dataclass(frozen=True)
class Look:
    """What a rule says of a document.

    Attributes:
        label: of the filter; its score and value; the limit in words.
        broken: whether the document breaks the rule.
        skipped: whether the filter passes over its channel."""

    label: str
    score: str
    value: float
    limit: str
    broken: bool
    skipped: bool


def looks(
    filters: Mapping[str, Filter[Any]], scores: Mapping[str, "Floats"], channel: str, row: int = 0
) -> Iterator[Look]:
    """Yield what each rule says of the document `row`, also behind the one that decided."""
    for label, one in filters.items():
        for rule in one.rules():
            value = float(scores[f"{label}.{rule.score}"][row])
            flag = bool(broken(rule, label, scores)[row])
            yield Look(label, rule.score, value, limit(rule), flag, channel in one.config.skip_channels)


def limit(rule: Rule | None) -> str:
    """Say what a rule allows."""
    words: list[str] = []
    while rule:
        here = [f"at least {rule.least:g}"] * isfinite(rule.least) + [f"at most {rule.most:g}"] * isfinite(rule.most)
        words.append(" and ".join(here) if not words else f"{rule.score} {' and '.join(here)}")
        rule = rule.also
    return " or ".join(words)


def shown(value: float) -> str:
    """Write a score: short, and `-` where it does not apply."""
    return "-" if isnan(value) else f"{value:.4g}"


def duplicate_of(corpus: KeptCorpus, place: Place, label: str) -> str:
    """Name the document that this one is a copy of, and what has dropped that one later; "" where it is a copy of none,
    or repeats itself."""
    firsts = [0, *accumulate(len(ScoredShard(directory)) for directory in corpus.scored)]
    copies = corpus.copies(label)
    found = copies[(copies[:, 0] == firsts[place.shard] + place.row) & (copies[:, 0] != copies[:, 1]), 1].tolist()
    if not found or found[0] < 0:
        return corpus.earlier(label, found[0]) if found else ""
    shard = bisect_right(firsts, found[0]) - 1
    row = found[0] - firsts[shard]
    [name] = ScoredShard(corpus.scored[shard]).column("id", [row])
    later = corpus.decision(shard, row)
    return f"{name} (then dropped by {later[0]}: {later[1]})" if later else str(name)


@dataclass(frozen=True)
class Difference:
    """Documents that one cleaning drops and another keeps.

    Attributes:
        reasons: (filter, reason) -> how many. samples: (id, filter, reason, beginning of the text)."""

    reasons: Counter[tuple[str, str]]
    samples: list[tuple[str, str, str, str]]


def difference(one: KeptCorpus, other: KeptCorpus, count: int) -> Difference:
    """Return what `one` drops and `other` keeps, with `count` samples of each reason.

    Of one scored corpus, decisions alone are compared; of two, documents by their ids, as 64-bit hashes."""
    import numpy as np

    kept = None if list(one.scored) == list(other.scored) else np.sort(_hashes(name for _, name in other.names()))
    found, why = Difference(Counter(), []), one.reasons()
    for number, directory in enumerate(one.scored):
        codes, shard = one.codes(number), ScoredShard(directory)
        goes = codes != KEPT
        if kept is None:
            goes &= other.codes(number) == KEPT
        else:
            goes &= np.isin(_hashes(shard.column("id")), kept)
        chosen = []
        for code in np.unique(codes[goes]).tolist():
            rows = np.flatnonzero(goes & (codes == code)).tolist()
            chosen += rows[: max(count - found.reasons[why[code]], 0)]
            found.reasons[why[code]] += len(rows)
        for row, (name, text) in zip(sorted(chosen), shard.rows(sorted(chosen), ("id", "text")), strict=True):
            found.samples.append((name, *why[codes[row]], " ".join(text.split())[:100]))
    return found


def _hashes(names: Iterable[str]) -> "npt.NDArray[np.uint64]":
    import numpy as np
    import xxhash

    return np.fromiter((xxhash.xxh3_64_intdigest(name) for name in names), np.uint64)
