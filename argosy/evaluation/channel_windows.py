"""Documents longer than the model: windows in which each token is scored once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from argosy.errors import InputError
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.rows import Tokens

Window = tuple[Tokens, Tokens]  # context, what is scored


def strided_windows(model: LanguageModel, tokens: Tokens, stride: int | None) -> Iterator[Window]:
    """The first window is as long as the model and follows the prefix token; then `stride` tokens at a time are scored
    with all the context that fits: at least the model's length less the stride (as in Hugging Face's guide
    "Perplexity of fixed-length models"). Without stride, windows do not overlap.

    Raises:
        InputError: the stride is longer than the model.
    """
    size = model.max_length
    step = size if stride is None else stride
    if step > size:
        raise InputError(f"heldout.stride is {step}, allowed for this model: 1 to {size}, its positions")
    if tokens:
        yield (model.prefix_token,), tokens[:size]
    for start in range(size, len(tokens), step):
        end = min(start + step, len(tokens))
        yield tokens[max(0, end - size - 1) : start], tokens[start:end]


def without_special(window: Window, special: frozenset[int]) -> Iterator[Window]:
    """(context, continuation) of each run of text in a window: special tokens are context, never scored."""
    context, continuation = window
    at = 0
    for is_special, run in groupby(continuation, special.__contains__):
        end = at + len(list(run))
        if not is_special:
            yield context + continuation[:at], continuation[at:end]
        at = end
