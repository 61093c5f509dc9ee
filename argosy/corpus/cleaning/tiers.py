"""Channels by quality: documents of a channel whose score lies within limits come out as a channel of their own."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from argosy.core.config.explain import likely
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.lazy import Floats, np
from argosy.corpus.cleaning.dedup.external import Workspace
from argosy.corpus.cleaning.scored import Block, ScoredCorpus

NO_TIER = -1  # the number of a document that stays in its channel


class TierConfig(Config):
    """Limits of a score within which documents leave their channel for `CHANNEL.NAME`."""

    name: Annotated[str, Field(pattern=r"^\w[\w-]{0,31}$", examples=["best"])]
    """Suffix of the new channels: `best` makes `web.best` of `web`."""
    score: Annotated[str, Field(pattern=r"^[\w-]+\.\w+$", title="FILTER.SCORE", examples=["classifier.probability"])]
    """A score of a filter, FILTER.SCORE, such as quality_classifier.probability."""
    least: float | None = None
    """Least value, itself included; null: none."""
    most: float | None = None
    """Largest value, itself included; null: none."""
    channels: tuple[str, ...] = ()
    """Channels that are split; empty: all."""

    def check_fields(self) -> None:
        if self.least is None and self.most is None:
            raise ValueError("least and most are both null, so that every document would be in the tier: set one")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least={self.least:g} is above most={self.most:g}, so that no document is in the tier")


def tier_channel(channel: str, tier: str) -> str:
    """Name the channel of the documents of `channel` that are in `tier`."""
    return f"{channel}.{tier}"


def check_tiers(tiers: Sequence[TierConfig], filters: Sequence[str]) -> None:
    """Check what the config alone tells; `filters`: their labels. Raises ValueError: two tiers have one name, or there
    is no filter of a score's name."""
    names = [tier.name for tier in tiers]
    for at, tier in enumerate(tiers):
        if tier.name in names[:at]:
            raise ValueError(f"tiers[{at}].name={tier.name!r} is there before: give each tier a name of its own")
        label = tier.score.partition(".")[0]
        if label not in filters:
            raise ValueError(f"tiers[{at}].score={tier.score!r}: there is no filter {label!r} in filters; "
                             f"{likely(label, filters)}")


def tier_channels(tiers: Sequence[TierConfig], channels: Collection[str]) -> set[str]:
    """Name the channels that tiers may make of `channels`. Raises InputError: a tier splits a channel that is not
    there, or would make one that is."""
    made = set()
    for at, tier in enumerate(tiers):
        for channel in tier.channels or channels:
            if channel not in channels:
                raise InputError(f"clean.tiers[{at}].channels has {channel!r}: no such channel with documents; there "
                                 f"are: {', '.join(sorted(channels))}")
            made.add(tier_channel(channel, tier.name))
    if both := sorted(made & set(channels)):
        raise InputError(f"clean.tiers would make a channel {both[0]!r}, and documents have it already: give the tier "
                         "another name")
    return made


class Tiers:
    """The tier of each document: of several the first."""

    def __init__(self, tiers: Sequence[TierConfig], corpus: ScoredCorpus, work: Workspace) -> None:
        """Check channels. Raises InputError: a tier asks for one that is not there."""
        tier_channels(tiers, corpus.about.names)
        self._tiers = tiers
        self.codes = work.array("tiers", (len(corpus),), np.int32)
        """The number of each document's tier, NO_TIER where it is in none: (documents,), int32."""
        self._ranges = [(math.inf, -math.inf)] * len(tiers)

    def add(self, block: Block) -> None:
        """Assign the documents of a block. Raises InputError: a tier asks for a score that is not there."""
        codes = self.codes[block.rows]
        codes[:] = NO_TIER
        for number, tier in enumerate(self._tiers):
            values = _values(tier, number, block.scores)
            if np.isfinite(values).any():
                low, high = self._ranges[number]
                inside = values[np.isfinite(values)]
                self._ranges[number] = min(low, float(inside.min())), max(high, float(inside.max()))
            own = (values >= (-np.inf if tier.least is None else tier.least))  # NaN is in no tier
            own &= values <= (np.inf if tier.most is None else tier.most)
            if tier.channels:
                own &= block.in_channels(tier.channels)
            codes[own & (codes == NO_TIER)] = number

    def empty(self, counts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """Say of tiers that hold nothing, by `Funnel.tiers`, which values there are."""
        for tier, (low, high) in zip(self._tiers, self._ranges, strict=True):
            if not any(name == tier_channel(count["of"], tier.name) for name, count in counts.items()):
                there = f"{tier.score} is from {low:.4g} to {high:.4g}" if low <= high else "none has it"
                yield f"no document that is kept is in the tier {tier.name}: {there} in all channels"


def _values(tier: TierConfig, number: int, scores: Mapping[str, Floats]) -> Floats:
    if tier.score not in scores:
        label = tier.score.partition(".")[0]
        own = [name for name in scores if name.startswith(f"{label}.")]
        raise InputError(f"clean.tiers[{number}].score={tier.score!r}: the filter has no such score; "
                         f"{likely(tier.score, own)}")
    return scores[tier.score]
