"""Documents laid end to end as code points: what filters look at, all at once, through compiled loops (`kernels/`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from argosy.data.schemas import Document

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Points = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Spans:
    """Pieces (words, lines, ...) of the documents of a batch, in order.

    Attributes:
        starts, ends: places in the batch's code points, (pieces,), int64; the end is not in the piece.
        first: number of the first piece of each document, (documents + 1,), int64."""

    starts: "Integers"
    ends: "Integers"
    first: "Integers"

    def counts(self) -> "Integers":
        """Count each document's pieces, (documents,)."""
        return self.first[1:] - self.first[:-1]


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

    @cached_property
    def starts(self) -> "Integers":
        """Where each document begins in `points`, and at last their end: (documents + 1,), int64."""
        import numpy as np

        lengths = np.fromiter((len(document.text) for document in self.documents), np.int64, len(self.documents))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])

    @cached_property
    def points(self) -> "Points":
        """Code points of all texts, end to end: (characters,), uint32."""
        import numpy as np

        return np.frombuffer("".join(self.texts).encode("utf-32-le", "surrogatepass"), np.uint32)

    @cached_property
    def lengths(self) -> "Integers":
        """Characters of each document, (documents,), int64."""
        return self.starts[1:] - self.starts[:-1]
