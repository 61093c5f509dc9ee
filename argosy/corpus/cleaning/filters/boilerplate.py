"""Removal of the lines that web pages repeat (menus, cookie notices, copyright) and of surplus space.

The line rules go back to C4 (Raffel et al. 2020) and RefinedWeb (Penedo et al. 2023): lines go, and
a document of which little is left goes too. Lines that stand in many documents of the corpus's sample go whatever they
say, as in CCNet (Wenzek et al. 2020)."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from argosy.core.config.explain import grouped
from argosy.core.lazy import Flags, Hashes, Integers, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Resources, Rule, Scores, Share, read_words

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.filters.boilerplate import Lines

_BLANK_LINES = re.compile(r"\n{3,}")
_SPACE = " \t\u3000"
_MENU_ITEMS = re.compile(r"\s*[|·•>»/,，、\t]\s*|\s{2,}|[:：]\s*")
_MENU_EDGES = " |·•>»/\t\u3000"
_LEAST_DOCUMENTS = 10  # of a sample in which a line must stand
_LEAST_LETTERS = 16  # of such a line: shorter ones are headings and table rows


class BoilerplateConfig(FilterConfig):
    """Thresholds of boilerplate."""

    name: str = "boilerplate"
    skip_channels: tuple[str, ...] = ("code",)
    max_line_characters: Annotated[int, Field(ge=1)] = 200
    """Longer lines stay."""
    repeated_share: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Share of the documents of the corpus's sample, ten at least, from which on a line that they have goes; blocks of
    code are not looked at. 1: such lines stay."""
    min_kept_share: Share = 0.5
    """Share of the text below which the document goes."""


class Boilerplate(Filter[BoilerplateConfig]):
    """A filter that drops lines by `words/boilerplate.txt`, `words/menu.txt` and the corpus, and trims surplus space.

    Scores: `lines` that went, and `kept_share` of the characters. A compiled scan tells which lines to look at."""

    scoring: ClassVar[tuple[str, ...]] = ("max_line_characters", "repeated_share")
    repairs: ClassVar[bool] = True

    def __init__(self, config: BoilerplateConfig, resources: Resources) -> None:
        super().__init__(config, resources)
        self._menu = frozenset(word.lower() for word in read_words("menu.txt"))

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        from argosy.corpus.cleaning.kernels.filters.boilerplate import lines

        found = lines(batch.points, batch.starts)
        gone = self._gone(batch, found)
        texts = batch.texts
        counts, shares = np.zeros(len(batch)), np.ones(len(batch))
        for at in sorted({*gone, *np.flatnonzero(found.surplus).tolist()}):
            text = texts[at]
            if numbers := gone.get(at):
                kept = [line for number, line in enumerate(text.split("\n")) if number not in numbers]
                text = "\n".join(kept)
                counts[at] = len(numbers)
                shares[at] = len(text.strip()) / max(len(texts[at].strip()), 1)
            if numbers or found.surplus[at] > 1:
                text = _BLANK_LINES.sub("\n\n", "\n".join([line.rstrip(_SPACE) for line in text.split("\n")]))
            texts[at] = text.strip("\n")
        return batch.with_texts(texts), {"lines": counts, "kept_share": shares}

    def rules(self) -> Sequence[Rule]:
        """List the threshold."""
        return (Rule("kept_share", "mostly boilerplate", least=self.config.min_kept_share),)

    def _gone(self, batch: Batch, found: "Lines") -> Mapping[int, set[int]]:
        """Return the numbers of the lines that go, by document."""
        _, where, which = batch.find(self._listed)
        menu = np.arange(len(self._listed)) >= len(_patterns())
        at = np.searchsorted(found.starts, where, side="right") - 1
        short = found.ends - found.starts <= self.config.max_line_characters
        looked_at = short[at] & (~menu[which] | self._in_menu(batch, found, at, where, which))
        gone: dict[int, set[int]] = {}
        self._put(gone, found, self._repeated_lines(found, short))
        pairs = np.unique(np.stack([at[looked_at], which[looked_at]], axis=1), axis=0)
        documents = np.searchsorted(found.first, pairs[:, 0], side="right") - 1
        for (number, phrase), document in zip(pairs.tolist(), documents.tolist(), strict=True):
            begin = int(batch.starts[document])
            line = batch.documents[document].text[found.starts[number] - begin : found.ends[number] - begin]
            patterns = _patterns().get(self._listed[phrase], ())
            if self._is_menu(line) if menu[phrase] else any(pattern.search(line) for pattern in patterns):
                gone.setdefault(document, set()).add(number - int(found.first[document]))
        return gone

    def _put(self, gone: dict[int, set[int]], found: "Lines", numbers: Integers) -> None:
        documents = np.searchsorted(found.first, numbers, side="right") - 1
        for document, number in zip(documents.tolist(), (numbers - found.first[documents]).tolist(), strict=True):
            gone.setdefault(document, set()).add(number)

    def _in_menu(self, batch: Batch, found: "Lines", at: Integers, where: Integers, which: Integers) -> Flags:
        """Tell whether phrases stand alone in their lines, as the items of menus do."""
        from argosy.corpus.cleaning.kernels.filters.boilerplate import alone

        sizes = np.array([len(word) for word in self._listed], np.int64)
        return alone(batch.points, found.starts[at], found.ends[at], where, sizes[which])

    def _repeated_lines(self, found: "Lines", short: Flags) -> Integers:
        """Return numbers of the lines that many documents of the sample have."""
        if not len(self._repeated):
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.isin(found.hashes, self._repeated) & short & (found.letters >= _LEAST_LETTERS))

    @cached_property
    def _repeated(self) -> Hashes:
        """Learn the hashes of lines that many documents of the sample have, sorted."""
        from argosy.corpus.cleaning.kernels.filters.boilerplate import lines

        documents = [each for each in self.resources.sample if each.channel not in self.config.skip_channels]
        least = max(_LEAST_DOCUMENTS, self.config.repeated_share * len(documents))
        if len(documents) < least or self.config.repeated_share == 1:
            return np.zeros(0, np.uint64)
        batch = Batch(documents)
        found = lines(batch.points, batch.starts)
        owners = np.repeat(np.arange(len(batch)), found.first[1:] - found.first[:-1])
        telling = (found.hashes != 0) & (found.letters >= _LEAST_LETTERS)
        order = np.lexsort((owners[telling], found.hashes[telling]))
        hashes, owners = found.hashes[telling][order], owners[telling][order]
        new = np.concatenate([np.ones(1, np.bool_), (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])])
        values, times = np.unique(hashes[new[: len(hashes)]], return_counts=True)
        return values[times >= least]

    @cached_property
    def _listed(self) -> tuple[str, ...]:
        """List the phrases to look for: those of patterns, then those of menus."""
        return (*_patterns(), *sorted(self._menu))

    def _is_menu(self, line: str) -> bool:
        """Whether all items of the line are menu entries; from four on, one may be the page's own."""
        items = [item for item in _MENU_ITEMS.split(line.strip(_MENU_EDGES).lower()) if item]
        entries = sum(item in self._menu for item in items)
        return entries > 0 and entries >= len(items) - (len(items) >= 4)


@cache
def _patterns() -> Mapping[str, Sequence[re.Pattern[str]]]:
    """Read the patterns of which one must match in a line, by the word that the line must hold."""
    pairs = (line.split("\t") for line in read_words("boilerplate.txt"))
    return grouped((word, re.compile(pattern, re.IGNORECASE)) for word, pattern in pairs)
