"""Repair of misread encodings and normal forms of characters; texts beyond repair go."""

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import ClassVar

from argosy.core.lazy import np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]")
# Between two words they part lines, as form feeds part pages; beside a newline they say nothing more.
_SIGNS = "\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BREAKS = re.compile(f"(?<=[^\n{_SIGNS}])[{_SIGNS}]+(?=[^\n{_SIGNS}])")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
# ” ends in a byte that Windows-1252 lacks, and that most decoders put U+FFFD for; ftfy leaves it lost.
_LOST_QUOTE, _QUOTE = "â€\ufffd", "â€\x9d"
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[0-9a-fA-F]{2,6});")
_HAN_RUN = re.compile("[^\x00-\x7f]{4,}")
_LEAST_SEQUENCES = 3  # characters that a whole line of UTF-8 in MacRoman must be made of: it is not so by chance


class UnicodeConfig(FilterConfig):
    """Threshold of damage."""

    name: str = "unicode"
    max_broken_share: Share = 0.005
    """Largest share of lost or private-use characters."""


class Unicode(Filter[UnicodeConfig]):
    """A filter for mojibake, HTML entities, NFC, one kind of newline, no control or invisible characters.

    Scores: `visible` characters and `broken_share`, of the repaired text. A compiled look at the batch tells which
    documents there is something to repair in; the others are not touched."""

    repairs: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        from argosy.corpus.cleaning.kernels.filters.unicode import look

        kinds, broken, visible = look(batch.points, batch.starts)
        texts, lengths = batch.texts, batch.lengths.copy()
        repaired = {at: clean_text(texts[at]) for at in np.flatnonzero(kinds).tolist()}
        changed = [at for at, text in repaired.items() if text != texts[at]]
        if changed:
            batch = batch.with_texts([repaired.get(at, text) for at, text in enumerate(texts)])
            part = Batch([batch.documents[at] for at in changed])
            _, broken[changed], visible[changed] = look(part.points, part.starts)
            lengths[changed] = part.lengths
        return batch, {"visible": visible, "broken_share": broken / np.maximum(lengths, 1)}

    def rules(self) -> Sequence[Rule]:
        """List the thresholds."""
        return (Rule("visible", "no visible character", least=1),
                Rule("broken_share", "characters lost in a wrong decoding", most=self.config.max_broken_share))


def clean_text(text: str) -> str:
    """Repair a text whatever it holds: the slow way, which the filter spares clean documents."""
    text = repair(text.replace("\r\n", "\n").replace("\r", "\n").replace(_LOST_QUOTE, _QUOTE))
    if "<" not in text:  # in markup an entity is meant (ftfy's rule)
        text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
    return _INVISIBLE.sub("", _CONTROL.sub("", unicodedata.normalize("NFC", _BREAKS.sub("\n", text))))


def repair(text: str) -> str:
    """Decode the mojibake in a text, line by line: by ftfy (Speer, https://github.com/rspeer/python-ftfy), and what
    ftfy leaves of UTF-8 that was read as GBK or MacRoman. The same object comes back where there is none."""
    if text.isascii():
        return text
    lines = text.split("\n")
    repaired = [line if line.isascii() else _repair_line(line) for line in lines]
    return text if repaired == lines else "\n".join(repaired)


def _repair_line(line: str) -> str:
    import ftfy

    fixed = ftfy.fix_encoding(line)
    return fixed if fixed != line else _from_macroman(_HAN_RUN.sub(_from_gb, line))


def _from_gb(match: re.Match[str]) -> str:
    """Decode UTF-8 that was read as GBK: it looks like rare characters; real Chinese in GBK is no valid UTF-8."""
    try:
        return match.group().encode("gb18030").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return match.group()


def _from_macroman(line: str) -> str:
    """Decode a line that is UTF-8 throughout when it is written in MacRoman."""
    try:
        decoded = line.encode("macroman").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return line
    return decoded if sum(not character.isascii() for character in decoded) >= _LEAST_SEQUENCES else line
