"""Tokenized documents and conversations: token ids on disk, split in training and held-out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from argosy.config.schema import RUNTIME, Config, Upstream
from argosy.data.jsonl import read_jsonl
from argosy.data.schemas import ParseError
from argosy.data.sources import RESERVED_CHANNEL as CONVERSATIONS
from argosy.data.split import heldout_ids
from argosy.errors import InputError
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.files import write_json
from argosy.store.step_files import given_directory
from argosy.tokens.markup import Markup, Pieces, read_markup
from argosy.tokens.shards import SPECIAL_FILE, Encoder, TokensWriter, text_bytes
from argosy.tokens.tokenizer import SAMPLE, load_tokenizer, tokenizer_digest


class TokenizeConfig(Config):
    """Config of the step."""

    documents: Upstream = ""
    """Directory of a clean step."""
    tokenizer: Upstream = ""
    """Directory of a train_tokenizer step, or of a start step, whose model has a tokenizer."""
    data: Upstream = ""
    """Directory of a data step, whose instructions become the channel `instructions`; "" for none."""
    heldout_share: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """Share of each channel's documents that is held out, by the hash of their ids."""
    heldout_least: Annotated[int, Field(ge=0)] = 8
    """Least documents of a channel that are held out, if it has twice as many."""
    batch_characters: Annotated[int, RUNTIME, Field(ge=1)] = 1_000_000
    """Characters of text that are encoded at once."""


class TokenizeOutputs(Config):
    """Counts of the tokens written."""

    index: str
    vocab_size: int
    channels: dict[str, dict[str, dict[str, int]]]
    """Channel -> split -> tokens, documents, bytes; as in index.json."""


Named = tuple[str, str, Pieces]  # a document's id, its split, its pieces


@dataclass(frozen=True)
class _Source:
    """The source of a channel; `documents` reads it anew at each call."""

    channel: str
    documents: Callable[[], Iterator[Named]]


def run(config: TokenizeConfig, context: StepContext) -> TokenizeOutputs:
    """Encode all channels; it takes seconds, and a run that was stopped starts anew: `index.json` comes last."""
    directory = given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer"
    tokenizer = load_tokenizer(directory)
    markup = read_markup(directory, tokenizer)
    encoder = Encoder(tokenizer, markup)
    refused: set[str] = set()
    sources = _sources(config, markup, refused)
    ids = 1 + max(tokenizer.get_vocab().values())
    digest = tokenizer_digest(tokenizer.get_vocab(), tokenizer.encode(SAMPLE, add_special_tokens=False).ids)
    with TokensWriter(context.out, tokenizer.get_vocab_size(), digest, ids) as writer:
        for number, source in enumerate(sources):
            context.progress.update(number, len(sources), "channels", source.channel)
            _write_channel(source, encoder, writer, config)
        write_json(context.out / SPECIAL_FILE, {"special": encoder.special_ids()})  # before index.json, which says done
        counts = writer.counts()
    if refused:
        print(f"left out: {len(refused)} conversations that the tokenizer's chat template refuses", flush=True)
    if not any(splits["train"]["tokens"] for splits in counts.values()):
        raise InputError(f"{config.documents}: there is nothing to tokenize, all channels are empty")
    context.tracker.metrics({f"tokens/{split}/{channel}": float(count["tokens"]) for channel, splits in counts.items()
                             for split, count in splits.items()}, step=0)
    return TokenizeOutputs(index="index.json", vocab_size=tokenizer.get_vocab_size(), channels=counts)


def _sources(config: TokenizeConfig, markup: Markup, refused: set[str]) -> list[_Source]:
    paths = sorted((given_directory("documents", config.documents, "clean") / "documents").glob("*.jsonl"))
    if not paths:
        raise InputError(f"{config.documents} has no documents/*.jsonl: expected the directory of a clean step")
    sources = [_Source(path.stem, partial(_documents, path, config, markup)) for path in paths]
    if config.data:
        sources.append(_Source(CONVERSATIONS, partial(_conversations, Path(config.data), markup, refused)))
    return sources


def _documents(path: Path, config: TokenizeConfig, markup: Markup) -> Iterator[Named]:
    heldout = heldout_ids((str(r["id"]) for r in read_jsonl(path)), config.heldout_share, config.heldout_least)
    for record in read_jsonl(path):
        name = str(record["id"])
        yield name, "heldout" if name in heldout else "train", markup.document(record["text"])


def _conversations(data: Path, markup: Markup, refused: set[str]) -> Iterator[Named]:
    """Read the conversations as the data step has split them: SFT learns none that is held out here. Names of those
    that the chat template refuses go to `refused`; SFT has them among its rejects."""
    for split, file in (("train", "instructions"), ("heldout", "instructions_heldout")):
        for number, record in enumerate(read_jsonl(data / f"{file}.jsonl")):
            name = f"{file}-{number}"
            try:
                pieces = markup.conversation(record["messages"])
            except ParseError:
                refused.add(name)
                continue
            yield name, split, pieces


def _write_channel(source: _Source, encoder: Encoder, writer: TokensWriter, config: TokenizeConfig) -> None:
    writer.open(source.channel)
    pieces = ((name, pieces) for name, _, pieces in source.documents())
    about = ((split, text_bytes(pieces)) for _, split, pieces in source.documents())
    for ids, (split, size) in zip(encoder.encode(pieces, config.batch_characters), about, strict=True):
        writer.add(source.channel, split, ids, size)


STEP = Step("tokenize", TokenizeConfig, run, version=4)

if __name__ == "__main__":
    main(STEP)
