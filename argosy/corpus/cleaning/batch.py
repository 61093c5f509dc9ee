"""Documents laid end to end as code points: what filters look at, all at once, through compiled loops (`kernels/`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from argosy.core.lazy import Flags, Integers, Integers32, Points, np
from argosy.corpus.data.jsonl import dump_line
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import HAN_SHARE

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.phrases import Phrases
    from argosy.corpus.cleaning.kernels.words import Words

RECORDS = 2_000_000  # characters of records for post-training that a filter looks at together
_PARTS = ("messages", "prompt", "chosen", "rejected", "completion")


class Batch:
    """Some documents of a shard, in order, with what several filters need of their texts, computed once.

    Attributes:
        documents: the documents; a repair makes a new batch of changed ones (`with_texts`)."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def texts(self) -> list[str]:
        """List the texts."""
        return [document.text for document in self.documents]

    def with_texts(self, texts: Sequence[str]) -> "Batch":
        """Return a batch of the same documents with other texts; itself, where none is another."""
        pairs = list(zip(self.documents, texts, strict=True))
        if all(document.text == text for document, text in pairs):
            return self
        return Batch([d if d.text == text else replace(d, text=text) for d, text in pairs])

    def with_languages(self, languages: Sequence[str]) -> "Batch":
        """Return a batch of the same documents with other languages, which keeps what is known of the texts; itself,
        where none is another."""
        if all(document.lang == lang for document, lang in zip(self.documents, languages, strict=True)):
            return self
        pairs = zip(self.documents, languages, strict=True)
        batch = Batch([document if document.lang == lang else replace(document, lang=lang) for document, lang in pairs])
        batch.__dict__.update({name: value for name, value in self.__dict__.items() if name != "documents"})
        return batch

    @cached_property
    def starts(self) -> Integers:
        """Holds where each document begins in `points`, and at last their end: (documents + 1,), int64."""
        lengths = np.fromiter((len(document.text) for document in self.documents), np.int64, len(self.documents))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])

    @cached_property
    def points(self) -> Points:
        """Code points of all texts, end to end: (characters,), uint32."""
        return np.frombuffer("".join(self.texts).encode("utf-32-le", "surrogatepass"), np.uint32)

    @cached_property
    def lengths(self) -> Integers:
        """Characters of each document, (documents,), int64."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def words(self) -> "Words":
        """Words of all documents with their hashes, as `argosy.corpus.text.scripts.words` splits them."""
        from argosy.corpus.cleaning.kernels.words import words

        return words(self.points, self.starts)

    @cached_property
    def word_counts(self) -> Integers:
        """Words of each document, (documents,), int64."""
        return self.words.first[1:] - self.words.first[:-1]

    def by_document(self, values: Flags | Integers32) -> Integers:
        """Add values of words up by document, (documents,), int64."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
        totals: Integers = sums[self.words.first[1:]] - sums[self.words.first[:-1]]
        return totals

    def find(self, phrases: tuple[str, ...], bounded: tuple[bool, ...] = ()) -> tuple[Integers, Integers, Integers]:
        """Find phrases, without case: of each place its document, where it is in `points`, and the phrase's number.

        `bounded`: of each phrase, whether it must not follow an ASCII letter, digit or underscore; (): it may."""
        places, numbers = _scan(phrases, bounded or (False,) * len(phrases)).find(self.points, self.starts)
        return self.documents_at(places), places, numbers

    def documents_at(self, places: Integers) -> Integers:
        """Return the number of the document that each place in `points` is in."""
        return np.searchsorted(self.starts, places, side="right") - 1

    @cached_property
    def han(self) -> Flags:
        """Whether a document counts in characters, as Chinese does: a third of its words are Han, (documents,)."""
        return self.by_document(self.words.han) > HAN_SHARE * self.word_counts


@cache
def _scan(phrases: tuple[str, ...], bounded: tuple[bool, ...]) -> "Phrases":
    from argosy.corpus.cleaning.kernels.phrases import Phrases

    return Phrases(phrases, bounded)


def batches(documents: Iterable[Document], characters: int) -> Iterator[Batch]:
    """Gather documents into batches of at least so many characters, but for the last."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= characters:
            yield Batch(held)
            held, size = [], 0
    if held:
        yield Batch(held)


def chunks(rows: Integers, lengths: Integers, most: int) -> Iterator[Integers]:
    """Yield rows, some at a time, whose lengths are `most` together, and at most one more."""
    number = np.cumsum(lengths) // most
    yield from np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else ()


def record_text(record: Mapping[str, Any]) -> str:
    """Return all that is said in a record, a turn a line, with the calls of tools."""
    return "\n".join(_said(turn) for part in _PARTS for turn in record.get(part) or ())


def _said(turn: Mapping[str, Any]) -> str:
    calls = turn.get("tool_calls")
    return str(turn["content"]) + (f"\n{dump_line({'tool_calls': calls})}" if calls else "")
