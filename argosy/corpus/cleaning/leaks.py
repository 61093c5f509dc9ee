"""Held-out documents that are in training data, verbatim or with edits, by the n-grams that find benchmark items.

A held-out document is cut into passages of some 50 words (100 Han characters). A passage is there where a text has half
of its 13-grams, or words that are the passage's but for a quarter of edits (argosy.corpus.cleaning.items): one in ten
words changed leaves every fourth 13-gram, and nine words of ten. A shared phrase, quotation or heading is no leak."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.items import ItemIndex
from argosy.corpus.cleaning.targets import split_words
from argosy.corpus.data.counts import Counts
from argosy.corpus.data.listing import list_inputs
from argosy.corpus.data.reading import read_file
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import SourceConfig
from argosy.corpus.data.split import choose_documents

NGRAM = 13
LEAST = NGRAM  # words below which a document is nobody's
_WHOLE = 2**40  # characters after which a .txt is cut: a document is the whole file


class Leak(NamedTuple):
    """A passage of a held-out document in a text: the document, the passage (numbers), where it is, the kind of match
    (MATCHES of argosy.corpus.cleaning.items), and the share of the passage that is there."""

    document: int
    passage: int
    place: str
    match: str
    overlap: float


@dataclass
class HeldoutIndex:
    """An index of held-out documents.

    Attributes:
        documents: held-out documents; those below LEAST words have no passage, and are not looked for.
        words: words of a passage.
        similarity: share of a passage's words that an edited copy has left.
        overlap: share of a passage's 13-grams that is a leak."""

    documents: Sequence[Document]
    words: int = 50
    similarity: float = 0.75
    overlap: float = 0.5

    @cached_property
    def passages(self) -> list[tuple[int, str]]:
        """Cut the documents: number of the document, and text."""
        return [(number, piece) for number, document in enumerate(self.documents)
                for piece in passages(document.text, self.words)]

    @cached_property
    def counts(self) -> Counter[int]:
        """Count the passages of each document, by its number."""
        return Counter(number for number, _ in self.passages)

    def find(self, batch: Batch, places: Sequence[str]) -> Iterator[Leak]:
        """Yield the passages that texts have. `places`: where each text of the batch is, as a leak names it."""
        if not self.passages:
            return
        for match in self._index.find(batch.points, batch.starts):
            if match.kind != "ngram" or match.overlap >= self.overlap:
                document, _ = self.passages[match.item]
                yield Leak(document, match.item, places[match.text], match.kind, round(match.overlap, 4))

    @cached_property
    def _index(self) -> ItemIndex:
        return ItemIndex([{"question": text} for _, text in self.passages], NGRAM, self.similarity)


def passages(text: str, size: int) -> list[str]:
    """Cut a text into passages of `size` words, two Han characters counting as one; a short rest goes to the last one.
    None of a text below LEAST words."""
    found = split_words([text])
    count = np.cumsum(np.where(found.han, 0.5, 1.0))
    if not len(count) or count[-1] < LEAST:
        return []
    pieces = max(1, round(float(count[-1]) / size))
    first = np.searchsorted(count, np.arange(1, pieces) * (count[-1] / pieces), side="right")
    return [text[begin:end] for begin, end in pairwise([0, *found.starts[first].tolist(), len(text)])]


def chosen(documents: Mapping[str, Sequence[Document]], most: int) -> dict[str, list[Document]]:
    """Choose held-out documents of each set by hash, up to `most` UTF-8 bytes, as evaluations do."""
    sizes = {name: [len(d.text.encode(errors="surrogatepass")) for d in some] for name, some in documents.items()}
    return {name: [some[at] for at in choose_documents(name, sizes[name], most)]
            for name, some in documents.items() if some}


def read_sets(sets: Iterable[tuple[str, str]], name: str) -> dict[str, list[Document]]:
    """Read held-out texts of one's own (JSONL, text files, Parquet), by set, which is called `name/channel`. `sets`:
    channel ("": of each record or folder) and path. What is no document is left out, as evaluations leave it out."""
    found: dict[str, list[Document]] = {}
    for channel, path in sets:
        config = SourceConfig(channel=channel, channel_field="" if channel else "channel", text_chars=_WHOLE)
        for file in list_inputs([str(Path(path))])[0]:
            for each in read_file(file, config, Counts()):
                if isinstance(each, Document):
                    found.setdefault(f"{name}/{each.channel}", []).append(each)
    return found
