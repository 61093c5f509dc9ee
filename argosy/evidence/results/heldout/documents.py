"""Held-out documents of each channel as a model's tokens: from a tokenize step's files, or from raw text."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.core.errors import InputError
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.readers import format_of
from argosy.corpus.data.reading import read_file
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import SourceConfig
from argosy.corpus.data.split import choose_documents
from argosy.corpus.tokens.reader import check_tokenizer, read_channels
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Tokens

UNKNOWN = "has a character that the tokenizer does not know"
WHOLE = 2**40  # characters after which a .txt is cut: a document is the whole file


@dataclass
class Documents:
    """The documents of one channel."""

    ids: list[str] = field(default_factory=list)
    tokens: list[Tokens] = field(default_factory=list)
    """without BOS and EOS"""
    sizes: list[int] = field(default_factory=list)
    """UTF-8 bytes of each document"""
    special: frozenset[int] = frozenset()
    """tokens that stand for no bytes, which are context and never scored"""
    left_out: Counter[str] = field(default_factory=Counter)
    """number of other documents, by reason"""
    changed: int = 0
    """number of documents whose tokens decode to another text (a tokenizer that normalises)"""


def tokenized_documents(model: LanguageModel, directory: Path, most: int) -> dict[str, Documents]:
    """Read documents that training scores (argosy.model.train.heldout): one at least, up to `most` tokens a channel.
    Raises InputError: no held-out files, files that do not fit each other, or another tokenizer's."""
    check_vocabulary(model, directory)
    documents = {}
    for name, channel in read_channels(directory, "heldout").items():
        chosen = channel.choose(most)
        bounds = [(channel.offsets[i] + 1, channel.offsets[i + 1] - 1) for i in chosen]  # without BOS and EOS
        tokens = [tuple(channel.tokens[begin:end].tolist()) for begin, end in bounds]
        sizes = channel.document_bytes[chosen].tolist()
        documents[name] = Documents([str(i) for i in chosen], tokens, sizes, channel.special)
    return documents


def text_documents(model: LanguageModel, texts: Mapping[str, str] | str, most: int) -> dict[str, Documents]:
    """Read documents of raw text, up to `most` bytes a channel (the beginning of the shortest one where none fits); the
    same ones for every tokenizer.

    A text that spells a special token ("<|end|>") is text. One with a character that the tokenizer has no token for
    is left out: its probability is unknown. `texts`: path by channel; or one path, whose documents' channels are
    their field `channel` or their folder. Raises InputError: a path is absent or has no text."""
    channels, tokenizer = {}, model.tokenizer
    for name, (documents, left_out) in _read(texts, most).items():
        made = channels[name] = Documents(left_out=Counter(left_out))
        for document in documents:
            tokens = tuple(tokenizer(document.text, add_special_tokens=False, split_special_tokens=True)["input_ids"])
            if not tokens:
                made.left_out["has no token"] += 1
            elif tokenizer.unk_token_id in tokens:
                made.left_out[UNKNOWN] += 1
            else:
                made.ids.append(document.id)
                made.tokens.append(tokens)
                made.sizes.append(len(document.text.encode()))
                decoded = tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
                # SentencePiece puts a space before a text.
                made.changed += decoded not in (document.text, " " + document.text)
    return channels


def check_vocabulary(model: LanguageModel, directory: Path) -> None:
    """Check that tokenized files are of the model's tokenizer. Raises InputError: they are of another one."""
    check_tokenizer(directory, model.tokenizer,
                    "give the `tokens` that were made with the checkpoint's tokenizer, or `heldout.texts`")


def _read(texts: Mapping[str, str] | str, most: int) -> dict[str, tuple[list[Document], dict[str, int]]]:
    """Read the documents of each channel, and count the lines and files that are none by reason."""
    named = ((("", texts),) if isinstance(texts, str) else tuple(texts.items()))
    sizes: dict[str, list[int]] = {}
    left_out: dict[str, Counter[str]] = {}
    for name, found in _documents(named):
        if isinstance(found, Document):
            sizes.setdefault(found.channel, []).append(len(found.text.encode()))
        else:
            left_out.setdefault(name or "texts", Counter())[found] += 1
    if not sizes:
        paths = ", ".join(path for _, path in named)
        raise InputError(f"heldout.texts: {paths} has no document: {({k: dict(v) for k, v in left_out.items()})}")
    chosen = {channel: set(choose_documents(channel, own, most)) for channel, own in sizes.items()}
    at: Counter[str] = Counter()
    kept: dict[str, list[Document]] = {channel: [] for channel in sorted(sizes)}
    for _, found in _documents(named):  # again, so that only what is chosen is in memory
        if isinstance(found, Document):
            if at[found.channel] in chosen[found.channel]:
                kept[found.channel].append(replace(found, text=_cut(found.text, most)))
            at[found.channel] += 1
    every = {**{name: [] for name in left_out}, **kept}
    return {name: (documents, dict(left_out.get(name, {}))) for name, documents in every.items()}


_WHY = ("file of unknown format", "below a name with _:")


def _documents(named: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, Document | str]]:
    """Yield (given channel, document or why a line, or a file, is none)."""
    counts = Counts()
    for name, given in named:
        config = SourceConfig(channel=name, channel_field="" if name else "channel", text_chars=WHOLE)
        files, unknown = list_inputs([given])
        for path in (Path(each.label) for each in unknown):
            yield name, f"{_WHY[bool(format_of(path))]} {path.suffix or path.name}"
        for file in files:
            for found in read_file(file, config, counts):
                yield name, found if isinstance(found, Document) else found.reason


def _cut(text: str, most: int) -> str:
    """Cut the one document that is chosen where none fits to its first `most` bytes, at a character's end."""
    encoded = text.encode()
    return text if len(encoded) <= most else encoded[:most].decode(errors="ignore").rstrip() or text[:1]
