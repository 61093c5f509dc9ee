"""Epochs: how often each channel is seen, in a phase and in all phases so far, held against caps before training."""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from argosy.core.config.schema import Rate
from argosy.core.errors import InputError
from argosy.core.lazy import np
from argosy.core.store.files import read_record
from argosy.corpus.data.sources import check_channels, rest_of, weights_of
from argosy.corpus.text.display import columns

FEW_EPOCHS = 4.0  # up to so many, a repeated token teaches nearly as much as a new one (Muennighoff et al. 2023)

Beyond = Literal["warn", "refuse"]


def _by_channel(given: Any) -> Any:
    return {"*": given} if isinstance(given, int | float) and not isinstance(given, bool) else given


EpochCaps = Annotated[dict[str, Rate], BeforeValidator(_by_channel)]  # by channel, or one number for all


@dataclass(frozen=True)
class Caps:
    """Limits of a phase.

    Attributes:
        phase: epochs of a channel within the phase.
        in_all: those over the phase and all before it; FEW_EPOCHS for a channel that neither of the two names.
        beyond: what becomes of a mixture that exceeds them."""

    phase: Mapping[str, float] = field(default_factory=dict)
    in_all: Mapping[str, float] = field(default_factory=dict)
    beyond: Beyond = "warn"

    @classmethod
    def of(cls, phase: Mapping[str, Any], channels: Collection[str]) -> Self:
        """Read the fields of a phase's config. Raises InputError: they name a channel that is not there."""
        phase_caps, in_all = (_of_each(phase[field], channels, field) for field in ("max_epochs", "max_epochs_in_all"))
        return cls(phase_caps, in_all, phase["over_max_epochs"])

    def __getitem__(self, channel: str) -> tuple[float | None, float | None]:
        """Return a channel's caps, of the phase and in all."""
        phase, in_all = self.phase.get(channel), self.in_all.get(channel)
        return phase, FEW_EPOCHS if phase is None and in_all is None else in_all


def _of_each(caps: Mapping[str, float], channels: Collection[str], where: str) -> dict[str, float]:
    """Return the cap of each channel that has one, by its name or as one of the others."""
    rest = rest_of(caps, channels, where)
    check_channels([name for name in caps if name != rest], channels, where)
    return {name: caps.get(name, caps.get(rest, 0.0)) for name in channels if name in caps or rest}


REPORT = "report.json"  # of a phase of training
_SECTION = "mixture"  # of it


@dataclass(frozen=True)
class ChannelEpochs:
    """A line of the table: what a phase takes of a channel."""

    channel: str
    tokens: int
    weight: float
    """Weight in the mixture; without a mixture the tokens."""
    share: float
    """Share of the samples."""
    samples: float
    epochs: float
    epochs_in_all: float
    """Epochs including the phases before, on the same tokens."""
    max_epochs: float | None
    max_epochs_in_all: float | None

    @property
    def alarm(self) -> str:
        """Say which cap the channel exceeds; "" where none."""
        over = [f"{epochs:.3g} epochs {where} are above {cap:g}" for where, epochs, cap in (
            ("in this phase", self.epochs, self.max_epochs), ("in all", self.epochs_in_all, self.max_epochs_in_all))
            if cap is not None and epochs > cap * (1 + 1e-9)]
        return " and ".join(over)


def epoch_table(tokens: Mapping[str, int], weights: Mapping[str, float], shares: Mapping[str, float], samples: int,
                windows: Mapping[str, float], caps: Caps, before: Mapping[str, float]) -> list[ChannelEpochs]:
    """Make the table of a phase of `samples` samples.

    Args:
        shares: of the samples, by channel.
        windows: samples of one epoch, by channel.
        before: epochs that the phases before have seen."""
    rows = []
    for name, share in shares.items():
        taken = samples * share
        epochs = taken / windows[name]
        rows.append(ChannelEpochs(name, tokens[name], weights[name], share, taken, epochs,
                                  before.get(name, 0.0) + epochs, *caps[name]))
    return rows


def planned_tables(index: Mapping[str, Any], phases: Mapping[str, Mapping[str, Any]]) -> dict[str, list[ChannelEpochs]]:
    """Make the tables of phases ahead of them, from counts alone; packing makes an epoch 1 % to 3 % longer.

    Args:
        index: `index.json` of a tokenize step.
        phases: fields of their configs by name, in their order.

    Raises InputError: mixture or caps name a channel that is absent."""
    counts = {name: splits.get("train", {}) for name, splits in index["channels"].items()}
    found: dict[str, list[ChannelEpochs]] = {}
    before: dict[str, float] = {}
    for name, phase in phases.items():
        try:
            found[name] = _planned(counts, phase, before)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        before |= {row.channel: row.epochs_in_all for row in found[name]}
    return found


def _planned(channels: Mapping[str, Mapping[str, int]], phase: Mapping[str, Any],
             before: Mapping[str, float]) -> list[ChannelEpochs]:
    from argosy.corpus.tokens.mixture import PERIOD, quotas

    tokens = {name: counts["tokens"] for name, counts in channels.items() if counts.get("tokens")}
    weights = weights_of(phase["mixture"], tokens)
    caps = Caps.of(phase, tokens)
    length, batch = phase["sequence_length"], phase["global_batch_size"]
    samples = math.ceil(phase["tokens"] / (length * batch)) * batch
    # a document's first token is no target
    windows = {name: max(1, tokens[name] - channels[name].get("documents", 0)) / length for name in weights}
    names = sorted(weights)
    wanted = np.array([weights[name] for name in names]) / sum(weights.values())
    shares = dict(zip(names, (quotas(wanted) / PERIOD).tolist(), strict=True))
    return epoch_table(tokens, weights, shares, samples, windows, caps, before)


def refuse_beyond(rows: Sequence[ChannelEpochs]) -> None:
    """Refuse a mixture that exceeds its caps. Raises InputError: names the channels, and what to do."""
    over = [f"{row.channel} ({row.alarm})" for row in rows if row.alarm]
    if over:
        raise InputError(f"over_max_epochs=refuse: the mixture repeats channels more than their caps: "
                         f"{', '.join(over)}; lower their weights or tokens, or raise max_epochs or max_epochs_in_all")


HEAD = ("CHANNEL", "TOKENS", "WEIGHT", "SHARE", "SAMPLES", "EPOCHS", "IN ALL", "AT MOST", "")


def table_rows(rows: Iterable[ChannelEpochs]) -> list[tuple[str, ...]]:
    """Return the cells of a table for a terminal, below HEAD."""
    return [(row.channel, f"{row.tokens:,}", f"{row.weight:,.6g}", f"{row.share:.1%}", f"{row.samples:,.0f}",
             f"{row.epochs:.3g}", f"{row.epochs_in_all:.3g}", _caps(row), f"ALARM: {row.alarm}" if row.alarm else "")
            for row in rows]


def _caps(row: ChannelEpochs) -> str:
    named = [f"{cap:g}{where}" for cap, where in ((row.max_epochs, ""), (row.max_epochs_in_all, " in all"))
             if cap is not None]
    return ", ".join(named)


def in_words(rows: Sequence[ChannelEpochs]) -> str:
    """Return the table."""
    return columns([HEAD, *table_rows(rows)], right=range(1, 7))


def tokens_identity(tokenized: str | Path) -> str:
    """Return what names the tokens of a tokenize step's directory: the hash of its counts and its tokenizer."""
    return hashlib.sha256((Path(tokenized) / "index.json").read_bytes()).hexdigest()[:16]


def epochs_before(checkpoint: str, tokenized: str | Path) -> tuple[dict[str, float], str]:
    """Return the epochs that the phases up to the step `checkpoint` have seen of each channel, and a note where that is
    not known: the step tells nothing of it, or of other tokens than these. `checkpoint`: "" for a new model."""
    if not checkpoint:
        return {}, ""
    found = read_record(Path(checkpoint) / REPORT).get(_SECTION)
    if not found:
        return {}, "the model has been trained on what is not known here: epochs are of this phase alone"
    if found["tokens_of"] != tokens_identity(tokenized):
        return {}, "the phases before were trained on other tokens: epochs are of this phase alone"
    return found["epochs_in_all"], ""


def as_report(rows: Sequence[ChannelEpochs], before: Mapping[str, float], tokenized: str | Path) -> dict[str, Any]:
    """Return what a phase's report has of the table, by which the next phase counts on."""
    in_all = dict(before) | {row.channel: row.epochs_in_all for row in rows}
    return {_SECTION: {"channels": [asdict(row) | {"alarm": row.alarm} for row in rows], "epochs_in_all": in_all,
                       "tokens_of": tokens_identity(tokenized)}}


def read_table(directory: Path) -> list[dict[str, Any]]:
    """Read the table of a phase's report; [] where there is none."""
    table: list[dict[str, Any]] = read_record(directory / REPORT).get(_SECTION, {}).get("channels", [])
    return table
