"""Held-out loss by channel and by position: nats, perplexity, and bits per byte of exactly the tokens scored."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from argosy.core.step.contract import counted
from argosy.corpus.tokens.reader import TokenizedChannel
from argosy.corpus.tokens.windows import IGNORED, cut_documents, position_ranges
from argosy.model.train.config import ChannelLoss
from argosy.model.train.layers.loss import LossModule

BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Row:
    """A piece of a text, with the token before it; all but the first are targets, IGNORED where special."""

    tokens: list[int]
    targets: list[int]
    channel: str = ""

    @property
    def scored(self) -> int:
        return len(self.targets) - self.targets.count(IGNORED)


class HeldoutLoss:
    """Scores whole held-out documents, each alone, in pieces of `length` tokens that start from the token before.

    The documents are a pure function of the data and the budget, so every phase and every model line scores the
    same text. The text's tokens are scored, as lm-eval's rolling log-likelihood does: not `<|bos|>`, `<|eos|>` or the
    marks of a conversation's turns, which are no bytes of it."""

    def __init__(self, channels: Mapping[str, TokenizedChannel], length: int, budget: int) -> None:
        self._length = length
        self._chosen = {name: channel.choose(budget) for name, channel in channels.items()}
        self._bytes = {name: int(channels[name].document_bytes[self._chosen[name]].sum()) for name in channels}
        self._rows = {name: list(_rows(channels[name], self._chosen[name], length)) for name in channels}

    def by_channel(self, module: LossModule) -> dict[str, ChannelLoss]:
        result = {}
        pieces = sum(map(len, self._rows.values()))
        for rows, name in zip(counted(self._rows.values(), pieces, "pieces"), self._rows, strict=True):
            nats = float(sum(losses.double().sum() for _, losses in nats_of(module, rows)))
            tokens = sum(row.scored for row in rows)
            mean = nats / tokens
            result[name] = ChannelLoss(nats=mean, ppl=math.exp(min(mean, 700)),
                                       bpb=nats / math.log(2) / self._bytes[name])
        return result

    def by_position(self, module: LossModule) -> dict[str, float]:
        """Return mean nats by range of positions, over the pieces that fill the whole length: every range scores the
        same documents. Empty where no held-out document is long enough.

        Returns:
            `{"0_64": nats, "64_128": nats, ...}`: each range is as long as all before it."""
        rows = [row for rows in self._rows.values() for row in rows if len(row.targets) == self._length]
        if not rows:
            return {}
        nats = torch.cat([losses.double() for _, losses in nats_of(module, rows)]).sum(dim=0)
        counts = (torch.tensor([row.targets for row in rows]) != IGNORED).sum(dim=0)
        return {f"{low}_{high}": float(nats[low:high].sum() / counts[low:high].sum())
                for low, high in position_ranges(self._length) if counts[low:high].any()}


@torch.no_grad()
def nats_of(module: LossModule, rows: Sequence[Row]) -> Iterator[tuple[list[Row], torch.Tensor]]:
    """Yield batches of rows of like lengths with their nats, (rows, longest), 0 where nothing is scored."""
    was_training = module.training
    module.eval()
    device = next(module.parameters()).device
    for batch in counted(_batches(rows), len(rows), "pieces"):
        longest = len(batch[0].targets)
        inputs = torch.zeros(len(batch), longest, dtype=torch.int64)
        targets = torch.full((len(batch), longest), IGNORED)
        for number, row in enumerate(batch):
            inputs[number, : len(row.targets)] = torch.tensor(row.tokens[:-1])
            targets[number, : len(row.targets)] = torch.tensor(row.targets)
        nats = module(inputs.to(device), targets.to(device))[1]
        yield batch, nats.reshape(len(batch), longest).cpu()
    module.train(was_training)


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield batches of rows of like lengths, the longest first."""
    order = sorted(rows, key=lambda row: -len(row.targets))
    at = 0
    while at < len(order):
        batch = order[at : at + max(1, BATCH_TOKENS // len(order[at].targets))]
        at += len(batch)
        yield batch


def _rows(channel: TokenizedChannel, documents: list[int], length: int) -> Iterator[Row]:
    for document in documents:
        begin, end = int(channel.offsets[document]), int(channel.offsets[document + 1])
        pieces = cut_documents(np.array([begin, end - 1]), length)  # without the closing <|eos|>
        for start, size in zip(pieces.start.tolist(), pieces.length.tolist(), strict=True):
            tokens = channel.tokens[start - 1 : start + size].tolist()
            yield Row(tokens, [IGNORED if token in channel.special else token for token in tokens[1:]])
