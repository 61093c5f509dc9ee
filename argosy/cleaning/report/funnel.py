"""What became of a corpus, counted: by channel what came, what went and why, what was changed; and some that went."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from argosy.cleaning.filter import Filter
from argosy.cleaning.gathering import Decisions
from argosy.cleaning.kept import without
from argosy.cleaning.scoring import KEPT
from argosy.cleaning.shard import ScoredShard
from argosy.cleaning.tiers import tier_channel
from argosy.data.shards import read_columns, shard_files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COUNTS = ("in", "out", "bytes_in", "bytes_out")  # documents and their UTF-8 bytes
SAMPLE_CHARACTERS = 300  # of a text in the report
_TEXTS = 1000  # that are read at a time


@dataclass
class ChannelCounts:
    """Counts of one channel; documents in = documents out + all of `dropped`."""

    counts: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    changed: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/architecture.md."""
        dropped = {name: dict(reasons) for name, reasons in self.dropped.items()}
        return {key: self.counts[key] for key in _COUNTS} | {"dropped": dropped, "changed": dict(self.changed)}


@dataclass
class Funnel:
    """Counts by channel as it came; and of channels that tiers make of it, {"of", "out", "bytes_out"} by name."""

    channels: dict[str, ChannelCounts]
    tiers: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, shards: Sequence[ScoredShard], decisions: Decisions) -> Self:
        """Count what was decided about the documents of all shards."""
        channels: dict[str, ChannelCounts] = defaultdict(ChannelCounts)
        made: dict[str, dict[str, Any]] = {}
        for number, (shard, codes) in enumerate(zip(shards, decisions.codes, strict=True)):
            names = shard.channels
            cuts = _Cuts.of(shard, codes == KEPT, decisions.spans.get(number, {}))
            for name in sorted(set(names.tolist())):
                _count(channels[name], shard, codes, names == name, decisions, cuts)
                for tier, of in enumerate(decisions.tier_names):
                    inside = (names == name) & (codes == KEPT) & (decisions.tiers[number] == tier)
                    _count_tier(made, name, of, (shard.sizes("bytes") - cuts.sizes)[inside])
        return cls(dict(sorted(channels.items())), dict(sorted(made.items())))

    def totals(self) -> Counter[str]:
        """Add the channels' documents and bytes up."""
        return sum((one.counts for one in self.channels.values()), Counter[str]())

    def dropped(self) -> dict[str, int]:
        """Count dropped documents by filter."""
        total = Counter[str]()
        for one in self.channels.values():
            total.update({name: reasons.total() for name, reasons in one.dropped.items()})
        return dict(sorted(total.items()))

    def lost(self) -> dict[str, dict[str, float]]:
        """Return the share of each channel's documents that each filter dropped."""
        return {name: {label: round(reasons.total() / one.counts["in"], 4)
                       for label, reasons in sorted(one.dropped.items())} for name, one in self.channels.items()}

    def to_json(self) -> dict[str, Any]:
        """Make the object of docs/architecture.md."""
        tiers = {"tiers": self.tiers} if self.tiers else {}
        return {"channels": {name: one.to_json() for name, one in self.channels.items()}} | tiers


def _count_tier(
    made: dict[str, dict[str, Any]], channel: str, tier: str, sizes: "npt.NDArray[np.int64]"
) -> None:
    """Add documents of these sizes in bytes to those that a tier takes out of a channel."""
    if len(sizes):
        one = made.setdefault(tier_channel(channel, tier), {"of": channel, "out": 0, "bytes_out": 0})
        one["out"] += len(sizes)
        one["bytes_out"] += int(sizes.sum())


@dataclass
class _Cuts:
    """Cuts of deduplication in the documents of a shard that stay.

    Attributes:
        changed: by filter, whether it cuts a document, (documents,).
        sizes: UTF-8 bytes, (documents,), int64."""

    changed: "dict[str, npt.NDArray[np.bool_]]"
    sizes: "npt.NDArray[np.int64]"

    @classmethod
    def of(
        cls, shard: ScoredShard, kept: "npt.NDArray[np.bool_]", spans: "Mapping[str, npt.NDArray[np.int64]]"
    ) -> Self:
        """Read the texts that are cut, a few at a time."""
        import numpy as np

        changed = {label: np.zeros(len(shard), np.bool_) for label in spans}
        for label, places in spans.items():
            changed[label][places[:, 0]] = kept[places[:, 0]]
        sizes = np.zeros(len(shard), np.int64)
        every = np.concatenate([np.zeros((0, 3), np.int64), *spans.values()])
        every = every[np.lexsort((every[:, 1], every[:, 0]))]
        rows = np.unique(every[kept[every[:, 0]], 0])
        for at in range(0, len(rows), _TEXTS):
            some = rows[at : at + _TEXTS]
            bounds = np.searchsorted(every[:, 0], [some, some + 1])
            for row, text, begin, end in zip(some, shard.column("text", some.tolist()), *bounds, strict=True):
                left = without(text, every[begin:end, 1:].tolist())
                sizes[row] = len(text.encode(errors="surrogatepass")) - len(left.encode(errors="surrogatepass"))
        return cls(changed, sizes)


def _count(
    one: ChannelCounts, shard: ScoredShard, codes: "npt.NDArray[np.int32]", own: "npt.NDArray[np.bool_]",
    decisions: Decisions, cuts: _Cuts
) -> None:
    import numpy as np

    kept = own & (codes == KEPT)
    one.counts.update({"in": int(own.sum()), "out": int(kept.sum()),
                       "bytes_in": int(shard.sizes("bytes_in")[own].sum()),
                       "bytes_out": int((shard.sizes("bytes") - cuts.sizes)[kept].sum())})
    for code, times in zip(*np.unique(codes[own & ~kept], return_counts=True), strict=True):
        label, reason = decisions.reasons[code]
        one.dropped[label][reason] += int(times)
    for label, flags in {**shard.changed, **cuts.changed}.items():
        if times := int((flags & own).sum()):
            one.changed[label] += times


def samples(shards: Sequence[ScoredShard], decisions: Decisions, count: int) -> list[dict[str, str]]:
    """Return the first `count` documents that went for each reason, as they were then."""
    left = Counter(dict.fromkeys(range(len(decisions.reasons)), count))
    found: list[dict[str, str]] = []
    for shard, codes in zip(shards, decisions.codes, strict=True):
        rows = [(row, int(codes[row])) for row in _first_of_each(codes, left)]
        texts = read_rows(shard, [row for row, _ in rows], ("channel", "text"))
        for (_, code), (channel, text) in zip(rows, texts, strict=True):
            label, reason = decisions.reasons[code]
            found.append({"filter": label, "reason": reason, "channel": channel, "text": text[:SAMPLE_CHARACTERS]})
    return found


def _first_of_each(codes: "npt.NDArray[np.int32]", left: Counter[int]) -> list[int]:
    import numpy as np

    rows: list[int] = []
    for code in [code for code, more in left.items() if more]:
        own = np.flatnonzero(codes == code)[: left[code]].tolist()
        left[code] -= len(own)
        rows += own
    return sorted(rows)


def read_rows(shard: ScoredShard, rows: Sequence[int], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return columns of documents of a shard by their numbers in it, ascending; no more is read than holds them."""
    found: list[tuple[Any, ...]] = []
    wanted, first = list(rows), 0
    for path in shard_files(shard.directory) if wanted else ():
        for group in read_columns(path, columns):
            values = list(zip(*group.values.values(), strict=True))
            while wanted and wanted[0] < first + len(values):
                found.append(values[wanted.pop(0) - first])
            first += len(values)
            if not wanted:
                return found
    return found


def repaired(filters: Mapping[str, Filter[Any]], shards: Sequence[ScoredShard]) -> dict[str, dict[str, int]]:
    """Count what filters found by kind, of those that count (personal data that was replaced)."""
    return {label: {kind: int(sum(shard.scores[f"{label}.{kind}"].sum() for shard in shards if len(shard)))
                    for kind in one.counted} for label, one in filters.items() if one.counted}


def languages(
    filters: Mapping[str, Filter[Any]], shards: Sequence[ScoredShard], decisions: Decisions
) -> dict[str, dict[str, dict[str, int]]]:
    """Count documents by channel and main language ("?": none was told): {channel: {language: {in, out, bytes_in}}}.

    Languages are those that the first filter `language` told; {} without one."""
    import numpy as np

    label = next((label for label, one in filters.items() if one.name == "language"), "")
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for shard, codes in zip(shards, decisions.codes, strict=True) if label else ():
        told, channels = _told(shard, label), shard.channels
        for channel in np.unique(channels).tolist():
            for name in np.unique(told[channels == channel]).tolist():
                own = (channels == channel) & (told == name)
                one = counts.setdefault(channel, {}).setdefault(name, {"in": 0, "out": 0, "bytes_in": 0})
                one["in"] += int(own.sum())
                one["out"] += int((own & (codes == KEPT)).sum())
                one["bytes_in"] += int(shard.sizes("bytes_in")[own].sum())
    return {channel: dict(sorted(own.items(), key=lambda item: (-item[1]["in"], item[0])))
            for channel, own in sorted(counts.items())}


def _told(shard: ScoredShard, label: str) -> "npt.NDArray[np.str_]":
    import numpy as np

    from argosy.cleaning.filters.language import LANGUAGES

    told = np.full(len(shard), "?", "<U5")
    for name in LANGUAGES if len(shard) else ():
        told[np.isfinite(shard.scores[f"{label}.{name}"])] = name
    return told
