"""Answers sampled with a cache: their log-probabilities, their frequencies, and that each is its seed's alone."""

from typing import Any

import pytest
import torch

from argosy.model.infer.generate import Decoding, generate
from argosy.model.post.rl.sampling import sample
from argosy.model.train.config import ModelConfig
from argosy.model.train.phase import build_model
from tests.training_fixtures import TINY_MODEL

PROMPTS = [[1, 5, 9], [3, 4, 8, 2, 7, 6], [9]]
DECODING = Decoding(stop_ids=[0, 3], pad_id=2, max_new_tokens=12, temperature=1.3)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    return build_model(ModelConfig.model_validate(TINY_MODEL), 16, {}).eval()


def test_log_probabilities_are_those_of_a_forward_over_the_whole(model: Any) -> None:
    answers, logprobs = sample(model, PROMPTS, [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], DECODING)
    assert {len(answer) for answer in answers} > {12}  # some end, some do not
    for number, (answer, found) in enumerate(zip(answers, logprobs, strict=True)):
        prompt = PROMPTS[number // 4]
        ids = torch.tensor([[*prompt, *answer]])
        every = (model(ids).logits[0] / 1.3).log_softmax(-1)[len(prompt) - 1 : -1]
        assert found == pytest.approx(every.gather(1, torch.tensor(answer)[:, None])[:, 0].tolist(), abs=1e-5)
        assert all(token not in (0, 3) for token in answer[:-1])


def test_an_answer_is_its_prompts_and_seeds_alone(model: Any) -> None:
    together, _ = sample(model, PROMPTS, [[1, 2], [3, 4], [5, 6]], DECODING)
    apart = [answer for prompt, seeds in zip(PROMPTS, ([1, 2], [3, 4], [5, 6]), strict=True)
             for seed in seeds for answer in sample(model, [prompt], [[seed]], DECODING)[0]]
    assert together == apart


def test_tokens_are_as_frequent_as_the_model_says(model: Any) -> None:
    count = 4000
    decoding = Decoding([0], 2, 1, 0.7, batch_size=count)
    answers, _ = sample(model, PROMPTS[:1], [range(count)], decoding)
    expected = (model(torch.tensor(PROMPTS[:1])).logits[0, -1] / 0.7).softmax(-1)
    found = torch.bincount(torch.tensor([answer[0] for answer in answers]), minlength=16) / count
    assert ((found - expected).abs() < 4 * (expected * (1 - expected) / count).sqrt() + 1e-3).all()


def test_greedy_answers_are_those_of_transformers(model: Any) -> None:
    decoding = Decoding([0, 3], 2, 12)
    assert sample(model, PROMPTS, [[0], [0], [0]], decoding)[0] == generate(model, PROMPTS, decoding)


def test_answers_that_must_not_end_go_on(model: Any) -> None:
    answers, _ = sample(model, PROMPTS, [[1], [2], [3]], DECODING, shortest=12)
    assert [len(answer) for answer in answers] == [12, 12, 12]
