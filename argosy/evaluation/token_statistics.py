"""What a model gave each token of a text: log-probability, whether it was the likeliest, its place among all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from argosy.errors import InputError, StepError
from argosy.evaluation.forward import is_out_of_memory
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens

if TYPE_CHECKING:
    import torch

_ROWS = 512  # outputs whose distributions are in memory in double precision
_LOGITS = 2**26  # of one forward pass


@dataclass(frozen=True)
class TokenStatistics:
    """One value a token but the first: log-probability (nats), `greedy` (it was the likeliest), and `z`: the
    log-probability less its mean under the model's own distribution, over its standard deviation there (Min-K%++)."""

    logprobs: NDArray[np.float64]
    greedy: NDArray[np.bool_]
    z: NDArray[np.float64]


def token_statistics(model: LanguageModel, sequences: Sequence[Tokens]) -> list[TokenStatistics]:
    """Of each sequence, at least two tokens, its first being given. Sequences of one length go together.

    Raises:
        InputError: the model is not transformers' (its backend gives no whole distributions).
        StepError: one sequence does not fit into memory.
    """
    if not callable(model.model):
        raise InputError("memorisation needs whole distributions, which vLLM does not give: take backend: transformers")
    vocabulary = int(model.model.config.get_text_config().vocab_size)
    found: dict[int, TokenStatistics] = {}
    order = sorted(range(len(sequences)), key=lambda index: (-len(sequences[index]), index))
    for length, group in groupby(order, key=lambda index: len(sequences[index])):
        same = list(group)
        most = max(1, min(model.scorer.batch_tokens // length, _LOGITS // (length * vocabulary)))
        for start in range(0, len(same), most):
            chosen = same[start : start + most]
            found.update(zip(chosen, _computed(model.model, [sequences[index] for index in chosen]), strict=True))
    return [found[index] for index in range(len(sequences))]


def _computed(model: Any, sequences: Sequence[Tokens]) -> list[TokenStatistics]:
    """Of sequences of one length; halves of them where memory does not suffice for all."""
    import torch

    try:
        with torch.inference_mode():
            inputs = torch.tensor([tokens[:-1] for tokens in sequences], device=model.device)
            logits = model(input_ids=inputs, use_cache=False).logits
            return [_read(values, tokens[1:]) for values, tokens in zip(logits, sequences, strict=True)]
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    if len(sequences) == 1:
        raise StepError(f"one text of {len(sequences[0])} tokens does not fit into memory: use a device with more")
    middle = len(sequences) // 2
    return _computed(model, sequences[:middle]) + _computed(model, sequences[middle:])


def _read(logits: torch.Tensor, targets: Tokens) -> TokenStatistics:
    """`logits`: [token, vocabulary]."""
    import torch

    parts: list[NDArray[np.float64]] = []
    for start in range(0, len(targets), _ROWS):
        own = logits[start : start + _ROWS].double()
        ids = torch.tensor(targets[start : start + _ROWS], device=logits.device)
        logs = own - own.logsumexp(-1, keepdim=True)
        chosen = logs.gather(1, ids[:, None])[:, 0]
        probs = logs.exp()
        centre = (probs * logs).sum(-1)
        spread = ((probs * logs.square()).sum(-1) - centre.square()).clamp_min(1e-12).sqrt()
        greedy = (own.argmax(-1) == ids).double()
        parts.append(torch.stack([chosen, greedy, (chosen - centre) / spread]).cpu().numpy())
    logprobs, greedy_all, z = np.concatenate(parts, axis=1)
    return TokenStatistics(logprobs, greedy_all > 0, z)
