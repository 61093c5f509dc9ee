"""Log-probabilities by one plain forward pass of transformers each, in double precision: what tests compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argosy.evaluation.encoder import Encoder
from argosy.evaluation.language_model import LanguageModel
from tests.evaluation_fixtures import TEMPLATE, make_model


def language_model(tokenizer: Any, positions: int = 256, *, chat: bool = False) -> LanguageModel:
    """A random model for a tokenizer."""
    if chat and not tokenizer.chat_template:
        tokenizer.chat_template = TEMPLATE
    return LanguageModel(make_model(len(tokenizer), positions), Encoder(tokenizer), 1024)


def distributions(model: LanguageModel, tokens: Sequence[int]) -> NDArray[np.float64]:
    """[position, vocabulary]: log-probabilities of the token after each."""
    import torch

    with torch.no_grad():
        logits = model.model(torch.tensor([list(tokens)])).logits[0].double()
    found: NDArray[np.float64] = (logits - logits.logsumexp(-1, keepdim=True)).numpy()
    return found


def sequence(model: LanguageModel, context: Sequence[int], tokens: Sequence[int]) -> float:
    """Log-probability of tokens after a context, by the chain rule."""
    whole = [*context, *tokens]
    found = distributions(model, whole[:-1])
    return float(sum(found[len(context) - 1 + n, token] for n, token in enumerate(tokens)))


def bare(model: LanguageModel, text: str) -> list[int]:
    """Tokens of a text without special ones."""
    found: list[int] = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


def sentence(model: LanguageModel, text: str) -> float:
    """Log-probability of a text as a document of its own."""
    return sequence(model, [model.prefix_token], bare(model, text))
