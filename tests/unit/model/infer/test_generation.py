"""Batched greedy generation against transformers' own, and the log-probability of each token."""

from typing import Any

import pytest

from argosy.model.infer.encoder import Encoder
from argosy.model.infer.generate import before_stops
from argosy.model.infer.model import LanguageModel
from tests.evaluation_fixtures import make_language_model, make_long_rope_model, make_tokenizer

PROMPTS = ["river", "长江 a", "What is number 3?\nA. salt B. whale\nAnswer:", "", "the Nile " * 12,
           "river stone " * 200,  # longer than the model: there is room for what is generated
           "river"]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return make_language_model()


def transformers_greedy(model: LanguageModel, prompt: str, max_tokens: int) -> list[int]:
    import torch

    tokens = model.encode([prompt])[0] or (model.prefix_token,)
    ids = torch.tensor([tokens[-(model.max_length - max_tokens) :]])
    found: Any = model.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens,
                                      do_sample=False, pad_token_id=0)  # fmt: skip
    return list(found[0, ids.shape[1] :].tolist())


@pytest.mark.parametrize("batch_tokens", [40, 1024])
def test_greedy_is_transformers_own(model: LanguageModel, batch_tokens: int) -> None:
    model.scorer.batch_tokens = batch_tokens
    try:
        found = model.generate(PROMPTS, max_tokens=24)
    finally:
        model.scorer.batch_tokens = 1024
    alone = [transformers_greedy(model, prompt, 24) for prompt in PROMPTS]
    assert found == [model.tokenizer.decode(ids, skip_special_tokens=True) for ids in alone]
    assert found[0] == found[-1] != ""


def test_greedy_of_a_long_rope_model_is_transformers_own_also_beyond_its_original_length() -> None:
    """Prompts within its 32 tokens to the end, beyond them from the start, and from there to beyond."""
    tokenizer = make_tokenizer()
    model = LanguageModel(make_long_rope_model(len(tokenizer)), Encoder(tokenizer))
    text = "1, 2: river; 42 Paris. salt 7? the Nile 9 " * 4
    prompts = [text[:end] for end in (5, 15, 25, 35, 45, 47, 52, 60, 90, 150)]
    sizes = [len(tokens) for tokens in model.encode(prompts)]
    assert sum(size + 11 <= 32 for size in sizes) >= 2
    assert sum(size > 32 for size in sizes) >= 2
    assert sum(size <= 32 < size + 11 for size in sizes) >= 2
    found = model.generate(prompts, max_tokens=12)
    alone = [transformers_greedy(model, prompt, 12) for prompt in prompts]
    assert found == [tokenizer.decode(ids, skip_special_tokens=True) for ids in alone]


def test_a_stop_is_found_in_the_text_wherever_tokens_cut_it(model: LanguageModel) -> None:
    """Every substring of what is said, characters of several bytes and of several tokens among them."""
    whole = model.generate(PROMPTS[:3], max_tokens=20)
    for prompt, text in zip(PROMPTS[:3], whole, strict=True):
        for start, size in ((3, 1), (5, 2), (7, 4), (2, 3)):
            stop = text[start : start + size]
            if stop and "\ufffd" not in stop:
                assert model.generate([prompt], [stop], 20) == [before_stops(text, [stop])]
