"""Formats that a checkpoint is exported in, one file each."""

from abc import abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError
from argosy.core.plugins import Folder


@dataclass(frozen=True)
class Source:
    """A checkpoint to export.

    Attributes:
        card: its model card, in Markdown.
        dtype: precision that is asked for; "" for the format's own.
        base: name of the hub that an adapter's base has; "" for its directory."""

    path: Path
    card: str = ""
    dtype: str = ""
    base: str = ""

    def save_whole(self, out: Path, dtype: str = "float32") -> None:
        """Write the model as transformers loads it: an adapter merged, packed weights unpacked."""
        from argosy.model.weights.export import save_weights
        from argosy.model.weights.load import load_model
        from argosy.model.weights.pretrained import load_tokenizer

        save_weights(load_model(self.path), out, dtype=dtype)
        load_tokenizer(self.path).save_pretrained(out)


class Format:
    """Base of the formats; one with a `name` in a module here is found by its place.

    Attributes:
        packages: packages that write it, beside those that are there anyway.
        card: whether it has a model card, and is for the hub.
        dtypes: precisions that it has, its own first."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    card: ClassVar[bool] = False
    dtypes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def write(self, source: Source, out: Path) -> dict[str, float]:
        """Write the files to the directory `out`, which is there; return what was measured, by name. Raises InputError:
        the checkpoint cannot be exported so; StepError: what was written is not the model."""

    def check(self) -> None:
        """Check what the format needs. Raises InputError: a package is not installed."""
        if missing := [package for package in self.packages if find_spec(package) is None]:
            raise InputError(f"format {self.name} needs {', '.join(missing)}, not installed: pip install "
                             f"'argosy[{self.name}]', or pip install {' '.join(missing)}")


EXPORTS: Folder[Format] = Folder("format", Format, __name__, instances=True)
