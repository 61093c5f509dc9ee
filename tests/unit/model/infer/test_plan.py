"""Rows and batches against a direct computation: any requests, any sharing, any memory."""

from random import Random
from typing import Any

import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM

from argosy.core.errors import StepError
from argosy.model.infer.plan import LOGITS, Limits, plan
from argosy.model.infer.rows import Query, grid, pack
from argosy.model.infer.scorer import Scorer
from tests.evaluation_fixtures import make_long_rope_model, make_model


def family(rng: Random, count: int, shots: int = 0) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Requests as variants of items make them: shared shots, shared stems, several continuations."""
    first = tuple(rng.randrange(1, 60) for _ in range(shots))
    requests = []
    for _ in range(count):
        stem = (*first, *(rng.randrange(1, 60) for _ in range(rng.randrange(1, 12))))
        for _ in range(rng.randrange(1, 4)):
            context = (*stem, *(rng.randrange(1, 60) for _ in range(rng.randrange(8))))
            for _ in range(rng.randrange(1, 5)):
                requests.append((context, tuple(rng.randrange(1, 60) for _ in range(rng.randrange(1, 5)))))
    return requests


def direct(model: Any, context: tuple[int, ...], continuation: tuple[int, ...]) -> list[float]:
    with torch.no_grad():
        logprobs = model(torch.tensor([[*context, *continuation]])).logits[0].log_softmax(-1)
    return [float(logprobs[len(context) - 1 + at, token]) for at, token in enumerate(continuation)]


@pytest.fixture(scope="module")
def model() -> Any:
    return make_model(64, 256)


@pytest.mark.parametrize("shots", [0, 50])
@pytest.mark.parametrize("pair", [0.0, 0.02, 1e9])
def test_scores_are_those_of_each_request_alone(model: Any, shots: int, pair: float) -> None:
    rng = Random(f"{shots}{pair}")
    requests = family(rng, 30, shots)
    rng.shuffle(requests)
    scorer = Scorer(model, 256, 600)
    scorer._pair = pair
    assert scorer.branching
    for (context, continuation), values in zip(requests, scorer.token_logprobs(requests), strict=True):
        assert values.tolist() == pytest.approx(direct(model, context, continuation), abs=1e-4)


def test_a_plan_has_each_sequence_once_within_its_limits() -> None:
    for seed in range(20):
        rng = Random(seed)
        requests = family(rng, rng.randrange(1, 60), rng.choice([0, 40]))
        queries = list({Query(a + b[:-1], len(a) - 1, b) for a, b in requests})
        limits = Limits(rng.choice([64, 300, 2000]), 128, rng.choice([50, LOGITS // 7]), rng.choice([None, 0.0, 0.02]),
                        rng.choice([0, 40, 1000]), rng.choice([0, 12, 30]), rng.choice([50, 500]))  # fmt: skip
        batches = plan(queries, limits)
        every = [index for batch in batches for row in batch.rows for index in row]
        assert sorted(every) == list(range(len(queries)))
        for batch in batches:
            rows = [pack([queries[index] for index in row], len(batch.prefix)) for row in batch.rows]
            assert all(queries[n].tokens[: len(batch.prefix)] == batch.prefix for row in batch.rows for n in row)
            width = len(batch.prefix) + max(len(row.tokens) for row in rows)
            outputs = len(grid(rows).outputs)
            assert len(rows) == 1 or len(rows) * (width - len(batch.prefix)) <= limits.computed
            assert len(rows) == 1 or len(rows) * width <= limits.batch_tokens
            assert sum(width - len(batch.prefix) - len(row.tokens) for row in rows) <= limits.padding
            assert len(rows) == 1 or outputs * limits.vocabulary <= LOGITS
            assert limits.pair is not None or all(row.is_chain for row in rows)
            assert len({len(queries[index].tokens) <= limits.short for row in batch.rows for index in row}) == 1


def test_few_shot_examples_are_computed_once() -> None:
    """A prefix of many tokens that all share is kept; that of a few questions, or a short one, is not worth it."""
    limits = Limits(4096, 1024, 64, 0.02, 64)

    def computed(requests: list[Any]) -> tuple[int, int]:
        queries = list({Query(a + b[:-1], len(a) - 1, b) for a, b in requests})
        batches = plan(queries, limits)
        rows = sum(len(pack([queries[i] for i in row], len(b.prefix)).tokens) for b in batches for row in b.rows)
        prefixes = {batch.prefix for batch in batches if batch.prefix}
        return rows + sum(map(len, prefixes)), len(prefixes)

    rng = Random(3)
    requests = family(rng, 400, 300)
    tokens, prefixes = computed(requests)
    unshared = {context for context, _ in requests}
    assert prefixes == 1
    assert tokens < sum(len(context) for context in unshared) / 12
    assert computed(family(rng, 400, 4))[1] == 0
    assert computed(requests[:5])[1] == 0
    assert computed([*requests, *family(Random(4), 400, 200)])[1] == 2


@pytest.mark.parametrize("error", ["MemoryError", "CUDA out of memory. Tried to allocate 2 GiB"])
def test_batches_are_halved_while_memory_does_not_suffice(model: Any, error: str, monkeypatch: Any) -> None:
    """A model that refuses more than 40 tokens at once: all is scored, and the same but for the last digits."""
    requests = [*family(Random(1), 5), *family(Random(2), 4, 20)]
    scorer = Scorer(model, 256, 2000)
    scorer._pair = 0.02
    expected = [score.logprob for score in Scorer(model, 256, 2000).score(requests)]
    sizes: list[int] = []
    whole = type(model.base_model).forward

    def small(self: Any, input_ids: Any, **others: Any) -> Any:
        sizes.append(input_ids.numel())
        if input_ids.numel() > 40:
            raise MemoryError if error == "MemoryError" else RuntimeError(error)
        return whole(self, input_ids, **others)

    monkeypatch.setattr(type(model.base_model), "forward", small)
    assert [score.logprob for score in scorer.score(requests)] == pytest.approx(expected, abs=1e-4)
    assert sum(size > 40 for size in sizes) < len(sizes) / 4  # it learns what fits
    with pytest.raises(StepError, match="one text of 60 tokens does not fit"):
        scorer.score([(tuple(range(1, 60)), (1, 2))])

    def other(self: Any, **_: Any) -> None:
        raise RuntimeError("other")

    monkeypatch.setattr(type(model.base_model), "forward", other)
    with pytest.raises(RuntimeError, match="other"):
        scorer.score([((1, 2, 3), (4, 5, 6))])


def test_logits_that_a_model_changes_after_its_output_layer_stay_its_own() -> None:
    config = CohereConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                          num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64, logit_scale=0.3,
                          pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
    scaled = CohereForCausalLM(config).eval()
    scorer = Scorer(scaled, 64)
    assert scorer.branching
    assert scorer.forward.head == "within"
    for (context, continuation), values in zip((requests := family(Random(6), 5)), scorer.token_logprobs(requests),
                                               strict=True):
        assert values.tolist() == pytest.approx(direct(scaled, context, continuation), abs=1e-4)


@pytest.mark.parametrize("longest", [32, 128])
def test_short_requests_beside_long_ones_are_computed_as_if_alone(longest: int) -> None:
    """A LongRoPE model, which takes other frequencies for all of a batch where one of it is longer than 32 tokens."""
    phi = make_long_rope_model(64)
    scorer = Scorer(phi, longest)
    assert scorer.branching == (longest == 32)
    rng = Random(7)
    shared = tuple(rng.randrange(3, 60) for _ in range(longest - 23))
    requests = [((*shared[:at], *(rng.randrange(3, 60) for _ in range(more))), (5, 6, 7))
                for at in (3, 9, len(shared)) for more in (1, 4, 10, 20)]  # fmt: skip
    requests += [(requests[-1][0][:at], (5, 6, 8)) for at in (5, longest - 20)]
    sizes = {len(context) + len(continuation) - 1 > 32 for context, continuation in requests}
    assert sizes == ({False} if longest == 32 else {False, True})
    for (context, continuation), values in zip(requests, scorer.token_logprobs(requests), strict=True):
        assert values.tolist() == pytest.approx(direct(phi, context, continuation), abs=1e-4)
    contexts = [context for context, _ in requests]
    for index, found in scorer.next_token(contexts):
        with torch.no_grad():
            expected = phi(torch.tensor([contexts[index]])).logits[0, -1].log_softmax(-1)
        assert torch.allclose(found, expected, atol=1e-4)
