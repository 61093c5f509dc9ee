"""Greedy continuations of many prompts at once, with a KV cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.errors import StepError
from argosy.evaluation.forward import free_memory, is_out_of_memory
from argosy.evaluation.rows import Tokens


@dataclass
class _Line:
    """One prompt of a batch: where it is among all of them, and the tokens that follow it so far."""

    index: int
    made: list[int] = field(default_factory=list)


class Generator:
    """Greedy decoding with a Hugging Face causal model in evaluation mode.

    Args:
        model: AutoModelForCausalLM's; on its device.
        decode: token ids -> text.
        ends: token ids that end a text; they are not part of it.
        short: tokens up to which a LongRoPE model has other rotary frequencies (argosy.evaluation.forward); 0: it is
            none. Then all prompts have one length, or none goes from there to beyond.
    """

    def __init__(
        self, model: Any, decode: Callable[[list[int]], str], ends: frozenset[int], short: int = 0
    ) -> None:
        self.model, self.decode, self.ends, self.short = model, decode, ends, short

    def continue_all(self, prompts: Sequence[Tokens], stops: Sequence[str], max_tokens: int) -> list[list[int]]:
        """The tokens after each prompt (not empty), up to an end, a stop text (included) or `max_tokens`; halves of
        the batch after each other where memory does not suffice.

        Raises:
            StepError: it does not suffice for one prompt.
        """
        try:
            lines = list(self._batch(prompts, range(len(prompts)), stops, max_tokens))
            return [line.made for line in sorted(lines, key=lambda line: line.index)]
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()
        if len(prompts) == 1:
            raise StepError(f"{max_tokens} tokens after a prompt of {len(prompts[0])} do not fit into memory")
        middle = len(prompts) // 2
        return [tokens for part in (prompts[:middle], prompts[middle:])
                for tokens in self.continue_all(part, stops, max_tokens)]  # fmt: skip

    def _batch(
        self, prompts: Sequence[Tokens], indexes: Sequence[int], stops: Sequence[str], max_tokens: int
    ) -> Iterator[_Line]:
        """Lines as they end. Those that have ended leave the batch."""
        import torch

        device = self.model.device
        width = max(map(len, prompts))
        padded = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
        ids, cache = torch.tensor(padded, device=device), None
        lines = [_Line(index) for index in indexes]
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        for _ in range(max_tokens):
            with torch.inference_mode():
                found = self.model(input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache,
                                   use_cache=True, logits_to_keep=1)  # fmt: skip
                best = found.logits[:, -1].argmax(-1)
            cache = found.past_key_values
            going = []
            for number, (line, token) in enumerate(zip(lines, best.tolist(), strict=True)):
                if token not in self.ends:
                    line.made.append(token)
                    if not self._stopped(line.made, stops):
                        going.append(number)
                        continue
                yield line
            if not going:
                return
            lines = [lines[number] for number in going]
            if len(going) < len(best):
                kept = torch.tensor(going, device=device)
                cache.batch_select_indices(kept)
                best, mask, places = best[kept], mask[kept], places[kept]
            ids = best[:, None]
            mask = torch.cat([mask, mask.new_ones(len(lines), 1)], dim=1)
            places = places[:, -1:] + 1
            if self.short and mask.shape[1] == self.short + 1:  # its keys have other frequencies
                ids = torch.tensor([[*prompts[line.index], *line.made] for line in lines], device=device)
                cache, places = None, mask.cumsum(-1) - 1
        yield from lines

    def _stopped(self, made: list[int], stops: Sequence[str]) -> bool:
        """Whether a stop text is there. Of the last tokens' text alone: a token has a byte or more, so a stop text
        lies within as many tokens as it has bytes; a character that is not whole yet is no part of a match."""
        if not stops:
            return False
        tail = self.decode(made[-max(len(stop.encode()) for stop in stops) - 8 :])
        return any(stop in tail for stop in stops)


def in_batches(prompts: Sequence[Tokens], max_tokens: int, batch_tokens: int) -> Iterator[list[int]]:
    """Indexes of prompts of similar lengths, longest first. A batch has at most `batch_tokens` (or one prompt), what
    is to come included."""
    batch: list[int] = []
    for index in sorted(range(len(prompts)), key=lambda i: (-len(prompts[i]), prompts[i])):
        width = len(prompts[batch[0]] if batch else prompts[index]) + max_tokens
        if batch and (len(batch) + 1) * width > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def by_reach(prompts: Sequence[Tokens], max_tokens: int, short: int) -> list[list[int]]:
    """Indexes of prompts that may be in one batch of a LongRoPE model: those that stay within `short` tokens, those
    that are longer, and those of each length that go from there to beyond."""
    groups: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        crosses = len(prompt) <= short < len(prompt) + max_tokens
        groups.setdefault(len(prompt) if crosses else -(len(prompt) > short), []).append(index)
    return list(groups.values())


def ends_of(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end a text: the tokenizer's EOS and those of the model's generation config."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    each = [*named] if isinstance(named, list | tuple) else [named]
    return frozenset(int(end) for end in (*each, tokenizer.eos_token_id) if end is not None)


def before_stops(text: str, stops: Sequence[str]) -> str:
    """`text` up to the first of the stop texts."""
    for stop in stops:
        text = text.split(stop)[0]
    return text
