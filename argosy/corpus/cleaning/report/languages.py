"""Documents by channel and language."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from argosy.corpus.cleaning.filter import Filter
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.scored import Block
from argosy.corpus.cleaning.scores import SIZE_IN
from argosy.corpus.cleaning.scoring import KEPT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Languages:
    """Counts by channel and main language ("?": none was told) that the first filter `language` told; none without."""

    def __init__(self, filters: Mapping[str, Filter[Any]], decisions: Decisions) -> None:
        self._label = next((label for label, one in filters.items() if one.name == "language"), "")
        self._decisions = decisions
        self._counts: dict[str, dict[str, dict[str, int]]] = {}

    def add(self, block: Block) -> None:
        """Count the documents of a block."""
        import numpy as np

        if not self._label:
            return
        told, kept = self._told(block), self._decisions.codes[block.rows] == KEPT
        for channel, inside in block.by_channel():
            for name in np.unique(told[inside]).tolist():
                own = inside & (told == name)
                one = self._counts.setdefault(channel, {}).setdefault(name, {"in": 0, "out": 0, "bytes_in": 0})
                one["in"] += int(own.sum())
                one["out"] += int((own & kept).sum())
                one["bytes_in"] += int(block.sizes(SIZE_IN)[own].sum())

    def _told(self, block: Block) -> "npt.NDArray[np.str_]":
        import numpy as np

        from argosy.corpus.cleaning.filters.language import LANGUAGES

        told = np.full(len(block), "?", "<U5")
        for name in LANGUAGES:
            told[np.isfinite(block.scores[f"{self._label}.{name}"])] = name
        return told

    def to_json(self) -> dict[str, dict[str, dict[str, int]]]:
        """Make {channel: {language: {in, out, bytes_in}}}."""
        return {channel: dict(sorted(own.items(), key=lambda item: (-item[1]["in"], item[0])))
                for channel, own in sorted(self._counts.items())}
