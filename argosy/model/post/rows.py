"""Rows of conversations: the batches of supervised fine-tuning, each a pure function of (data, seed, position).

Conversations share rows as documents share windows (argosy.corpus.tokens.windows): best fit, longest first, in another
order each epoch. A row holds whole conversations; a text of pretraining that is longer than a row has several."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.corpus.data.split import derive_seed
from argosy.corpus.tokens.mixture import Batch
from argosy.corpus.tokens.reader import TokenizedChannel
from argosy.corpus.tokens.windows import IGNORED, ChannelWindows, Window

PROMPTS = "_prompts"  # ends the name of the channel that has a channel's prompts


@dataclass(frozen=True)
class Sample:
    """A conversation, or a text of pretraining.

    Attributes:
        ids: (tokens,), int32.
        answers: (tokens,), bool: whether each is of the assistant's words or ends a turn of it; of a text, all are.
        channel: the group that its losses are counted in.
        prompt: the conversation's ids up to the answer of its last turn, where that is to be generated.
        reply: that turn's text; None: there is nothing to generate."""

    ids: npt.NDArray[np.int32]
    answers: npt.NDArray[np.bool_]
    channel: str
    prompt: tuple[int, ...] = ()
    reply: str | None = None


class Rows:
    """Rows of samples.

    Args:
        length: tokens of a row.
        packing: several samples share a row; else each has its own, and a batch is as long as its longest.
        prompts: prompts' tokens are targets too, counted in channels of their own (`weights`).

    Attributes:
        channels: of the samples.
        names: the channels that losses are summed by: these; with `prompts`, as many of prompts after them.
        limit: rows of the run, after which all are empty: the last batch need not be full. None: there is no end."""

    def __init__(self, samples: Sequence[Sample], length: int, seed: int, *, packing: bool = True,
                 prompts: bool = False) -> None:
        order = np.random.default_rng(derive_seed(seed, "rows")).permutation(len(samples))
        samples = [samples[index] for index in order]  # neighbours in a file may be alike
        self.channels = tuple(sorted({sample.channel for sample in samples}))
        self.names = (*self.channels, *(f"{name}{PROMPTS}" for name in self.channels if prompts))
        self.limit: int | None = None
        self._prompts, self._packing = prompts, packing
        self._ids = np.concatenate([sample.ids for sample in samples])
        self._answers = np.concatenate([sample.answers for sample in samples])
        self._offsets = np.cumsum([0, *(len(sample.ids) for sample in samples)])
        self._channel = np.array([self.channels.index(sample.channel) for sample in samples])
        places = TokenizedChannel("rows", np.arange(len(self._ids)), self._offsets, np.diff(self._offsets))
        self.length = length
        self._windows = ChannelWindows(places, length, seed, together=packing)

    def __len__(self) -> int:
        """Rows in an epoch."""
        return len(self._windows)

    @property
    def tokens(self) -> int:
        """Tokens of the samples."""
        return len(self._ids)

    @property
    def fill(self) -> float:
        """The share of the rows' positions that hold a token."""
        return (len(self._ids) - len(self._channel)) / (len(self) * self.length)

    def weights(self, channels: Sequence[float], prompt: float) -> list[float]:
        """List the weights of `names`, of those of the channels and of a prompt's token."""
        return [*channels, *(prompt * weight for weight in channels if self._prompts)]

    def batch(self, positions: range) -> Batch:
        """Stack the rows at these positions of the run; `documents` numbers samples over the whole run."""
        windows = [self._window(position) for position in positions]
        inputs, following, documents = (np.stack([getattr(window, name) for window in windows])
                                        for name in ("inputs", "targets", "documents"))
        documents += np.array(positions)[:, None] * (self.length + 1)
        filled = following != IGNORED
        following = np.maximum(following, 0)
        answers = filled & self._answers[following]
        scored = filled if self._prompts else answers
        channels = self._channel[np.searchsorted(self._offsets, inputs, side="right") - 1]
        channels = channels + len(self.channels) * (filled & ~answers & self._prompts)
        targets = np.where(scored, self._ids[following], IGNORED).astype(np.int64)
        arrays = self._ids[inputs].astype(np.int64), targets, channels, documents
        width = self.length if self._packing else max(1, int(filled.sum(axis=1).max()))
        return Batch(*(array[:, :width] for array in arrays))

    def _window(self, position: int) -> Window:
        if self.limit is not None and position >= self.limit:
            nothing = np.zeros(self.length, np.int64)
            return Window(nothing, nothing + IGNORED, nothing)
        return self._windows.window(position)
