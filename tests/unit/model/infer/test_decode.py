"""Decoding against transformers' own generate, and sampled answers: their log-probabilities, their frequencies, and
that each is its prompt's and its seed's alone."""

from typing import Any

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from argosy.core.errors import StepError
from argosy.model.infer.decode import Decoding, TransformersDecoder, before_stops
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.phase import build_model
from tests.evaluation_fixtures import make_long_rope_model, make_tokenizer
from tests.training_fixtures import TINY_MODEL

PROMPTS = ["river", "长江 a", "What is number 3?\nA. salt B. whale\nAnswer:", "", "the Nile " * 12,
           "river stone " * 200,  # longer than the model: there is room for what is generated
           "river"]
IDS = [[1, 5, 9], [3, 4, 8, 2, 7, 6], [9]]
SAMPLED = Decoding(stop_ids=[0, 3], pad_id=2, max_new_tokens=12, temperature=1.3)
GREEDY = Decoding([0, 3], 2, 12, scored=False)


def transformers_greedy(model: LanguageModel, prompt: str, max_tokens: int) -> list[int]:
    tokens = model.encode([prompt])[0] or (model.prefix_token,)
    ids = torch.tensor([tokens[-(model.max_length - max_tokens) :]])
    found: Any = model.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens,
                                      do_sample=False, pad_token_id=0)  # fmt: skip
    return list(found[0, ids.shape[1] :].tolist())


@pytest.fixture(scope="module")
def tiny() -> Any:
    torch.manual_seed(3)
    return build_model(ModelConfig.model_validate(TINY_MODEL), 16, {}).eval()


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
    for prompt, text in zip(PROMPTS[:3], model.generate(PROMPTS[:3], max_tokens=20), strict=True):
        for start, size in ((3, 1), (5, 2), (7, 4), (2, 3)):
            stop = text[start : start + size]
            if stop and "\ufffd" not in stop:
                assert model.generate([prompt], [stop], 20) == [before_stops(text, [stop])]


def test_log_probabilities_are_those_of_a_forward_over_the_whole(tiny: Any) -> None:
    answers, logprobs = TransformersDecoder(tiny)(IDS, [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], SAMPLED)
    assert {len(answer) for answer in answers} > {12}  # some end, some do not
    for number, (answer, found) in enumerate(zip(answers, logprobs, strict=True)):
        prompt = IDS[number // 4]
        every = (tiny(torch.tensor([[*prompt, *answer]])).logits[0] / 1.3).log_softmax(-1)[len(prompt) - 1 : -1]
        assert found == pytest.approx(every.gather(1, torch.tensor(answer)[:, None])[:, 0].tolist(), abs=1e-5)
        assert all(token not in (0, 3) for token in answer[:-1])


@pytest.mark.parametrize("most", [100, 9])
def test_an_answer_is_its_prompts_and_seeds_alone_also_where_memory_suffices_for_few(
    tiny: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [[1, 2], [3, 4], [5, 6]]
    apart = [answer for prompt, own in zip(IDS, seeds, strict=True)
             for seed in own for answer in TransformersDecoder(tiny)([prompt], [[seed]], SAMPLED).tokens]
    whole = type(tiny).forward

    def small(self: Any, input_ids: Any, attention_mask: Any, **others: Any) -> Any:
        if attention_mask.shape[0] > 1 and attention_mask.numel() > most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return whole(self, input_ids=input_ids, attention_mask=attention_mask, **others)

    monkeypatch.setattr(type(tiny), "forward", small)
    assert TransformersDecoder(tiny)(IDS, seeds, SAMPLED).tokens == apart

    def none(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(tiny), "forward", none)
    with pytest.raises(StepError, match="12 tokens after a prompt of 1 do not fit into memory"):
        TransformersDecoder(tiny)(IDS, seeds, SAMPLED)


def test_tokens_are_as_frequent_as_the_model_says(tiny: Any) -> None:
    count = 4000
    answers, _ = TransformersDecoder(tiny)(IDS[:1], [range(count)], Decoding([0], 2, 1, 0.7, batch_size=count))
    expected = (tiny(torch.tensor(IDS[:1])).logits[0, -1] / 0.7).softmax(-1)
    found = torch.bincount(torch.tensor([answer[0] for answer in answers]), minlength=16) / count
    assert ((found - expected).abs() < 4 * (expected * (1 - expected) / count).sqrt() + 1e-3).all()


def test_a_model_without_a_cache_of_keys_decodes_as_transformers_does() -> None:
    torch.manual_seed(0)
    model: Any = MambaForCausalLM(MambaConfig(vocab_size=32, hidden_size=16, state_size=4, num_hidden_layers=2)).eval()
    found = TransformersDecoder(model)(IDS, [[0, 0]] * 3, GREEDY).tokens
    for prompt, first, second in zip(IDS, found[::2], found[1::2], strict=True):
        made = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12, eos_token_id=[0, 3],
                              pad_token_id=0)  # fmt: skip
        assert first == second == made[0, len(prompt) :].tolist()
