"""Cleaning of records for post-training by the filters of documents, and how often each is drawn."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from argosy.cleaning.filter import Drop, Filter, FilterConfig, Resources
from argosy.cleaning.filters import make_filters, parse_filters
from argosy.config.schema import Config
from argosy.data.jsonl import JsonlWriters, dump_line
from argosy.data.schemas import Document
from argosy.data.split import derive_seed, hash_fraction
from argosy.errors import InputError

Record = dict[str, Any]
_CHANGING = ("boilerplate", "pii", "unicode")  # filters that write another text, which has no turns any more
_BY_PROMPT = ("instructions", "prompts")  # kinds in which an equal prompt is a duplicate, whatever its reply
_PARTS = ("messages", "prompt", "chosen", "rejected", "completion")


def _check_filters(filters: tuple[FilterConfig, ...]) -> tuple[FilterConfig, ...]:
    for one in filters:
        if one.name in _CHANGING:
            raise ValueError(f"the filter {one.name} changes texts, allowed for records: filters that drop, all but "
                             f"{', '.join(_CHANGING)}")
    return filters


class CurationConfig(Config):
    """Filters that the user's own records pass."""

    filters: Annotated[
        tuple[SerializeAsAny[FilterConfig], ...], BeforeValidator(parse_filters), AfterValidator(_check_filters),
        Field(validate_default=True)
    ] = ("decontamination", "exact_dedup", "near_dedup")  # type: ignore[assignment]
    """Names, or objects with `name` and thresholds, in the order in which they run; a record is dropped, never changed.
    near_dedup compares prompts of conversations, and of pairs and feedback all that is said."""


@dataclass
class Curation:
    """Counts of records by channel: read = kept + all of `dropped`."""

    read: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By filter, reasons."""

    def to_json(self) -> dict[str, Any]:
        """Make an object of the counts."""
        dropped = {name: dict(sorted(reasons.items())) for name, reasons in sorted(self.dropped.items())}
        return {"read": dict(sorted(self.read.items())), "kept": dict(sorted(self.kept.items())), "dropped": dropped}


def curate(
    kind: str, records: Iterable[Record], config: CurationConfig, benchmark: Sequence[Mapping[str, Any]],
    writers: JsonlWriters, field: str = "data.curation", what: str = "",
) -> tuple[list[Record], Curation]:
    """Return the records of the kind `kind` that pass the filters, in their order, and counts; the others go to
    `rejects/<kind>_<filter>` with filter and reason.

    benchmark: items {"question", "choices"} that must not be learnt. field, what: the filters' field, and what they are
    given, for the error. Raises InputError: none is left."""
    filters = make_filters(config.filters, Resources(benchmark=benchmark))
    found, kept = Curation(), []
    for record in records:
        channel = str(record["channel"])
        found.read[channel] += 1
        if stopped := _stopped(kind, record, channel, filters):
            name, reason = stopped
            found.dropped[name][reason] += 1
            writers.write(f"rejects/{kind}_{name}", record | {"filter": name, "reason": reason})
        else:
            found.kept[channel] += 1
            kept.append(record)
    if not kept:
        most = max(found.dropped, key=lambda name: found.dropped[name].total(), default="")
        raise InputError(f"{field}.filters dropped all {found.read.total()} {what or f'records of data.{kind}'}, most "
                         f"by {most!r}: leave it out, or set its thresholds")
    return kept, found


def _stopped(kind: str, record: Record, channel: str, filters: Sequence[Filter[Any]]) -> tuple[str, str] | None:
    """Tell which filter drops a record, and why."""
    for one in filters:
        if channel in one.config.skip_channels:
            continue
        text = prompt_text(record) if one.name == "near_dedup" and kind in _BY_PROMPT else record_text(record)
        if one.name == "exact_dedup" and "label" in record:
            text += f"\n{record['label']}"  # one reply may be wanted by one person, and not by another
        if isinstance(result := one(Document("", text, channel, str(record.get("lang") or ""))), Drop):
            return one.name, result.reason
    return None


def record_text(record: Mapping[str, Any]) -> str:
    """Return all that is said in a record, a turn a line, with the calls of tools."""
    return "\n".join(_said(turn) for part in _PARTS for turn in record.get(part) or ())


def prompt_text(record: Mapping[str, Any]) -> str:
    """Return what people say in a record's prompt or conversation, a turn a line."""
    turns = record.get("prompt") or record.get("messages") or ()
    return "\n".join(str(turn["content"]) for turn in turns if turn["role"] == "user")


def _said(turn: Mapping[str, Any]) -> str:
    calls = turn.get("tool_calls")
    return str(turn["content"]) + (f"\n{dump_line({'tool_calls': calls})}" if calls else "")


def draw(records: Sequence[Record], times: Mapping[str, float], seed: int) -> Iterator[Record]:
    """Yield each record as often as `times` says for its channel (1 where it says nothing), in the order of records.

    The whole part of 2.5 draws every example twice; the rest, half of them once more, by a hash of seed, channel and
    the example's number in it: the same ones each time, and those of 0.2 are among those of 0.5."""
    numbers: Counter[str] = Counter()
    for record in records:
        channel = str(record.get("channel", "default"))
        wanted, number = times.get(channel, 1.0), numbers[channel]
        numbers[channel] += 1
        more = hash_fraction(f"{derive_seed(seed, 'draw', channel)}:{number}") < wanted - int(wanted)
        for _ in range(int(wanted) + more):
            yield record
