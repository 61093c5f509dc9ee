"""A trained classifier: a linear model over hashed n-grams, calibrated, kept in a folder of two files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from argosy.core.errors import InputError
from argosy.core.lazy import Floats, Floats32, Integers, Integers32, np
from argosy.core.store.files import read_json, write_json
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.data.schemas import Document

FOLDER = "classifier"  # in the directory of the step that trains one
ABOUT, WEIGHTS = "classifier.json", "weights.npy"
_DOCUMENTS = 500  # whose features are made at a time


@dataclass(frozen=True)
class Features:
    """Names what of a text is looked at."""

    word_grams: int
    """n-grams of words up to this length; each Han character is a word."""
    character_grams: int
    """Length of n-grams of characters; 0: none."""
    bits: int
    """There are 2^bits buckets."""
    look_at: int
    """Characters of a text, from its beginning."""

    def of(self, batch: Batch) -> Batch:
        """Return the batch with texts cut to what is looked at."""
        if all(len(document.text) <= self.look_at for document in batch.documents):
            return batch
        return Batch([replace(each, text=each.text[: self.look_at]) for each in batch.documents])

    def rows(self, documents: Sequence[Document]) -> "Rows":
        """Return the features of documents as sparse rows."""
        from argosy.corpus.cleaning.kernels.filters.classifier import rows

        made = []
        for some in _batches(documents):
            cut = self.of(Batch(some))
            made.append(rows(cut.points, cut.starts, cut.words, self.word_grams, self.character_grams, self.bits))
        sizes = np.concatenate([np.diff(begins) for begins, _, _ in made])
        return Rows(np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
                    np.concatenate([columns for _, columns, _ in made]),
                    np.concatenate([values for _, _, values in made]))


class Rows(NamedTuple):
    """Sparse rows, as `rows` of the kernels makes them."""

    begins: Integers
    columns: Integers32
    values: Floats32


@dataclass(frozen=True)
class Classifier:
    """A classifier that gives the probability that a document is of the positive set.

    Attributes:
        weights: (2^bits,), float32.
        slope, offset: of calibration: of the logit of the probability in the linear model's value."""

    features: Features
    weights: Floats32
    intercept: float
    slope: float = 1.0
    offset: float = 0.0

    def values(self, batch: Batch) -> Floats:
        """Return the linear model's values, not calibrated, (documents,)."""
        from argosy.corpus.cleaning.kernels.filters.classifier import products

        cut, f = self.features.of(batch), self.features
        return self.intercept + products(cut.points, cut.starts, cut.words, f.word_grams, f.character_grams,
                                         self.weights)

    def __call__(self, batch: Batch) -> Floats:
        """Return the calibrated probability of each document, (documents,)."""
        return self.calibrated(self.values(batch))

    def of(self, documents: Sequence[Document]) -> Floats:
        """Do the same for any number of documents."""
        return self.calibrated(self.values_of(documents))

    def values_of(self, documents: Sequence[Document]) -> Floats:
        """Return the linear model's values of any number of documents, (documents,)."""
        return np.concatenate([np.zeros(0), *(self.values(Batch(some)) for some in _batches(documents))])

    def calibrated(self, values: Floats) -> Floats:
        """Return probabilities of the linear model's values."""
        return 1 / (1 + np.exp(-np.clip(self.slope * values + self.offset, -500, 500)))

    def save(self, folder: Path) -> None:
        """Write the two files below `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / WEIGHTS, self.weights)
        write_json(folder / ABOUT, {"features": asdict(self.features), "intercept": self.intercept,
                                    "slope": self.slope, "offset": self.offset})

    @classmethod
    def load(cls, directory: Path) -> "Classifier":
        """Read what `save` wrote, in `directory` or its folder `classifier`. Raises InputError: it is not there, or is
        not whole."""
        folder = directory if (directory / ABOUT).is_file() else directory / FOLDER
        check_saved(directory)
        try:
            record = read_json(folder / ABOUT)
            features = Features(**record.pop("features"))
            weights = np.load(folder / WEIGHTS)
            if weights.shape != (2**features.bits,):
                raise ValueError(f"{WEIGHTS} has the shape {weights.shape}, not {(2**features.bits,)}")
            return cls(features=features, weights=weights, **record)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"the classifier in {folder} cannot be read ({error}): train it again") from None


def check_saved(directory: Path) -> None:
    """Check that a classifier is in `directory`. Raises InputError: there is none."""
    if not any((folder / ABOUT).is_file() for folder in (directory, directory / FOLDER)):
        raise InputError(f"there is no classifier in {directory} (no {ABOUT}): name the directory of a "
                         "train_classifier step, or its folder classifier")


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    each = iter(documents)
    while some := list(islice(each, _DOCUMENTS)):
        yield some
