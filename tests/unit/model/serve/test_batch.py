"""Continuous batching: an answer is its prompt's, settings' and seed's alone, whoever joins; its text in pieces."""

from random import Random
from typing import Any

import pytest
import torch
import transformers

from argosy.core.errors import InputError
from argosy.model.infer.decode import Decoding, TransformersDecoder, before_stops
from argosy.model.serve.batch import Batch, Row, Sampling, joins
from argosy.model.serve.form import Text
from tests.evaluation_fixtures import make_long_rope_model, make_tokenizer
from tests.tokenizer_kinds import tokenizers_by_kind

WHOLE = "The river Nile, 长江 and salt; 🌍 é ends\n\nhere. 北京是中国的首都。"


def streamed(tokenizer: object, ids: list[int], stops: list[str]) -> tuple[list[str], bool]:
    text = Text(lambda each: tokenizer.decode(each, skip_special_tokens=True), stops)  # type: ignore[attr-defined]
    parts: list[str] = []
    for token in ids:
        parts.append(text.add(token))
        if text.stopped:
            return parts, True
    return [*parts, text.end()], False


@pytest.mark.parametrize("kind", ["bytes", "byte_bpe", "sentencepiece"])
def test_pieces_are_whole_characters_and_make_the_text(kind: str) -> None:
    tokenizer = tokenizers_by_kind()[kind]
    ids = tokenizer(WHOLE, add_special_tokens=False)["input_ids"]
    parts, _ = streamed(tokenizer, ids, [])
    assert "".join(parts) == tokenizer.decode(ids, skip_special_tokens=True)
    assert not any("�" in part for part in parts)
    assert sum(map(bool, parts)) > len(WHOLE) / 10  # it comes in pieces


def test_nothing_of_a_stop_text_is_given_out_wherever_tokens_cut_it() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer(WHOLE, add_special_tokens=False)["input_ids"]
    rng = Random(0)
    for _ in range(60):
        start = rng.randrange(len(WHOLE) - 4)
        stops = [WHOLE[start : start + rng.randrange(1, 5)], "not there"]
        parts, stopped = streamed(tokenizer, ids, stops)
        assert stopped
        assert "".join(parts) == before_stops(WHOLE, stops)


def test_what_only_looked_like_a_stop_text_comes_in_the_end() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer("one\n", add_special_tokens=False)["input_ids"]
    parts, stopped = streamed(tokenizer, ids, ["\n\n"])
    assert not stopped
    assert "".join(parts) == "one\n"
    assert parts[-1] == "\n"


SIZE = {"vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZE, num_key_value_heads=2)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZE, num_key_value_heads=1, head_dim=8)),
    "gpt_neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SIZE))}
PROMPTS = [Random(n).choices(range(3, 90), k=1 + 3 * n % 17) for n in range(12)]


def settings(n: int) -> Sampling:
    """Greedy and sampled ones, of several lengths."""
    return Sampling(3 + 2 * n % 9, frozenset({0, 1, 2}), (0.0, 1.0, 1.4)[n % 3], (1.0, 0.8)[n % 2], seed=n, top=2)


def alone(model: Any, n: int) -> tuple[list[int], list[float]]:
    """What the one decoder answers, and the log-probabilities of a forward over prompt and answer."""
    own = settings(n)
    decoding = Decoding([*own.ends], 2, own.max_tokens, own.temperature, top_p=own.top_p, scored=False)
    [tokens] = TransformersDecoder(model)([PROMPTS[n]], [[own.seed]], decoding).tokens
    logits = model(torch.tensor([[*PROMPTS[n], *tokens]])).logits[0, len(PROMPTS[n]) - 1 : -1].float()
    return tokens, logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_answers_that_join_and_leave_at_any_time_are_those_of_the_prompt_alone(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    assert joins(model)
    batch, rng = Batch(model), Random(7)
    coming = [Row(prompt, settings(n)) for n, prompt in enumerate(PROMPTS)]
    every = [*coming]
    while coming or batch.rows:
        count = min(len(coming), rng.choice((0, 0, 1, 3)))
        batch.step(coming[:count])
        del coming[:count]
        if not coming and all(row.ended for row in batch.rows):
            break
    for n, row in enumerate(every):
        tokens, logprobs = alone(model, n)
        assert [token.id for token in row.tokens] == tokens
        assert [token.logprob for token in row.tokens] == pytest.approx(logprobs, abs=1e-4)
        assert all(len(token.likeliest) == 2 for token in row.tokens)


def test_a_row_whose_reader_left_is_out_of_the_batch_and_the_others_go_on() -> None:
    torch.manual_seed(0)
    model = MODELS["llama"]().eval()
    batch = Batch(model)
    rows = [Row(PROMPTS[n], Sampling(8, frozenset(), 0.0)) for n in (4, 5, 1)]
    batch.step(rows)
    rows[0].left = True
    for _ in range(7):
        assert rows[0] not in batch.step()
    assert len(rows[0].tokens) == 1
    for row in rows[1:]:
        [tokens] = TransformersDecoder(model)([row.prompt], [[0]], Decoding([], 2, 8, scored=False)).tokens
        assert [token.id for token in row.tokens] == tokens


def test_models_for_which_padding_is_not_exact_get_one_row_at_a_time() -> None:
    """A window of attention, whose cache drops keys."""
    torch.manual_seed(0)
    window = transformers.MistralConfig(**SIZE, num_key_value_heads=2, sliding_window=4)
    assert not joins(transformers.MistralForCausalLM(window).eval())


def test_a_model_that_cannot_go_on_from_a_cache_is_refused_at_the_start() -> None:
    mamba = transformers.MambaConfig(vocab_size=90, hidden_size=32, num_hidden_layers=2, state_size=4)
    with pytest.raises(InputError, match=r"cannot serve a MambaForCausalLM .* take --engine vllm"):
        joins(transformers.MambaForCausalLM(mamba).eval())


def test_a_model_with_two_sets_of_frequencies_is_refused() -> None:
    with pytest.raises(InputError, match="LongRoPE is not served"):
        joins(make_long_rope_model(90))
