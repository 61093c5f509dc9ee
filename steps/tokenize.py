"""Tokenize: cleaned documents and the conversations become token ids on disk, split in training and held-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from argosy.config import RUNTIME, Config, Upstream
from argosy.documents import read_jsonl
from argosy.documents.source import RESERVED_CHANNEL as CONVERSATIONS
from argosy.errors import InputError
from argosy.step import Step, StepContext
from argosy.step_files import given_directory
from argosy.tokens.encode import Encoder, Pieces, conversation_pieces, document_pieces, text_bytes
from argosy.tokens.split import heldout_ids
from argosy.tokens.tokenizer import load_tokenizer
from argosy.tokens.writer import TokensWriter


class TokenizeConfig(Config):
    """Config of the step.

    Attributes:
        documents: directory of a clean step.
        tokenizer: directory of a train_tokenizer step.
        data: directory of a data step, whose instructions become the channel `instructions`; "" for none.
        heldout_share: of each channel's documents, by the hash of their ids.
        heldout_least: at least so many documents of a channel are held out, if it has twice as many.
        batch_characters: text that is encoded at once.
    """

    documents: Upstream = ""
    tokenizer: Upstream = ""
    data: Upstream = ""
    heldout_share: Annotated[float, Field(ge=0, lt=1)] = 0.02
    heldout_least: Annotated[int, Field(ge=0)] = 8
    batch_characters: Annotated[int, RUNTIME, Field(ge=1)] = 1_000_000


class TokenizeOutputs(Config):
    """`channels`: channel -> split -> tokens, documents, bytes; as in index.json."""

    index: str
    vocab_size: int
    channels: dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True)
class _Source:
    """A JSONL file that becomes a channel; `pieces` of a record, `name` of a record and its number."""

    channel: str
    path: Path
    name: Callable[[dict[str, Any], int], str]
    pieces: Callable[[dict[str, Any]], Pieces]

    def names(self) -> list[str]:
        return [self.name(record, number) for number, record in enumerate(read_jsonl(self.path))]

    def documents(self) -> Iterator[tuple[str, Pieces]]:
        for number, record in enumerate(read_jsonl(self.path)):
            yield self.name(record, number), self.pieces(record)


def run(config: TokenizeConfig, context: StepContext) -> TokenizeOutputs:
    """Takes seconds and starts anew when it is run again: `index.json` comes last."""
    tokenizer = load_tokenizer(given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer")
    encoder = Encoder(tokenizer)
    sources = _sources(config)
    with TokensWriter(context.out, tokenizer.get_vocab_size()) as writer:
        for number, source in enumerate(sources):
            context.progress.update(number, len(sources), "channels", source.channel)
            _write_channel(source, encoder, writer, config)
        counts = writer.counts()
    if not any(splits["train"]["tokens"] for splits in counts.values()):
        raise InputError(f"{config.documents}: there is nothing to tokenize, all channels are empty")
    context.tracker.metrics(_metrics(counts), step=0)
    return TokenizeOutputs(index="index.json", vocab_size=tokenizer.get_vocab_size(), channels=counts)


def _sources(config: TokenizeConfig) -> list[_Source]:
    paths = sorted((given_directory("documents", config.documents, "clean") / "documents").glob("*.jsonl"))
    if not paths:
        raise InputError(f"{config.documents} has no documents/*.jsonl: expected the directory of a clean step")
    sources = [_Source(p.stem, p, lambda r, _: str(r["id"]), lambda r: document_pieces(r["text"])) for p in paths]
    if config.data:
        path = Path(config.data) / "instructions.jsonl"
        sources.append(
            _Source(CONVERSATIONS, path, lambda _, n: f"conversation-{n}", lambda r: conversation_pieces(r["messages"]))
        )
    return sources


def _write_channel(source: _Source, encoder: Encoder, writer: TokensWriter, config: TokenizeConfig) -> None:
    writer.open(source.channel)
    names = source.names()
    heldout = heldout_ids(names, config.heldout_share, config.heldout_least)
    sizes = (text_bytes(pieces) for _, pieces in source.documents())
    encoded = encoder.encode(source.documents(), config.batch_characters)
    for name, ids, size in zip(names, encoded, sizes, strict=True):
        writer.add(source.channel, "heldout" if name in heldout else "train", ids, size)


def _metrics(counts: dict[str, dict[str, dict[str, int]]]) -> dict[str, float]:
    return {
        f"tokens/{split}/{channel}": float(count["tokens"])
        for channel, splits in counts.items()
        for split, count in splits.items()
    }


STEP = Step("tokenize", TokenizeConfig, run, version=1)

if __name__ == "__main__":
    STEP.main()
