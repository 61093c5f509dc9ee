"""The text of an answer while its tokens come in: whole characters alone, and nothing that may begin a stop text."""

from collections.abc import Callable, Sequence

_BROKEN = "�"  # what a piece of a character is decoded to


class Text:
    """Text of an answer as it grows.

    Args:
        decode: the text of token ids, without special tokens.
        stops: texts that end the answer, and are not part of it.

    Attributes:
        stopped: whether a stop text has come."""

    def __init__(self, decode: Callable[[list[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, stops
        self._ids: list[int] = []
        self._from = self._to = 0  # tokens that decoding begins with, and those whose text is in `_held` or given out
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        """Take the next token; returns the text that is certain now."""
        self._ids.append(token)
        new = self._new()
        if new.endswith(_BROKEN):
            return ""
        self._from, self._to = self._to, len(self._ids)
        return self._give(new, last=False)

    def end(self) -> str:
        """Return the rest, once no token comes any more."""
        new, self._to = self._new(), len(self._ids)
        return self._give(new, last=True)

    def _new(self) -> str:
        """Text of the tokens that have not been given out; they are decoded with some before them, as a tokenizer may
        treat the first of a text in its own way."""
        before = self._decode(self._ids[self._from : self._to])
        return self._decode(self._ids[self._from :])[len(before) :]

    def _give(self, new: str, *, last: bool) -> str:
        text = self._held + new
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found or self.stopped:
            self.stopped, self._held = True, ""
            return text[: min(found)] if found else ""
        keep = 0 if last else max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
