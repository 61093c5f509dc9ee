"""Cleaning of records for post-training by the filters of documents, and how often each is drawn."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import RECORDS, Batch, batches, record_text
from argosy.corpus.cleaning.dedup import About, Deduplicator, Workspace
from argosy.corpus.cleaning.dedup.duplicates import FormConfig
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Keys, Resources
from argosy.corpus.cleaning.filters import FILTERS, make_filters, parse_filters
from argosy.corpus.cleaning.filters.decontamination import Decontamination, contaminated
from argosy.corpus.cleaning.scoring import KEPT, decide
from argosy.corpus.data.jsonl import JsonlWriters
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import OTHERS
from argosy.corpus.data.split import derive_seed, hash_fraction
from argosy.corpus.text.figures import signs

Record = dict[str, Any]
_BY_PROMPT = ("instructions", "prompts")  # kinds in which an equal prompt is a duplicate, whatever its reply


def _check_filters(filters: tuple[FilterConfig, ...]) -> tuple[FilterConfig, ...]:
    """Refuse filters that records cannot have, and compare records by their text where no form is named."""
    # What they write is another text, which has no turns any more.
    changing = [name for name, kind in FILTERS.items() if kind.repairs or getattr(kind, "spans", False)]
    for one in filters:
        if one.name in changing:
            raise ValueError(f"the filter {one.name} changes texts, allowed for records: filters that drop, all but "
                             f"{', '.join(changing)}")
    return tuple(one.model_copy(update={"normalise": "text"})
                 if isinstance(one, FormConfig) and "normalise" not in one.model_fields_set else one for one in filters)


class CurationConfig(Config):
    """Filters that the user's own records pass."""

    filters: Annotated[
        tuple[SerializeAsAny[FilterConfig], ...], BeforeValidator(parse_filters), AfterValidator(_check_filters),
        Field(validate_default=True)
    ] = ("decontamination", "exact_dedup", "near_dedup")  # type: ignore[assignment]
    """Names, or objects with `name` and thresholds, in the order in which they run; a record is dropped, never changed.
    Records are compared by their text, unless a filter's `normalise` is words. near_dedup compares prompts of
    conversations, and of pairs and feedback all that is said; near copies have the same numbers and signs."""


@dataclass
class Curation:
    """Counts of records by channel: read = kept + all of `dropped`."""

    read: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Reasons by filter."""
    compared_by: dict[str, str] = field(default_factory=dict)
    """Form of texts (`normalise`) by deduplicator."""

    def to_json(self) -> dict[str, Any]:
        """Make an object of the counts."""
        dropped = {name: dict(sorted(reasons.items())) for name, reasons in sorted(self.dropped.items())}
        return {"read": dict(sorted(self.read.items())), "kept": dict(sorted(self.kept.items())), "dropped": dropped,
                "compared_by": self.compared_by}


def curate(kind: str, records: Sequence[Record], config: CurationConfig, benchmark: Sequence[Mapping[str, Any]],
           writers: JsonlWriters, field: str = "data.curation", what: str = "") -> tuple[list[Record], Curation]:
    """Return the records of the kind `kind` that pass the filters, in their order, and counts; the others go to
    `rejects/<kind>_<filter>` with filter and reason, and of a benchmark item which one it is.

    benchmark: items {"question", "choices"} that must not be learnt. field, what: the filters' field, and what they are
    given, for the error. Raises InputError: none is left."""
    found, kept = Curation(Counter(str(record["channel"]) for record in records)), list(records)
    for one in make_filters(config.filters, Resources(benchmark=benchmark)).values() if kept else ():
        if isinstance(one.config, FormConfig):
            found.compared_by[one.label] = one.config.normalise
        reasons = _reasons(kind, one, kept)
        for record, why in zip(kept, reasons, strict=True):
            if why:
                found.dropped[one.name][why["reason"]] += 1
                writers.write(f"rejects/{kind}_{one.name}", record | {"filter": one.name, **why})
        kept = [record for record, why in zip(kept, reasons, strict=True) if not why]
    found.kept.update(str(record["channel"]) for record in kept)
    if not kept:
        most = max(found.dropped, key=lambda name: found.dropped[name].total(), default="")
        raise InputError(f"{field}.filters dropped all {found.read.total()} {what or f'records of data.{kind}'}, most "
                         f"by {most!r}: leave it out, or set its thresholds")
    return kept, found


def _reasons(kind: str, one: Filter[Any], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Tell of each record why a filter drops it, as {"reason", ...}; {}: it stays."""
    if not records:
        return []
    documents = (Document(str(number), _text(kind, one.name, record), str(record["channel"]),
                          str(record.get("lang") or "")) for number, record in enumerate(records))
    some = batches(documents, RECORDS)
    names, channels = np.unique([str(record["channel"]) for record in records], return_inverse=True)
    if isinstance(one, Deduplicator):
        parts = [(_keys(one, batch), batch.lengths) for batch in some]
        lengths = [own for _, own in parts]
        about = About(list(map(len, lengths)), channels, names.tolist(), np.concatenate(lengths))
        with TemporaryDirectory() as work:
            kept = np.ones(len(records), np.bool_)
            found = one.select([keys for keys, _ in parts], kept, about, Workspace(Path(work)))
        dropped = dict(zip(found.documents.tolist(), found.reasons.tolist(), strict=True))
        return [{"reason": one.reasons[dropped[at]]} if at in dropped else {} for at in range(len(records))]
    scored = [one(batch)[1] for batch in some]
    scores = {name: np.concatenate([own[name] for own in scored]) for name in scored[0]}
    labelled = {f"{one.name}.{name}": values for name, values in scores.items()}
    codes, reasons = decide({one.name: one}, labelled, names[channels])
    items = dict(contaminated(scores, one.resources.benchmark)) if isinstance(one, Decontamination) else {}
    return [{"reason": reasons[code][1], **items.get(at, {})} if code != KEPT else {}
            for at, code in enumerate(codes.tolist())]


def _keys(one: Deduplicator[Any], batch: Batch) -> Keys:
    """Return the keys of records. Near copies have the same signs: a * b and a / b, or 12 + 4 and 12 + 5, are two
    questions, however long the words are that both are put in."""
    keys = one.keys(batch)
    if not isinstance(one, NearDedup) or one.config.normalise != "text":
        return keys
    salts = [int.from_bytes(sha256(" ".join(signs(text)).encode()).digest()[:8]) for text in batch.texts]
    return {**keys, "bands": keys["bands"] ^ np.array(salts, np.uint64)[:, None]}


def _text(kind: str, name: str, record: Record) -> str:
    """Return what a filter looks at of a record."""
    text = prompt_text(record) if name == "near_dedup" and kind in _BY_PROMPT else record_text(record)
    # One reply may be wanted by one person, and not by another.
    return text + f"\n{record['label']}" if name == "exact_dedup" and "label" in record else text


def prompt_text(record: Mapping[str, Any]) -> str:
    """Return what people say in a record's prompt or conversation, a turn a line."""
    turns = record.get("prompt") or record.get("messages") or ()
    return "\n".join(str(turn["content"]) for turn in turns if turn["role"] == "user")


def times_of(channel: str, times: Mapping[str, float]) -> float:
    """Return how often a channel's records are drawn: as `times` says of it, or of the OTHERS; else 1."""
    return times.get(channel, next((times[name] for name in OTHERS if name in times), 1.0))


def draw(records: Sequence[Record], times: Mapping[str, float], seed: int) -> Iterator[Record]:
    """Yield each record as often as `times_of` its channel says, in the order of records.

    The whole part of 2.5 draws every example twice; the rest, half of them once more, by a hash of seed, channel and
    the example's number in it: the same ones each time, and those of 0.2 are among those of 0.5."""
    numbers: Counter[str] = Counter()
    for record in records:
        channel = str(record.get("channel", "default"))
        wanted, number = times_of(channel, times), numbers[channel]
        numbers[channel] += 1
        more = hash_fraction(f"{derive_seed(seed, 'draw', channel)}:{number}") < wanted - int(wanted)
        for _ in range(int(wanted) + more):
            yield record
