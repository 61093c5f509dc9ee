"""Explains what happened to a document, filter by filter, with the deciding values; where two cleanings differ."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import isfinite, isnan
from operator import itemgetter
from typing import Any, NamedTuple

import xxhash

from argosy.core.errors import InputError
from argosy.core.lazy import Floats, Hashes, np
from argosy.corpus.cleaning.filter import Filter, Rule
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.cleaning.scores import ScoredShard
from argosy.corpus.cleaning.scoring import KEPT, broken
from argosy.corpus.data.shards import read_columns, shard_files


@dataclass(frozen=True)
class Place:
    """Place of a document: its shard, and its number in it."""

    shard: int
    row: int


def find(corpus: KeptCorpus, name: str) -> Place:
    """Find the document with this id. Raises InputError: there is none; names the likeliest one."""
    for place, ids in _ids(corpus):
        if name in ids:
            return Place(place.shard, place.row + ids.index(name))
    every = (each for _, ids in _ids(corpus) for each in ids)
    likeness, hint = max(((_likeness(each, name), each) for each in every), key=itemgetter(0), default=(0.0, ""))
    hint = f"; did you mean {hint!r}?" if likeness else ""
    raise InputError(f"no document has the id {name!r}{hint} (ids are file:line, as in the samples of the report)")


def _ids(corpus: KeptCorpus) -> Iterator[tuple[Place, Sequence[str]]]:
    """Yield ids of all documents, some at a time, with the place of the first of them."""
    for number, directory in enumerate(corpus.scored):
        at = 0
        for path in shard_files(directory):
            for group in read_columns(path, ("id",)):
                yield Place(number, at), group.values["id"]
                at += len(group.values["id"])


def _likeness(name: str, given: str) -> float:
    """Return how likely it is that `name` is meant by `given`, from 0 to 3: a path that ends in it, else the last one
    of the file that begins before the line, else a name that has it."""
    if given.endswith(f"/{name}"):
        return 3
    (file, _, line), (wanted, _, after) = name.rpartition(":"), given.rpartition(":")
    before = line.isdecimal() and after.isdecimal() and int(line) <= int(after)
    if before and (file == wanted or wanted.endswith(f"/{file}")):
        return 1 + int(line) / int(after)
    return 0.5 if given in name else 0.0


@dataclass(frozen=True)
class Look:
    """A rule's verdict on a document.

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


def looks(filters: Mapping[str, Filter[Any]], scores: Mapping[str, Floats], channel: str,
          row: int = 0) -> Iterator[Look]:
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
    """Name the document that this one copies, and what has dropped that one later; "" where it copies no other."""
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


@dataclass
class Difference:
    """Documents that one cleaning drops and another keeps.

    Attributes:
        reasons: (filter, reason) -> how many. samples: (id, filter, reason, beginning of the text).
        documents: of the one that drops. absent: those that the other one has never had."""

    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    samples: list[tuple[str, str, str, str]] = field(default_factory=list)
    documents: int = 0
    absent: int = 0


def difference(one: KeptCorpus, other: KeptCorpus, count: int) -> Difference:
    """Return what `one` drops and `other` keeps, with `count` samples of each reason.

    Of one scored corpus, decisions alone are compared; of two, documents by their ids, as 64-bit hashes."""
    theirs = None if list(one.scored) == list(other.scored) else _decisions(other)
    found, why = Difference(), one.reasons()
    for number, directory in enumerate(one.scored):
        codes, shard = one.codes(number), ScoredShard(directory)
        found.documents += len(codes)
        if theirs is None:
            goes = (codes != KEPT) & (other.codes(number) == KEPT)
        else:
            own = _hashes(shard.column("id"))
            goes = (codes != KEPT) & np.isin(own, theirs.kept)
            found.absent += int((~np.isin(own, theirs.every)).sum())
        chosen = []
        for code in np.unique(codes[goes]).tolist():
            rows = np.flatnonzero(goes & (codes == code)).tolist()
            chosen += rows[: max(count - found.reasons[why[code]], 0)]
            found.reasons[why[code]] += len(rows)
        for row, (name, text) in zip(sorted(chosen), shard.rows(sorted(chosen), ("id", "text")), strict=True):
            found.samples.append((name, *why[codes[row]], " ".join(text.split())[:100]))
    return found


class _Ids(NamedTuple):
    """Hashes of ids, in order, uint64: of all documents of a corpus, and of those that are kept."""

    every: Hashes
    kept: Hashes


def _decisions(corpus: KeptCorpus) -> _Ids:
    hashes = [_hashes(ScoredShard(directory).column("id")) for directory in corpus.scored]
    kept = [each[corpus.codes(number) == KEPT] for number, each in enumerate(hashes)]
    return _Ids(np.sort(np.concatenate(hashes)), np.sort(np.concatenate(kept)))


def _hashes(names: Iterable[str]) -> Hashes:
    return np.fromiter((xxhash.xxh3_64_intdigest(name) for name in names), np.uint64)
