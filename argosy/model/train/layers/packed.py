"""A model of transformers over sequences that are laid end to end: what losses, rewards and log-probabilities start
from."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from argosy.core.errors import InputError
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.layers.attention import MASKED, Choice, arguments, choose, recurrent
from argosy.model.train.layers.experts import Routing, mixtures, use_experts


def places(documents: Tensor) -> tuple[Tensor, Tensor]:
    """Return of each token its position within its document, and the tokens of that document.

    `documents`: (samples, length), the number of each token's document, equal ones side by side; so are both results
    shaped, int64."""
    index = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    border = documents[:, 1:] != documents[:, :-1]
    edge = torch.ones_like(border[:, :1])
    starts = torch.where(torch.cat([edge, border], dim=1), index, 0).cummax(dim=1).values
    ends = torch.where(torch.cat([border, edge], dim=1), index + 1, documents.shape[1])
    ends = ends.flip(1).cummin(dim=1).values.flip(1)
    return index - starts, ends - starts


class PackedModel(nn.Module):
    """A model with a decoder, whose attention stays within documents; `dtype` is that of matrix products.

    Raises InputError: the device has no such attention."""

    def __init__(self, model: Any, dtype: torch.dtype, sequence_length: int, attention: Choice = "auto") -> None:
        super().__init__()
        self.model = model
        self._dtype, self._recurrent = dtype, recurrent(model)
        self.seen = self.own = slice(None)  # positions of each sample that attention here is given, and the tokens here
        self.routing = Routing(model) if mixtures(model) else None
        if self.routing:
            use_experts(model)
        model.set_attn_implementation(choose(attention, next(model.parameters()).device, sequence_length))

    def divide(self, group: Any, seen: slice, own: slice) -> None:
        """Train on the positions `own` of each sample, whose others those of `group` have; attention and feed-forward
        are given the positions `seen`."""
        self.seen, self.own = seen, own
        if self.routing:
            self.routing.group = group

    def hidden(self, given: Tensor, documents: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Return the last hidden states, (samples, length, hidden_size), of tokens (samples, length), or of hidden
        states that other blocks made.

        `documents`: (samples, whole length). `positions`: (samples, length), of each token within its document; None:
        within its sample."""
        if self.routing and self.training:
            self.routing.begin()
        if documents is not None and self._recurrent:
            raise InputError(f"{self.model.config.model_type} models are not for several documents in a sample, as "
                             f"nothing keeps {self._recurrent} within one: set document_mask=false for pretraining; "
                             "other stages need a model of attention alone")
        divided = self.training and self.seen.stop is not None
        if divided and documents is None and self.model.config._attn_implementation in MASKED:
            documents = torch.zeros(len(given), self.seen.stop, dtype=torch.int64, device=given.device)  # not of a part
        place = arguments(self.model.config, documents, self._dtype)
        place["input_ids" if given.ndim == 2 else "inputs_embeds"] = given
        if positions is not None:
            place["position_ids"] = positions
        elif divided:
            place["position_ids"] = torch.arange(self.seen.start, self.seen.stop, device=given.device).unsqueeze(0)
        autocast = torch.autocast(given.device.type, self._dtype, self._dtype != torch.float32, cache_enabled=False)
        with autocast:  # whose cache would hold copies of all weights until the end, as each is used once
            states: Tensor = self.model.get_decoder()(use_cache=False, **place).last_hidden_state
        return states

    def auxiliary(self, ids: Tensor, weight: Tensor) -> Tensor | float:
        """Return the losses of the routers in the forward before, as a mean over its tokens `ids`, times `weight`; 0 of
        a dense model."""
        if not (self.routing and self.training):
            return 0.0
        return self.routing.loss(ids) / ids.numel() * weight

    def around(self, model: Any) -> Self:
        """Return the same losses around another model, such as a part of this one."""
        mro: tuple[Any, ...] = type(self).__mro__
        plain = next(each for each in mro if each.__module__.startswith("argosy."))  # FSDP makes a class of its own
        other: Self = plain.__new__(plain)
        other.__dict__.update(self.__dict__, _modules={**self._modules, "model": model})
        return other


class Packed(NamedTuple):
    """Sequences laid end to end.

    Attributes:
        ids: (1, tokens), int64.
        targets: (1, tokens), int64: the token after each one where that counts, else IGNORED.
        documents: (1, tokens), int64: the number of each token's sequence.
        positions: (1, tokens), int64: of each token within its sequence."""

    ids: Tensor
    targets: Tensor
    documents: Tensor
    positions: Tensor


def lay_out(sequences: Sequence[Sequence[int]], counted: Sequence[Sequence[bool]], device: Any = "cpu") -> Packed:
    """Lay token sequences end to end.

    `counted`: of each token of each sequence, whether its log-probability counts; the first has none."""
    flat = [token for sequence in sequences for token in sequence]
    targets = [following if counts else IGNORED
               for sequence, marks in zip(sequences, counted, strict=True)
               for following, counts in zip([*sequence[1:], IGNORED], [*marks[1:], False], strict=True)]
    numbers = [number for number, sequence in enumerate(sequences) for _ in sequence]
    places = [place for sequence in sequences for place in range(len(sequence))]
    return Packed(*(torch.tensor(each, device=device).unsqueeze(0) for each in (flat, targets, numbers, places)))


def sum_by_sequence(values: Tensor, documents: Tensor, count: int) -> Tensor:
    """Return the sums over each sequence's tokens, (count,), of `values`, (tokens,), differentiable."""
    return values.new_zeros(count).index_add(0, documents.flatten(), values)
