"""Log-probabilities by one plain forward pass of transformers each, in double precision: what tests compare with."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from tests.evaluation_fixtures import TEMPLATE, make_model
from tests.tokenizer_kinds import tokenizers_by_kind


def language_model(tokenizer: Any, positions: int = 256, *, chat: bool = False) -> LanguageModel:
    if chat and not tokenizer.chat_template:
        tokenizer.chat_template = TEMPLATE
    return LanguageModel(make_model(len(tokenizer), positions), Encoder(tokenizer), 1024)


@cache
def model_of(kind: str, positions: int = 256, *, chat: bool = False) -> LanguageModel:
    """The model of a kind of tokenizer, made once: for tests that leave it as it is."""
    return language_model(tokenizers_by_kind()[kind], positions, chat=chat)


def distributions(model: LanguageModel, tokens: Sequence[int]) -> NDArray[np.float64]:
    """[position, vocabulary]: log-probabilities of the token after each."""
    with torch.no_grad():
        logits = model.model(torch.tensor([list(tokens)])).logits[0].double()
    return (logits - logits.logsumexp(-1, keepdim=True)).numpy()


def sequence(model: LanguageModel, context: Sequence[int], tokens: Sequence[int]) -> float:
    """Log-probability of tokens after a context, by the chain rule."""
    whole = [*context, *tokens]
    found = distributions(model, whole[:-1])
    return float(sum(found[len(context) - 1 + n, token] for n, token in enumerate(tokens)))


def nats(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Losses of all tokens but the first, of a model of transformers."""
    with torch.no_grad():
        logits = model(torch.tensor([list(ids)])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none").double()


def bare(model: LanguageModel, text: str) -> list[int]:
    return list(model.tokenizer(text, add_special_tokens=False)["input_ids"])


def sentence(model: LanguageModel, text: str) -> float:
    """Log-probability of a text as a document of its own."""
    return sequence(model, [model.prefix_token], bare(model, text))


@cache
def piece(kind: str, name: str) -> bytes:
    """Bytes of a token by its name, worked out apart from argosy's own."""
    if kind == "sentencepiece":
        return bytes.fromhex(name[3:5]) if name.startswith("<0x") else name.replace("▁", " ").encode()
    hidden = (byte for byte in range(256) if not chr(byte).isprintable() or byte in (32, 173))
    shifted = {chr(256 + n): byte for n, byte in enumerate(hidden)}
    return bytes(shifted.get(c, ord(c)) for c in name)


def covered(model: LanguageModel, kind: str, strings: list[str], common: list[int], target: bytes) -> float:
    """Probability that the bytes `target` come after `common`: every path of tokens that begins as one of `strings`
    is tokenised, ended by any token that reaches over the target's end."""
    written = [bare(model, string) for string in strings]
    starts = {tuple(tokens[: n + 1]) for tokens in written for n in range(len(tokens))}
    names = model.tokenizer.convert_ids_to_tokens(list(range(len(model.tokenizer))))
    special = set(model.tokenizer.all_special_ids)
    total = 0.0

    def walk(path: list[int], reached: bytes, probability: float) -> None:
        nonlocal total
        after = distributions(model, [model.prefix_token, *common, *path])[-1]
        for index, name in enumerate(names):
            if index in special or name.startswith("<|"):
                continue
            now = reached + piece(kind, name)
            if now.startswith(target):
                total += probability * math.exp(after[index])
            elif target.startswith(now) and (*common, *path, index) in starts:
                walk([*path, index], now, probability * math.exp(after[index]))

    walk([], b"", 1.0)
    return total
