"""Tokenized documents and conversations: token ids on disk, split in training and held-out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Config, DocumentsDir, TokenizerDir, Upstream, Upstreams
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.data.schemas import ParseError
from argosy.corpus.data.sources import RESERVED_CHANNEL as CONVERSATIONS
from argosy.corpus.text.display import columns
from argosy.corpus.tokens.encoder import Encoder, text_bytes
from argosy.corpus.tokens.markup import Markup, Pieces, read_markup
from argosy.corpus.tokens.shards import SPECIAL_FILE, TokensWriter
from argosy.corpus.tokens.tokenizer import SAMPLE, load_tokenizer, tokenizer_digest

REPORT = "report.json"


class TokenizeConfig(Config):
    """Config of the step."""

    documents: DocumentsDir = ""
    """Directory of a clean step."""
    scored: Upstreams = ()
    """Directories of the score steps that the clean step has gathered, in their order."""
    tokenizer: TokenizerDir = ""
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


class _Text(NamedTuple):
    """A text to encode: its id, where its tokens go, its pieces and their UTF-8 bytes."""

    name: str
    channel: str
    split: str
    pieces: Pieces
    size: int


def run(config: TokenizeConfig, context: StepContext) -> TokenizeOutputs:
    """Encode all channels; it takes seconds, and a run that was stopped starts anew: `index.json` comes last."""
    directory = given_directory("tokenizer", config.tokenizer, "train_tokenizer") / "tokenizer"
    tokenizer = load_tokenizer(directory)
    markup = read_markup(directory, tokenizer)
    encoder = Encoder(tokenizer, markup)
    refused: set[str] = set()
    corpus = KeptCorpus.of(config.documents, config.scored)
    texts = _documents(corpus, config, markup)
    if config.data:
        texts = chain(texts, _conversations(Path(config.data), markup, refused))
    ids = 1 + max(tokenizer.get_vocab().values())
    digest = tokenizer_digest(tokenizer.get_vocab(), tokenizer.encode(SAMPLE, add_special_tokens=False).ids)
    with TokensWriter(context.out, tokenizer.get_vocab_size(), digest, ids) as writer:
        for channel in (*corpus.channels(), *((CONVERSATIONS,) if config.data else ())):
            writer.open(channel)
        size = sum(corpus.sizes().values())
        _write(texts, encoder, writer, config, lambda done: context.progress.update(done, max(size, done + 1), "bytes"))
        write_json(context.out / SPECIAL_FILE, {"special": encoder.special_ids()})  # before index.json, which says done
        counts = writer.counts()
    _report(counts, encoder, context)
    if refused:
        print(f"left out: {len(refused)} conversations that the tokenizer's chat template refuses, or with a turn that "
              "is not to be learnt", flush=True)
    if not any(splits["train"]["tokens"] for splits in counts.values()):
        raise InputError(f"{config.documents}: there is nothing to tokenize, all channels are empty")
    return TokenizeOutputs(index="index.json", vocab_size=tokenizer.get_vocab_size(), channels=counts)


def _report(counts: Mapping[str, Mapping[str, Mapping[str, int]]], encoder: Encoder, context: StepContext) -> None:
    """Tell the tokens of each channel, and how many bytes of text one stands for, with the marks around texts."""
    rows = {channel: {key: sum(count[key] for count in splits.values()) for key in ("documents", "bytes", "tokens")}
            for channel, splits in counts.items()}
    ratios = {channel: row["bytes"] / row["tokens"] for channel, row in rows.items() if row["tokens"]}
    checked = {"checked": encoder.checked, "changed": encoder.changed}
    report = {channel: row | {"bytes_per_token": ratios.get(channel)} for channel, row in rows.items()}
    write_json(context.out / REPORT, {"channels": report, "decoded": checked})
    lines = [(channel, *(f"{number:,}" for number in row.values()), f"{ratios.get(channel, 0):.3f}")
             for channel, row in rows.items()]
    head = ("CHANNEL", "DOCUMENTS", "BYTES", "TOKENS", "BYTES A TOKEN")
    print(columns([head, *lines], right=range(1, 5)), flush=True)
    if encoder.changed:
        print(f"{encoder.changed} of {encoder.checked} texts that were decoded are as the tokenizer's normalisation "
              "writes them; bytes are those of the texts before", flush=True)
    context.tracker.artifact(context.out / REPORT)
    values = {f"tokens/bytes_per_token/{channel}": ratio for channel, ratio in ratios.items()}
    values |= {f"tokens/{split}/{channel}": float(count["tokens"]) for channel, splits in counts.items()
               for split, count in splits.items()}
    context.tracker.metrics(values, step=0)


def _documents(corpus: KeptCorpus, config: TokenizeConfig, markup: Markup) -> Iterator[_Text]:
    heldout = corpus.heldout(config.heldout_share, config.heldout_least)
    for document in corpus.documents():
        split = "heldout" if document.id in heldout[document.channel] else "train"
        text = document.text
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        yield _Text(document.id, document.channel, split, markup.document(text), size)


def _conversations(data: Path, markup: Markup, refused: set[str]) -> Iterator[_Text]:
    """Read the conversations as the data step has split them: SFT learns none that is held out here. Names of those
    that the chat template refuses go to `refused`, where SFT has them among its rejects, and of those with a turn that
    is not to be learnt, as a text of pretraining is learnt whole."""
    for split, file in (("train", "instructions"), ("heldout", "instructions_heldout")):
        for number, record in enumerate(read_jsonl(data / f"{file}.jsonl")):
            name = f"{file}-{number}"
            try:
                if any(turn.get("train") is False for turn in record["messages"]):
                    raise ParseError("a turn is not to be learnt")
                pieces = markup.conversation(record["messages"])
            except ParseError:
                refused.add(name)
                continue
            yield _Text(name, CONVERSATIONS, split, pieces, text_bytes(pieces))


def _write(texts: Iterable[_Text], encoder: Encoder, writer: TokensWriter, config: TokenizeConfig,
           report: Callable[[int], None]) -> None:
    """Encode the texts and write them as they come: each is read once, and held as long as its batch."""
    waiting, done = deque[_Text](), 0

    def pieces() -> Iterator[tuple[str, Pieces]]:
        for text in texts:
            waiting.append(text)
            yield text.name, text.pieces

    for ids in encoder.encode(pieces(), config.batch_characters):
        text = waiting.popleft()
        writer.add(text.channel, text.split, ids, text.size)
        done += text.size
        report(done)


STEP = Step("tokenize", TokenizeConfig, run, version=6)

if __name__ == "__main__":
    main(STEP)
