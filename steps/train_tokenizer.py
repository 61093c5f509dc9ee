"""The tokenizer: byte-level BPE on a balanced sample of the cleaned documents."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from argosy.core.config.schema import Config, DocumentsDir, Upstreams
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.data.split import hash_fraction
from argosy.corpus.tokens.tokenizer import SMALLEST_VOCABULARY, load_tokenizer, save_tokenizer, train_tokenizer

_REPORT_DOCUMENTS = 200  # of each channel, for bytes per token


class TrainTokenizerConfig(Config):
    """Config of the step."""

    documents: DocumentsDir = ""
    """Directory of a clean step."""
    scored: Upstreams = ()
    """Directories of the score steps that the clean step has gathered, in their order."""
    vocab_size: Annotated[int, Field(ge=SMALLEST_VOCABULARY)] = 4096
    """Tokens, the six special ones among them; below 65,536 a token takes two bytes on disk."""
    channel_bytes: Annotated[int, Field(ge=1)] = 2_000_000
    """Bytes of each channel to learn from at most (about), so that none dominates."""
    split_han: bool = True
    """Pretokenize each Han character alone: better for small vocabularies; else frequent Chinese words are tokens."""


class TrainTokenizerOutputs(Config):
    """The tokenizer and its figures."""

    tokenizer: str
    """Directory, relative to the step's."""
    vocab_size: int
    sample_bytes: dict[str, int]
    """Bytes that were learnt from, by channel."""
    bytes_per_token: dict[str, float]
    """Mean bytes of a token, by channel."""


def run(config: TrainTokenizerConfig, context: StepContext) -> TrainTokenizerOutputs:
    """Train and save the tokenizer; it takes seconds, and a run that was stopped starts anew."""
    corpus = KeptCorpus.of(config.documents, config.scored)
    sizes = corpus.sizes()
    if not sizes:
        raise InputError(f"{config.documents} has kept no document to train the tokenizer on")
    sampled = Counter[str]()
    texts = _sample(corpus, sizes, config.channel_bytes, sampled)
    tokenizer = train_tokenizer(texts, config.vocab_size, config.split_han)
    save_tokenizer(tokenizer, context.out / "tokenizer")
    size = tokenizer.get_vocab_size()
    if size < config.vocab_size:
        print(f"the texts have no more pairs to merge: {size} tokens, {config.vocab_size} were asked for")
    ratios = _bytes_per_token(corpus, context.out / "tokenizer")
    context.tracker.metrics({f"tokenizer/bytes_per_token/{name}": value for name, value in ratios.items()}, step=0)
    return TrainTokenizerOutputs(
        tokenizer="tokenizer", vocab_size=size, sample_bytes=dict(sorted(sampled.items())), bytes_per_token=ratios)


def _sample(corpus: KeptCorpus, sizes: Mapping[str, int], cap: int, sampled: Counter[str]) -> Iterator[str]:
    """Yield texts by the hash of their id, about `cap` bytes of each channel, which are counted in `sampled`."""
    for document in corpus.documents():
        if hash_fraction(f"tokenizer/{document.id}") < cap / sizes[document.channel]:
            sampled[document.channel] += len(document.text.encode())
            yield document.text


def _bytes_per_token(corpus: KeptCorpus, directory: Path) -> dict[str, float]:
    tokenizer = load_tokenizer(directory)
    texts: dict[str, list[str]] = {}
    for document in corpus.documents():
        chosen = texts.setdefault(document.channel, [])
        if len(chosen) < _REPORT_DOCUMENTS:
            chosen.append(document.text)
    ratios = {}
    for channel, chosen in sorted(texts.items()):
        tokens = sum(len(e.ids) for e in tokenizer.encode_batch_fast(chosen, add_special_tokens=False))
        ratios[channel] = round(sum(len(text.encode()) for text in chosen) / tokens, 3)
    return ratios


STEP = Step("train_tokenizer", TrainTokenizerConfig, run, version=2)

if __name__ == "__main__":
    main(STEP)
